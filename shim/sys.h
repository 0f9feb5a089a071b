/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls without libc: they touch neither errno nor a wrapper of ours, are no cancellation points, and return -errno.
 * Any thread, also between vfork and exec and before the constructor.
 */
#ifndef WHYIDLE_SHIM_SYS_H
#define WHYIDLE_SHIM_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
	int saved = errno;
	long ret = syscall(nr, a, b, c, d, e, f);

	if (ret == -1)
		ret = -errno;
	errno = saved;
	return ret;
#endif
}

#define SYS_L(x) ((long)(x))

static inline int sys_open(const char *path, int flags, unsigned mode)
{
	return (int)sys6(SYS_openat, AT_FDCWD, SYS_L(path), flags, mode, 0, 0);
}

static inline int sys_openat(int dir, const char *path, int flags, unsigned mode)
{
	return (int)sys6(SYS_openat, dir, SYS_L(path), flags, mode, 0, 0);
}

static inline int sys_close(int fd)
{
	return (int)sys6(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline long sys_read(int fd, void *buf, size_t n)
{
	return sys6(SYS_read, fd, SYS_L(buf), SYS_L(n), 0, 0, 0);
}

static inline long sys_pread(int fd, void *buf, size_t n, long off)
{
	return sys6(SYS_pread64, fd, SYS_L(buf), SYS_L(n), off, 0, 0);
}

static inline long sys_write(int fd, const void *buf, size_t n)
{
	return sys6(SYS_write, fd, SYS_L(buf), SYS_L(n), 0, 0, 0);
}

static inline int sys_fcntl(int fd, int cmd, long arg)
{
	return (int)sys6(SYS_fcntl, fd, cmd, arg, 0, 0, 0);
}

static inline long sys_readlink(const char *path, char *buf, size_t n)
{
	return sys6(SYS_readlinkat, AT_FDCWD, SYS_L(path), SYS_L(buf), SYS_L(n), 0, 0);
}

static inline int sys_pid(void)
{
	return (int)sys6(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static inline int sys_tid(void)
{
	return (int)sys6(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* Zeroed private memory, not reserved; NULL when there is none. */
static inline void *sys_map(size_t len)
{
	long p = sys6(SYS_mmap, 0, SYS_L(len), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p < 0 && p > -4096 ? NULL : (void *)p;
}

static inline void sys_unmap(void *p, size_t len)
{
	sys6(SYS_munmap, SYS_L(p), SYS_L(len), 0, 0, 0, 0);
}

/* Waits while *word == seen, at most `ns`. */
static inline void sys_futex_wait(const void *word, uint32_t seen, uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };

	sys6(SYS_futex, SYS_L(word), FUTEX_WAIT_PRIVATE, seen, SYS_L(&ts), 0, 0);
}

static inline void sys_futex_wake(const void *word)
{
	sys6(SYS_futex, SYS_L(word), FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
}

static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);		/* vDSO; never fails for the clocks used here */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

#endif
