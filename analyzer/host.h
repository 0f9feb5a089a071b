/* SPDX-License-Identifier: Apache-2.0
 *
 * Training without GPU activity (CPU training, or no CUPTI): the training thread's waits take the place of the gaps. Which process
 * trains shows only at the end, so every process that might is watched. For analysis.c.
 */
#ifndef WHYIDLE_ANALYZER_HOST_H
#define WHYIDLE_ANALYZER_HOST_H

#include "analyzer/batch.h"
#include "analyzer/ledger.h"
#include "analyzer/timeline.h"

struct host_runs;

struct host_runs *host_runs_open(const struct timeline *tl, const struct batches *batches, struct ledger_evidence *evidence);
void host_runs_take(struct host_runs *h, const struct thread *consumer, int64_t at_ns);
/* Takes up processes that are new. */
void host_runs_watch(struct host_runs *h);
void host_runs_advance(struct host_runs *h);
/* What is still to be looked at begins here. */
int64_t host_runs_need(const struct host_runs *h);
/* Fills *list with one entry per training process (rank, or the root of the job), in order of rank and pid; adds to lost[], gaps[] ... of
 * `sums` by row of causes[]. */
void host_runs_finish(struct host_runs *h, struct host_result **list, unsigned *n, struct ledger_sums *sums);
void host_runs_close(struct host_runs *h);

#endif
