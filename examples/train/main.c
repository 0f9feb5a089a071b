// SPDX-License-Identifier: Apache-2.0
//
// Starts one process per rank, as torchrun does, or is one of them when RANK is set. Makes the folder that they share, and removes it.

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/train/dataset.h"
#include "examples/train/plan.h"
#include "examples/train/trainer.h"
#include "examples/train/truth.h"
#include "examples/train/util.h"

/* With a linked libslowdisk.so: it may have read its environment before we filled it. */
void slowdisk_configure(void);

static const char *tmp(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir == '/' ? dir : "/tmp";
}

static void set_int(const char *name, int value)
{
	char *number = text("%d", value);

	setenv(name, number, 1);
	free(number);
}

static pid_t start_rank(const struct plan *p, int rank, char **argv)
{
	char self[4096] = { 0 };
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("cannot fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	set_int("RANK", rank);
	set_int("LOCAL_RANK", rank);
	set_int("WORLD_SIZE", p->world);
	setenv("TRAIN_DIR", p->dir, 1);
	/* by its path, so that the process is called what the program is called */
	execv(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 ? self : argv[0], argv);
	fprintf(stderr, "train: cannot start rank %d: %s\n", rank, strerror(errno));
	_exit(127);
}

/* Waits for the ranks. When one fails, ends the others: they would wait for it. */
static int join_ranks(int ranks, const pid_t *pids)
{
	int status, failed = 0, left = ranks;

	while (left) {
		pid_t pid = waitpid(-1, &status, 0);
		int rank = 0;

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			break;
		while (rank < ranks && pids[rank] != pid)
			rank++;
		if (rank == ranks)
			continue;
		left--;
		if (!status || failed)
			continue;
		failed = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		fprintf(stderr, "train: rank %d ended with status %d\n", rank, failed);
		for (int i = 0; i < ranks; i++)
			if (pids[i] != pid)
				kill(pids[i], SIGTERM);
	}
	return failed;
}

static int launch(struct plan *p, char **argv)
{
	char *dir = text("%s/train-XXXXXX", tmp());
	pid_t *pids = calloc((size_t)p->world, sizeof(*pids)), server = 0;
	int status, port;

	if (!pids || !mkdtemp(dir))
		die("cannot make a folder in %s: %s", tmp(), strerror(errno));
	p->dir = dir;
	dataset_make(p);
	printf("training: %d rank%s, %d steps, %zu KB a batch\n", p->world, p->world > 1 ? "s" : "", p->steps, p->batch_bytes >> 10);
	if (p->remote) {
		server = dataset_serve(p, &port);
		set_int("TRAIN_DATA_PORT", port);
	}
	for (int rank = 0; rank < p->world; rank++)
		pids[rank] = start_rank(p, rank, argv);
	status = join_ranks(p->world, pids);
	if (server) {
		kill(server, SIGTERM);
		waitpid(server, NULL, 0);
	}
	if (p->truth && !status)
		truth_write(p);
	dataset_remove(dir);
	free(pids);
	free(dir);
	return status;
}

/* When the process started us began, in clock ticks: with its pid a name that no earlier run can have left behind. */
static unsigned long long parent_start(void)
{
	char *path = text("/proc/%d/stat", (int)getppid()), line[1024] = "", *at;
	FILE *f = fopen(path, "r");
	unsigned long long start = 0;

	free(path);
	if (!f)
		return 0;
	at = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	if (at)
		sscanf(at + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &start);
	fclose(f);
	return start;
}

/* One rank. Without a folder from our own launcher, ranks started by the same process share one named after it. */
static int rank(struct plan *p)
{
	bool own = !p->dir;
	const char *port = getenv("TRAIN_DATA_PORT");
	int data_port = port ? atoi(port) : 0, status;
	char *dir = NULL;

	if (own) {
		dir = text("%s/train-%d-%llu", tmp(), (int)getppid(), parent_start());
		if (mkdir(dir, 0700) && errno != EEXIST)
			die("cannot make %s: %s", dir, strerror(errno));
		p->dir = dir;
		dataset_make(p);
	}
	plan_environment(p);
	slowdisk_configure();
	if (p->remote && !data_port)
		dataset_serve(p, &data_port);
	status = trainer_run(p, p->remote ? data_port : 0);
	if (own && p->rank == 0) {
		if (p->truth)
			truth_write(p);
		dataset_remove(dir);
	}
	free(dir);
	return status;
}

int main(int argc, char **argv)
{
	struct plan plan;

	plan_make(&plan, argc, argv);
	return plan.launched ? rank(&plan) : launch(&plan, argv);
}
