// SPDX-License-Identifier: Apache-2.0

#include "examples/train/netfault.h"

#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "examples/train/util.h"

#ifndef SO_DETACH_FILTER
#define SO_DETACH_FILTER 27
#endif
#define LOSS 0.98	/* of a burst: almost all, so that only a retransmission timer gets the connection going again */

enum { FDS = 1024 };

struct netfault {
	bool before[FDS];
	int fds[FDS], count;
	int64_t every_ns, burst_ns;
	uint64_t random;
	_Atomic bool stop;
	pthread_t thread;
};

/* Sets open[fd] for each descriptor of the process below FDS. */
static void list(bool *open)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	memset(open, 0, FDS * sizeof(*open));
	while (dir && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && fd >= 0 && fd < FDS && fd != dirfd(dir))
			open[fd] = true;
	}
	if (dir)
		closedir(dir);
}

static bool tcp_connected(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(int);
	int type;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) || type != SOCK_STREAM)
		return false;
	len = sizeof(peer);
	return !getpeername(fd, (struct sockaddr *)&peer, &len) && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

struct netfault *netfault_new(void)
{
	struct netfault *f = calloc(1, sizeof(*f));

	if (!f)
		die("out of memory");
	list(f->before);
	return f;
}

static void filter(const struct netfault *f, bool on)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)(LOSS * 4294967295.0), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { 4, code };
	int zero = 0;

	for (int i = 0; i < f->count; i++)
		if (on)
			syscall(SYS_setsockopt, f->fds[i], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
		else
			syscall(SYS_setsockopt, f->fds[i], SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof(zero));
}

/* Sleeps in pieces, so that stopping takes no longer than one. */
static bool pause_for(const struct netfault *f, int64_t ns)
{
	int64_t until = now_ns() + ns, left;

	while (!f->stop && (left = until - now_ns()) > 0)
		sleep_ns(left < 20000000 ? left : 20000000);
	return !f->stop;
}

static void *bursts(void *data)
{
	struct netfault *f = data;

	for (;;) {
		f->random = f->random * 6364136223846793005ull + 1442695040888963407ull;
		/* 0.75 to 1.25 of the period, so that bursts fall into all parts of a step */
		if (!pause_for(f, f->every_ns / 4 * 3 + (int64_t)((double)(f->random >> 33) / 2147483648.0 * (double)f->every_ns / 2)))
			break;
		filter(f, true);
		pause_for(f, f->burst_ns);
		filter(f, false);
	}
	return NULL;
}

void netfault_start(struct netfault *f, int64_t every_ns, int64_t burst_ns, unsigned int seed)
{
	bool open[FDS];

	list(open);
	for (int fd = 0; fd < FDS; fd++)
		if (open[fd] && !f->before[fd] && tcp_connected(fd)) {
			f->fds[f->count++] = fd;
			/* bbr hardly slows down for losses; not every machine allows cubic */
			if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5))
				setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
		}
	if (!f->count)
		die("found no connection to lose packets on");
	f->every_ns = every_ns;
	f->burst_ns = burst_ns;
	f->random = seed;
	if (pthread_create(&f->thread, NULL, bursts, f))
		die("cannot start a thread");
}

void netfault_stop(struct netfault *f)
{
	f->stop = true;
	if (f->every_ns)
		pthread_join(f->thread, NULL);
	free(f);
}
