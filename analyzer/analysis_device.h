/* SPDX-License-Identifier: Apache-2.0
 *
 * One device through the whole analysis: its operations go to the steps and the scaler as soon as they are complete, and a little later, when
 * it is known which steps were skipped, to the split of states, the walk and the books. For analysis.c.
 */
#ifndef WHYIDLE_ANALYZER_ANALYSIS_DEVICE_H
#define WHYIDLE_ANALYZER_ANALYSIS_DEVICE_H

#include "analyzer/batch.h"
#include "analyzer/ledger.h"
#include "analyzer/steps.h"
#include "analyzer/timeline.h"

struct device_run;

struct device_run *device_run_open(const struct timeline *tl, const struct batches *batches, struct ledger_evidence *evidence, struct device *device,
	const struct steps_rule *rule);
void device_run_take(struct device_run *d, const struct thread *consumer, int64_t at_ns);
/* Looks at what is complete, books what is old enough; everything when tl->finished. */
void device_run_advance(struct device_run *d);
/* What the books still need from the timeline begins here. */
int64_t device_run_needs(const struct device_run *d);
/* Fills *out (which is zeroed first). 0, or -1 with a sentence. */
int device_run_finish(struct device_run *d, struct device_result *out, char *error, size_t error_len);
const struct ledger_sums *device_run_sums(const struct device_run *d);	/* after finish */
const struct device *device_run_device(const struct device_run *d);
void device_run_close(struct device_run *d);

#endif
