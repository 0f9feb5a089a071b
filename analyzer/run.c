/* SPDX-License-Identifier: Apache-2.0
 *
 * whyidle run: the job with the recorder in front, then the summary. Whatever fails on our side, the job runs, and its status is ours.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/cli.h"
#include "analyzer/report.h"
#include "analyzer/run_after.h"
#include "analyzer/run_child.h"
#include "analyzer/run_session.h"
#include "analyzer/run_settings.h"
#include "analyzer/util.h"

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("whyidle: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}

static void say_sentence(const char *sentence)
{
	say("%s", sentence);
}

/* Everything that recording needs. Returns the child's environment; s->dir stays "" when nothing will be recorded. */
static char **prepare(const struct cli *cli, struct session *s)
{
	char recorder[PATH_MAX], simgpu[PATH_MAX], why[512], note[512];
	bool record = true, sim = cli_given(cli, OPTION_sim);

	if (find_recorder(recorder, why)) {
		say("not recording: %s", why);
		record = false;
	}
	memset(s, 0, sizeof(*s));
	s->lock_fd = -1;
	if (record && session_open(s, cli_value(cli, OPTION_output, NULL), why, note)) {
		say("not recording: %s", why);
		record = false;
	} else if (record && *note) {
		say("%s", note);
	}
	if (record) {
		snprintf(s->recorder, sizeof(s->recorder), "%s", recorder);
		settings_check(say_sentence);
	}
	if (sim && find_simgpu(simgpu, why)) {
		say("%s", why);
		sim = false;
	}
	return child_environment(record ? recorder : NULL, record ? s->dir : NULL, sim ? simgpu : NULL);
}

/* Nothing will be printed or written of what was asked for. */
static void no_summary(const struct cli *cli)
{
	const char *report = cli_value(cli, OPTION_report, NULL);

	if (cli_given(cli, OPTION_no_report))
		return;
	if (report && strcmp(report, "-"))
		say("%s is not written: there is nothing to report", report);
	if (cli_given(cli, OPTION_fail_if))
		say("--fail-if cannot be decided: nothing was recorded");
}

static void nothing_recorded(const struct cli *cli, const struct session *s, const char *ending, unsigned running)
{
	char why[512];

	if (ending)
		say("%s", ending);
	if (session_trouble(s, true, why))
		say("nothing was recorded: %s", why);
	else if (!running)
		say("nothing was recorded: no process of the job could load the recorder (statically linked or set-user-id programs cannot) and reach %s "
			"(chroot and containers may hide it), or none did anything that is recorded", s->dir);
	if (!running)
		session_drop_empty(s);
	no_summary(cli);
}

static int summarise(const struct cli *cli, const struct session *s, const char *ending)
{
	char json[PATH_MAX + 16], why[512];
	unsigned n, empty, running = session_still_recording(s);
	char **paths = session_traces(s, &n, &empty);
	int rc = EXIT_DONE;

	if (running)
		say("%u process%s that record%s into %s still run%s: `whyidle report %s` tells more when no one does any more", running, running == 1 ? "" : "es",
			running == 1 ? "s" : "", s->dir, running == 1 ? "s" : "", s->dir);
	if (!s->shared && session_is_shared(s))
		say("another `whyidle run` has begun to record into %s: its job is told of here, too", s->dir);
	if (!n) {
		nothing_recorded(cli, s, ending, running);
	} else {
		if (session_trouble(s, false, why))
			say("%s", why);
		if (empty)
			say("%u trace%s empty: nothing could be written before the process ended", empty, empty == 1 ? " is" : "s are");
		if (cli_given(cli, OPTION_no_report)) {
			say("recorded to %s; whyidle report %s tells what was found", s->dir, s->dir);
		} else {
			snprintf(json, sizeof(json), "%s/report.json", s->dir);
			rc = report_produce(cli, (const char *const *)paths, n, s->dir, ending, stderr, json);
		}
	}
	session_free_traces(paths);
	return rc;
}

/* How the job ended and when, if it did not end well: one clause in `text`. NULL when it did. */
static const char *ending_of(const struct child_end *end, int64_t ns, char text[128])
{
	int code = child_exit_code(end);
	char time[AMOUNT_MAX];

	if (!code)
		return NULL;
	amount_time(time, ns);
	if (WIFSIGNALED(end->status))
		snprintf(text, 128, "the job was ended by signal %d (%s) after %s", WTERMSIG(end->status), strsignal(WTERMSIG(end->status)), time);
	else
		snprintf(text, 128, "the job ended with status %d after %s", code, time);
	return text;
}

static int not_executed(const char *name, const struct child_end *end, const struct session *s)
{
	int code = child_exit_code(end);
	bool there = strchr(name, '/') && !access(name, F_OK);

	session_drop_empty(s);
	if (code == 127 && there) {		/* the file is there, its interpreter or loader is not */
		say("%s: cannot be executed: its interpreter (the #! line, or the dynamic loader) is missing", name);
		return 126;
	}
	if (code == 127)
		say("%s: command not found", name);
	else
		say("%s: cannot be executed: %s", name, strerror(end->exec_errno));
	return code;
}

/* Too few descriptors or processes to stand in front of the job: it runs without us. */
static int run_bare(const struct cli *cli, const struct session *s, int err)
{
	struct child_end end = { 0 };

	session_drop_empty(s);
	say("not recording: %s; %s runs by itself", strerror(err), cli->operands[0]);
	no_summary(cli);
	fflush(stderr);
	end.exec_errno = child_become(cli->operands);
	return not_executed(cli->operands[0], &end, s);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int cmd_run(const struct cli *cli)
{
	int64_t start_ns = now_ns();
	struct child_end end;
	struct session s;
	char **env, text[128];
	int rc;

	if (!cli->noperands) {
		say("run needs a command: whyidle run -- python train.py");
		return EXIT_USAGE;
	}
	if (report_check_options(cli))
		return EXIT_USAGE;
	child_shield();
	env = prepare(cli, &s);
	rc = env ? child_run(cli->operands, env, &end) : -ENOMEM;
	child_environment_free(env);
	if (rc)
		return run_bare(cli, &s, -rc);
	if (end.exec_errno)
		return not_executed(cli->operands[0], &end, &s);
	child_restore_signals();
	rc = EXIT_DONE;
	if (s.dir[0])
		rc = summarise(cli, &s, ending_of(&end, now_ns() - start_ns, text));
	else
		no_summary(cli);
	fflush(stderr);
	child_exit_as(&end, rc == EXIT_NO && !child_exit_code(&end) ? EXIT_NO : -1);
}
