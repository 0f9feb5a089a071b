/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrappers of process functions, made from proc.def. vfork has its own file.
 */
#undef _FORTIFY_SOURCE		/* inline functions of the headers bear the names that are defined here */
#define __NO_INLINE__ 1
#include "shim/rows.h"

#include <errno.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "shim/life.h"
#include "shim/quiesce.h"
#include "shim/seen.h"
#include "shim/vfork.h"

#define API ROWS_POINTER
#define HAND(name, call) static __typeof__(name) *real_##name;
#include "shim/proc.def"
#undef API
#undef HAND

static void end_with(struct seen *v, int err)
{
	int saved = errno;

	span_end(&v->span, err);
	errno = saved;
}

static void end_spawn(struct seen *v, int err, const pid_t *pid)
{
	if (!err && pid) {
		v->span.target_kind = TARGET_PID;
		v->span.target = *pid;
	}
	v->span.always = v->span.limited = true;
	end_with(v, err);
}

#define BEGIN_SPAWN(pid) seen_wait(&seen, id, TARGET_NONE, 0)
#define END_SPAWN(pid) end_spawn(&seen, r, pid)
#define BEGIN_POPEN() seen_wait(&seen, id, TARGET_NONE, 0)
#define END_POPEN() (fdtab_forget(r ? r->_fileno : -1), end_spawn(&seen, r ? 0 : errno, NULL))
#define BEGIN_PCLOSE(fp) (fdtab_forget(fp ? fp->_fileno : -1), seen_wait(&seen, id, TARGET_NONE, 0))
#define END_PCLOSE(fp) end_with(&seen, r == -1 ? errno : 0)
#define BEGIN_SYSTEM(command) (command && seen_wait(&seen, id, TARGET_NONE, 0))
#define END_SYSTEM(command) end_with(&seen, r == -1 ? errno : 0)

#define API ROWS_WRAP
#define HAND(name, call)
#include "shim/proc.def"
#undef API
#undef HAND

const struct row proc_rows[] = {
#define API ROWS_ENTRY
#define HAND ROWS_HAND_ENTRY
#include "shim/proc.def"
#undef API
#undef HAND
	{ NULL, CALL_NONE, NULL },
};

void *vfork_real(void)
{
	return (void *)REAL(vfork);
}

EXPORT pid_t fork(void)
{
	struct seen seen;
	pid_t pid;

	if (!seen_wait(&seen, CALL_fork, TARGET_NONE, 0))
		return REAL(fork)();
	pid = REAL(fork)();
	if (pid == 0)
		return 0;		/* the parent's span, on a thread that has forgotten it */
	end_spawn(&seen, pid < 0 ? errno : 0, &pid);
	return pid;
}

/* Everything is written before the image goes; a vfork child writes nothing, and whoever comes back goes on. */
#define EXEC_BODY(call) \
	int r; \
	life_exec(); \
	r = call; \
	life_exec_failed(); \
	return r;

EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	EXEC_BODY(REAL(execve)(path, argv, env))
}

EXPORT int execv(const char *path, char *const argv[])
{
	EXEC_BODY(REAL(execv)(path, argv))
}

EXPORT int execvp(const char *file, char *const argv[])
{
	EXEC_BODY(REAL(execvp)(file, argv))
}

EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
	EXEC_BODY(REAL(execvpe)(file, argv, env))
}

EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
	EXEC_BODY(REAL(fexecve)(fd, argv, env))
}

EXPORT int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
	__typeof__(real_execveat) real = REAL(execveat);

	if (!real) {
		errno = ENOSYS;
		return -1;
	}
	EXEC_BODY(real(dir, path, argv, env, flags))
}

/* The list forms: arguments up to NULL, on the stack as libc does it. */
static unsigned count_args(va_list ap)
{
	unsigned n = 1;

	while (va_arg(ap, char *))
		n++;
	return n;
}

static void take_args(char **argv, unsigned n, const char *first, va_list ap)
{
	unsigned i;

	argv[0] = (char *)(uintptr_t)first;
	for (i = 1; i <= n; i++)
		argv[i] = va_arg(ap, char *);
}

#define LIST_ARGS \
	const char *volatile first = arg;	/* may be NULL whatever the header promises */ \
	va_list ap; \
	unsigned n; \
	va_start(ap, arg); \
	n = first ? count_args(ap) : 0; \
	va_end(ap); \
	char *argv[n + 2]; \
	argv[0] = NULL; \
	va_start(ap, arg); \
	if (n) \
		take_args(argv, n, arg, ap);

EXPORT int execl(const char *path, const char *arg, ...)
{
	LIST_ARGS
	va_end(ap);
	return execv(path, argv);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	LIST_ARGS
	va_end(ap);
	return execvp(file, argv);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	char *const *env;

	LIST_ARGS
	env = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, env);
}

EXPORT void _exit(int status)
{
	life_end(status);
	REAL(_exit)(status);
	__builtin_unreachable();
}

EXPORT void _Exit(int status)
{
	life_end(status);
	REAL(_Exit)(status);
	__builtin_unreachable();
}

EXPORT void quick_exit(int status)
{
	life_end(status);
	REAL(quick_exit)(status);
	__builtin_unreachable();
}

/* User and process namespaces want a process with one thread. */
EXPORT int unshare(int flags)
{
	int r;

	if (seen_on())
		drain_quiesce();
	r = REAL(unshare)(flags);
	if (seen_on())
		drain_unquiesce();
	return r;
}

EXPORT int setns(int fd, int type)
{
	int r;

	if (seen_on())
		drain_quiesce();
	r = REAL(setns)(fd, type);
	if (seen_on())
		drain_unquiesce();
	return r;
}
