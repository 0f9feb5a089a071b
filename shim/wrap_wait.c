/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers of functions that wait, and of those that end somebody's wait, made from wait.def. Runs in the traced thread.
 */
#undef _FORTIFY_SOURCE		/* inline functions of the headers bear the names that are defined here */
#define __NO_INLINE__ 1
#include "shim/rows.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/probe.h"
#include "shim/seen.h"

#define API ROWS_POINTER
#define HAND(name, call) static __typeof__(name) *real_##name;
#include "shim/wait.def"
#undef API
#undef HAND

static void end_with(struct seen *v, int err)
{
	int saved = errno;

	span_end(&v->span, err);
	errno = saved;
}

#define BEGIN_POLL(waits) ((waits) && begin_poll(&seen, id, fds, n))
#define END_POLL(waits) end_poll(&seen, fds, n, r)
#define BEGIN_SELECT(waits) ((waits) && begin_select(&seen, id, n, in, out))
#define END_SELECT(waits) end_select(&seen, n, in, out, r)
#define BEGIN_EPOLL(waits) ((waits) && seen_wait(&seen, id, TARGET_FD, fd))
#define END_EPOLL(waits) end_with(&seen, r < 0 ? errno : 0)
#define BEGIN_SEM(sem) seen_wait(&seen, id, TARGET_ADDR_SEM, (intptr_t)sem)
#define END_SEM(sem) end_with(&seen, r ? errno : 0)
#define BEGIN_COND(cond) seen_wait(&seen, id, TARGET_ADDR_COND, (intptr_t)cond)
#define END_COND(cond) end_with(&seen, r)
#define BEGIN_SLEEP(err) seen_wait(&seen, id, TARGET_NONE, 0)
#define END_SLEEP(err) end_with(&seen, err)
#define BEGIN_CHILD(pid, waits) ((waits) && seen_wait(&seen, id, (pid) > 0 ? TARGET_PID : TARGET_NONE, pid))
#define END_CHILD(pid, waits) end_child(&seen, r)
#define BEGIN_WAITID(kind, pid, info, options) \
	(!((options) & WNOHANG) && seen_wait(&seen, id, (kind) == P_PID ? TARGET_PID : TARGET_NONE, (intptr_t)(pid)))
#define END_WAITID(kind, pid, info, options) end_waitid(&seen, r, info)

/* Nothing to wait for is a sleep. */
static bool begin_poll(struct seen *v, enum call call, const struct pollfd *fds, nfds_t n)
{
	bool one = n && fds && fds[0].fd >= 0;

	return seen_wait(v, call, one ? TARGET_FD : TARGET_NONE, one ? fds[0].fd : 0);
}

static void end_poll(struct seen *v, const struct pollfd *fds, nfds_t n, int ready)
{
	nfds_t i;

	for (i = 0; ready > 0 && i < n; i++) {
		if (!fds[i].revents)
			continue;
		v->span.target_kind = TARGET_FD;
		v->span.target = fds[i].fd;
		break;
	}
	end_with(v, ready < 0 ? errno : 0);
}

static int first_in(int n, const fd_set *in, const fd_set *out)
{
	int i;

	for (i = 0; i < n && i < FD_SETSIZE; i++)
		if ((in && FD_ISSET(i, in)) || (out && FD_ISSET(i, out)))
			return i;
	return -1;
}

static bool begin_select(struct seen *v, enum call call, int n, const fd_set *in, const fd_set *out)
{
	int fd;

	if (!seen_on())
		return false;
	fd = first_in(n, in, out);
	return seen_wait(v, call, fd >= 0 ? TARGET_FD : TARGET_NONE, fd);
}

static void end_select(struct seen *v, int n, const fd_set *in, const fd_set *out, int ready)
{
	int saved = errno, fd = ready > 0 ? first_in(n, in, out) : -1;

	if (fd >= 0) {
		v->span.target_kind = TARGET_FD;
		v->span.target = fd;
	}
	errno = saved;
	end_with(v, ready < 0 ? errno : 0);
}

static void end_child(struct seen *v, pid_t pid)
{
	if (pid > 0) {
		v->span.target_kind = TARGET_PID;
		v->span.target = pid;
	}
	end_with(v, pid < 0 ? errno : 0);
}

static void end_waitid(struct seen *v, int r, const siginfo_t *info)
{
	end_child(v, r < 0 ? -1 : info ? info->si_pid : 0);
}

#define API ROWS_WRAP
#define HAND(name, call)
#include "shim/wait.def"
#undef API
#undef HAND

const struct row wait_rows[] = {
#define API ROWS_ENTRY
#define HAND ROWS_HAND_ENTRY
#include "shim/wait.def"
#undef API
#undef HAND
	{ NULL, CALL_NONE, NULL },
};

/* Recorded only when somebody waits: then it is the end of that wait. */
EXPORT int sem_post(sem_t *sem)
{
	struct seen seen;
	int r;

	if (!seen_on() || !probe_sem_waited(sem) || !seen_wait(&seen, CALL_sem_post, TARGET_ADDR_SEM, (intptr_t)sem))
		return REAL(sem_post)(sem);
	seen.span.always = seen.span.limited = true;
	r = REAL(sem_post)(sem);
	end_with(&seen, r ? errno : 0);
	return r;
}

#define SIGNAL_BODY(name) \
	struct seen seen; \
	int r; \
	if (!seen_on() || !probe_cond_waited(cond) || !seen_wait(&seen, CALL_##name, TARGET_ADDR_COND, (intptr_t)cond)) \
		return REAL(name)(cond); \
	seen.span.always = seen.span.limited = true; \
	r = REAL(name)(cond); \
	end_with(&seen, r); \
	return r;

EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	SIGNAL_BODY(pthread_cond_signal)
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	SIGNAL_BODY(pthread_cond_broadcast)
}

/* The joined thread's id is not in its handle in any documented way; its CPU clock carries it: (~tid << 3) | 6. */
static pid_t tid_of(pthread_t t)
{
	clockid_t clock;

	if (pthread_getcpuclockid(t, &clock) != 0)
		return 0;
	return (pid_t)~(clock >> 3);
}

static bool begin_join(struct seen *v, pthread_t t)
{
	pid_t tid;

	if (!seen_on())
		return false;
	tid = tid_of(t);
	return seen_wait(v, CALL_pthread_join, tid > 0 ? TARGET_TID : TARGET_NONE, tid);
}

#define JOIN_BODY(name, args) \
	struct seen seen; \
	int r; \
	if (!begin_join(&seen, thread)) \
		return REAL(name) args; \
	r = REAL(name) args; \
	end_with(&seen, r == EBUSY ? ETIMEDOUT : r); \
	return r;

EXPORT int pthread_join(pthread_t thread, void **value)
{
	JOIN_BODY(pthread_join, (thread, value))
}

EXPORT int pthread_timedjoin_np(pthread_t thread, void **value, const struct timespec *until)
{
	JOIN_BODY(pthread_timedjoin_np, (thread, value, until))
}

EXPORT int pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock, const struct timespec *until)
{
	JOIN_BODY(pthread_clockjoin_np, (thread, value, clock, until))
}
