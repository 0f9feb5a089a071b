/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI's life in the host process: brought up at the first CUDA call (before the first context, which CUDA graphs need), asked
 * for its records by the drain thread, flushed at exit, forgotten in the child of a fork. Never finalised.
 * When it cannot be had, attribute `whyidle.gpu` says why and the wrappers record what they see.
 */
#ifndef WHYIDLE_SHIM_CUPTI_H
#define WHYIDLE_SHIM_CUPTI_H

#include <stdatomic.h>
#include <stdbool.h>

#include "trace/calls.h"

enum cupti_state { CUPTI_FRESH, CUPTI_STARTING, CUPTI_ACTIVE, CUPTI_NONE };

extern _Atomic unsigned int cupti_state __attribute__((visibility("hidden")));

/* The slow half: one thread brings CUPTI up, others wait for it (at most 10 s: their first CUDA call would wait for the same
 * driver). Keeps errno. */
void cupti_start_slow(void);

/* The same for the drain thread, when CUDA is found in use although no wrapper has seen a call. What was done before is lost. */
void cupti_start_late(void);

/* Before the first CUDA or NCCL call of a process; later it costs one load. */
static inline void cupti_start(void)
{
	/* acquire pairs with the release in cupti_start_slow */
	if (__builtin_expect(atomic_load_explicit(&cupti_state, memory_order_acquire) < CUPTI_ACTIVE, 0))
		cupti_start_slow();
}

/* True when CUPTI's API records are the route by which this call is recorded. */
bool cupti_records(enum call call);

/* A CUDA call has succeeded, so libcudart and libcupti have registered their exit handlers: ours must run before them. */
void cupti_call_succeeded_slow(void);
extern _Atomic bool cupti_exit_registered __attribute__((visibility("hidden")));

static inline void cupti_call_succeeded(void)
{
	if (__builtin_expect(!atomic_load_explicit(&cupti_exit_registered, memory_order_relaxed), 0))
		cupti_call_succeeded_slow();
}

#endif
