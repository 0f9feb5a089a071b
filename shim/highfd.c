/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening at high descriptor numbers. Called from the drain thread only, but for highfd_is_ours.
 */
#include "shim/highfd.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "shim/fdtab.h"
#include "shim/sys.h"

#define LOWEST 900		/* above what select() and most hosts use, below the usual limit of 1024 */
#define MOST 128

/* `fd` 0 = free place. The rest is written by the drain before and read by the child of a fork. */
static struct { atomic_int fd; uint64_t dev, ino; } ours[MOST];

static int floor_number(void)
{
	struct rlimit limit = { .rlim_cur = 1024 };

	sys6(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, SYS_L(&limit), 0, 0);
	if (limit.rlim_cur > LOWEST + MOST)
		return LOWEST;
	return limit.rlim_cur > 2 * MOST ? (int)limit.rlim_cur - MOST : (int)(limit.rlim_cur / 2 + 3);
}

static void note(int fd, uint64_t dev, uint64_t ino)
{
	unsigned i;

	for (i = 0; i < MOST; i++) {
		int none = 0;

		if (!atomic_compare_exchange_strong_explicit(&ours[i].fd, &none, fd, memory_order_relaxed, memory_order_relaxed))
			continue;
		ours[i].dev = dev;
		ours[i].ino = ino;
		break;
	}
	fdtab_own(fd);
}

static void unnote(int fd)
{
	unsigned i;

	for (i = 0; i < MOST; i++) {
		int seen = fd;

		if (atomic_compare_exchange_strong_explicit(&ours[i].fd, &seen, 0, memory_order_relaxed, memory_order_relaxed))
			break;
	}
	fdtab_forget(fd);
}

void highfd_forget(struct highfd *h)
{
	if (h->fd)
		unnote(h->fd);
	h->fd = 0;
}

int highfd_is_ours(int fd)
{
	unsigned i;

	if (fd < 3)
		return 0;
	for (i = 0; i < MOST; i++)
		if (atomic_load_explicit(&ours[i].fd, memory_order_relaxed) == fd)
			return 1;
	return 0;
}

int highfd_open(struct highfd *h, const char *path, int flags, unsigned mode)
{
	struct stat st;
	int low = sys_open(path, flags | O_CLOEXEC | O_NOCTTY, mode), high;

	if (low < 0)
		return low;
	high = sys_fcntl(low, F_DUPFD_CLOEXEC, floor_number());
	sys_close(low);
	if (high < 0)
		return high;
	if (sys6(SYS_fstat, high, SYS_L(&st), 0, 0, 0, 0) != 0) {
		sys_close(high);
		return -EBADF;
	}
	h->fd = high;
	h->dev = st.st_dev;
	h->ino = st.st_ino;
	note(high, h->dev, h->ino);
	return 0;
}

int highfd_holds(const struct highfd *h)
{
	struct stat st;

	return h->fd && sys6(SYS_fstat, h->fd, SYS_L(&st), 0, 0, 0, 0) == 0 && st.st_dev == h->dev && st.st_ino == h->ino;
}

void highfd_close(struct highfd *h)
{
	if (!h->fd)
		return;
	if (highfd_holds(h))
		sys_close(h->fd);
	unnote(h->fd);
	h->fd = 0;
}

void highfd_fork_child(void)
{
	unsigned i;

	for (i = 0; i < MOST; i++) {
		int fd = atomic_load_explicit(&ours[i].fd, memory_order_relaxed);

		struct highfd h = { .fd = fd, .dev = ours[i].dev, .ino = ours[i].ino };

		if (!fd)
			continue;
		if (highfd_holds(&h))
			sys_close(fd);
		fdtab_forget(fd);
		atomic_store_explicit(&ours[i].fd, 0, memory_order_relaxed);
	}
}
