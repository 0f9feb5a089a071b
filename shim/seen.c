/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of wrappers of descriptors. Runs in the traced thread: no allocation, no lock, no stdio.
 */
#include "shim/seen.h"

#include "shim/config.h"
#include "shim/sys.h"
#include "shim/tcp.h"

#pragma GCC poison malloc calloc realloc free printf fprintf

static uint8_t family_of(enum fd_class c)
{
	switch (c) {
	case FD_FILE:
		return SHORT_FILE;
	case FD_FOLDED:
		return SHORT_FOLDED;
	case FD_UNIX:
	case FD_TCP:
	case FD_UDP:
		return SHORT_SOCKET;
	default:
		return SHORT_OTHER;
	}
}

void seen_io_open(struct seen *v, enum call call)
{
	span_begin_at(&v->span, call, TARGET_FD, v->fd);
	v->span.family = family_of(v->class);
}

static void moved(struct seen *v, ssize_t result, const void *buf)
{
	if (v->class != FD_TCP)
		return;
	if (buf && atomic_load_explicit(&v->e->hello_len, memory_order_relaxed) != 0xff)
		fdtab_hello(v->e, v->dir, buf, (size_t)result);
	tcp_used(v->fd, v->e);
}

/* The end of a row of EAGAINs that began at `since`: one slice over all of it. */
static void row_ends(struct seen *v, ssize_t result, int err)
{
	uint64_t since = atomic_load_explicit(&v->e->since[v->dir], memory_order_relaxed);

	span_fill(&v->span, v->span.call);
	v->span.target_kind = TARGET_FD;
	v->span.target = v->fd;
	v->span.family = family_of(v->class);
	v->span.bytes = result;
	v->span.n = atomic_load_explicit(&v->e->tries[v->dir], memory_order_relaxed) + 1;
	atomic_store_explicit(&v->e->since[v->dir], 0, memory_order_relaxed);
	if (since && !err)
		span_since(&v->span, since);
}

/* The first EAGAIN after progress: from now on no clock until there is progress again. A blocking descriptor with a timeout
 * also ends in EAGAIN, after a wait that is a slice of its own. */
static bool row_begins(struct seen *v)
{
	uint64_t start = v->span.start_ns;

	if (!v->dontwait) {
		int flags = sys_fcntl(v->fd, F_GETFL, 0);

		if (flags < 0 || !(flags & O_NONBLOCK))
			return false;
		atomic_store_explicit(&v->e->nonblock, 1, memory_order_relaxed);
	}
	if (!start || (!v->dontwait && now_ns() - start >= config.threshold_ns))
		return false;
	atomic_store_explicit(&v->e->since[v->dir], start, memory_order_relaxed);
	atomic_store_explicit(&v->e->tries[v->dir], 1, memory_order_relaxed);
	span_cancel(&v->span);
	return true;
}

void seen_io_done(struct seen *v, ssize_t result, const void *buf)
{
	int err = result < 0 ? errno : 0;

	if (result > 0)
		moved(v, result, buf);
	if (v->again) {
		row_ends(v, result, err);
		return;
	}
	if (err == EAGAIN && row_begins(v)) {
		errno = err;
		return;
	}
	v->span.bytes = result;
	v->span.always = v->span.limited = v->class == FD_PIPE;
	span_end(&v->span, err);
	if (err)
		errno = err;
}

bool seen_fd(struct seen *v, enum call call, int fd)
{
	enum fd_class c;

	if (!seen_on() || (c = fdtab_class(fd)) == FD_FILTERED)
		return false;
	v->fd = fd;
	v->e = fdtab_entry(fd);
	v->class = (uint8_t)c;
	seen_io_open(v, call);
	return true;
}

void seen_fd_end(struct seen *v, bool failed)
{
	int err = failed ? errno : 0;

	v->span.limited = true;
	span_end(&v->span, err);
	if (err)
		errno = err;
}

bool seen_stream(struct seen *v, enum call call, FILE *fp)
{
	/* The number directly: fileno() would set errno for a stream without one. */
	return fp && seen_fd(v, call, fp->_fileno);
}

void seen_stream_end(struct seen *v, int64_t bytes, bool failed)
{
	v->span.bytes = bytes;
	seen_fd_end(v, failed);
}

bool seen_open(struct seen *v, enum call call, const char *path)
{
	if (!seen_on() || !path)
		return false;
	span_begin(&v->span, call);
	v->span.family = fdtab_is_noise(path) ? SHORT_FOLDED : SHORT_FILE;
	v->span.limited = true;
	return true;
}

void seen_open_end(struct seen *v, int fd, const char *path)
{
	int err = fd < 0 ? errno : 0;

	fdtab_opened(fd, path);
	if (fd >= 0) {
		v->span.target_kind = TARGET_FD;
		v->span.target = fd;
	} else {
		v->span.target_kind = TARGET_PATH;
		v->span.target = (intptr_t)path;
	}
	span_end(&v->span, err);
	if (err)
		errno = err;
}
