/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the job as it would run without us in front: same process group and terminal, same signal mask and dispositions, no descriptor
 * more. The caller is single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_RUN_CHILD_H
#define WHYIDLE_ANALYZER_RUN_CHILD_H

struct child_end {
	int exec_errno;			/* not 0: argv[0] could not be executed, for this reason */
	int status;			/* as of waitpid, when exec_errno is 0 */
};

/* From here on neither a closed stderr nor a limit on file sizes can end us. First of all calls; the child is started with what was before. */
void child_shield(void);

/*
 * Starts argv (looked up in PATH) with environment envp and waits until it ends; passes signals on meanwhile. Does not wait for
 * processes that it leaves behind. Our own stdin and stdout are /dev/null afterwards. Signals stay blocked afterwards: child_restore_signals. Returns 0, or -errno when there could be no child.
 */
int child_run(char **argv, char **envp, struct child_end *end);

/* Runs argv in our place, bare, when there could be no child. Returns only when that failed: the errno. */
int child_become(char **argv);

/* Unblocks what child_run blocked. */
void child_restore_signals(void);

/* Shell's exit code of that end: the status, 128 + signal, 126 or 127. */
int child_exit_code(const struct child_end *end);

/* Ends this process as the child ended: by exit(code) when `code` is given (>= 0), else by the same status or signal. */
_Noreturn void child_exit_as(const struct child_end *end, int code);

#endif
