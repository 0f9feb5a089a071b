/* SPDX-License-Identifier: Apache-2.0
 *
 * A traced thread's state: the small part in thread-local storage, the part that the drain reads in a fixed registry of slots.
 */
#ifndef WHYIDLE_SHIM_THREAD_H
#define WHYIDLE_SHIM_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/ring.h"
#include "trace/calls.h"

#define THREAD_SLOTS 1024	/* threads alive at once; more are counted as dropped */
#define THREAD_NEST 8		/* calls in flight that are remembered */

enum short_family { SHORT_FILE, SHORT_SOCKET, SHORT_OTHER, SHORT_FOLDED, SHORT_FAMILIES };

#define INFLIGHT_QUIET 0x80000000u	/* shown only after SPAN_QUIET_NS */

enum thread_state { THREAD_FREE, THREAD_LIVE, THREAD_DONE };

/* A call that has begun and not ended. Written by its thread, read by the drain: `serial` is cleared before the others change
 * and stored last (release), so a reader that sees the same serial before and after has a whole entry. */
struct inflight {
	_Atomic uint64_t serial;
	_Atomic uint64_t start_ns;
	_Atomic uint64_t target;
	_Atomic uint32_t call;		/* enum call, or'ed with INFLIGHT_QUIET */
	_Atomic uint32_t target_kind;	/* enum span_target; a path or a descriptor is not resolved until it ends */
	uintptr_t frame;		/* stack address of the wrapper's span; the thread's own */
};

/* All atomics are relaxed single-writer counters unless said otherwise. */
struct thread {
	_Atomic uint32_t state;		/* claimed by compare-and-swap; DONE is stored with release after the last event */
	int32_t tid;
	_Atomic(struct ring *) ring;	/* release by the thread; acquire by the drain */
	_Atomic uint64_t dropped;	/* events lost, cumulative */
	_Atomic uint64_t shorts;	/* calls only counted, cumulative */
	_Atomic uint64_t short_ns[SHORT_FAMILIES];
	_Atomic uint32_t depth;		/* of `inflight`; release by the thread; acquire by the drain. May exceed THREAD_NEST. */
	struct inflight inflight[THREAD_NEST];
	/* the thread's own: */
	uint64_t serial;		/* last given */
	uint64_t last_end_ns;		/* end of the last slice pushed: slices of a track must not overlap */
	uint64_t rate_window_ns;	/* rate guard for short events: start of the current second ... */
	uint32_t rate_count;		/* ... and how many it has had */
};

/* Zero when a thread starts. Initial-exec: a first touch must not allocate (it may happen inside malloc). */
struct thread_local_state {
	struct thread *slot;		/* NULL until the first span */
	uint32_t guard;			/* > 0: wrappers only call the real function */
	uint32_t vforked;		/* > 0: we are in a vfork child, on our parent's memory and stack */
	uintptr_t pushing;		/* stack address of a push in progress, 0 none: a signal handler must not push too */
	bool resolving;			/* inside dlsym: wrappers fall back to the system call */
};

extern _Thread_local struct thread_local_state tls __attribute__((tls_model("initial-exec"), visibility("hidden")));

struct thread *thread_claim(void);
struct ring *thread_ring_map(struct thread *t);

/* This thread's slot, claimed on first use; NULL when all are taken (counted by the caller through thread_homeless). */
static inline struct thread *thread_slot(void)
{
	return __builtin_expect(tls.slot != NULL, 1) ? tls.slot : thread_claim();
}

/* This thread's ring, mapped on first use; NULL when there is no memory. */
static inline struct ring *thread_ring(struct thread *t)
{
	struct ring *r = atomic_load_explicit(&t->ring, memory_order_relaxed);

	return __builtin_expect(r != NULL, 1) ? r : thread_ring_map(t);
}

/* Slot by index, for the drain; NULL before the first claim. `thread_high` = 1 + the highest index ever claimed. */
struct thread *thread_at(unsigned index);
unsigned thread_high(void);

/* Drain: frees a DONE slot. Its empty ring stays with it for the next thread: memory is bounded by the threads alive at once. */
void thread_recycle(struct thread *t);

/* Events lost because no slot or ring could be had. */
void thread_homeless(void);
uint64_t thread_homeless_count(void);

/* Creates the key whose destructor marks slots DONE. From the constructor: early keys need no allocation per thread. */
void thread_init(void);
/* In a fork's only thread: forget all slots and rings of the parent. */
void thread_fork_child(void);

#endif
