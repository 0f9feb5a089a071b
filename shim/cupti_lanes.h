/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracks that GPU operations are drawn on: one per device, context and stream, plus further lanes of the same name for
 * operations that overlap (Perfetto would swap the ends of slices that overlap on one track). Drain thread or test only.
 */
#ifndef WHYIDLE_SHIM_CUPTI_LANES_H
#define WHYIDLE_SHIM_CUPTI_LANES_H

#include <stdbool.h>
#include <stdint.h>

#define LANES_STREAMS 1024
#define LANES_PER_STREAM 64
#define LANES_SPANS 32

/* A lane remembers the last stretches of time in which it was busy, so that a record that comes late (CUPTI holds a buffer back while
 * one of its operations runs) still finds its place. */
struct lane {
	uint64_t uuid;			/* 0 = not described in the file yet */
	unsigned int count;
	struct {
		uint64_t start_ns, end_ns;
	} spans[LANES_SPANS];		/* sorted by time; what lies before the first is taken */
	bool full;			/* older spans were forgotten */
};

struct lanes_stream {
	uint32_t device, context, stream;
	uint32_t index;			/* number of this stream, for its sequence id */
	unsigned int lanes;
	struct lane *lane;
};

/* The stream's entry, made on first use. NULL when the table (or memory) is full. */
struct lanes_stream *lanes_stream(uint32_t device, uint32_t context, uint32_t stream);

/* The number of the first lane of `s` where [start_ns, end_ns] fits, and books it. -1 when all of them are taken there. end_ns = UINT64_MAX:
 * an operation without end. */
int lanes_book(struct lanes_stream *s, uint64_t start_ns, uint64_t end_ns);

/* Forgets all (child of a fork: new file). */
void lanes_reset(void);

#endif
