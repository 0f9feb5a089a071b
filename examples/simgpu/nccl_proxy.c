/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress thread of a communicator: moves the data of the kernel that the device runs, in a busy loop as the real
 * one does.
 */
#include "examples/simgpu/nccl_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { KERNEL_NS = 10000, LOOK_NS = 1000000 };

static bool stopped(const struct ncclComm *comm)
{
	return atomic_load_explicit(&comm->abort, memory_order_acquire);
}

static bool is_p2p(const struct nccl_task *task)
{
	return task->func == FUNC_SEND || task->func == FUNC_RECV;
}

/* Sends and receives of a group advance side by side, collectives one after the other. */
static int turn(struct nccl_kernel *kernel, bool *moved, bool *done)
{
	bool ring_taken = false;
	int rc = 0;

	*done = true;
	for (struct nccl_task *t = kernel->tasks; t && !rc; t = t->next) {
		if (t->done)
			continue;
		*done = false;
		if (!is_p2p(t) && ring_taken)
			continue;
		ring_taken |= !is_p2p(t);
		if (!t->begun)
			rc = task_begin(kernel->comm, t);
		if (!rc)
			rc = task_progress(kernel->comm, t, moved);
	}
	return rc;
}

/* After an error the kernel spins on, as it would on a GPU, until the communicator is aborted. */
static void kernel_run(struct nccl_kernel *kernel)
{
	struct ncclComm *comm = kernel->comm;
	unsigned int idle = 0;
	bool moved, done = false;

	while (!done && !stopped(comm)) {
		int rc = atomic_load_explicit(&comm->error, memory_order_relaxed);

		moved = false;
		if (!rc)
			rc = turn(kernel, &moved, &done);
		if (rc) {
			atomic_store(&comm->error, rc);
			sg_sleep_until(sg_now() + LOOK_NS);
		} else if (moved) {
			idle = 0;
		} else if (!done) {
			nccl_pause(&idle);
		}
	}
	for (struct nccl_task *t = kernel->tasks; t; t = t->next)
		task_end(t);
}

static struct nccl_kernel *kernel_next(struct ncclComm *comm)
{
	for (;;) {
		uint32_t seen = atomic_load(&comm->posted);
		struct nccl_kernel *kernel;

		sg_lock(&comm->lock);
		kernel = comm->queue;
		if (kernel) {
			comm->queue = kernel->next;
			if (!comm->queue)
				comm->queue_tail = NULL;
		}
		sg_unlock(&comm->lock);
		if (kernel || atomic_load(&comm->stop))
			return kernel;
		futex_wait(&comm->posted, seen);
	}
}

static void *proxy_main(void *arg)
{
	struct ncclComm *comm = arg;
	struct nccl_kernel *kernel;

	syscall(SYS_prctl, PR_SET_NAME, "NCCL Progress");
	while ((kernel = kernel_next(comm))) {
		kernel_run(kernel);
		kernel->end_ns = sg_now();
		/* release: pairs with the load in proxy_run_kernel */
		atomic_store_explicit(&kernel->finished, 1, memory_order_release);
		futex_wake(&kernel->finished, 1);
	}
	return NULL;
}

int proxy_start(struct ncclComm *comm)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&comm->proxy, NULL, proxy_main, comm);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	comm->proxy_started = !rc;
	return rc ? ncclSystemError : 0;
}

void proxy_stop(struct ncclComm *comm)
{
	if (!comm->proxy_started)
		return;
	comm->proxy_started = false;
	atomic_store(&comm->stop, 1);
	atomic_fetch_add(&comm->posted, 1);
	futex_wake(&comm->posted, 1);
	pthread_join(comm->proxy, NULL);
}

/* False when the proxy takes nothing any more. */
static bool post(struct ncclComm *comm, struct nccl_kernel *kernel)
{
	bool taken;

	sg_lock(&comm->lock);
	taken = !atomic_load(&comm->stop) && !stopped(comm);
	if (taken) {
		if (comm->queue_tail)
			comm->queue_tail->next = kernel;
		else
			comm->queue = kernel;
		comm->queue_tail = kernel;
	}
	sg_unlock(&comm->lock);
	if (taken) {
		atomic_fetch_add(&comm->posted, 1);
		futex_wake(&comm->posted, 1);
	}
	return taken;
}

uint64_t proxy_run_kernel(void *data, uint64_t start_ns)
{
	struct nccl_kernel *kernel = data;
	struct ncclComm *comm = kernel->comm;
	uint64_t end = start_ns + KERNEL_NS;

	if (post(comm, kernel)) {
		while (!atomic_load_explicit(&kernel->finished, memory_order_acquire))
			futex_wait(&kernel->finished, 0);
		/* one rank alone, or nothing to move: the end is the model's, not the thread's */
		if (kernel->bytes && comm->nranks > 1 && kernel->end_ns > end)
			end = kernel->end_ns;
	}
	for (struct nccl_task *t = kernel->tasks, *next; t; t = next) {
		next = t->next;
		free(t);
	}
	free(kernel);
	atomic_fetch_sub(&comm->outstanding, 1);
	futex_wake(&comm->outstanding, 1 << 30);
	comm_put(comm);
	return end;
}
