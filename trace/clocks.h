/* SPDX-License-Identifier: Apache-2.0
 *
 * From a packet's clock to the trace's clock. A clock's offset is that of the latest snapshot read so far (no slope, as
 * Perfetto has it). Offsets spread within a snapshot: one clock whose offset is known gives it to all others there.
 */
#ifndef WHYIDLE_TRACE_CLOCKS_H
#define WHYIDLE_TRACE_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/get.h"

#define CLOCKS_PER_SEQ 8		/* powers of two, both */
#define CLOCKS_GLOBAL 128

struct clock {
	uint32_t id;			/* 0 = free slot */
	bool known;			/* offset is */
	bool incremental;
	uint64_t unit_ns;
	uint64_t value_ns;		/* of an incremental clock: where it stands */
	int64_t offset_ns;		/* to be added for trace time */
};

/* The clocks that belong to one sequence (ids 64 to 127). */
struct seq_clocks {
	struct clock clock[CLOCKS_PER_SEQ];
};

/* The clocks of the whole file. */
struct clocks {
	uint32_t trace_clock;		/* 0 = not decided: timestamps without a clock id are taken as they are */
	struct clock clock[CLOCKS_GLOBAL];
};

/* What a snapshot says, for PF_CLOCKS. */
struct snapshot_times {
	uint64_t trace_ns, monotonic_ns, realtime_ns, boottime_ns;
	bool has_private;		/* ties a sequence's own clock */
};

/* Takes in a ClockSnapshot. 0, or -1 when it is malformed. */
int clocks_snapshot(struct clocks *c, struct seq_clocks *seq, struct bytes snapshot, struct snapshot_times *out);

/* Trace time of a packet's timestamp. Moves an incremental clock on. False when no snapshot leads from there to trace time. */
bool clocks_convert(struct clocks *c, struct seq_clocks *seq, uint32_t clock_id, uint64_t timestamp, uint64_t *trace_ns);

/* The same, for the most frequent clock: an incremental one of the sequence, in its usual place. */
static inline bool clocks_convert_near(struct clocks *c, struct seq_clocks *seq, uint32_t clock_id, uint64_t timestamp, uint64_t *trace_ns)
{
	struct clock *clock = &seq->clock[clock_id & (CLOCKS_PER_SEQ - 1)];

	if (clock->id != clock_id || !clock->incremental || !clock->known || clock_id == c->trace_clock)
		return clocks_convert(c, seq, clock_id, timestamp, trace_ns);
	clock->value_ns += timestamp * clock->unit_ns;
	*trace_ns = clock->value_ns + (uint64_t)clock->offset_ns;
	return true;
}

/* Whether clocks_convert could convert from that clock now. Changes nothing. */
bool clocks_known(const struct clocks *c, const struct seq_clocks *seq, uint32_t clock_id);

/* Takes over the offsets that `from` knows and `to` does not. Not those of incremental clocks: their value is unknown before
 * the first snapshot. */
void clocks_adopt(struct clocks *to, struct seq_clocks *to_seq, const struct clocks *from, const struct seq_clocks *from_seq);

#endif
