/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported wrappers of NCCL, made from the rows of nccl.def. Runs in the traced thread: no allocation, no lock, no stdio.
 *
 * NCCL calls some of its own public functions through the PLT (Bcast calls Broadcast, old Send calls GroupStart): a per-thread depth
 * tells these apart, and only the host's own call is recorded. The guard stays down meanwhile: the connects and reads that NCCL
 * makes in the host's thread are what one wants to see under a slow ncclCommInitRank.
 */
#include "shim/nccl.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "shim/cuda_abi.h"
#include "shim/cuda_resolve.h"
#include "shim/cupti.h"
#include "shim/nccl_comm.h"
#include "shim/span.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf

#define EXPORT __attribute__((visibility("default")))
#define PENDING 256

enum slot {
#define API(name, params, args, before, after) SLOT_##name,
#include "shim/nccl.def"
#undef API
	SLOT_COUNT,
	SLOT_ncclCommCount = SLOT_COUNT,	/* called, not wrapped */
	SLOT_ncclCommUserRank,
	SLOT_ALL
};

static const char *const slot_names[SLOT_ALL] = {
#define API(name, params, args, before, after) #name,
#include "shim/nccl.def"
#undef API
	"ncclCommCount",
	"ncclCommUserRank",
};

static struct cuda_function functions[SLOT_ALL];

/* Of this thread: how deep inside NCCL, and how many groups are open. Small: the static TLS of a library that comes late is scarce. */
static _Thread_local struct {
	unsigned int depth, groups;
} here __attribute__((tls_model("initial-exec")));

/* Communicators whose handles may come only when the group of the thread that makes them closes. */
static struct {
	_Atomic(void *) owner;		/* that thread's `here`, NULL = free; the rest is the owner's */
	void **comm;
	struct nccl_comm_info info;
} pending[PENDING];
static _Atomic unsigned int npending;	/* entries taken: nothing to look for when 0 */

const char *nccl_wrapped(unsigned int i)
{
	return i < SLOT_COUNT ? slot_names[i] : NULL;
}

static inline void *real_function(enum slot slot, const void *caller)
{
	return cuda_resolve(&functions[slot], LIBRARY_NCCL, slot_names[slot], caller);
}

static void end(struct span *s, int result)
{
	s->always = true;
	span_end(s, result == NCCL_IN_PROGRESS ? 0 : result);
	if (!result)
		cupti_call_succeeded();
}

/* A split does not say which rank one is in the new communicator. NCCL is asked once it must be ready: outside of a group, when
 * a collective is issued on it. */
static void learn_rank(void *comm, struct nccl_comm_info *info, const void *caller)
{
	int (*user_rank)(const void *, int *), (*count)(const void *, int *), rank, nranks;

	if (here.groups)
		return;
	user_rank = real_function(SLOT_ncclCommUserRank, caller);
	count = real_function(SLOT_ncclCommCount, caller);
	if (!user_rank || !count)
		return;
	here.depth++;
	if (!user_rank(comm, &rank) && !count(comm, &nranks)) {
		info->rank = (uint32_t)rank;
		info->nranks = (uint32_t)nranks;
		nccl_comm_learn(comm, info);
	}
	here.depth--;
}

static void capture_comm(struct span *s, void *comm, const void *caller)
{
	struct nccl_comm_info info;

	nccl_comm_get(comm, &info);
	if (caller && info.rank == UINT32_MAX && comm)
		learn_rank(comm, &info, caller);
	s->nccl = true;
	s->comm = info.key;
	s->rank = info.rank;
	s->nranks = info.nranks;
}

static void capture_payload(struct span *s, size_t count, int dtype)
{
	s->dtype = (uint32_t)dtype;
	s->bytes = (int64_t)(count * nccl_dtype_bytes(dtype));
}

static void remember_pending(void **comm, const struct nccl_comm_info *info)
{
	for (unsigned int i = 0; i < PENDING; i++) {
		void *nobody = NULL;

		if (!atomic_compare_exchange_strong_explicit(&pending[i].owner, &nobody, &here, memory_order_acquire,
							     memory_order_relaxed))
			continue;
		atomic_fetch_add_explicit(&npending, 1, memory_order_relaxed);
		pending[i].comm = comm;
		pending[i].info = *info;
		return;
	}
}

static void init_done(void **comm, const struct span *s)
{
	struct nccl_comm_info info = {s->comm, s->rank, s->nranks};

	if (!comm)
		return;
	if (*comm)
		nccl_comm_add(*comm, &info);
	if (here.groups)
		remember_pending(comm, &info);
}

static void init_all_done(void **comms, int n, const struct span *s)
{
	for (int i = 0; comms && i < n; i++) {
		struct nccl_comm_info info = {s->comm, (uint32_t)i, (uint32_t)n};

		nccl_comm_add(comms[i], &info);
	}
}

/* The handle may have been written only now; one that we have already must keep its count. */
static void take_pending(void **at, const struct nccl_comm_info *made)
{
	struct nccl_comm_info info;

	if (!*at)
		return;
	nccl_comm_get(*at, &info);
	if (info.key != made->key)
		nccl_comm_add(*at, made);
}

static void group_closed(bool good)
{
	if (!atomic_load_explicit(&npending, memory_order_relaxed))
		return;
	for (unsigned int i = 0; i < PENDING; i++) {
		if (atomic_load_explicit(&pending[i].owner, memory_order_relaxed) != &here)
			continue;
		if (good)
			take_pending(pending[i].comm, &pending[i].info);
		atomic_fetch_sub_explicit(&npending, 1, memory_order_relaxed);
		/* release pairs with the claim in remember_pending */
		atomic_store_explicit(&pending[i].owner, NULL, memory_order_release);
	}
}

static bool good(int result)
{
	return !result || result == NCCL_IN_PROGRESS;
}

/* Captures. Before: fill the span from the arguments. After: keep our table right. */
#define NONE (-1)
#define NOTHING
#define COLLECTIVE(comm, count, dtype, redop, at) \
	capture_comm(&s, comm, caller); \
	capture_payload(&s, count, dtype); \
	s.op = (uint32_t)(redop); \
	s.root = (uint32_t)(at); \
	s.seq = nccl_comm_next(comm);
#define P2P(comm, count, dtype, other) \
	capture_comm(&s, comm, caller); \
	capture_payload(&s, count, dtype); \
	s.peer = (uint32_t)(other);
#define COMM(comm) capture_comm(&s, comm, NULL);
#define INIT(key, size, at) \
	s.nccl = true; \
	s.comm = key; \
	s.nranks = (uint32_t)(size); \
	s.rank = (uint32_t)(at);
#define INIT_DONE(comm) \
	if (good(result)) \
		init_done(comm, &s);
#define INIT_ALL_DONE(comms, n) \
	if (good(result)) \
		init_all_done(comms, n, &s);
#define GROUP_START \
	if (!result) \
		here.groups++;
#define GROUP_END \
	if (here.groups && !--here.groups) \
		group_closed(good(result));
/* before the call: as soon as it has been destroyed its address may be another thread's new communicator */
#define FORGET(comm) nccl_comm_forget(comm);

#define API(name, params, args, before, after) \
	EXPORT int name params; \
	EXPORT int name params \
	{ \
		const void *caller = __builtin_return_address(0); \
		int(*real) params = real_function(SLOT_##name, caller); \
		struct span s; \
		int result; \
\
		if (!real) \
			return NCCL_INVALID_USAGE; \
		if (here.depth || span_guarded()) \
			return real args; \
		cupti_start(); \
		span_begin(&s, CALL_##name); \
		before \
		here.depth++; \
		result = real args; \
		here.depth--; \
		after \
		end(&s, result); \
		return result; \
	}
#include "shim/nccl.def"
