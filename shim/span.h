/* SPDX-License-Identifier: Apache-2.0
 *
 * What a wrapper does around the real call: two ordinary functions and a small struct on the wrapper's stack.
 * Runs in the traced thread: no allocation, no lock, no stdio. Safe before the constructor, in any thread, in the child of a fork.
 * Both functions keep errno.
 *
 *	struct span s;
 *	span_begin(&s, CALL_pread);
 *	ssize_t n = real(...);
 *	s.fd = fd; s.bytes = n;			(what to capture)
 *	span_end(&s, n < 0 ? errno : 0);
 */
#ifndef WHYIDLE_SHIM_SPAN_H
#define WHYIDLE_SHIM_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/calls.h"

enum span_target {
	TARGET_NONE,
	TARGET_FD,		/* target = descriptor */
	TARGET_ADDR_SEM,	/* target = address */
	TARGET_ADDR_COND,
	TARGET_TID,
	TARGET_PID,
	TARGET_STRING,		/* target = number of an interned string */
	TARGET_PATH,		/* target = const char *, valid until span_end returns */
};

#define SPAN_NONE UINT32_MAX		/* rank, nranks, peer, root, dtype, op: has none */
#define SPAN_QUIET_NS 1000000000u

struct span {
	uint64_t start_ns;	/* 0 = not recorded (guard up, shim off): span_end does nothing */
	enum call call;
	enum span_target target_kind;
	intptr_t target;
	int64_t bytes;		/* -1 = none */
	bool always;		/* record whatever it took (links, ends of waits, NCCL, CUDA) */
	bool quiet;		/* in flight only: another route (CUPTI) records this call. span_end writes nothing, unless the drain had
				 * to write its BEGIN because it ran for SPAN_QUIET_NS; set by span_begin_quiet */
	bool nccl;		/* the nccl fields below are filled; SPAN_NONE = left out of the trace */
	uint64_t comm, seq;	/* 0 = none */
	uint32_t rank, nranks, peer, root, dtype, op;
	uint64_t flow_id;	/* 0 = none */
	/* filled by span_begin; for wrappers of files, sockets and waits: */
	uint32_t n;		/* consecutive calls that this slice stands for, 0 and 1 alike */
	uint8_t family;		/* enum short_family: where it is added up when too short */
	bool limited;		/* `always`, but at most 20000 a second of these */
	/* span.c's own: */
	uint32_t depth;
	uint64_t serial;
};

/* Opens the span: clock read, in-flight slot of the thread set (so that a call that never returns is still written). */
void span_begin(struct span *s, enum call call);

/* The same with the target known beforehand, so that it is shown while the call hangs (TARGET_PATH is shown only at the end). */
void span_begin_at(struct span *s, enum call call, enum span_target kind, intptr_t target);

/* The same for a call whose slice comes by another route: shown only while it hangs. Not after the usual 50 ms but after a second,
 * since a copy that waits for a busy device is ordinary and would then be there twice. */
void span_begin_quiet(struct span *s, enum call call);

/* Closes it: decides whether to record, pushes one event. `err` = 0 or the call's error number. */
void span_end(struct span *s, int err);

/* Records a slice that began at `start_ns` and ends now (a row of non-blocking tries), cut so that it overlaps no other slice of
 * this thread. Fill `s` with span_fill first. */
void span_fill(struct span *s, enum call call);
void span_since(struct span *s, uint64_t start_ns);

/* Finds the word for the span's descriptor now, since it will be closed by the call. Without effect on spans that are not
 * recorded. */
void span_name_target(struct span *s);

/* Leaves an opened span without a trace. */
void span_cancel(struct span *s);

/* Something seen at a call that is not the call itself: an instant on the thread's track. What the fields mean for each kind: scaler.c, and
 * trace/vocabulary.md. */
struct span_note {
	enum span_note_kind { NOTE_READ_BACK, NOTE_SCALE_UPDATE } kind;
	bool known;		/* the values below are */
	uint64_t start_ns, call_ns;	/* the copy's or launch's call */
	uint64_t since_ns;	/* from start_ns to the return of the synchronisation */
	uint64_t address;	/* device: read from; the scale */
	uint64_t found, result;
	uint64_t growth_bits, backoff_bits;	/* of doubles */
	uint32_t bits, bytes;	/* read back */
	int32_t interval;
};
void span_note(const struct span_note *note);

/* True when this thread is inside the shim or one of the shim's own threads: wrappers then only call the real function. */
bool span_guarded(void);

/* Raises / lowers the guard for code of the shim that calls libc. Nest freely. */
void span_guard_up(void);
void span_guard_down(void);

#endif
