/* SPDX-License-Identifier: Apache-2.0
 *
 * How traced threads and the drain thread rouse each other: one word, read after every push.
 */
#ifndef WHYIDLE_SHIM_PULSE_H
#define WHYIDLE_SHIM_PULSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/ring.h"
#include "trace/calls.h"

enum pulse {
	PULSE_STOPPED,		/* no drain thread; zero, so that it holds before the constructor */
	PULSE_STARTING,
	PULSE_RUNNING,		/* looks at the rings every period */
	PULSE_PARKED,		/* sleeps until woken */
	PULSE_HELD,		/* stopped, and nobody may start it: a fork is under way */
	PULSE_FAILED,		/* no thread could be had, or recording was given up */
};

#ifdef __aarch64__
#define PULSE_PAGE 65536
#else
#define PULSE_PAGE 4096
#endif

/* enum pulse; the parked drain waits on it as a futex. Alone on a page that every fork wipes to PULSE_STOPPED, also those made
 * by a bare clone system call that no handler of ours sees; a child that shares our memory (vfork) sees it unchanged. */
union pulse_page {
	_Atomic uint32_t word;
	char page[PULSE_PAGE];
};
extern union pulse_page pulse_page __attribute__((visibility("hidden"), aligned(PULSE_PAGE)));
#define pulse (pulse_page.word)

/* Asks the kernel for the wiping. Once. */
void pulse_init(void);

/* Is this process to be recorded? Set at the end of the constructor; cleared when recording is given up. */
extern _Atomic bool pulse_on __attribute__((visibility("hidden")));

/* The slow halves. */
void pulse_rouse(enum call call);
void pulse_half_full(void);
/* Starts the drain again after a fork stopped it, when a call begins that may last. */
void pulse_resume(enum call call);
extern _Atomic bool pulse_pending __attribute__((visibility("hidden")));	/* stopped with something left to write */

/* After a push into `r` by its thread. The order of the push and this load is assured by the drain, which parks only after a
 * membarrier (see drain_park). */
static inline void pulse_pushed(struct ring *r, enum call call)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&pulse, memory_order_relaxed) != PULSE_RUNNING, 0))
		pulse_rouse(call);
	else if (__builtin_expect((atomic_load_explicit(&r->head, memory_order_relaxed) & 255) == 0, 0) &&
		 ring_used(r) > r->mask / 2)
		pulse_half_full();
}

/* At the beginning of any call. */
static inline void pulse_waiting(enum call call)
{
	if (__builtin_expect(atomic_load_explicit(&pulse_pending, memory_order_relaxed), 0))
		pulse_resume(call);
}

#endif
