/* SPDX-License-Identifier: Apache-2.0
 *
 * An open-addressing table in lazily touched memory. Called by static constructors of the host's libraries, before our own
 * constructor, and by launches: no allocation but one mmap, no lock, no stdio.
 */
#include "shim/cuda_kernels.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define SLOTS (1u << 17)		/* torch registers some 50,000 kernels */
#define PROBES 64

struct slot {
	_Atomic(const void *) stub;	/* NULL = free; never taken back */
	_Atomic(const char *) name;
};

static _Atomic(struct slot *) table;

static struct slot *table_get(void)
{
	/* acquire pairs with the exchange below: the mapping is seen before its address is used */
	struct slot *t = atomic_load_explicit(&table, memory_order_acquire), *expected = NULL;

	if (t)
		return t;
	t = mmap(NULL, SLOTS * sizeof(*t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t == MAP_FAILED)
		return NULL;
	if (!atomic_compare_exchange_strong_explicit(&table, &expected, t, memory_order_acq_rel, memory_order_acquire)) {
		munmap(t, SLOTS * sizeof(*t));
		return expected;
	}
	return t;
}

static uint32_t hash_stub(const void *stub)
{
	return (uint32_t)(((uintptr_t)stub * 0x9e3779b97f4a7c15u) >> 40);
}

void cuda_kernels_add(const void *stub, const char *name)
{
	struct slot *t = table_get();

	if (!t || !stub || !name)
		return;
	for (uint32_t i = 0; i < PROBES; i++) {
		struct slot *s = &t[(hash_stub(stub) + i) % SLOTS];
		const void *have = atomic_load_explicit(&s->stub, memory_order_relaxed);

		if (!have && atomic_compare_exchange_strong_explicit(&s->stub, &have, stub, memory_order_relaxed,
								     memory_order_relaxed))
			have = stub;
		if (have == stub) {
			/* release pairs with the load in cuda_kernels_name */
			atomic_store_explicit(&s->name, name, memory_order_release);
			return;
		}
	}
}

const char *cuda_kernels_name(const void *stub)
{
	struct slot *t = atomic_load_explicit(&table, memory_order_acquire);

	if (!t || !stub)
		return NULL;
	for (uint32_t i = 0; i < PROBES; i++) {
		struct slot *s = &t[(hash_stub(stub) + i) % SLOTS];
		const void *have = atomic_load_explicit(&s->stub, memory_order_relaxed);

		if (have == stub)
			return atomic_load_explicit(&s->name, memory_order_acquire); /* pairs with cuda_kernels_add */
		if (!have)
			return NULL;
	}
	return NULL;
}
