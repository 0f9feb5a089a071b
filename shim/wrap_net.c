/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers of socket functions, made from net.def. Runs in the traced thread.
 */
#undef _FORTIFY_SOURCE		/* inline functions of the headers bear the names that are defined here */
#define __NO_INLINE__ 1
#include "shim/rows.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include "shim/seen.h"
#include "shim/strings.h"
#include "shim/tcp.h"
#include "shim/text.h"

#define API ROWS_POINTER
#define HAND(name, call) static __typeof__(name) *real_##name;
#include "shim/net.def"
#undef API
#undef HAND

#define BEGIN_NET(fd, dir, flags, buf) seen_io(&seen, id, fd, dir, (flags) & MSG_DONTWAIT)
#define END_NET(fd, dir, flags, buf) seen_io_end(&seen, r, buf)
#define BEGIN_MANY(fd, dir, flags) seen_io(&seen, id, fd, dir, (flags) & MSG_DONTWAIT)
#define END_MANY(fd, dir, flags) seen_io_end(&seen, r < 0 ? -1 : many_bytes(msgs, (unsigned)r), NULL)
#define BEGIN_LOOKUP(node) ((node) && seen_wait(&seen, id, TARGET_NONE, 0))
#define END_LOOKUP(node) lookup_end(&seen, r, node)
#define BEGIN_ACCEPT(fd) seen_io(&seen, id, fd, FD_READS, false)
#define END_ACCEPT(fd) accept_end(&seen, r)

static ssize_t many_bytes(const struct mmsghdr *msgs, unsigned n)
{
	ssize_t sum = 0;

	while (n--)
		sum += msgs[n].msg_len;
	return sum;
}

/* The listening descriptor is the target; the new number starts afresh. Waiting in a loop of EAGAIN is one wait, as for reads. */
/* Lookups are few: each may make its word. What fails, fails with a number of its own kind; only EAI_SYSTEM is told by errno. */
static void lookup_end(struct seen *v, int r, const char *node)
{
	char word[300];
	struct text_out o = text_out(word, sizeof(word));
	int saved = errno;

	text_str(&o, "host:");
	text_str(&o, node);
	v->span.target_kind = TARGET_STRING;
	v->span.target = (intptr_t)strings_target(word, (size_t)(o.at - word));
	span_end(&v->span, r == EAI_SYSTEM ? saved : 0);
	errno = saved;
}

static void accept_end(struct seen *v, int fd)
{
	int err = fd < 0 ? errno : 0;

	if (fd >= 0)
		fdtab_forget(fd);
	if (v->again || err == EAGAIN) {
		seen_io_end(v, fd < 0 ? -1 : 0, NULL);
		return;
	}
	span_end(&v->span, err);
	if (err)
		errno = err;
}

#define API ROWS_WRAP
#define HAND(name, call)
#include "shim/net.def"
#undef API
#undef HAND

const struct row net_rows[] = {
#define API ROWS_ENTRY
#define HAND ROWS_HAND_ENTRY
#include "shim/net.def"
#undef API
#undef HAND
	{ NULL, CALL_NONE, NULL },
};

/* Before the call, since it may hang: the connection is to be sampled meanwhile, and the call to be seen. */
static void connecting(int fd, struct fd_entry *e, const struct sockaddr *to, socklen_t len)
{
	fdtab_connecting(e, to, len);
	tcp_used(fd, e);
	if (atomic_load_explicit(&pulse, memory_order_relaxed) != PULSE_RUNNING)
		pulse_rouse(CALL_connect);
}

EXPORT int connect(int fd, const struct sockaddr *to, socklen_t len)
{
	struct fd_entry *e = fdtab_entry(fd);
	struct seen seen;
	int r;

	if (!seen_fd(&seen, CALL_connect, fd))
		return REAL(connect)(fd, to, len);
	if (seen.class == FD_TCP && e)
		connecting(fd, e, to, len);
	r = REAL(connect)(fd, to, len);
	/* The far end is known only now. */
	if (e)
		atomic_store_explicit(&e->target, 0, memory_order_relaxed);
	seen.span.always = true;
	{
		int err = r ? errno : 0;

		span_end(&seen.span, err);
		if (err)
			errno = err;
	}
	return r;
}

EXPORT int shutdown(int fd, int how)
{
	struct seen seen;
	int r;

	if (!seen_fd(&seen, CALL_shutdown, fd))
		return REAL(shutdown)(fd, how);
	if (seen.class == FD_TCP)
		tcp_last_words(fd);
	r = REAL(shutdown)(fd, how);
	seen_fd_end(&seen, r != 0);
	return r;
}

EXPORT int socket(int domain, int type, int protocol)
{
	int fd = REAL(socket)(domain, type, protocol);

	if (fd >= 0 && seen_on())
		fdtab_forget(fd);
	return fd;
}

EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
	int r = REAL(socketpair)(domain, type, protocol, fds);

	if (r == 0 && seen_on()) {
		fdtab_forget(fds[0]);
		fdtab_forget(fds[1]);
	}
	return r;
}
