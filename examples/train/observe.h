/* SPDX-License-Identifier: Apache-2.0
 *
 * What one rank knows itself about its run, for --truth: when its device computed and communicated (CUDA events, as any program can use
 * them), and what its own code was doing that costs time. Written to DIR/rank<N>.log at the end. Never from a profiler.
 *
 * Off (every call returns at once) unless --truth is given. Main thread only. Times CLOCK_MONOTONIC ns.
 */
#ifndef TRAIN_OBSERVE_H
#define TRAIN_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "examples/simgpu/cudart.h"

enum record_kind {
	RECORD_COMPUTE,		/* the device computed; what = ns of it without work (a gap per kernel that only the model knows) */
	RECORD_COMM,		/* a collective was at the head of its stream; what = its number */
	RECORD_CAUSE,		/* this code ran for a reason that costs time; what = index of the leaf in leaf_names */
	RECORD_STEP,		/* what = 1 for a skipped step */
};

struct record {
	int32_t kind;
	int32_t step;
	int64_t what;
	int64_t start_ns, end_ns;
};

extern const char *const leaf_names[];
int leaf_index(const char *name);

void observe_start(bool on, cudaStream_t stream);
void observe_step(int step);
/* Around launches on a stream: the interval in which they ran. */
void observe_begin(cudaStream_t stream);
void observe_end(cudaStream_t stream, enum record_kind kind, int64_t what);
/* For RECORD_COMPUTE whose kernels are known to fill only busy_ns of the interval. */
void observe_end_busy(cudaStream_t stream, int64_t busy_ns);
void observe_cause(const char *leaf, int64_t start_ns, int64_t end_ns);
void observe_step_done(bool skipped, int64_t start_ns);

/* Everything launched so far has ended: call after a synchronisation that waited for it. */
void observe_drained(void);
/* Reads the events of what had ended by then; cheap, but to be called while the device is busy. */
void observe_collect(void);
/* Writes what was seen (nothing when off: 0) and forgets it. 0 or -1 with errno. */
int observe_close(const char *path);

#endif
