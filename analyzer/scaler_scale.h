/* SPDX-License-Identifier: Apache-2.0
 *
 * The scale's curve: the state machine of GradScaler replayed with the constants of its launches, corrected wherever the scale was read back.
 */
#ifndef WHYIDLE_ANALYZER_SCALER_SCALE_H
#define WHYIDLE_ANALYZER_SCALER_SCALE_H

#include "analyzer/scaler_result.h"
#include "analyzer/timeline.h"

struct scale {
	double value;
	enum scale_known known;
	int64_t tracker;
	uint64_t address, result;	/* where the last update found the scale and put it */
	int64_t since_growth;		/* checks since the scale last grew, -1 = never */
	int64_t now_skips, now_applied;	/* in a row */
	bool settled;			/* warm-up is over */
	bool lost;			/* a check could not be told: not known until it is read back */
	bool unmoved;			/* the last skip did not lower it */
};

/* The scale was read back between the last check and the next. */
void scale_read(struct scale *c, struct scaler_result *r, uint64_t address, uint32_t bits);

/* A check was decided; `update` = what its launch told, NULL = nothing. */
void scale_check(struct scale *c, struct scaler_result *r, enum scaler_verdict v, int64_t number, int64_t at_ns, const struct scaler_note *update);

#endif
