/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults of the network that are set by environment: SYNs that vanish for a while, and slow links.
 */
#include "examples/simgpu/nccl_internal.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct dropper {
	int fd, filler;			/* filler: fills the queue of connections, -1 when a filter does the work */
	uint64_t until_ns;
};

/* All by system call: it is the network that heals, not the program that acts. */
static void *undrop(void *arg)
{
	struct dropper *dropper = arg;
	long accepted;
	int none = 0;

	sg_sleep_until(dropper->until_ns);
	if (dropper->filler < 0) {
		syscall(SYS_setsockopt, dropper->fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
	} else {
		accepted = syscall(SYS_accept4, dropper->fd, NULL, NULL, 0);
		if (accepted >= 0)
			syscall(SYS_close, accepted);
		syscall(SYS_close, dropper->filler);
		syscall(SYS_listen, dropper->fd, SOCKET_BACKLOG);
	}
	syscall(SYS_close, dropper->fd);
	free(dropper);
	return NULL;
}

/* Some kernels let only root attach a filter. A listener whose queue is full drops SYNs as well. */
static int fill_queue(int listener)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	int filler = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (filler < 0)
		return -1;
	if (syscall(SYS_listen, listener, 0) || syscall(SYS_getsockname, listener, &at, &len) ||
	    syscall(SYS_connect, filler, &at, len)) {
		syscall(SYS_close, filler);
		syscall(SYS_listen, listener, SOCKET_BACKLOG);
		return -1;
	}
	return filler;
}

static bool start_dropping(struct dropper *dropper)
{
	struct sock_filter drop = { BPF_RET | BPF_K, 0, 0, 0 };
	struct sock_fprog program = { 1, &drop };

	dropper->filler = -1;
	if (!syscall(SYS_setsockopt, dropper->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		return true;
	dropper->filler = fill_queue(dropper->fd);
	return dropper->filler >= 0;
}

/* As a firewall does: SYNs are dropped without an answer, later they pass. */
void socket_drop_syns(int listener)
{
	long ms = nccl_env("SIMGPU_NCCL_SYN_DROP_MS", 0);
	struct dropper *dropper;
	pthread_attr_t attr;
	pthread_t thread;

	if (!ms)
		return;
	dropper = malloc(sizeof(*dropper));
	if (!dropper)
		return;
	dropper->until_ns = sg_now() + (uint64_t)ms * 1000000;
	/* a descriptor of its own: the communicator may be closed meanwhile */
	dropper->fd = (int)syscall(SYS_fcntl, listener, F_DUPFD_CLOEXEC, 200L);
	if (dropper->fd < 0 || !start_dropping(dropper)) {
		nccl_log("WARN", "SIMGPU_NCCL_SYN_DROP_MS: this machine lets SYNs not be dropped: %s", strerror(errno));
		if (dropper->fd >= 0)
			syscall(SYS_close, dropper->fd);
		free(dropper);
		return;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, undrop, dropper))
		undrop(dropper);
	pthread_attr_destroy(&attr);
}

void socket_pace(int fd)
{
	long mbs = nccl_env("SIMGPU_NCCL_PACING_MBS", 0);
	uint64_t rate = (uint64_t)mbs * 1000000;

	if (mbs)
		syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
}
