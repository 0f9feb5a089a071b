/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes Perfetto packets by hand into memory that the caller owns. Used by the shim's drain (no allocation, no stdio,
 * async-signal-safe throughout) and by the analyzer's annotate. Held byte for byte against protobuf-c by tests.
 *
 * Only whole packets are ever appended: when one does not fit, the writer's `full` callback is asked for room once
 * (it usually writes the block out and resets `len`); if there still is none the packet is dropped whole and counted
 * in `dropped`. One writer belongs to one thread at a time.
 */
#ifndef WHYIDLE_TRACE_WRITER_H
#define WHYIDLE_TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pf_writer {
	uint8_t *buf;			/* caller's */
	size_t cap, len;		/* bytes */
	/* Makes room (e.g. writes buf[0..len) to the file and sets len = 0). Returns 0, or -errno when it can't. */
	int (*full)(struct pf_writer *w);
	void *ctx;
	uint64_t packets, dropped;	/* packets appended, packets lost for want of room */
	uint64_t snapshot_ns;		/* MONOTONIC of the latest snapshot; kept by the writer, starts 0 */
	uint64_t realtime_ns;		/* the latest REALTIME written; likewise */
};

/* Longer names, keys, strings and arguments are cut to this, at a UTF-8 character's border. */
#define PF_STRING_MAX 8192

/* One trusted_packet_sequence_id: its delta clock, its interned names, its default track. Fixed size, caller's memory. */
#define PF_SEQ_NAMES 4096		/* names per sequence; beyond, names go inline */

struct pf_seq {
	uint32_t id;			/* sequence id, non-zero */
	uint64_t track_uuid;		/* default track */
	uint64_t last_ns;		/* last timestamp written (the incremental clock's value) */
	bool open;			/* state has been (re)started by pf_seq_begin */
	bool lost;			/* next restart must say that packets were lost */
	uint8_t seen[3][PF_SEQ_NAMES / 8];	/* per table: iid already interned on this sequence */
};

/* Interned tables of a sequence. The caller numbers strings from 1; an iid means the same string in each sequence. */
enum pf_table { PF_NAMES, PF_KEYS, PF_STRINGS };

/* How to find the bytes of an iid when it is first used on a sequence. Must not block. NULL = unknown ("?" is used). */
struct pf_strings {
	const char *(*lookup)(void *ctx, enum pf_table table, uint32_t iid, size_t *len);
	void *ctx;
};

enum pf_arg_type { PF_ARG_UINT, PF_ARG_INT, PF_ARG_STR_IID, PF_ARG_DOUBLE };

struct pf_arg {
	uint32_t key_iid;		/* table PF_KEYS */
	enum pf_arg_type type;
	union { uint64_t u; int64_t i; uint32_t iid; double d; } v;
};

struct pf_event {
	uint64_t ts_ns;			/* MONOTONIC */
	uint32_t name_iid;		/* table PF_NAMES; 0 = no name (END) */
	uint64_t track_uuid;		/* 0 = the sequence's default track */
	uint64_t flow_id;		/* 0 = none */
	uint64_t end_flow_id;		/* terminating flow id, 0 = none */
	const struct pf_arg *args;
	unsigned nargs;			/* at most 24 */
};

/* (Re)starts the sequence at `now_ns`: SEQ_INCREMENTAL_STATE_CLEARED, defaults (track, clock 64), snapshot of clock 64 against
 * MONOTONIC; previous_packet_dropped when s->lost. Clears the interned tables. Returns 0 or -ENOBUFS.
 * Perfetto wants snapshots in order of time over the whole file: `now_ns` is raised to the writer's latest snapshot. Events may
 * lie before it. An event on a sequence that was never begun begins it by itself. */
int pf_seq_begin(struct pf_writer *w, struct pf_seq *s, uint64_t now_ns);

/* Begin, end, instant and counter on a begun sequence. All return 0, or -ENOBUFS when the packet was dropped (then s->lost is
 * set and the next event restarts the sequence by itself). */
int pf_begin(struct pf_writer *w, struct pf_seq *s, const struct pf_strings *t, const struct pf_event *e);
int pf_end(struct pf_writer *w, struct pf_seq *s, const struct pf_strings *t, const struct pf_event *e);
int pf_instant(struct pf_writer *w, struct pf_seq *s, const struct pf_strings *t, const struct pf_event *e);
int pf_counter(struct pf_writer *w, struct pf_seq *s, uint64_t ts_ns, uint64_t track_uuid, int64_t value);

/* Descriptors; strings are bytes with a length, NULL allowed where marked. Return 0 or -ENOBUFS. */
struct pf_process { uint64_t uuid; int32_t pid; uint64_t start_ns; const char *name; const char *const *argv; unsigned argc;
	const char *const *labels; unsigned nlabels; };
int pf_process_track(struct pf_writer *w, uint32_t seq_id, const struct pf_process *p);
int pf_thread_track(struct pf_writer *w, uint32_t seq_id, uint64_t uuid, int32_t pid, int64_t tid, const char *name);

enum pf_child_order { PF_ORDER_DEFAULT, PF_ORDER_LEXICOGRAPHIC, PF_ORDER_CHRONOLOGICAL, PF_ORDER_EXPLICIT };
struct pf_track { uint64_t uuid, parent_uuid; const char *name; const char *description; enum pf_child_order child_order; int32_t rank; bool no_merge; };
int pf_track(struct pf_writer *w, uint32_t seq_id, const struct pf_track *t);

enum pf_unit { PF_UNIT_NONE, PF_UNIT_TIME_NS, PF_UNIT_COUNT, PF_UNIT_BYTES };
struct pf_counter_track { uint64_t uuid, parent_uuid; const char *name; enum pf_unit unit; const char *unit_name; };
int pf_counter_track(struct pf_writer *w, uint32_t seq_id, const struct pf_counter_track *t);

/* A snapshot of builtin clocks on sequence `seq_id` (MONOTONIC primary). Any of realtime/boottime may be 0 = left out. REALTIME
 * is also left out while it lies behind what was written before: Perfetto gives up a clock that stepped back. */
int pf_clocks(struct pf_writer *w, uint32_t seq_id, uint64_t monotonic_ns, uint64_t realtime_ns, uint64_t boottime_ns);

/* Attributes (TraceAttributes). */
int pf_attr_int(struct pf_writer *w, uint32_t seq_id, const char *key, int64_t value);
int pf_attr_str(struct pf_writer *w, uint32_t seq_id, const char *key, const char *value, size_t len);

/* trace_uuid packet; and TraceStats naming the sequences that lost packets (Perfetto shows loss only then). */
int pf_trace_uuid(struct pf_writer *w, uint64_t msb, uint64_t lsb);
int pf_loss(struct pf_writer *w, const uint32_t *seq_ids, unsigned n);

#endif
