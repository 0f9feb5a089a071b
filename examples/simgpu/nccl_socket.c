/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's way with sockets: non-blocking, busy, connect retried on the same descriptor, magic and type first.
 */
#include "examples/simgpu/nccl_internal.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { SPINS = 2000, PAUSE_NS = 100000 };

static __thread char last_log[256];

long nccl_env(const char *name, long fallback)
{
	const char *text = getenv(name);
	char *end;
	long value;

	if (!text || !*text)
		return fallback;
	value = strtol(text, &end, 10);
	return *end || value < 0 ? fallback : value;
}

void nccl_log(const char *level, const char *format, ...)
{
	const char *wanted = getenv("NCCL_DEBUG");
	bool warning = !strcmp(level, "WARN");
	va_list ap;

	va_start(ap, format);
	vsnprintf(last_log, sizeof(last_log), format, ap);
	va_end(ap);
	if (!wanted || !(!strcmp(wanted, "INFO") || !strcmp(wanted, "TRACE") || (warning && !strcmp(wanted, "WARN"))))
		return;
	printf("simgpu:%d:%d NCCL %s %s\n", (int)getpid(), (int)gettid(), level, last_log);
	fflush(stdout);
}

const char *nccl_last_log(void)
{
	return last_log;
}

/* The real one spins. So does this, for some 2 ms; then it leaves the CPU to others for a while each turn. */
void nccl_pause(unsigned int *idle)
{
	if (++*idle < SPINS)
		sched_yield();
	else
		sg_sleep_until(sg_now() + PAUSE_NS);
}

/* "=eth0,lo" exact names, "^docker" all but these prefixes, "eth" prefixes. */
static bool name_matches(const char *spec, const char *name)
{
	bool exclude = *spec == '^', exact = *spec == '=', found = false;
	size_t len;

	for (spec += exclude || exact; *spec && !found; spec += len + (spec[len] == ',')) {
		len = strcspn(spec, ",");
		found = len && !strncmp(spec, name, len) && (!exact || !name[len]);
	}
	return found != exclude;
}

int socket_local_address(struct sockaddr_in *out)
{
	const char *spec = getenv("NCCL_SOCKET_IFNAME");
	struct ifaddrs *list;
	int best = 0;

	if (getifaddrs(&list))
		return ncclSystemError;
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		int rank;

		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP))
			continue;
		if (spec && *spec && !name_matches(spec, i->ifa_name))
			continue;
		/* When nothing is said NCCL takes a real interface; here the loopback comes first: simulated ranks share one host. */
		rank = i->ifa_flags & IFF_LOOPBACK ? 3 : !strncmp(i->ifa_name, "docker", 6) ? 1 : 2;
		if (rank <= best)
			continue;
		best = rank;
		memcpy(out, i->ifa_addr, sizeof(*out));
	}
	freeifaddrs(list);
	out->sin_port = 0;
	if (!best)
		nccl_log("WARN", "no interface matches NCCL_SOCKET_IFNAME");
	return best ? 0 : ncclSystemError;
}

static int set_options(int fd)
{
	int one = 1, flags = fcntl(fd, F_GETFL);

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) || flags < 0 ||
	    fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return ncclSystemError;
	return 0;
}

int socket_listen(const struct sockaddr_in *at, int *fd, struct sockaddr_in *bound)
{
	socklen_t len = sizeof(*bound);
	int one = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (s < 0)
		return ncclSystemError;
	if ((at->sin_port && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one))) ||
	    bind(s, (const struct sockaddr *)at, sizeof(*at)) || getsockname(s, (struct sockaddr *)bound, &len) ||
	    set_options(s) || listen(s, SOCKET_BACKLOG)) {
		nccl_log("WARN", "listening on %s failed: %s", inet_ntoa(at->sin_addr), strerror(errno));
		close(s);
		return ncclSystemError;
	}
	*fd = s;
	return 0;
}

static bool aborted(const _Atomic bool *abort)
{
	return abort && atomic_load_explicit(abort, memory_order_relaxed);
}

/*
 * Whether a connect that failed with err for the attempt-th time is made again, and after how many ms. Until 2.23: refused,
 * each 1 ms, and a timeout thrice; since then all three together, with pauses that grow.
 */
static int retry_policy(int err, long attempt, long *pause_ms)
{
	enum { NEW_SINCE = 22400, OLD_REFUSED = 20000, OLD_TIMEOUT = 3 };
	long most = nccl_env("NCCL_SOCKET_RETRY_CNT", 34);

	if (err != ECONNREFUSED && err != ETIMEDOUT && err != EHOSTUNREACH)
		return ncclSystemError;
	*pause_ms = attempt * nccl_env("NCCL_SOCKET_RETRY_SLEEP_MSEC", 100);
	if (nccl_version() < NEW_SINCE) {
		*pause_ms = err == ECONNREFUSED;
		most = err == ECONNREFUSED ? OLD_REFUSED : err == ETIMEDOUT ? OLD_TIMEOUT - 1 : 0;
	}
	return attempt > most ? ncclRemoteError : 0;
}

/* One attempt: 0 or an errno; -1 when aborted. */
static int connect_once(int fd, const struct sockaddr_in *to, const _Atomic bool *abort)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int err = 0;

	if (!connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	for (;;) {
		int n = poll(&pfd, 1, 1);

		if (n > 0)
			break;
		if (n < 0 && errno != EINTR)
			return errno;
		if (aborted(abort))
			return -1;
	}
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? errno : err;
}

/* A socket whose connect failed is not used again: a fresh one takes over its number. */
static int renew(int fd)
{
	int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fresh < 0 || set_options(fresh) || dup2(fresh, fd) < 0) {
		if (fresh >= 0)
			close(fresh);
		return ncclSystemError;
	}
	close(fresh);
	return 0;
}

static void sleep_ms(long ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static int connect_retrying(int fd, const struct sockaddr_in *to, const _Atomic bool *abort)
{
	for (long attempt = 1;; attempt++) {
		int err = connect_once(fd, to, abort), rc;
		long pause_ms = 0;

		if (!err)
			return 0;
		if (err < 0)
			return ncclInternalError;
		nccl_log("INFO", "connect to %s:%d failed: %s, attempt %ld", inet_ntoa(to->sin_addr),
			 ntohs(to->sin_port), strerror(err), attempt);
		rc = retry_policy(err, attempt, &pause_ms);
		if (rc)
			return rc;
		sleep_ms(pause_ms);
		if (renew(fd))
			return ncclSystemError;
	}
}

int socket_send_all(int fd, const void *data, size_t bytes, const _Atomic bool *abort)
{
	const char *at = data;
	unsigned int idle = 0;

	while (bytes) {
		ssize_t n = send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			at += n;
			bytes -= (size_t)n;
			idle = 0;
		} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
			return ncclRemoteError;
		} else {
			if (aborted(abort))
				return ncclInternalError;
			nccl_pause(&idle);
		}
	}
	return 0;
}

int socket_recv_all(int fd, void *data, size_t bytes, const _Atomic bool *abort)
{
	unsigned int idle = 0;
	char *at = data;

	while (bytes) {
		ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);

		if (n > 0) {
			at += n;
			bytes -= (size_t)n;
			idle = 0;
		} else if (!n || (errno != EAGAIN && errno != EINTR)) {
			return ncclRemoteError;
		} else {
			if (aborted(abort))
				return ncclInternalError;
			nccl_pause(&idle);
		}
	}
	return 0;
}

int socket_connect(const struct sockaddr_in *to, uint64_t magic, int type, const _Atomic bool *abort, int *fd)
{
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;
	int32_t kind = type;

	if (s < 0)
		return ncclSystemError;
	rc = set_options(s);
	if (!rc)
		rc = connect_retrying(s, to, abort);
	if (!rc)
		rc = socket_send_all(s, &magic, sizeof(magic), abort);
	if (!rc)
		rc = socket_send_all(s, &kind, sizeof(kind), abort);
	if (rc) {
		close(s);
		return rc;
	}
	*fd = s;
	return 0;
}

int socket_accept(int listener, uint64_t magic, int type, const _Atomic bool *abort, int *fd)
{
	for (;;) {
		struct pollfd pfd = { .fd = listener, .events = POLLIN };
		uint64_t said_magic = 0;
		int32_t said_type = 0;
		int s;

		if (aborted(abort))
			return ncclInternalError;
		if (poll(&pfd, 1, 50) <= 0)
			continue;
		s = accept(listener, NULL, NULL);
		if (s < 0) {
			if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
				continue;
			return ncclSystemError;
		}
		fcntl(s, F_SETFD, FD_CLOEXEC);
		if (!set_options(s) && !socket_recv_all(s, &said_magic, sizeof(said_magic), abort) &&
		    said_magic == magic && !socket_recv_all(s, &said_type, sizeof(said_type), abort) &&
		    said_type == type) {
			*fd = s;
			return 0;
		}
		nccl_log("WARN", "a stranger connected to the port: wrong magic or type");
		close(s);
	}
}
