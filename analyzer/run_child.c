/* SPDX-License-Identifier: Apache-2.0
 *
 * The job as our child. We change no signal's disposition but those of SIGCHLD, SIGPIPE and SIGXFSZ (which the child gets back): others are blocked and taken with
 * sigwaitinfo, so that what we were started with (nohup's ignored SIGHUP, say) is what the child is started with.
 */
#include "analyzer/run_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int relayed[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGPWR, SIGIO };

static sigset_t mask_before;
static struct sigaction chld_before, pipe_before = { .sa_handler = SIG_DFL }, size_before = { .sa_handler = SIG_DFL };

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

/* ---- was it meant for the whole group? */

/*
 * A process of our group that blocks all signals and does nothing else. A signal that is pending there, too, was sent to the group: the job has
 * its own copy, and a second one would be wrong (a second ^C, say, breaks into Python's clean-up). It holds no descriptor.
 */
static pid_t witness;

static void witness_start(void)
{
	pid_t us = getpid();
	sigset_t all;

	witness = fork();
	if (witness)
		return;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close_range(0, ~0u, 0);
	if (getppid() != us)
		_exit(0);
	for (;;)
		pause();
}

static void witness_stop(void)
{
	if (witness <= 0)
		return;
	kill(witness, SIGKILL);
	while (waitpid(witness, NULL, 0) < 0 && errno == EINTR)
		;
	witness = 0;
}

/* Once per signal: a witness that saw one is replaced, since nobody can take the signal back from it. */
static bool witness_saw(int sig)
{
	static const struct timespec a_moment = { 0, 2000000 };	/* the kernel reaches all members of a group one after another */
	unsigned long long pending = 0;
	char path[64], line[256];
	FILE *f;

	if (witness <= 0)
		return false;
	nanosleep(&a_moment, NULL);
	snprintf(path, sizeof(path), "/proc/%ld/status", (long)witness);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "ShdPnd: %llx", &pending) == 1)
			break;
	if (f)
		fclose(f);
	if (!(pending >> (sig - 1) & 1))
		return false;
	witness_stop();
	witness_start();
	return true;
}

static bool relays(const siginfo_t *info, pid_t child)
{
	if (info->si_code > 0)			/* the kernel's: terminal keys and hang-up go to the group, a timer to us alone */
		return info->si_signo != SIGINT && info->si_signo != SIGQUIT && info->si_signo != SIGHUP;
	if (info->si_pid == child)		/* the job signals its parent: it does not mean itself */
		return false;
	return !witness_saw(info->si_signo);
}

/* ---- the child */

/* Nobody shall wait for us in place of the job: who reads its output sees the end of it when the job ends, not when we do. */
static void let_go_of_input_and_output(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

/* In the child. Only what fork allows. */
static _Noreturn void child_start(char **argv, char **envp, int report_fd)
{
	int err;

	sigaction(SIGCHLD, &chld_before, NULL);
	sigaction(SIGPIPE, &pipe_before, NULL);
	sigaction(SIGXFSZ, &size_before, NULL);
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
		if (pid == witness)
			witness = 0;
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

void child_shield(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGPIPE, &ignore, &pipe_before);
	sigaction(SIGXFSZ, &ignore, &size_before);	/* the job's limit on file sizes is ours, too */
}

int child_become(char **argv)
{
	sigaction(SIGPIPE, &pipe_before, NULL);
	sigaction(SIGXFSZ, &size_before, NULL);
	execvp(argv[0], argv);
	return errno;
}

int child_run(char **argv, char **envp, struct child_end *end)
{
	struct sigaction wanted = { .sa_handler = SIG_DFL };
	int pipe_fds[2], err;
	ssize_t n;
	pid_t pid;

	memset(end, 0, sizeof(*end));
	if (pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	block_signals();
	sigaction(SIGCHLD, &wanted, &chld_before);	/* started with SIGCHLD ignored, there would be nothing to wait for */
	pid = fork();
	if (!pid) {
		close(pipe_fds[0]);
		child_start(argv, envp, pipe_fds[1]);
	}
	err = errno;
	close(pipe_fds[1]);
	if (pid < 0) {
		close(pipe_fds[0]);
		sigaction(SIGCHLD, &chld_before, NULL);
		sigprocmask(SIG_SETMASK, &mask_before, NULL);
		return -err;
	}
	do {
		n = read(pipe_fds[0], &end->exec_errno, sizeof(end->exec_errno));
	} while (n < 0 && errno == EINTR);
	close(pipe_fds[0]);
	if (!end->exec_errno) {
		let_go_of_input_and_output();
		witness_start();
	}
	wait_for(pid, &end->status);
	witness_stop();
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
