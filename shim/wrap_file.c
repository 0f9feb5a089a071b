/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers of file functions, made from file.def; below them those written by hand. Runs in the traced thread.
 */
#undef _FORTIFY_SOURCE		/* inline functions of the headers bear the names that are defined here */
#define __NO_INLINE__ 1
#include "shim/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#undef fread_unlocked		/* macros in some modes */
#undef fwrite_unlocked

#include "shim/highfd.h"
#include "shim/seen.h"
#include "shim/tcp.h"

#define API ROWS_POINTER
#define HAND(name, call) static __typeof__(name) *real_##name;
#include "shim/file.def"
#undef API
#undef HAND

#define BEGIN_OPEN(path) seen_open(&seen, id, path)
#define END_OPEN(path) seen_open_end(&seen, r, path)
#define BEGIN_FOPEN(path) seen_open(&seen, id, path)
#define END_FOPEN(path) seen_open_end(&seen, r ? r->_fileno : -1, path)
#define BEGIN_IO(fd, dir, buf) seen_io(&seen, id, fd, dir, false)
#define END_IO(fd, dir, buf) seen_io_end(&seen, r, buf)
#define BEGIN_STREAM(fp, bytes, failed) seen_stream(&seen, id, fp)
#define END_STREAM(fp, bytes, failed) seen_stream_end(&seen, bytes, failed)
#define BEGIN_FD(fd) seen_fd(&seen, id, fd)
#define END_FD(fd) seen_fd_end(&seen, r != 0)
#define BEGIN_LOCK(waits, fd) ((waits) && seen_fd(&seen, id, fd))
#define END_LOCK(waits, fd) seen_fd_end(&seen, r != 0)
#define BEGIN_PLAIN() seen_wait(&seen, id, TARGET_NONE, 0)
#define END_PLAIN() seen_fd_end(&seen, r != 0)
#define BEGIN_MAP(n, flags, fd) (!((flags) & MAP_ANONYMOUS) && fd >= 0 && seen_fd(&seen, id, fd))
#define END_MAP(n, flags, fd) map_end(&seen, r != MAP_FAILED, n)

/* A mapped file is read by page faults, which nothing here sees: the mapping itself is the only word of it. */
static void map_end(struct seen *v, bool ok, size_t n)
{
	v->span.always = ok && v->class == FD_FILE;
	v->span.bytes = ok ? (int64_t)n : -1;
	seen_fd_end(v, !ok);
}

#define API ROWS_WRAP
#define HAND(name, call)
#include "shim/file.def"
#undef API
#undef HAND

const struct row file_rows[] = {
#define API ROWS_ENTRY
#define HAND ROWS_HAND_ENTRY
#include "shim/file.def"
#undef API
#undef HAND
	{ NULL, CALL_NONE, NULL },
};

/* The mode is there only when the flags say so; reading it when it is not gives a number that nobody uses. */
#define OPEN_MODE(flags) \
	mode_t mode = 0; \
	if ((flags) & (O_CREAT | __O_TMPFILE)) { \
		va_list ap; \
		va_start(ap, flags); \
		mode = va_arg(ap, mode_t); \
		va_end(ap); \
	}

#define OPEN_BODY(name, path, args) \
	__typeof__(real_##name) real = REAL(name); \
	struct seen seen; \
	int fd; \
	if (!real) { \
		errno = ENOSYS; \
		return -1; \
	} \
	if (!seen_open(&seen, CALL_##name, path)) \
		return real args; \
	fd = real args; \
	seen_open_end(&seen, fd, path); \
	return fd;

EXPORT int open(const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	OPEN_BODY(open, path, (path, flags, mode))
}

EXPORT int open64(const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	OPEN_BODY(open64, path, (path, flags, mode))
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	OPEN_BODY(openat, path, (dir, path, flags, mode))
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
	OPEN_MODE(flags)
	OPEN_BODY(openat64, path, (dir, path, flags, mode))
}

/* Descriptors of ours do not exist for the host: closing them answers as for a number that is not open. */
static bool is_hidden(int fd)
{
	return fd >= 3 && seen_on() && fdtab_class(fd) == FD_FILTERED && highfd_is_ours(fd);
}

static void before_close(struct seen *seen, int fd)
{
	if (seen->class == FD_TCP)
		tcp_last_words(fd);
	fdtab_forget(fd);	/* before the call: afterwards the number may already be another thread's */
}

EXPORT int close(int fd)
{
	struct fd_entry *e = fdtab_entry(fd);
	struct seen seen;
	int r;

	if (is_hidden(fd)) {
		errno = EBADF;
		return -1;
	}
	/* Never looked at: nothing to record of its end, and nothing to look up in a loop over all numbers. */
	if (!seen_on() || !e || !(atomic_load_explicit(&e->id, memory_order_relaxed) & 0xff) || !seen_fd(&seen, CALL_close, fd)) {
		fdtab_forget(fd);
		return REAL(close)(fd);
	}
	span_name_target(&seen.span);
	before_close(&seen, fd);
	r = REAL(close)(fd);
	seen_fd_end(&seen, r != 0);
	return r;
}

EXPORT int fclose(FILE *fp)
{
	struct seen seen;
	int r;

	if (!seen_stream(&seen, CALL_fclose, fp)) {
		if (fp && fp->_fileno >= 0)
			fdtab_forget(fp->_fileno);
		return REAL(fclose)(fp);
	}
	span_name_target(&seen.span);
	before_close(&seen, fp->_fileno);
	r = REAL(fclose)(fp);
	seen_fd_end(&seen, r != 0);
	return r;
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	__typeof__(real_close_range) real = REAL(close_range);

	if (!real) {
		errno = ENOSYS;
		return -1;
	}
	if (seen_on() && !(flags & CLOSE_RANGE_CLOEXEC))
		fdtab_forget_range(first, last);
	return real(first, last, flags);
}

EXPORT void closefrom(int lowest)
{
	if (seen_on())
		fdtab_forget_range(lowest < 0 ? 0 : (unsigned)lowest, ~0u);
	REAL(closefrom)(lowest);
}

/* The rest gives out numbers. Only in a process that is recorded, and not between vfork and exec, where the table is our parent's. */
static int given(int fd)
{
	if (fd >= 0 && seen_on())
		fdtab_forget(fd);
	return fd;
}

EXPORT int dup(int fd)
{
	return given(REAL(dup)(fd));
}

EXPORT int dup2(int fd, int to)
{
	return given(REAL(dup2)(fd, to));
}

EXPORT int dup3(int fd, int to, int flags)
{
	return given(REAL(dup3)(fd, to, flags));
}

#define FCNTL_BODY(name) \
	va_list ap; \
	long arg; \
	int r; \
	va_start(ap, cmd); \
	arg = va_arg(ap, long);		/* as libc itself does: the argument is an int or a pointer, or not there */ \
	va_end(ap); \
	r = REAL(name)(fd, cmd, arg); \
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) \
		given(r); \
	else if (cmd == F_SETFL && r == 0 && seen_on() && fdtab_entry(fd)) \
		atomic_store_explicit(&fdtab_entry(fd)->nonblock, (arg & O_NONBLOCK) != 0, memory_order_relaxed); \
	return r;

EXPORT int fcntl(int fd, int cmd, ...)
{
	FCNTL_BODY(fcntl)
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	FCNTL_BODY(fcntl64)
}

EXPORT int pipe(int fds[2])
{
	int r = REAL(pipe)(fds);

	if (r == 0) {
		given(fds[0]);
		given(fds[1]);
	}
	return r;
}

EXPORT int pipe2(int fds[2], int flags)
{
	int r = REAL(pipe2)(fds, flags);

	if (r == 0) {
		given(fds[0]);
		given(fds[1]);
	}
	return r;
}
