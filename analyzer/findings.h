/* SPDX-License-Identifier: Apache-2.0
 *
 * From sums to sentences: what the engine booked per cause becomes findings (best first), the headline groups, the acquittals and
 * the one-sentence verdict. The only place that knows the thresholds. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_FINDINGS_H
#define WHYIDLE_ANALYZER_FINDINGS_H

#include <stdint.h>

#include "analyzer/result.h"

struct cause;

/*
 * One row of causes[] as the engine saw it: moments of ledger B booked to it, summed over the devices, in the window that counts for
 * each device (steady, or run when it has no steps); in a host-only analysis over the training threads' waits.
 */
struct seen_cause {
	const struct cause *cause;
	void *state;			/* what cause->see() collected, NULL = none; the engine closes it */
	int64_t ns;
	int64_t gaps;			/* distinct gaps (or exposed stretches, or waits) that it has a part of */
	int64_t worst_at_ns, worst_ns;	/* the longest single part: where it begins, how long it is */
};

struct seen {
	struct seen_cause *causes;	/* any order; several may have the same leaf; rows with ns == 0 may be left out */
	unsigned ncauses;
};

/*
 * The last step of analysis_run. Expects devices, host_only, warnings and the run's facts to be filled in; fills findings, acquittals
 * and headline, and puts the warnings on lost events, cut processes and unexplained time first (the engine's own warnings are about
 * files and clocks). Calls cause->explain() for each finding. Same input, same output. Returns 0, or -1 when memory is out.
 */
int findings_make(struct result *r, const struct seen *seen);

/* The window of a device that counts: steady when present, else run. */
const struct window_result *device_window(const struct device_result *d);

/* The part of a process without GPU work that counts. */
int64_t host_window_ns(const struct host_result *h);

/* Sum over devices of that window's length; without devices the sum of the ranks' windows. 0 = nothing was recorded. */
int64_t result_window_ns(const struct result *r);

/* Sum over devices (that window) or over host-only ranks of one leaf; ledger B. */
int64_t result_leaf_ns(const struct result *r, enum leaf leaf);

/* The same over all leaves of a headline group; without devices host.compute is left out: it is the training itself. */
int64_t result_group_ns(const struct result *r, enum leaf_group group);

/* Compute of skipped steps in that window, over all devices (ledger C). */
int64_t result_wasted_ns(const struct result *r);

/* Steps that the verdict rests on: the fewest of any device or rank that has any; 0 = none. */
int64_t result_steps(const struct result *r);

/* Training was seen, it did not fail, and no finding was made: the only case that is called healthy. */
bool result_is_healthy(const struct result *r);

/* "Your GPUs were busy ..." or "... lost 41 % to data starvation". Allocated; NULL when memory is out. */
char *result_verdict(const struct result *r);

/* The thresholds: THRESHOLD(id, value, meaning); shares of the window that counts, except the last. */
struct thresholds {
#define THRESHOLD(id, value, meaning) double id;
#include "analyzer/threshold.def"
#undef THRESHOLD
};
extern const struct thresholds thresholds;

const char *severity_name(enum severity s);	/* "info", "note", "warn", "critical" */
enum severity severity_of(double share, int64_t steps);

/* result_free (result.h) is in result.c beside this file's functions. */

#endif
