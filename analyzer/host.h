/* SPDX-License-Identifier: Apache-2.0
 *
 * Training without GPU activity (CPU training, or no CUPTI): the training thread's waits take the place of the gaps. Which processes
 * train is chosen from what the learning pass saw. For analysis.c.
 */
#ifndef WHYIDLE_ANALYZER_HOST_H
#define WHYIDLE_ANALYZER_HOST_H

#include "analyzer/batch.h"
#include "analyzer/ledger.h"
#include "analyzer/timeline.h"

struct host_runs;

/*
 * The processes that train, by their numbers in tl->processes: the uppermost of each rank; without ranks those that take batches; else the one
 * that computes most and its siblings that do much the same. Fills chosen[] (room for tl->nprocesses), returns how many.
 */
unsigned host_choose(const struct timeline *tl, const struct batches *batches, unsigned *chosen);

/* `chosen` and `steady_ns`, where the part of each that counts begins (INT64_MIN: all of it counts), stay the caller's and must outlive it. */
struct host_runs *host_runs_open(const struct timeline *tl, const struct batches *batches, struct ledger_evidence *evidence,
	const unsigned *chosen, const int64_t *steady_ns, unsigned nchosen);
void host_runs_take(struct host_runs *h, const struct thread *consumer, int64_t at_ns);
/* Takes up chosen processes that have come. */
void host_runs_watch(struct host_runs *h);
void host_runs_advance(struct host_runs *h);
/* What is still to be looked at begins here. */
int64_t host_runs_need(const struct host_runs *h);
/* Fills *list with one entry per training process, in order of rank and start; adds to lost[], gaps[] ... of
 * `sums` by row of causes[]. */
void host_runs_finish(struct host_runs *h, struct host_result **list, unsigned *n, struct ledger_sums *sums);
void host_runs_close(struct host_runs *h);

#endif
