/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives as sequences of transfers over the ring: which bytes the i-th send and the i-th receive carry, and how many
 * receives must be done before a send may begin. The data goes in loops of at most CHUNK bytes a transfer.
 */
#include "examples/simgpu/nccl_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { CHUNK = 512 << 10, HEADER = 4, TURNS = 16 };

struct transfer {
	char *at;
	size_t bytes, count;
	bool reduce;
};

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static int wrap(int rank, int n)
{
	return ((rank % n) + n) % n;
}

/* `offset` in elements of data that has `total`. */
static struct transfer slice(const struct nccl_task *task, size_t offset, size_t total)
{
	size_t bytes = type_bytes(task->type);
	struct transfer t = { .at = task->work + offset * bytes };

	t.count = offset >= total ? 0 : min_size(task->chunk, total - offset);
	t.bytes = t.count * bytes;
	return t;
}

/* Slice j of loop l: of the whole data (all-reduce), or of block j. */
static struct transfer ring_slice(const struct ncclComm *comm, const struct nccl_task *task, size_t loop, int j)
{
	size_t n = (size_t)comm->nranks, block = (size_t)wrap(j, comm->nranks);
	struct transfer t;

	if (task->func == FUNC_ALLREDUCE)
		return slice(task, (loop * n + block) * task->chunk, task->count);
	t = slice(task, loop * task->chunk, task->count);
	t.at += block * task->count * type_bytes(task->type);
	return t;
}

static struct transfer send_transfer(const struct ncclComm *comm, const struct nccl_task *task)
{
	size_t loop = task->steps ? task->sent / task->steps : task->sent;
	int k = task->steps ? (int)(task->sent % task->steps) : 0, r = comm->rank, n = comm->nranks;

	switch (task->func) {
	case FUNC_ALLREDUCE:
		return ring_slice(comm, task, loop, k < n - 1 ? r - k : r + 1 - (k - (n - 1)));
	case FUNC_REDUCESCATTER:
		return ring_slice(comm, task, loop, r - 1 - k);
	case FUNC_ALLGATHER:
		return ring_slice(comm, task, loop, r - k);
	default:
		return slice(task, loop * task->chunk, task->count);
	}
}

static struct transfer recv_transfer(const struct ncclComm *comm, const struct nccl_task *task)
{
	size_t loop = task->steps ? task->received / task->steps : task->received;
	int k = task->steps ? (int)(task->received % task->steps) : 0, r = comm->rank, n = comm->nranks;
	struct transfer t;

	switch (task->func) {
	case FUNC_ALLREDUCE:
		t = ring_slice(comm, task, loop, k < n - 1 ? r - k - 1 : r - (k - (n - 1)));
		t.reduce = k < n - 1;
		return t;
	case FUNC_REDUCESCATTER:
		t = ring_slice(comm, task, loop, r - 2 - k);
		t.reduce = true;
		return t;
	case FUNC_ALLGATHER:
		return ring_slice(comm, task, loop, r - 1 - k);
	default:
		t = slice(task, loop * task->chunk, task->count);
		t.reduce = task->func == FUNC_REDUCE;
		return t;
	}
}

/* Receives that must be done before the next send. */
static size_t send_needs(const struct nccl_task *task)
{
	if (task->steps)	/* what the step before brought is passed on; a loop's first step is one's own */
		return task->sent % task->steps ? task->sent : 0;
	return task->nrecv ? task->sent + 1 : 0;	/* a link of a chain passes on what it got; its head just sends */
}

static void plan_loops(struct nccl_task *task, size_t share)
{
	size_t most = CHUNK / type_bytes(task->type);

	task->chunk = share ? min_size(share, most) : 1;
	task->loops = (share + task->chunk - 1) / task->chunk;
}

static int make_scratch(struct nccl_task *task, size_t bytes)
{
	task->scratch = malloc(bytes ? bytes : 1);
	if (!task->scratch)
		return ncclSystemError;
	memcpy(task->scratch, task->send, bytes);
	task->work = task->scratch;
	return 0;
}

static void copy_own(void *to, const void *from, size_t bytes)
{
	if (to != from)
		memmove(to, from, bytes);
}

static int begin_ring(struct ncclComm *comm, struct nccl_task *task)
{
	size_t bytes = task->count * type_bytes(task->type), n = (size_t)comm->nranks;
	int rc = 0;

	if (task->func == FUNC_ALLREDUCE) {
		copy_own(task->recv, task->send, bytes);
		task->work = task->recv;
		plan_loops(task, (task->count + n - 1) / n);
		task->steps = 2 * (n - 1);
	} else if (task->func == FUNC_ALLGATHER) {
		copy_own((char *)task->recv + (size_t)comm->rank * bytes, task->send, bytes);
		task->work = task->recv;
		plan_loops(task, task->count);
		task->steps = n - 1;
	} else {
		rc = make_scratch(task, bytes * n);
		plan_loops(task, task->count);
		task->steps = n - 1;
	}
	task->nsend = task->nrecv = task->loops * task->steps;
	return rc;
}

/* The ring cut open: from the root round to its predecessor (broadcast), or from its successor round to it (reduce). */
static int begin_chain(struct ncclComm *comm, struct nccl_task *task)
{
	int n = comm->nranks, place = wrap(comm->rank - task->peer - (task->func == FUNC_REDUCE), n), rc = 0;
	size_t bytes = task->count * type_bytes(task->type);
	bool root = comm->rank == task->peer;

	plan_loops(task, task->count);
	task->nsend = place < n - 1 ? task->loops : 0;
	task->nrecv = place > 0 ? task->loops : 0;
	task->work = task->recv;
	if (root)
		copy_own(task->recv, task->send, bytes);
	else if (task->func == FUNC_REDUCE)
		rc = make_scratch(task, bytes);
	return rc;
}

int task_begin(struct ncclComm *comm, struct nccl_task *task)
{
	int rc = 0;

	task->begun = true;
	if (task->local)
		return 0;
	switch (task->func) {
	case FUNC_SEND:
		plan_loops(task, task->count);
		task->work = (char *)(uintptr_t)task->send;
		task->nsend = task->loops;
		break;
	case FUNC_RECV:
		plan_loops(task, task->count);
		task->work = task->recv;
		task->nrecv = task->loops;
		break;
	case FUNC_BROADCAST:
	case FUNC_REDUCE:
		rc = begin_chain(comm, task);
		break;
	default:
		rc = begin_ring(comm, task);
		break;
	}
	task->staging = rc ? NULL : malloc(CHUNK);
	return rc ? rc : task->staging ? 0 : ncclSystemError;
}

/* Result of a socket call: bytes, 0 nothing now, -1 the peer is gone. */
static ssize_t outcome(ssize_t n, bool receiving)
{
	if (n > 0)
		return n;
	if (!n)
		return receiving ? -1 : 0;
	return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* One call to send: 1 moved, 0 not, -1 lost. */
static int send_some(struct ncclComm *comm, struct nccl_task *task, int fd)
{
	struct transfer t = send_transfer(comm, task);
	uint32_t header = (uint32_t)t.bytes;
	ssize_t n;

	if (task->send_at < HEADER)
		n = send(fd, (char *)&header + task->send_at, HEADER - task->send_at, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		n = send(fd, t.at + (task->send_at - HEADER), t.bytes - (task->send_at - HEADER),
			 MSG_DONTWAIT | MSG_NOSIGNAL);
	n = outcome(n, false);
	if (n <= 0)
		return (int)n;
	task->send_at += (size_t)n;
	if (task->send_at == HEADER + t.bytes) {
		task->send_at = 0;
		task->sent++;
	}
	return 1;
}

static int recv_some(struct ncclComm *comm, struct nccl_task *task, int fd)
{
	struct transfer t = recv_transfer(comm, task);
	char *to = t.reduce ? task->staging : t.at;
	ssize_t n;

	if (task->recv_at < HEADER)
		n = recv(fd, (char *)&task->recv_header + task->recv_at, HEADER - task->recv_at, MSG_DONTWAIT);
	else
		n = recv(fd, to + (task->recv_at - HEADER), t.bytes - (task->recv_at - HEADER), MSG_DONTWAIT);
	n = outcome(n, true);
	if (n <= 0)
		return (int)n;
	task->recv_at += (size_t)n;
	if (task->recv_at == HEADER && task->recv_header != t.bytes) {
		nccl_log("WARN", "message of %u bytes where %zu were expected: ranks call different things",
			 task->recv_header, t.bytes);
		return -1;
	}
	if (task->recv_at == HEADER + t.bytes) {
		if (t.reduce)
			reduce_into(t.at, task->staging, t.count, task->type, task->op);
		task->recv_at = 0;
		task->received++;
	}
	return 1;
}

/* The descriptor for one direction, -1 when the peer has not connected yet. */
static int fd_of(struct ncclComm *comm, const struct nccl_task *task, bool sending)
{
	if (task->func == FUNC_SEND)
		return comm->p2p_send[task->peer];
	if (task->func != FUNC_RECV)
		return sending ? comm->ring_send : comm->ring_recv;
	if (comm->p2p_recv[task->peer] < 0)
		comm_accept(comm, false);
	return comm->p2p_recv[task->peer];
}

static void finish(struct ncclComm *comm, struct nccl_task *task)
{
	size_t bytes = task->count * type_bytes(task->type);
	bool owner = task->func == FUNC_ALLREDUCE || task->func == FUNC_REDUCESCATTER ||
		     (task->func == FUNC_REDUCE && comm->rank == task->peer);

	if (task->local && task->func == FUNC_RECV)
		memmove(task->recv, task->send, bytes);
	if (task->func == FUNC_REDUCESCATTER)
		memcpy(task->recv, task->scratch + (size_t)comm->rank * bytes, bytes);
	if (owner && task->op == ncclAvg)
		reduce_divide(task->recv, task->count, task->type, comm->nranks);
	task->done = true;
}

int task_progress(struct ncclComm *comm, struct nccl_task *task, bool *moved)
{
	int out, in, fd;

	for (int turn = 0; turn < TURNS; turn++) {
		out = in = 0;
		if (task->sent < task->nsend && task->received >= send_needs(task))
			out = send_some(comm, task, fd_of(comm, task, true));
		if (task->received < task->nrecv && (fd = fd_of(comm, task, false)) >= 0)
			in = recv_some(comm, task, fd);
		if (out < 0 || in < 0)
			return ncclRemoteError;
		if (out || in)
			*moved = true;
		else
			break;
	}
	if (task->sent == task->nsend && task->received == task->nrecv)
		finish(comm, task);
	return 0;
}

void task_end(struct nccl_task *task)
{
	free(task->scratch);
	free(task->staging);
	task->scratch = task->staging = NULL;
}
