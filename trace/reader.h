/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams a Perfetto trace: whole packets decoded to events, interning, defaults, clocks and track descriptors resolved.
 * Reads our own files and anybody's TrackEvent traces (also gzip'd files and compressed_packets). Memory does not grow with
 * the length of the file, only with the number of tracks, sequences and distinct strings, each capped.
 * Never prints; never ends the program. One reader belongs to one thread at a time.
 */
#ifndef WHYIDLE_TRACE_READER_H
#define WHYIDLE_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pf_reader;			/* opaque */

enum pf_read_error { PF_OK, PF_EOPEN, PF_EIO, PF_ENOT_A_TRACE, PF_EDAMAGED, PF_ECUT, PF_ETOO_NEW, PF_ENOMEM };

struct pf_error {
	enum pf_read_error code;	/* ended, cut, damaged and too new are four different answers */
	int sys_errno;			/* for PF_EOPEN, PF_EIO */
	uint64_t offset;		/* byte offset of the packet where it happened */
	char text[256];			/* one sentence, without the file's name */
};

enum pf_kind { PF_SLICE_BEGIN, PF_SLICE_END, PF_INSTANT, PF_COUNTER, PF_TRACK, PF_CLOCKS, PF_ATTRIBUTE, PF_LOSS };

/* A track as last described. Owned by the reader, valid until it closes; fields may be refined by later descriptors. */
struct pf_track_info {
	uint64_t uuid, parent_uuid;
	const char *name;		/* "" when none */
	int32_t pid;			/* of a process or thread descriptor, else 0 */
	int64_t tid;			/* of a thread descriptor, else 0 */
	bool is_process, is_thread, is_counter;
	uint64_t start_ns;		/* process start, 0 unknown */
	unsigned argc, nlabels;
	const char *const *argv, *const *labels;
	void *user;			/* the caller's, starts NULL */
};

struct pf_annotation {
	const char *key;		/* terminated, owned by the reader */
	uint32_t key_id;		/* equal keys have equal ids within a reader, from 1 */
	enum { PF_A_UINT, PF_A_INT, PF_A_BOOL, PF_A_DOUBLE, PF_A_STRING } type;
	union { uint64_t u; int64_t i; double d; struct { const char *p; size_t len; uint32_t id; } s; } v;
	/* v.s.id: equal interned or inline strings have equal ids within a reader, from 1 (0 = not numbered: table full) */
};

/* Valid until the next call of pf_reader_next. Strings are owned by the reader; names are valid until it closes. */
struct pf_item {
	enum pf_kind kind;
	uint64_t ts_ns;			/* trace clock (MONOTONIC when the file says so) */
	uint32_t seq;
	struct pf_track_info *track;	/* slices, instants, counters, PF_TRACK */
	const char *name;		/* terminated; "" when none */
	uint32_t name_id;		/* equal names have equal ids within a reader, from 1 */
	int64_t counter;		/* doubles are rounded */
	const struct pf_annotation *args;
	unsigned nargs;
	uint64_t flow_id, end_flow_id;	/* the first of each, 0 = none */
	/* PF_CLOCKS, 0 = not in it; snapshots that only start a sequence's own clock are not given: */ uint64_t monotonic_ns, realtime_ns, boottime_ns;
	/* PF_ATTRIBUTE: */ const char *attr_key; bool attr_is_int; int64_t attr_int; const char *attr_str;
	/* PF_LOSS: */ uint64_t lost_packets;	/* at least that many; 0 = unknown number */
	uint64_t offset;		/* of the packet in the (decompressed) file */
};

/* Opens `path`. NULL on failure with *err filled. Files that are no trace are refused here (PF_ENOT_A_TRACE); an empty file is
 * PF_ECUT: its writer was stopped before the first packet. */
struct pf_reader *pf_reader_open(const char *path, struct pf_error *err);
/* The same over memory that stays the caller's and must outlive the reader (tests, fuzzing). */
struct pf_reader *pf_reader_open_memory(const void *data, size_t len, struct pf_error *err);
/* 1 got one, 0 end of file, -1 error (what came before it has been delivered; PF_ECUT for a cut-off last packet; *item is not
 * to be used then; the same error comes again on the next call). */
int pf_reader_next(struct pf_reader *r, struct pf_item *item, struct pf_error *err);
uint64_t pf_reader_offset(const struct pf_reader *r);	/* bytes of the file consumed so far */
uint64_t pf_reader_size(const struct pf_reader *r);	/* bytes of the file, 0 unknown */
void pf_reader_close(struct pf_reader *r);

#endif
