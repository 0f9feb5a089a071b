/* SPDX-License-Identifier: Apache-2.0
 *
 * A small open-addressing table. Runs in the traced thread: no allocation, no lock, no stdio, no NCCL call.
 */
#include "shim/nccl_comm.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "shim/cuda_abi.h"
#include "shim/drain.h"

#pragma GCC poison malloc calloc realloc free printf fprintf

#define PROBES 64
#define GONE ((const void *)1)		/* was used: later entries may lie behind it */

struct entry {
	_Atomic(const void *) comm;	/* NULL = never used */
	_Atomic uint64_t key, collectives, children;
	_Atomic uint32_t rank, nranks;
};

static struct entry table[NCCL_COMMS];

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t combine(uint64_t h, uint64_t v)
{
	h = mix(h ^ (v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2)));
	return h ? h : 1;
}

static struct entry *lookup(const void *comm)
{
	uint32_t at = (uint32_t)mix((uintptr_t)comm);

	for (uint32_t i = 0; comm && i < PROBES; i++) {
		struct entry *e = &table[(at + i) % NCCL_COMMS];
		/* acquire pairs with the release in claim: the entry has been reset */
		const void *have = atomic_load_explicit(&e->comm, memory_order_acquire);

		if (have == comm)
			return e;
		if (!have)
			return NULL;
	}
	return NULL;
}

static void reset(struct entry *e)
{
	atomic_store_explicit(&e->key, 0, memory_order_relaxed);
	atomic_store_explicit(&e->collectives, 0, memory_order_relaxed);
	atomic_store_explicit(&e->children, 0, memory_order_relaxed);
	atomic_store_explicit(&e->rank, UINT32_MAX, memory_order_relaxed);
	atomic_store_explicit(&e->nranks, UINT32_MAX, memory_order_relaxed);
}

/* Nobody else knows this communicator yet: its maker is adding it. */
static struct entry *claim(const void *comm)
{
	uint32_t at = (uint32_t)mix((uintptr_t)comm);

	for (uint32_t i = 0; comm && i < PROBES; i++) {
		struct entry *e = &table[(at + i) % NCCL_COMMS];
		const void *have = atomic_load_explicit(&e->comm, memory_order_relaxed);

		if ((have && have != GONE) || !atomic_compare_exchange_strong_explicit(&e->comm, &have, comm, memory_order_acq_rel,
										       memory_order_relaxed))
			continue;
		reset(e);
		return e;
	}
	return NULL;
}

uint64_t nccl_comm_key_id(const struct nccl_unique_id *id)
{
	uint64_t h = 0x77687969646c6521u, word;

	for (size_t i = 0; i < sizeof(id->bytes); i += sizeof(word)) {
		memcpy(&word, id->bytes + i, sizeof(word));
		h = combine(h, word);
	}
	return h;
}

uint64_t nccl_comm_key_child(const void *comm, int color)
{
	struct entry *e = lookup(comm);
	uint64_t key, ordinal;

	if (!e || !(key = atomic_load_explicit(&e->key, memory_order_relaxed)))
		return 0;
	ordinal = atomic_fetch_add_explicit(&e->children, 1, memory_order_relaxed);
	return combine(combine(key, ordinal), (uint32_t)color);
}

uint64_t nccl_comm_key_local(void)
{
	static _Atomic uint64_t made;

	return combine(drain_process_uuid(), atomic_fetch_add_explicit(&made, 1, memory_order_relaxed));
}

void nccl_comm_add(const void *comm, const struct nccl_comm_info *info)
{
	struct entry *e = lookup(comm);

	if (e)
		reset(e);	/* the address of one that was freed behind our back */
	else
		e = claim(comm);
	if (!e)
		return;
	atomic_store_explicit(&e->rank, info->rank, memory_order_relaxed);
	atomic_store_explicit(&e->nranks, info->nranks, memory_order_relaxed);
	atomic_store_explicit(&e->key, info->key, memory_order_relaxed);
}

void nccl_comm_get(const void *comm, struct nccl_comm_info *info)
{
	struct entry *e = lookup(comm);

	if (!e)
		e = claim(comm);
	*info = (struct nccl_comm_info){0, UINT32_MAX, UINT32_MAX};
	if (!e)
		return;
	info->key = atomic_load_explicit(&e->key, memory_order_relaxed);
	info->rank = atomic_load_explicit(&e->rank, memory_order_relaxed);
	info->nranks = atomic_load_explicit(&e->nranks, memory_order_relaxed);
}

void nccl_comm_learn(const void *comm, const struct nccl_comm_info *info)
{
	struct entry *e = lookup(comm);

	if (!e)
		return;
	atomic_store_explicit(&e->rank, info->rank, memory_order_relaxed);
	atomic_store_explicit(&e->nranks, info->nranks, memory_order_relaxed);
}

uint64_t nccl_comm_next(const void *comm)
{
	struct entry *e = lookup(comm);

	return e ? atomic_fetch_add_explicit(&e->collectives, 1, memory_order_relaxed) + 1 : 0;
}

void nccl_comm_forget(const void *comm)
{
	struct entry *e = lookup(comm);

	if (e)
		atomic_store_explicit(&e->comm, GONE, memory_order_release);
}

unsigned int nccl_dtype_bytes(int dtype)
{
	/* int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 fp8e4m3 fp8e5m2 */
	static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return dtype >= 0 && (size_t)dtype < sizeof(bytes) ? bytes[dtype] : 0;
}
