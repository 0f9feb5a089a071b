/* SPDX-License-Identifier: Apache-2.0
 *
 * libnccl's collectives and the rest of its entry points. Where the real library calls one of its own public functions
 * through the PLT, this does too.
 */
#include "examples/simgpu/nccl_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEND_GROUPS_BEFORE = 22304, INIT_ALL_GROUPS_BEFORE = 22500 };

int nccl_version(void)
{
	const char *text = getenv("SIMGPU_NCCL_VERSION");
	int version = text ? atoi(text) : 0;

	return version > 0 ? version : 22809;
}

NCCL_API(ncclResult_t, GetVersion, (int *version))
{
	if (!version)
		return ncclInvalidArgument;
	*version = nccl_version();
	return ncclSuccess;
}

NCCL_API(const char *, GetErrorString, (ncclResult_t result))
{
	static const char *const texts[] = {
		"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument",
		"invalid usage", "remote process exited or there was a network error", "NCCL operation in progress",
	};

	return (unsigned int)result < sizeof(texts) / sizeof(*texts) ? texts[result] : "unknown result code";
}

NCCL_API(const char *, GetLastError, (ncclComm_t comm))
{
	(void)comm;
	return nccl_last_log();
}

NCCL_API(void, ResetDebugInit, (void))
{
}

NCCL_API(ncclResult_t, CommInitAll, (ncclComm_t *comms, int ndev, const int *devices))
{
	bool old = nccl_version() < INIT_ALL_GROUPS_BEFORE;
	int device = sg_current_device(), rc, ended;
	ncclUniqueId id;

	if (!comms || ndev < 1)
		return ncclInvalidArgument;
	rc = ncclGetUniqueId(&id);
	if (rc)
		return (ncclResult_t)rc;
	if (old)
		ncclGroupStart();
	else
		group_enter();
	for (int i = 0; i < ndev && !rc; i++) {
		rc = sg_init() || sg_set_device(devices ? devices[i] : i) ? ncclInvalidArgument : 0;
		if (!rc)
			rc = pncclCommInitRank(&comms[i], ndev, id, i);
	}
	sg_set_device(device);
	ended = old ? (int)ncclGroupEnd() : group_leave();
	return (ncclResult_t)(rc ? rc : ended);
}

NCCL_API(ncclResult_t, GroupStart, (void))
{
	return (ncclResult_t)group_enter();
}

NCCL_API(ncclResult_t, GroupEnd, (void))
{
	return (ncclResult_t)group_leave();
}

NCCL_API(ncclResult_t, MemAlloc, (void **ptr, size_t bytes))
{
	if (!ptr || !bytes)
		return ncclInvalidArgument;
	if (sg_init())
		return ncclUnhandledCudaError;
	*ptr = sg_memory_new(bytes, SG_DEVICE, sg_current_device());
	return *ptr ? ncclSuccess : ncclUnhandledCudaError;
}

NCCL_API(ncclResult_t, MemFree, (void *ptr))
{
	return ptr && sg_memory_delete(ptr, SG_DEVICE, true) ? ncclInvalidArgument : ncclSuccess;
}

/* Registration changes nothing here: all memory can be read by the proxy. */
NCCL_API(ncclResult_t, CommRegister, (const ncclComm_t comm, void *buffer, size_t bytes, void **handle))
{
	if (!comm_valid(comm) || !handle || !bytes)
		return ncclInvalidArgument;
	*handle = buffer;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, CommDeregister, (const ncclComm_t comm, void *handle))
{
	(void)handle;
	return comm_valid(comm) ? ncclSuccess : ncclInvalidArgument;
}

static int check(const struct ncclComm *comm, const struct nccl_task *task)
{
	bool reduces = task->func == FUNC_ALLREDUCE || task->func == FUNC_REDUCE || task->func == FUNC_REDUCESCATTER;
	int state;

	if (!comm_valid(comm) || !type_bytes(task->type) || task->peer < 0 || task->peer >= comm->nranks)
		return ncclInvalidArgument;
	if (reduces && (!type_reduces(task->type) || (unsigned int)task->op > ncclAvg))
		return ncclInvalidArgument;
	if (task->count && !task->send && !task->recv)
		return ncclInvalidArgument;
	state = atomic_load(&comm->state);
	return state == ncclInProgress ? ncclInvalidUsage : state ? state : atomic_load(&comm->error);
}

static ncclResult_t enqueue(struct ncclComm *comm, cudaStream_t stream, const struct nccl_task *task)
{
	int rc = check(comm, task), ended;

	if (rc)
		return (ncclResult_t)rc;
	group_enter();
	rc = group_add(comm, stream, task);
	ended = group_leave();
	return (ncclResult_t)(rc ? rc : ended);
}

NCCL_API(ncclResult_t, AllReduce,
	 (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
	  cudaStream_t stream))
{
	struct nccl_task task = { .func = FUNC_ALLREDUCE, .send = send, .recv = recv, .count = count, .type = type, .op = op };

	return enqueue(comm, stream, &task);
}

NCCL_API(ncclResult_t, Reduce,
	 (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
	  cudaStream_t stream))
{
	struct nccl_task task = {
		.func = FUNC_REDUCE, .send = send, .recv = recv, .count = count, .type = type, .op = op, .peer = root
	};

	return enqueue(comm, stream, &task);
}

NCCL_API(ncclResult_t, ReduceScatter,
	 (const void *send, void *recv, size_t recv_count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
	  cudaStream_t stream))
{
	struct nccl_task task = {
		.func = FUNC_REDUCESCATTER, .send = send, .recv = recv, .count = recv_count, .type = type, .op = op
	};

	return enqueue(comm, stream, &task);
}

NCCL_API(ncclResult_t, AllGather,
	 (const void *send, void *recv, size_t send_count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))
{
	struct nccl_task task = { .func = FUNC_ALLGATHER, .send = send, .recv = recv, .count = send_count, .type = type };

	return enqueue(comm, stream, &task);
}

NCCL_API(ncclResult_t, Broadcast,
	 (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))
{
	struct nccl_task task = {
		.func = FUNC_BROADCAST, .send = send, .recv = recv, .count = count, .type = type, .peer = root
	};

	return enqueue(comm, stream, &task);
}

NCCL_API(ncclResult_t, Bcast,
	 (void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

static ncclResult_t p2p(enum nccl_func func, const void *send, void *recv, size_t count, ncclDataType_t type, int peer,
			ncclComm_t comm, cudaStream_t stream)
{
	struct nccl_task task = { .func = func, .send = send, .recv = recv, .count = count, .type = type, .peer = peer };
	bool old = nccl_version() < SEND_GROUPS_BEFORE;
	ncclResult_t rc, ended;

	if (!old)
		return enqueue(comm, stream, &task);
	ncclGroupStart();
	rc = enqueue(comm, stream, &task);
	ended = ncclGroupEnd();
	return rc ? rc : ended;
}

NCCL_API(ncclResult_t, Send,
	 (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))
{
	return p2p(FUNC_SEND, send, NULL, count, type, peer, comm, stream);
}

NCCL_API(ncclResult_t, Recv,
	 (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))
{
	return p2p(FUNC_RECV, NULL, recv, count, type, peer, comm, stream);
}

/* The three below are groups of sends and receives. `send_step`, `recv_step`: bytes between the blocks of peers. */
static ncclResult_t exchange(const char *send, size_t send_step, int send_to, char *recv, size_t recv_step, int recv_from,
			     size_t count, ncclDataType_t type, struct ncclComm *comm, cudaStream_t stream)
{
	struct nccl_task out = { .func = FUNC_SEND, .count = count, .type = type };
	struct nccl_task in = { .func = FUNC_RECV, .count = count, .type = type };
	int rc = check(comm, &out), ended;

	if (rc == ncclInvalidArgument && (!comm_valid(comm) || !type_bytes(type)))
		return (ncclResult_t)rc;
	rc = 0;
	group_enter();
	for (int peer = 0; peer < comm->nranks && !rc; peer++) {
		out.peer = in.peer = peer;
		out.send = send + (size_t)peer * send_step;
		in.recv = recv + (size_t)peer * recv_step;
		if (send_to < 0 || send_to == peer)
			rc = group_add(comm, stream, &out);
		if (!rc && (recv_from < 0 || recv_from == peer))
			rc = group_add(comm, stream, &in);
	}
	ended = group_leave();
	return (ncclResult_t)(rc ? rc : ended);
}

enum { NOBODY = 1 << 30, EVERYBODY = -1 };

NCCL_API(ncclResult_t, AlltoAll,
	 (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))
{
	size_t step = count * type_bytes(type);

	return exchange(send, step, EVERYBODY, recv, step, EVERYBODY, count, type, comm, stream);
}

NCCL_API(ncclResult_t, Gather,
	 (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))
{
	bool mine = comm_valid(comm) && comm->rank == root;

	return exchange(send, 0, root, recv, count * type_bytes(type), mine ? EVERYBODY : NOBODY, count, type, comm, stream);
}

NCCL_API(ncclResult_t, Scatter,
	 (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))
{
	bool mine = comm_valid(comm) && comm->rank == root;

	return exchange(send, count * type_bytes(type), mine ? EVERYBODY : NOBODY, recv, 0, root, count, type, comm, stream);
}
