/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trusted_packet_sequence_id carries from packet to packet: whether its state is valid, interned strings, defaults,
 * its own clocks.
 */
#ifndef WHYIDLE_TRACE_SEQUENCES_H
#define WHYIDLE_TRACE_SEQUENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/budget.h"
#include "trace/clocks.h"
#include "trace/get.h"
#include "trace/intern.h"
#include "trace/tracks.h"

struct sequence {
	uint32_t id;
	uint32_t generation;		/* counts clears; interned entries of older ones are gone */
	bool valid;			/* state was cleared and nothing lost since */
	bool seen;			/* had a packet before */
	uint32_t default_clock;		/* 0 = none */
	uint64_t default_track;		/* uuid, 0 = none */
	uint64_t last_ns;		/* for packets without a timestamp */
	struct track *last_track;	/* the one used last; NULL = none */
	struct seq_clocks clocks;
	struct iids names, keys, strings;
};

/* The strings of the whole trace, numbered separately. */
struct pools {
	struct pool names, keys, strings;
};

#define SEQUENCES_NEAR 256

struct sequences {
	struct sequence **slots;
	size_t nslots, count;
	struct sequence *near[SEQUENCES_NEAR];	/* by the id's low bits: the one found last */
};

/* The sequence of that id, made when it is new. NULL without memory. */
struct sequence *sequences_get(struct sequences *s, struct budget *b, uint32_t id);
void sequences_free(struct sequences *s);

/* SEQ_INCREMENTAL_STATE_CLEARED. */
void sequence_clear(struct sequence *s);
/* Both: 0, -1 malformed, -2 without memory. */
int sequence_defaults(struct sequence *s, struct bytes defaults);
int sequence_interned(struct sequence *s, struct budget *b, struct pools *pools, struct bytes interned);

#endif
