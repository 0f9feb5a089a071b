/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for what calls touch. For descriptors: a link in /proc, or the socket's two ends; once per generation of the number.
 */
#include "shim/target.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "shim/fdtab.h"
#include "shim/ring.h"
#include "shim/span.h"
#include "shim/strings.h"
#include "shim/sys.h"
#include "shim/text.h"

#pragma GCC poison malloc calloc realloc free printf fprintf

#define PATH_ROOM 2048

static void put_v6(struct text_out *o, const struct in6_addr *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	unsigned i;

	if (memcmp(a->s6_addr, mapped, 12) == 0) {
		for (i = 12; i < 16; i++) {
			text_uint(o, a->s6_addr[i]);
			if (i < 15)
				text_str(o, ".");
		}
		return;
	}
	text_str(o, "[");
	for (i = 0; i < 16; i += 2) {
		text_hex(o, (unsigned)a->s6_addr[i] << 8 | a->s6_addr[i + 1]);
		if (i < 14)
			text_str(o, ":");
	}
	text_str(o, "]");
}

static void put_address(struct text_out *o, const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)ss;
		uint32_t a = ntohl(in->sin_addr.s_addr);
		int shift;

		for (shift = 24; shift >= 0; shift -= 8) {
			text_uint(o, a >> shift & 255);
			text_str(o, shift ? "." : ":");
		}
		text_uint(o, ntohs(in->sin_port));
	} else if (ss->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)ss;

		put_v6(o, &in->sin6_addr);
		text_str(o, ":");
		text_uint(o, ntohs(in->sin6_port));
	} else {
		text_str(o, "?");
	}
}

/* Where a connect that has not arrived goes. */
static bool sought(const struct fd_entry *e, struct sockaddr_storage *ss)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	uint8_t family = e ? atomic_load_explicit(&e->peer_family, memory_order_acquire) : 0;	/* pairs with set_peer */
	uint32_t words[4];
	uint16_t port;
	unsigned i;

	if (!family)
		return false;
	for (i = 0; i < 4; i++)
		words[i] = atomic_load_explicit(&e->peer[i], memory_order_relaxed);
	port = atomic_load_explicit(&e->peer_port, memory_order_relaxed);
	ss->ss_family = family;
	if (family == AF_INET) {
		memcpy(&in->sin_addr, words, 4);
		in->sin_port = port;
	} else {
		memcpy(&in6->sin6_addr, words, 16);
		in6->sin6_port = port;
	}
	return true;
}

/* False while the socket has no address at all yet. */
static bool put_ends(struct text_out *o, int fd)
{
	struct sockaddr_storage ss = { .ss_family = 0 };
	socklen_t len = sizeof(ss);

	if (sys6(SYS_getsockname, fd, SYS_L(&ss), SYS_L(&len), 0, 0, 0) != 0)
		return false;
	put_address(o, &ss);
	len = sizeof(ss);
	ss.ss_family = 0;
	if (sys6(SYS_getpeername, fd, SYS_L(&ss), SYS_L(&len), 0, 0, 0) == 0 || sought(fdtab_entry(fd), &ss)) {
		text_str(o, "->");
		put_address(o, &ss);
	}
	return true;
}

/* From the kernel's link: "/path", "pipe:[1]", "socket:[1]", "anon_inode:[eventfd]". */
static bool put_link(struct text_out *o, int fd, enum fd_class c)
{
	char name[32], path[PATH_ROOM];
	long n;

	fdtab_link_name(fd, name);
	n = sys_readlink(name, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = 0;
	if (c == FD_UNIX && strncmp(path, "socket:", 7) == 0) {
		text_str(o, "unix:");
		text_str(o, path + 7);
	} else if (strncmp(path, "anon_inode:", 11) == 0) {
		size_t at = path[11] == '[';

		text_str(o, "fd:");
		text_bytes(o, path + 11 + at, strcspn(path + 11 + at, "]"));
	} else if (strncmp(path, "socket:", 7) == 0) {
		text_str(o, "fd:socket");
	} else if (c == FD_PIPE && path[0] == '/') {
		struct stat st;		/* a FIFO with a name: both ends must have one word */

		if (sys6(SYS_fstat, fd, SYS_L(&st), 0, 0, 0, 0) != 0)
			return false;
		text_str(o, "pipe:[");
		text_uint(o, st.st_ino);
		text_str(o, "]");
	} else {
		if (c == FD_FILTERED && strncmp(path, "/dev/", 5) == 0)
			text_str(o, "dev:");
		text_str(o, path);
	}
	return true;
}

static uint64_t make(int fd, enum fd_class c)
{
	char buf[PATH_ROOM + 64];
	struct text_out o = text_out(buf, sizeof(buf));
	bool ok;

	if (c == FD_TCP || c == FD_UDP) {
		text_str(&o, c == FD_TCP ? "tcp:" : "udp:");
		ok = put_ends(&o, fd);
	} else {
		ok = put_link(&o, fd, c);
	}
	return ok ? strings_target(buf, (size_t)(o.at - buf)) : 0;
}

/* An entry remembers its target beside the generation it was made for, both in one word: generation << 40 | target, in which a loose
 * string's mark is bit 39. */
#define ENTRY_LOOSE ((uint64_t)1 << 39)
#define ENTRY_VALUE (ENTRY_LOOSE - 1)

static uint64_t remembered(const struct fd_entry *e, uint32_t gen)
{
	uint64_t word = atomic_load_explicit(&e->target, memory_order_relaxed);
	uint64_t target = (word & ENTRY_VALUE) | (word & ENTRY_LOOSE ? STRINGS_LOOSE : 0);

	return word >> 40 == gen && strings_target_fresh(target) ? target : 0;
}

static void remember(struct fd_entry *e, uint32_t gen, uint64_t target)
{
	uint64_t word = (uint64_t)gen << 40 | (target & ENTRY_VALUE) | (target & STRINGS_LOOSE ? ENTRY_LOOSE : 0);

	atomic_store_explicit(&e->target, word, memory_order_relaxed);
}

uint64_t target_known(int fd)
{
	struct fd_entry *e = fdtab_entry(fd);

	return e ? remembered(e, fd_generation(e)) : 0;
}

uint64_t target_of_fd(int fd)
{
	struct fd_entry *e = fdtab_entry(fd);
	enum fd_class c;
	uint64_t target;
	uint32_t gen;

	if (!e)
		return 0;
	target = remembered(e, fd_generation(e));
	if (target)
		return target;
	c = fdtab_class(fd);
	gen = fd_generation(e);
	target = make(fd, c);
	if (target)
		remember(e, gen, target);
	return target;
}

/* Paths are made absolute, so that the word has the form of a path. */
static uint64_t target_of_path(const char *path)
{
	char buf[PATH_ROOM + PATH_ROOM];
	struct text_out o = text_out(buf, sizeof(buf));

	if (path[0] != '/') {
		if (sys6(SYS_getcwd, SYS_L(buf), PATH_ROOM, 0, 0, 0, 0) <= 0 || buf[0] != '/')
			return 0;
		o.at += strlen(buf);
		if (o.at[-1] != '/')
			text_str(&o, "/");
	}
	text_bytes(&o, path, strnlen(path, PATH_ROOM));
	return strings_target(buf, (size_t)(o.at - buf));
}

static void simple(uint32_t span_kind, uint64_t raw, uint8_t *kind, uint64_t *value)
{
	static const uint8_t kinds[] = {
		[TARGET_ADDR_SEM] = EVENT_TARGET_SEM,
		[TARGET_ADDR_COND] = EVENT_TARGET_COND,
		[TARGET_TID] = EVENT_TARGET_TID,
		[TARGET_PID] = EVENT_TARGET_PID,
		[TARGET_STRING] = EVENT_TARGET_NONE,
		[TARGET_PATH] = EVENT_TARGET_NONE,
	};

	*kind = span_kind < sizeof(kinds) ? kinds[span_kind] : EVENT_TARGET_NONE;
	*value = raw;
}

static void as_string(uint64_t target, uint8_t *kind, uint64_t *value)
{
	*kind = target ? EVENT_TARGET_STRING : EVENT_TARGET_NONE;
	*value = target;
}

void target_of_inflight(uint32_t span_kind, uint64_t raw, uint8_t *kind, uint64_t *value)
{
	if (span_kind == TARGET_STRING)
		as_string(raw, kind, value);
	else if (span_kind == TARGET_FD)
		as_string(target_of_fd((int)raw), kind, value);
	else
		simple(span_kind, raw, kind, value);
}

void target_of_span(const struct span *s, uint8_t *kind, uint64_t *value)
{
	if (s->target_kind == TARGET_PATH && s->target)
		as_string(target_of_path((const char *)s->target), kind, value);
	else
		target_of_inflight(s->target_kind, (uint64_t)s->target, kind, value);
}

uint32_t target_iid(uint8_t kind, uint64_t value)
{
	static const char *const words[] = {
		[EVENT_TARGET_SEM] = "sem:0x", [EVENT_TARGET_COND] = "cond:0x", [EVENT_TARGET_TID] = "thread:", [EVENT_TARGET_PID] = "pid:",
	};
	char text[32];
	struct text_out o = text_out(text, sizeof(text));

	if (kind == EVENT_TARGET_NONE || kind > EVENT_TARGET_PID)
		return 0;
	if (kind == EVENT_TARGET_STRING)
		return strings_target_iid(value);
	text_str(&o, words[kind]);
	text_base(&o, value, kind == EVENT_TARGET_SEM || kind == EVENT_TARGET_COND ? 16 : 10);
	return strings_target_iid(strings_target(text, (size_t)(o.at - text)));
}
