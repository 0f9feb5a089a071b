/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recorded run needs around the job: the session directory, the recorder library, the child's environment.
 */
#ifndef WHYIDLE_ANALYZER_RUN_SESSION_H
#define WHYIDLE_ANALYZER_RUN_SESSION_H

#include <limits.h>
#include <stdbool.h>
#include <time.h>

struct session {
	char dir[PATH_MAX];		/* absolute; "" = there is none */
	char recorder[PATH_MAX];	/* what is preloaded; "" = nothing is recorded */
	bool created;			/* by us: removed again when nothing came of it */
	bool shared;			/* another `whyidle run` recorded into it when we began */
	int lock_fd;			/* the directory, locked for as long as we live; -1 = it cannot be */
	long log_bytes;			/* length of the recorder's log when we began; -1 = there was none */
	struct timespec started;	/* traces older than this belong to an earlier run; 0 = there were none */
};

/*
 * Finds or makes the directory; `wanted` NULL = ./whyidle-HOST-TIME-PID, or the same under $TMPDIR when the working directory is not
 * writable. Returns 0, or -1 with a sentence in `why` (without newline). `note` gets a sentence when there is something to say, else "".
 */
int session_open(struct session *s, const char *wanted, char why[512], char note[512]);

/* Another `whyidle run` (of this host, where a file server knows no better) records into the directory now. */
bool session_is_shared(const struct session *s);

/* Removes the directory when we made it and it is empty. */
void session_drop_empty(const struct session *s);

/*
 * Paths of this run's traces, sorted; allocated, NULL-terminated, free with session_free_traces. NULL with n = 0 when there are none.
 * Those without a byte in them are only counted, in `empty`; with `empty` NULL they are in the list.
 */
char **session_traces(const struct session *s, unsigned *n, unsigned *empty);
void session_free_traces(char **paths);

/* Absolute path of libwhyidle.so, fit for LD_PRELOAD (through a link in /tmp when it holds a blank or colon). 0, or -1 with a sentence in `why`. */
int find_recorder(char path[PATH_MAX], char why[512]);

/* Folder of the software GPU's libraries. 0, or -1 with a sentence in `why`. */
int find_simgpu(char path[PATH_MAX], char why[512]);

/*
 * The child's environment: ours, with LD_PRELOAD = recorder before what was there (after sanitizer runtimes, which insist on being first),
 * WHYIDLE_DIR = dir, LD_LIBRARY_PATH = simgpu before what was there. NULL arguments are left out. A NULL-terminated list to be freed with
 * child_environment_free before the environment changes; NULL = no memory.
 */
char **child_environment(const char *recorder, const char *dir, const char *simgpu);
void child_environment_free(char **env);

#endif
