/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting inside the simulated GPU: raw system calls only. A real GPU waits in hardware, so none of this may be seen
 * by a library that is preloaded to watch libc's locks, semaphores and sleeps.
 */
#ifndef SIMGPU_FUTEX_H
#define SIMGPU_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word == value; may wake for no reason. Keeps errno. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
	errno = saved;
}

static inline void futex_wait_for(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
	errno = saved;
}

static inline void futex_wake(_Atomic uint32_t *word, int n)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
	errno = saved;
}

/* A mutex: 0 free, 1 held, 2 held and waited for. Not recursive. */
struct sg_lock {
	_Atomic uint32_t word;
};

static inline void sg_lock(struct sg_lock *lock)
{
	uint32_t seen = 0;

	if (atomic_compare_exchange_strong_explicit(&lock->word, &seen, 1, memory_order_acquire, memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire))
		futex_wait(&lock->word, 2);
}

static inline void sg_unlock(struct sg_lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		futex_wake(&lock->word, 1);
}

#endif
