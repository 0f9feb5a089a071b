/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns CUPTI's times (CLOCK_REALTIME on Linux) into the trace's CLOCK_MONOTONIC. The two advance together: NTP slews both, so
 * their difference is constant until somebody steps the real-time clock. The map is therefore a list of stretches, each with the
 * interval in which its offset must lie; samples narrow the interval, and one that contradicts it is a step.
 * One owner at a time (the drain thread); pure but for cupti_clock_sample.
 */
#ifndef WHYIDLE_SHIM_CUPTI_CLOCK_H
#define WHYIDLE_SHIM_CUPTI_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_STRETCHES 16

struct cupti_clock {
	struct stretch {
		uint64_t from_ns, to_ns;	/* MONOTONIC of its first and last sample */
		int64_t low, high;		/* source - MONOTONIC lies in [low, high] */
	} stretches[CLOCK_STRETCHES];		/* a ring, oldest overwritten */
	uint64_t count;				/* stretches ever begun */
	uint64_t steps;				/* steps of more than 100 us seen */
	int source;				/* clockid_t, or CUPTI_CLOCK_CALL: ask `now` */
	int (*now)(uint64_t *ns);		/* cuptiGetTimestamp */
};

#define CUPTI_CLOCK_CALL (-1)

/* Starts empty. Finds out which clock cuptiGetTimestamp is (`now`, NULL = take REALTIME) by reading it between two reads of each
 * candidate. */
void cupti_clock_init(struct cupti_clock *c, int (*now)(uint64_t *ns));

/* Adds what one reading proves: at some instant between mono_before and mono_after the source said `source_ns`. */
void cupti_clock_add(struct cupti_clock *c, uint64_t mono_before, uint64_t source_ns, uint64_t mono_after);

/* Reads the clocks (best of three) and adds it. */
void cupti_clock_sample(struct cupti_clock *c);

/* MONOTONIC of a source time. Before the first and behind the last sample the nearest stretch goes on. */
uint64_t cupti_clock_map(const struct cupti_clock *c, uint64_t source_ns);

#endif
