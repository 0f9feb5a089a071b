/* SPDX-License-Identifier: Apache-2.0
 *
 * What each descriptor is, found out on first use and forgotten when the number is closed or given out anew. A static table, lock-free.
 */
#ifndef WHYIDLE_SHIM_FDTAB_H
#define WHYIDLE_SHIM_FDTAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FDTAB_SIZE 65536	/* descriptors above are passed through unseen */

enum fd_class {
	FD_UNKNOWN,		/* zero: not looked at yet */
	FD_FILTERED,		/* character devices, /proc and /sys, our own: nothing is recorded */
	FD_FOLDED,		/* interpreter start-up noise: added up */
	FD_FILE,		/* regular file, directory, block device */
	FD_PIPE,
	FD_UNIX,
	FD_TCP,
	FD_UDP,
	FD_OTHER,		/* eventfd, epoll, other sockets */
};

enum fd_dir { FD_READS, FD_WRITES };
enum fd_role { ROLE_UNKNOWN, ROLE_OTHER, ROLE_NCCL, ROLE_NCCL_BOOTSTRAP };

/* Relaxed atomics: each field alone is enough, but `id`, which ties generation and class together. */
struct fd_entry {
	_Atomic uint32_t id;		/* generation << 8 | enum fd_class; changed by compare-and-swap */
	_Atomic uint8_t nonblock;	/* O_NONBLOCK when last looked at */
	_Atomic uint8_t active;		/* TCP: moved bytes since the drain last looked */
	_Atomic uint8_t listed;		/* TCP: in the drain's list */
	_Atomic uint8_t role;		/* enum fd_role */
	_Atomic uint64_t target;	/* see target.c; counts while its generation is the present one */
	_Atomic uint64_t since[2];	/* by enum fd_dir: start of the row of EAGAINs, 0 = the last try made progress */
	_Atomic uint32_t tries[2];
	_Atomic uint64_t hello;		/* TCP: the connection's first 8 bytes ... */
	_Atomic uint8_t hello_len;	/* ... and how many of the first 12 have been seen, 0xff done */
	_Atomic uint8_t hello_dir;
	/* Written by the thread that connects before the call; another reads them only of a connect that is under way. */
	_Atomic uint8_t peer_family;		/* where a connect goes: the kernel tells only once it is there. AF_INET, AF_INET6, 0 unknown */
	_Atomic uint16_t peer_port;		/* network order, as the address */
	_Atomic uint32_t peer[4];
};

extern _Atomic(struct fd_entry *) fdtab __attribute__((visibility("hidden")));

/* Maps the table. Idempotent; without it nothing about descriptors is recorded. */
void fdtab_init(void);

static inline struct fd_entry *fdtab_entry(int fd)
{
	struct fd_entry *t = atomic_load_explicit(&fdtab, memory_order_relaxed);	/* set in the constructor */

	return t && (unsigned)fd < FDTAB_SIZE ? &t[fd] : NULL;
}

static inline enum fd_class fd_class_of(uint32_t id)
{
	return (enum fd_class)(id & 0xff);
}

static inline uint32_t fd_generation(const struct fd_entry *e)
{
	return atomic_load_explicit(&e->id, memory_order_relaxed) >> 8;
}

/* Looks at the descriptor and remembers its class. Keeps errno. */
enum fd_class fdtab_classify(int fd, struct fd_entry *e);

/* The class, looked up when unknown; FD_FILTERED for a number outside the table. */
static inline enum fd_class fdtab_class(int fd)
{
	struct fd_entry *e = fdtab_entry(fd);
	enum fd_class c = e ? fd_class_of(atomic_load_explicit(&e->id, memory_order_relaxed)) : FD_FILTERED;

	return c == FD_UNKNOWN ? fdtab_classify(fd, e) : c;
}

/* The number means something else from now on (closed, or just given out). */
void fdtab_forget(int fd);
void fdtab_forget_range(unsigned first, unsigned last);

/* A path was opened as `fd` (ignored when negative): forgets the number; notes folded and filtered paths by name. */
void fdtab_opened(int fd, const char *path);

/* Marks one of the shim's own descriptors. */
void fdtab_own(int fd);

/* Is reading this path interpreter start-up noise? */
bool fdtab_is_noise(const char *path);

struct sockaddr;
/* Remembers where a connect of this descriptor goes. `len` bytes at `to`, which may be anything. */
void fdtab_connecting(struct fd_entry *e, const struct sockaddr *to, unsigned len);

/* Looks at the first bytes of a TCP connection until its role is known. */
void fdtab_hello(struct fd_entry *e, enum fd_dir dir, const void *buf, size_t n);

/* Writes "/proc/self/fd/N" into `name` (at least 32 bytes). */
void fdtab_link_name(int fd, char *name);

#endif
