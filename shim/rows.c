/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the real functions of all rows.
 */
#include "shim/rows.h"

#include <errno.h>
#include <string.h>

#include "shim/resolve.h"
#include "shim/sys.h"
#include "shim/thread.h"

extern const struct row file_rows[], net_rows[], wait_rows[], proc_rows[];

const struct row *const rows_groups[] = { file_rows, net_rows, wait_rows, proc_rows, NULL };

static long to_errno(long r)
{
	if (r < 0 && r > -4096) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

static ssize_t bare_read(int fd, void *buf, size_t n)
{
	return to_errno(sys_read(fd, buf, n));
}

static ssize_t bare_write(int fd, const void *buf, size_t n)
{
	return to_errno(sys_write(fd, buf, n));
}

static int bare_open(const char *path, int flags, unsigned mode)
{
	return (int)to_errno(sys_open(path, flags, mode));
}

static int bare_openat(int dir, const char *path, int flags, unsigned mode)
{
	return (int)to_errno(sys_openat(dir, path, flags, mode));
}

static int bare_close(int fd)
{
	return (int)to_errno(sys_close(fd));
}

static void *bare_mmap(void *p, size_t len, int prot, int flags, int fd, off_t off)
{
	return (void *)to_errno(sys6(SYS_mmap, SYS_L(p), SYS_L(len), prot, flags, fd, off));
}

static void *stand_in(const char *name)
{
	static const struct { const char *name; void *fn; } bare[] = {
		{ "read", (void *)bare_read }, { "write", (void *)bare_write }, { "close", (void *)bare_close },
		{ "open", (void *)bare_open }, { "open64", (void *)bare_open },
		{ "openat", (void *)bare_openat }, { "openat64", (void *)bare_openat },
		{ "mmap", (void *)bare_mmap }, { "mmap64", (void *)bare_mmap },
	};
	unsigned i;

	for (i = 0; i < sizeof(bare) / sizeof(bare[0]); i++)
		if (strcmp(bare[i].name, name) == 0)
			return bare[i].fn;
	return NULL;
}

void *rows_find(const char *name, void **real)
{
	void *p;

	if (tls.resolving)
		return stand_in(name);
	tls.resolving = true;
	/* Conditions have an old version with another layout, which a plain lookup may find. */
	p = strncmp(name, "pthread_cond_", 13) == 0 ? resolve_next_version(name, "GLIBC_2.3.2") : resolve_next(name);
	tls.resolving = false;
	if (p)
		__atomic_store_n(real, p, __ATOMIC_RELAXED);
	return p;
}

void rows_resolve(void)
{
	const struct row *const *group;
	const struct row *row;

	for (group = rows_groups; *group; group++)
		for (row = *group; row->name; row++)
			rows_find(row->name, row->real);
}
