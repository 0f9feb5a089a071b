/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a device's loss scaler after a run: integers for the renderers, filled by scaler.c and scaler_scale.c.
 */
#ifndef WHYIDLE_ANALYZER_SCALER_RESULT_H
#define WHYIDLE_ANALYZER_SCALER_RESULT_H

#include <stdbool.h>
#include <stdint.h>

enum scaler_verdict { SCALER_APPLIED, SCALER_SKIPPED, SCALER_PARTLY, SCALER_UNKNOWN, SCALER_VERDICTS };

/* How a verdict is known, best first. */
#define SCALER_EVIDENCE(E) \
	E(FLAG, "flag", "the overflow flag's own value was read back") \
	E(VALUE, "value", "a value read back between check and update, by its place") \
	E(ORDER, "order", "kernels by name and order: the optimizer's are there or not") \
	E(COUNT, "count", "as many kernels after the check as in other steps, or none") \
	E(DURATION, "duration", "how long the fused optimizer's kernel took") \
	E(NONE, "none", "nothing tells")

enum scaler_evidence {
#define E(id, name, meaning) SCALER_BY_##id,
	SCALER_EVIDENCE(E)
#undef E
	SCALER_EVIDENCES
};

enum scale_known { SCALE_UNKNOWN, SCALE_ASSUMED, SCALE_REPLAYED, SCALE_EXACT };	/* assumed: replayed from 65536, the default */

enum scaler_form { SCALER_FORM_NONE, SCALER_FORM_GRADSCALER, SCALER_FORM_FUSED, SCALER_FORM_HOST, SCALER_FORM_REDUCED, SCALER_FORM_APEX };

struct scaler_result {
	enum scaler_form form;
	int64_t checks, verdicts[SCALER_VERDICTS], evidence[SCALER_EVIDENCES];
	double least_confidence, confidence_sum;
	int64_t disagreed;		/* the value said one thing, the kernels another */
	/* the course of it */
	int64_t warmup_skips;		/* before the first three applied in a row */
	int64_t probe_skips;		/* right after the scale had grown: a try that failed */
	int64_t longest_run, longest_run_at;	/* skips in a row; number of the first */
	int64_t first_skip, first_skip_ns;	/* after warm-up; -1 none */
	int64_t last_run;		/* skips in a row at the end */
	/* the scale */
	enum scale_known scale_known;	/* at the end */
	double scale_first, scale_last, scale_least, scale_most;	/* 0 unknown */
	int64_t scale_anchors;		/* times it was read back */
	bool at_minimum;		/* skips no longer lower it */
	bool constants_known;
	double growth, backoff;
	int64_t interval;
};

const char *scaler_verdict_name(enum scaler_verdict v);
const char *scaler_evidence_name(enum scaler_evidence e);
const char *scaler_evidence_meaning(enum scaler_evidence e);
const char *scaler_form_name(enum scaler_form f);
const char *scale_known_name(enum scale_known k);

#endif
