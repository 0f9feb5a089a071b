/* SPDX-License-Identifier: Apache-2.0
 *
 * The job as our child. We change no signal's disposition but SIGCHLD's (which the child gets back): signals are blocked and taken with
 * sigwaitinfo, so that what we were started with (nohup's ignored SIGHUP, say) is what the child is started with.
 */
#include "analyzer/run_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int relayed[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGPWR, SIGIO };

static sigset_t mask_before;

/*
 * Signals that the kernel sends (terminal keys, hang-up) go to the whole foreground group: the child has its own. Those of a process were
 * meant for the job. Interrupts by a process of our own group are the exception: whoever sends them, sends them to the group (`kill -INT 0`).
 */
static bool relays(const siginfo_t *info, pid_t child)
{
	if (info->si_code > 0)			/* the kernel's, a timer's */
		return info->si_signo != SIGINT && info->si_signo != SIGQUIT && info->si_signo != SIGHUP;
	if (info->si_pid == child)		/* the job signals its parent or its group: it does not mean itself */
		return false;
	if (info->si_signo == SIGINT || info->si_signo == SIGQUIT)
		return getpgid(info->si_pid) != getpgrp();
	return true;
}

static void relayed_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < sizeof(relayed) / sizeof(relayed[0]); i++)
		sigaddset(set, relayed[i]);
}

static void block_signals(void)
{
	sigset_t set;

	relayed_set(&set);
	sigprocmask(SIG_BLOCK, &set, &mask_before);
}

/* In the child. Only what fork allows. */
static _Noreturn void child_start(char **argv, char **envp, const struct sigaction *chld, int report_fd)
{
	int err;

	sigaction(SIGCHLD, chld, NULL);
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
	execvpe(argv[0], argv, envp);
	err = errno;
	while (write(report_fd, &err, sizeof(err)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* Reaps whatever is ours (as process 1 of a container we inherit orphans); true when the child was among it. */
static bool reap(pid_t child, int *status)
{
	bool ended = false;
	int st;
	pid_t pid;

	while ((pid = waitpid(-1, &st, WNOHANG)) > 0) {
		if (pid != child)
			continue;
		*status = st;
		ended = true;
	}
	if (pid < 0 && errno == ECHILD && !ended) {	/* cannot be, but must not become an endless wait */
		*status = 0;
		ended = true;
	}
	return ended;
}

static void wait_for(pid_t child, int *status)
{
	sigset_t set;
	siginfo_t info;

	relayed_set(&set);
	while (!reap(child, status)) {
		if (sigwaitinfo(&set, &info) < 0)	/* EINTR: stopped and continued */
			continue;
		if (info.si_signo != SIGCHLD && relays(&info, child))
			kill(child, info.si_signo);
	}
}

int child_run(char **argv, char **envp, struct child_end *end)
{
	struct sigaction wanted = { .sa_handler = SIG_DFL }, chld;
	int pipe_fds[2], err;
	ssize_t n;
	pid_t pid;

	memset(end, 0, sizeof(*end));
	if (pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	block_signals();
	sigaction(SIGCHLD, &wanted, &chld);	/* started with SIGCHLD ignored, there would be nothing to wait for */
	pid = fork();
	if (!pid) {
		close(pipe_fds[0]);
		child_start(argv, envp, &chld, pipe_fds[1]);
	}
	err = errno;
	close(pipe_fds[1]);
	if (pid < 0) {
		close(pipe_fds[0]);
		child_restore_signals();
		return -err;
	}
	do {
		n = read(pipe_fds[0], &end->exec_errno, sizeof(end->exec_errno));
	} while (n < 0 && errno == EINTR);
	close(pipe_fds[0]);
	wait_for(pid, &end->status);
	return 0;
}

void child_restore_signals(void)
{
	static const struct timespec now = { 0, 0 };
	sigset_t set;

	/* What came while the job ended was meant for the job (`timeout` signals us and our group): it must not end the summary. */
	relayed_set(&set);
	while (sigtimedwait(&set, NULL, &now) > 0)
		;
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

int child_exit_code(const struct child_end *end)
{
	if (end->exec_errno)
		return end->exec_errno == ENOENT || end->exec_errno == ENOTDIR ? 127 : 126;
	return WIFSIGNALED(end->status) ? 128 + WTERMSIG(end->status) : WEXITSTATUS(end->status);
}

_Noreturn void child_exit_as(const struct child_end *end, int code)
{
	if (code < 0 && !end->exec_errno && WIFSIGNALED(end->status)) {
		int sig = WTERMSIG(end->status);
		struct rlimit none = { 0, 0 };
		sigset_t set;

		setrlimit(RLIMIT_CORE, &none);		/* the child's core is the one that matters */
		prctl(PR_SET_DUMPABLE, 0);
		signal(sig, SIG_DFL);
		sigemptyset(&set);
		sigaddset(&set, sig);
		raise(sig);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		code = 128 + sig;			/* still here: as process 1, for instance */
	}
	exit(code < 0 ? child_exit_code(end) : code);
}
