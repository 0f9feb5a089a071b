/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks together: a communicator, and the gradients' all-reduce in buckets on a stream of its own. Main thread only.
 */
#ifndef TRAIN_DIST_H
#define TRAIN_DIST_H

#include "examples/train/nccl.h"

struct plan;

enum { BUCKETS = 4 };

struct dist {
	const struct plan *plan;
	ncclComm_t comm;		/* NULL with one rank */
	cudaStream_t stream;
	cudaEvent_t ready[BUCKETS], reduced;
	int64_t sequence;		/* collectives so far: the same on all ranks */
	int communicators;
};

/* Communicators are made through a file in plan->dir that rank 0 writes. */
void dist_open(struct dist *d, const struct plan *plan);
ncclComm_t dist_communicator(struct dist *d);
/* Sums grad[0, count) over the ranks, after what `compute` holds so far. */
void dist_bucket(struct dist *d, int bucket, float *grad, size_t count, cudaStream_t compute);
/* Makes `compute` wait for all buckets. */
void dist_join(struct dist *d, cudaStream_t compute);
/* A new communicator in mid-run, with one small all-reduce: what a first evaluation does. */
void dist_evaluate(struct dist *d, float *value);
void dist_close(struct dist *d);

#endif
