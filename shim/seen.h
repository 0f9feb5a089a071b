/* SPDX-License-Identifier: Apache-2.0
 *
 * What wrappers of descriptors and streams do before and after the real call. Begin functions return false when the call is not
 * looked at at all: then there is nothing to end. End functions keep errno.
 */
#ifndef WHYIDLE_SHIM_SEEN_H
#define WHYIDLE_SHIM_SEEN_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "shim/fdtab.h"
#include "shim/pulse.h"
#include "shim/span.h"
#include "shim/thread.h"

struct seen {
	struct span span;
	struct fd_entry *e;
	int fd;
	uint8_t dir;		/* enum fd_dir */
	uint8_t class;		/* enum fd_class */
	bool again;		/* in a row of EAGAINs: no clock was read */
	bool dontwait;
};

/* Are calls of this thread looked at? Three loads. */
static inline bool seen_on(void)
{
	return atomic_load_explicit(&pulse_on, memory_order_relaxed) && !(tls.guard | tls.vforked | (uint32_t)tls.resolving);
}

void seen_io_open(struct seen *v, enum call call);

/* A read or write. `dontwait` = the call cannot block by its flags. The clock is left alone for filtered descriptors and in a row
 * of EAGAINs. */
static inline bool seen_io(struct seen *v, enum call call, int fd, enum fd_dir dir, bool dontwait)
{
	enum fd_class c;

	if (!seen_on() || (c = fdtab_class(fd)) == FD_FILTERED)
		return false;
	v->e = fdtab_entry(fd);
	v->fd = fd;
	v->dir = (uint8_t)dir;
	v->class = (uint8_t)c;
	v->dontwait = dontwait || atomic_load_explicit(&v->e->nonblock, memory_order_relaxed);
	v->again = v->dontwait && atomic_load_explicit(&v->e->since[dir], memory_order_relaxed);
	if (!v->again)
		seen_io_open(v, call);
	else
		v->span.call = call;
	return true;
}

void seen_io_done(struct seen *v, ssize_t result, const void *buf);

static inline void seen_io_end(struct seen *v, ssize_t result, const void *buf)
{
	if (v->again && result < 0 && errno == EAGAIN) {
		_Atomic uint32_t *tries = &v->e->tries[v->dir];

		atomic_store_explicit(tries, atomic_load_explicit(tries, memory_order_relaxed) + 1, memory_order_relaxed);
		return;
	}
	seen_io_done(v, result, buf);
}

/* Anything else on a descriptor that blocks or not, but has no direction: fsync, connect, accept. */
bool seen_fd(struct seen *v, enum call call, int fd);
void seen_fd_end(struct seen *v, bool failed);

/* Streams. `bytes` -1 = none. */
bool seen_stream(struct seen *v, enum call call, FILE *fp);
void seen_stream_end(struct seen *v, int64_t bytes, bool failed);

/* Opening by path; `fd` is the result, negative on failure. */
bool seen_open(struct seen *v, enum call call, const char *path);
void seen_open_end(struct seen *v, int fd, const char *path);

/* Waits without a descriptor. */
static inline bool seen_wait(struct seen *v, enum call call, enum span_target kind, intptr_t target)
{
	if (!seen_on())
		return false;
	span_begin_at(&v->span, call, kind, target);
	return true;
}

#endif
