/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry of traced threads. Slots are claimed by compare-and-swap in the traced thread itself (no allocation beyond one
 * mapping, no lock) and given back by the drain once the thread is gone and its ring empty.
 */
#include "shim/thread.h"

#include <pthread.h>
#include <string.h>

#include "shim/config.h"
#include "shim/pulse.h"
#include "shim/sys.h"

#define MANY_GONE 128

_Thread_local struct thread_local_state tls __attribute__((tls_model("initial-exec")));

static _Atomic(struct thread *) registry;
static atomic_uint high;
static atomic_ulong homeless;
static atomic_uint gone;
static pthread_key_t exit_key;
static bool have_key;

static void thread_gone(void *slot)
{
	struct thread *t = slot;

	if (tls.slot != t)
		return;
	tls.slot = NULL;	/* a later destructor that makes a wrapped call claims a fresh slot */
	atomic_store_explicit(&t->depth, 0, memory_order_release);
	/* release: pairs with the acquire in the drain, which then sees the last push */
	atomic_store_explicit(&t->state, THREAD_DONE, memory_order_release);
	if (atomic_fetch_add_explicit(&gone, 1, memory_order_relaxed) % MANY_GONE == MANY_GONE - 1)
		pulse_half_full();	/* slots would run out before the period is over */
}

void thread_init(void)
{
	if (!have_key)
		have_key = pthread_key_create(&exit_key, thread_gone) == 0;
}

static struct thread *registry_get(void)
{
	struct thread *r = atomic_load_explicit(&registry, memory_order_acquire);	/* pairs with the exchange below */
	struct thread *none = NULL;

	if (r)
		return r;
	r = sys_map(THREAD_SLOTS * sizeof(*r));
	if (!r)
		return NULL;
	if (!atomic_compare_exchange_strong_explicit(&registry, &none, r, memory_order_acq_rel, memory_order_acquire)) {
		sys_unmap(r, THREAD_SLOTS * sizeof(*r));
		return none;
	}
	return r;
}

static void raise_high(unsigned to)
{
	unsigned seen = atomic_load_explicit(&high, memory_order_relaxed);

	/* release: pairs with thread_high's acquire, so that the drain finds the slot filled in */
	while (seen < to && !atomic_compare_exchange_weak_explicit(&high, &seen, to, memory_order_release, memory_order_relaxed))
		;
}

static struct thread *claim(struct thread *r, unsigned i)
{
	uint32_t want = THREAD_FREE;
	struct thread *t = &r[i];

	if (atomic_load_explicit(&t->state, memory_order_relaxed) != THREAD_FREE)
		return NULL;
	/* acquire: pairs with the release in thread_recycle, the slot is clean */
	if (!atomic_compare_exchange_strong_explicit(&t->state, &want, THREAD_LIVE, memory_order_acq_rel, memory_order_relaxed))
		return NULL;
	t->tid = sys_tid();
	raise_high(i + 1);
	return t;
}

struct thread *thread_claim(void)
{
	struct thread *r = registry_get();
	struct thread *t = NULL;
	unsigned i;

	for (i = 0; r && !t && i < THREAD_SLOTS; i++)
		t = claim(r, i);
	if (!t)
		return NULL;
	tls.slot = t;
	if (have_key && t->tid != sys_pid()) {
		/* The main thread's destructors do not run at exit, and in a fork's child of another thread they do no harm. */
		tls.guard++;
		pthread_setspecific(exit_key, t);
		tls.guard--;
	}
	return t;
}

struct ring *thread_ring_map(struct thread *t)
{
	uint32_t places = config.ring_bytes / sizeof(union ring_place);
	void *mem = sys_map(ring_bytes(places));
	struct ring *r;

	if (!mem)
		return NULL;
	r = ring_init(mem, places);
	atomic_store_explicit(&t->ring, r, memory_order_release);	/* pairs with the drain's acquire */
	return r;
}

struct thread *thread_at(unsigned index)
{
	struct thread *r = atomic_load_explicit(&registry, memory_order_acquire);

	return r && index < THREAD_SLOTS ? &r[index] : NULL;
}

unsigned thread_high(void)
{
	return atomic_load_explicit(&high, memory_order_acquire);
}

void thread_recycle(struct thread *t)
{
	struct ring *r = atomic_load_explicit(&t->ring, memory_order_relaxed);

	memset((char *)t + sizeof(t->state), 0, sizeof(*t) - sizeof(t->state));
	atomic_store_explicit(&t->ring, r, memory_order_relaxed);
	atomic_store_explicit(&t->state, THREAD_FREE, memory_order_release);	/* pairs with the claim */
}

static void drop_ring(struct thread *t)
{
	struct ring *r = atomic_load_explicit(&t->ring, memory_order_relaxed);

	if (r)
		sys_unmap(r, r->bytes);
	atomic_store_explicit(&t->ring, NULL, memory_order_relaxed);
}

void thread_homeless(void)
{
	atomic_fetch_add_explicit(&homeless, 1, memory_order_relaxed);
}

uint64_t thread_homeless_count(void)
{
	return atomic_load_explicit(&homeless, memory_order_relaxed);
}

void thread_fork_child(void)
{
	unsigned i, n = thread_high();

	tls.slot = NULL;
	tls.pushing = 0;
	for (i = 0; i < n; i++) {
		struct thread *t = thread_at(i);

		if (!t)
			continue;
		drop_ring(t);
		thread_recycle(t);
	}
	atomic_store_explicit(&high, 0, memory_order_relaxed);
	atomic_store_explicit(&homeless, 0, memory_order_relaxed);
}
