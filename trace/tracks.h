/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracks of a trace by uuid, and what their descriptors say.
 */
#ifndef WHYIDLE_TRACE_TRACKS_H
#define WHYIDLE_TRACE_TRACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/budget.h"
#include "trace/get.h"
#include "trace/intern.h"
#include "trace/reader.h"

struct track {
	struct pf_track_info info;	/* first: what the caller sees */
	bool has_name;			/* of its own, not its thread's or process's */
	bool incremental;		/* counter events carry differences */
	int64_t counter_sum, unit_multiplier;
	const char **strings;		/* argv, then labels */
	unsigned nstrings;
};

struct tracks {
	struct track **slots;
	size_t nslots, count;
};

/* The track of that uuid, made when it is new. NULL without memory. */
struct track *tracks_get(struct tracks *t, struct budget *b, uint64_t uuid);

/* Takes in a TrackDescriptor; *track is the one described. 0, -1 malformed, -2 without memory. */
int tracks_describe(struct tracks *t, struct budget *b, struct pool *names, struct bytes descriptor, struct track **track);

void tracks_free(struct tracks *t);

#endif
