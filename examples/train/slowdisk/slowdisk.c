// SPDX-License-Identifier: Apache-2.0
//
// libslowdisk.so: makes the files under one directory as slow as a tired disk, for programs linked with it.
//
// It stands between the program and libc: read, pread, write and fsync of such a file first spend the time that the disk
// would take, asleep in a bare system call, then do the real call. Whatever is preloaded comes before it and sees a slow call,
// as it would with a slow disk. Everything else costs one comparison, or a readlink where a directory is set.
//
// It is one disk, however many processes use it: what they ask for is served one after the other.
//
//	SLOWDISK_DIR		directory, with an absolute path; unset = nothing is slow. The disk's state is kept in its file .slowdisk
//	SLOWDISK_READ_US	a read takes so long, us	SLOWDISK_READ_MBS	and its rate, MB/s (0 = no limit)
//	SLOWDISK_WRITE_US	a write				SLOWDISK_WRITE_MBS
//	SLOWDISK_FSYNC_US	an fsync: asleep, but others are served meanwhile

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static struct {
	const char *dir;
	size_t len;
	double read_us, read_mbs, write_us, write_mbs, fsync_us;
	_Atomic int64_t *busy_until;	/* shared by all processes, CLOCK_MONOTONIC ns */
} disk;

static double number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtod(text, NULL) : 0;
}

/* Bare system calls: this may run in a constructor, before others are ready. Without the file each process has a disk of its own. */
static void share(const char *dir)
{
	static _Atomic int64_t own;
	char path[512];
	size_t len = strlen(dir);
	long fd, map;

	disk.busy_until = &own;
	if (len > sizeof(path) - sizeof("/.slowdisk"))
		return;
	memcpy(path, dir, len);
	memcpy(path + len, "/.slowdisk", sizeof("/.slowdisk"));
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (!syscall(SYS_ftruncate, fd, sizeof(own))) {
		map = syscall(SYS_mmap, NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map != -1)
			disk.busy_until = (void *)map;
	}
	syscall(SYS_close, fd);
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
	if (disk.dir && !disk.busy_until)
		share(dir);
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

static void spend(double us, size_t bytes, double mbs, bool shared)
{
	struct timespec ts;
	int64_t now, before, end;

	if (mbs > 0)
		us += (double)bytes / mbs;
	if (us <= 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = ts.tv_sec * 1000000000LL + ts.tv_nsec;
	if (shared) {	/* waits its turn */
		before = atomic_load_explicit(disk.busy_until, memory_order_relaxed);
		do
			end = (before > now ? before : now) + (int64_t)(us * 1e3);
		while (!atomic_compare_exchange_weak_explicit(disk.busy_until, &before, end, memory_order_relaxed, memory_order_relaxed));
	} else {
		end = now + (int64_t)(us * 1e3);
	}
	ts.tv_sec = end / 1000000000;
	ts.tv_nsec = end % 1000000000;
	while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) < 0 && errno == EINTR)
		;
}

static void slow(int fd, double us, size_t bytes, double mbs, bool shared)
{
	int err = errno;

	if (on_disk(fd))
		spend(us, bytes, mbs, shared);
	errno = err;
}

#define REAL(name) \
	static __typeof__(&name) real; \
	if (!real) \
		__atomic_store_n(&real, (__typeof__(&name))dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED)

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	REAL(read);
	slow(fd, disk.read_us, n, disk.read_mbs, true);
	return real(fd, buf, n);
}

EXPORT ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	REAL(pread);
	slow(fd, disk.read_us, n, disk.read_mbs, true);
	return real(fd, buf, n, at);
}

EXPORT ssize_t pread64(int fd, void *buf, size_t n, off64_t at)
{
	REAL(pread64);
	slow(fd, disk.read_us, n, disk.read_mbs, true);
	return real(fd, buf, n, at);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	REAL(write);
	slow(fd, disk.write_us, n, disk.write_mbs, true);
	return real(fd, buf, n);
}

EXPORT int fsync(int fd)
{
	REAL(fsync);
	slow(fd, disk.fsync_us, 0, 0, false);
	return real(fd);
}
