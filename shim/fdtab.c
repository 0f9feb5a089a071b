/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptor classes. Runs in traced threads: system calls without libc, no allocation, no lock.
 */
#include "shim/fdtab.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "shim/sys.h"

#pragma GCC poison malloc calloc realloc free printf fprintf

#define NCCL_NET_MAGIC 0x564ab9f2fc4b9d6cu	/* fixed in NCCL >= 2.16 for data connections; bootstrap's is random */

_Atomic(struct fd_entry *) fdtab;

void fdtab_init(void)
{
	if (!atomic_load_explicit(&fdtab, memory_order_relaxed))
		atomic_store_explicit(&fdtab, sys_map(FDTAB_SIZE * sizeof(struct fd_entry)), memory_order_release);
}

static bool ends_in(const char *s, size_t len, const char *suffix)
{
	size_t n = strlen(suffix);

	return len >= n && memcmp(s + len - n, suffix, n) == 0;
}

bool fdtab_is_noise(const char *path)
{
	size_t len = strlen(path);

	return ends_in(path, len, ".py") || ends_in(path, len, ".pyc") || strstr(path, "/site-packages/") ||
	       strstr(path, "/dist-packages/") || strstr(path, "/lib/python3");
}

static bool is_pseudo(const char *path)
{
	return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0;
}

static int socket_option(int fd, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	if (sys6(SYS_getsockopt, fd, SOL_SOCKET, option, SYS_L(&value), SYS_L(&len), 0) != 0)
		return -1;
	return value;
}

static enum fd_class class_of_socket(int fd)
{
	int domain = socket_option(fd, SO_DOMAIN), type = socket_option(fd, SO_TYPE);
	int protocol = socket_option(fd, SO_PROTOCOL);

	if (domain == AF_UNIX)
		return FD_UNIX;
	if (domain != AF_INET && domain != AF_INET6)
		return FD_OTHER;
	if (type == SOCK_STREAM && (protocol == IPPROTO_TCP || protocol == 262 /* IPPROTO_MPTCP */))
		return protocol == IPPROTO_TCP ? FD_TCP : FD_OTHER;
	return type == SOCK_DGRAM ? FD_UDP : FD_OTHER;
}

void fdtab_link_name(int fd, char *name)
{
	static const char head[] = "/proc/self/fd/";
	char digits[12];
	unsigned n = 0;

	memcpy(name, head, sizeof(head) - 1);
	name += sizeof(head) - 1;
	do
		digits[n++] = (char)('0' + fd % 10);
	while (fd /= 10);
	while (n)
		*name++ = digits[--n];
	*name = 0;
}

static enum fd_class class_of_file(int fd)
{
	char link[32], path[1024];
	long n;

	fdtab_link_name(fd, link);
	n = sys_readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return FD_FILE;
	path[n] = 0;
	if (is_pseudo(path))
		return FD_FILTERED;
	return fdtab_is_noise(path) ? FD_FOLDED : FD_FILE;
}

static enum fd_class look(int fd)
{
	struct stat st;

	if (sys6(SYS_fstat, fd, SYS_L(&st), 0, 0, 0, 0) != 0)
		return FD_UNKNOWN;
	if (S_ISSOCK(st.st_mode))
		return class_of_socket(fd);
	if (S_ISFIFO(st.st_mode))
		return FD_PIPE;
	if (S_ISCHR(st.st_mode))
		return FD_FILTERED;
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode))
		return class_of_file(fd);
	return FD_OTHER;
}

enum fd_class fdtab_classify(int fd, struct fd_entry *e)
{
	uint32_t id = atomic_load_explicit(&e->id, memory_order_relaxed);
	enum fd_class c = look(fd);
	int flags;

	if (c == FD_UNKNOWN)
		return FD_OTHER;	/* not open: the call itself will say so */
	flags = sys_fcntl(fd, F_GETFL, 0);
	atomic_store_explicit(&e->nonblock, flags >= 0 && (flags & O_NONBLOCK), memory_order_relaxed);
	/* Fails when the number was forgotten meanwhile: then the class is used once and looked up again. */
	if (fd_class_of(id) == FD_UNKNOWN)
		atomic_compare_exchange_strong_explicit(&e->id, &id, (id & ~0xffu) | c, memory_order_relaxed, memory_order_relaxed);
	return c;
}

static void set_class(struct fd_entry *e, enum fd_class c)
{
	uint32_t id = atomic_load_explicit(&e->id, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(&e->id, &id, ((id >> 8) + 1) << 8 | c, memory_order_relaxed, memory_order_relaxed))
		;
	atomic_store_explicit(&e->role, ROLE_UNKNOWN, memory_order_relaxed);
	atomic_store_explicit(&e->since[FD_READS], 0, memory_order_relaxed);
	atomic_store_explicit(&e->since[FD_WRITES], 0, memory_order_relaxed);
	atomic_store_explicit(&e->listed, 0, memory_order_relaxed);
	atomic_store_explicit(&e->active, 0, memory_order_relaxed);
	atomic_store_explicit(&e->hello_len, 0, memory_order_relaxed);
	atomic_store_explicit(&e->peer_family, 0, memory_order_relaxed);
}

void fdtab_forget(int fd)
{
	struct fd_entry *e = fdtab_entry(fd);

	/* A number never looked at has nothing to forget: spares touching the table in loops over all descriptors. */
	if (e && atomic_load_explicit(&e->id, memory_order_relaxed) & 0xff)
		set_class(e, FD_UNKNOWN);
}

void fdtab_forget_range(unsigned first, unsigned last)
{
	unsigned i;

	/* Loops over "all descriptors" need not touch the whole table: the numbers in use are small, or found by their class. */
	for (i = first; i <= last && i < FDTAB_SIZE; i++)
		fdtab_forget((int)i);
}

void fdtab_opened(int fd, const char *path)
{
	struct fd_entry *e = fdtab_entry(fd);

	if (!e)
		return;
	if (is_pseudo(path))
		set_class(e, FD_FILTERED);
	else if (fdtab_is_noise(path))
		set_class(e, FD_FOLDED);
	else
		fdtab_forget(fd);
}

void fdtab_own(int fd)
{
	struct fd_entry *e = fdtab_entry(fd);

	if (e)
		set_class(e, FD_FILTERED);
}

static void set_peer(struct fd_entry *e, int family, uint16_t port, const void *address, size_t len)
{
	uint32_t words[4] = { 0 };
	unsigned i;

	memcpy(words, address, len);
	for (i = 0; i < 4; i++)
		atomic_store_explicit(&e->peer[i], words[i], memory_order_relaxed);
	atomic_store_explicit(&e->peer_port, port, memory_order_relaxed);
	atomic_store_explicit(&e->peer_family, (uint8_t)family, memory_order_release);	/* pairs with sought() in target.c */
}

void fdtab_connecting(struct fd_entry *e, const struct sockaddr *to, unsigned len)
{
	if (to && len >= sizeof(struct sockaddr_in) && to->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)to;

		set_peer(e, AF_INET, in->sin_port, &in->sin_addr, 4);
	} else if (to && len >= sizeof(struct sockaddr_in6) && to->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)to;

		set_peer(e, AF_INET6, in->sin6_port, &in->sin6_addr, 16);
	} else {
		atomic_store_explicit(&e->peer_family, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&e->target, 0, memory_order_relaxed);
}

/* NCCL's client sends 8 bytes of magic, then 4 bytes of type: 1 bootstrap, 2 proxy, 3 data, 4 IB, 5 RAS. */
static enum fd_role role_of(uint64_t magic, uint32_t type)
{
	if (magic == NCCL_NET_MAGIC)
		return type == 3 ? ROLE_NCCL : ROLE_NCCL_BOOTSTRAP;
	if (type == 3)
		return ROLE_NCCL;
	return type >= 1 && type <= 5 ? ROLE_NCCL_BOOTSTRAP : ROLE_OTHER;
}

static void keep(struct fd_entry *e, const void *first8)
{
	uint64_t word;

	memcpy(&word, first8, 8);
	atomic_store_explicit(&e->hello, word, memory_order_relaxed);
}

void fdtab_hello(struct fd_entry *e, enum fd_dir dir, const void *buf, size_t n)
{
	uint8_t len = atomic_load_explicit(&e->hello_len, memory_order_relaxed);
	enum fd_role role = ROLE_OTHER;
	uint32_t type;

	if (!len)
		atomic_store_explicit(&e->hello_dir, (uint8_t)dir, memory_order_relaxed);
	if (len == 0xff || dir != atomic_load_explicit(&e->hello_dir, memory_order_relaxed) || !n)
		return;
	if (len == 0 && n == 8) {
		keep(e, buf);
		atomic_store_explicit(&e->hello_len, 8, memory_order_relaxed);
		return;
	}
	if (len == 8 && n == 4) {
		memcpy(&type, buf, 4);
		role = role_of(atomic_load_explicit(&e->hello, memory_order_relaxed), type);
	} else if (len == 0 && n >= 12) {
		keep(e, buf);
		memcpy(&type, (const char *)buf + 8, 4);
		if (atomic_load_explicit(&e->hello, memory_order_relaxed) == NCCL_NET_MAGIC)
			role = role_of(NCCL_NET_MAGIC, type);
	}
	atomic_store_explicit(&e->role, role, memory_order_relaxed);
	atomic_store_explicit(&e->hello_len, 0xff, memory_order_relaxed);
}
