// SPDX-License-Identifier: Apache-2.0
//
// libslowdisk.so: makes the files under one directory as slow as a tired disk, for programs linked with it.
//
// It stands between the program and libc: read, pread, write and fsync of such a file first spend the time that the disk
// would take, asleep in a bare system call, then do the real call. Whatever is preloaded comes before it and sees a slow call,
// as it would with a slow disk. Everything else costs one comparison, or a readlink where a directory is set.
//
//	SLOWDISK_DIR		directory, with an absolute path; unset = nothing is slow
//	SLOWDISK_READ_US	latency of a read, us		SLOWDISK_READ_MBS	and its rate, MB/s (0 = no limit)
//	SLOWDISK_WRITE_US	latency of a write		SLOWDISK_WRITE_MBS
//	SLOWDISK_FSYNC_US	latency of an fsync

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static struct {
	const char *dir;
	size_t len;
	double read_us, read_mbs, write_us, write_mbs, fsync_us;
} disk;

static double number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtod(text, NULL) : 0;
}

/* The environment is read when the program says so (it may set it first), else at start. */
EXPORT void slowdisk_configure(void);
EXPORT __attribute__((constructor)) void slowdisk_configure(void)
{
	const char *dir = getenv("SLOWDISK_DIR");

	disk.read_us = number("SLOWDISK_READ_US");
	disk.read_mbs = number("SLOWDISK_READ_MBS");
	disk.write_us = number("SLOWDISK_WRITE_US");
	disk.write_mbs = number("SLOWDISK_WRITE_MBS");
	disk.fsync_us = number("SLOWDISK_FSYNC_US");
	disk.len = dir ? strlen(dir) : 0;
	disk.dir = dir && *dir ? dir : NULL;
}

/* Decimal digits of fd behind "/proc/self/fd/": no stdio here, we may be anywhere. */
static bool on_disk(int fd)
{
	char link[32] = "/proc/self/fd/", path[512], *digit = link + sizeof("/proc/self/fd/") - 1;
	long len;
	int power = 1;

	if (!disk.dir || fd < 3)
		return false;
	while (fd / power >= 10)
		power *= 10;
	for (; power; power /= 10)
		*digit++ = (char)('0' + fd / power % 10);
	*digit = 0;
	len = syscall(SYS_readlink, link, path, sizeof(path));
	return len > (long)disk.len && !memcmp(path, disk.dir, disk.len) && path[disk.len] == '/';
}

static void spend(double us, size_t bytes, double mbs)
{
	struct timespec ts;

	if (mbs > 0)
		us += (double)bytes / mbs;
	if (us <= 0)
		return;
	ts.tv_sec = (time_t)(us / 1e6);
	ts.tv_nsec = (long)((us - (double)ts.tv_sec * 1e6) * 1e3);
	while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, &ts) < 0 && errno == EINTR)
		;
}

static void slow(int fd, double us, size_t bytes, double mbs)
{
	int err = errno;

	if (on_disk(fd))
		spend(us, bytes, mbs);
	errno = err;
}

#define REAL(name) \
	static __typeof__(&name) real; \
	if (!real) \
		__atomic_store_n(&real, (__typeof__(&name))dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED)

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	REAL(read);
	slow(fd, disk.read_us, n, disk.read_mbs);
	return real(fd, buf, n);
}

EXPORT ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	REAL(pread);
	slow(fd, disk.read_us, n, disk.read_mbs);
	return real(fd, buf, n, at);
}

EXPORT ssize_t pread64(int fd, void *buf, size_t n, off64_t at)
{
	REAL(pread64);
	slow(fd, disk.read_us, n, disk.read_mbs);
	return real(fd, buf, n, at);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	REAL(write);
	slow(fd, disk.write_us, n, disk.write_mbs);
	return real(fd, buf, n);
}

EXPORT int fsync(int fd)
{
	REAL(fsync);
	slow(fd, disk.fsync_us, 0, 0);
	return real(fd);
}
