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

static atomic_int ours[MOST];	/* 0 = free place */

static int floor_number(void)
{
	struct rlimit limit = { .rlim_cur = 1024 };

	sys6(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, SYS_L(&limit), 0, 0);
	if (limit.rlim_cur > LOWEST + MOST)
		return LOWEST;
	return limit.rlim_cur > 2 * MOST ? (int)limit.rlim_cur - MOST : (int)(limit.rlim_cur / 2 + 3);
}

static void note(int fd)
{
	unsigned i;

	for (i = 0; i < MOST; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong_explicit(&ours[i], &none, fd, memory_order_relaxed, memory_order_relaxed))
			break;
	}
	fdtab_own(fd);
}

static void unnote(int fd)
{
	unsigned i;

	for (i = 0; i < MOST; i++) {
		int seen = fd;

		if (atomic_compare_exchange_strong_explicit(&ours[i], &seen, 0, memory_order_relaxed, memory_order_relaxed))
			break;
	}
	fdtab_forget(fd);
}

int highfd_is_ours(int fd)
{
	unsigned i;

	if (fd < 3)
		return 0;
	for (i = 0; i < MOST; i++)
		if (atomic_load_explicit(&ours[i], memory_order_relaxed) == fd)
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
	note(high);
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
		int fd = atomic_load_explicit(&ours[i], memory_order_relaxed);

		if (!fd)
			continue;
		sys_close(fd);
		fdtab_forget(fd);
		atomic_store_explicit(&ours[i], 0, memory_order_relaxed);
	}
}
