/* SPDX-License-Identifier: Apache-2.0
 *
 * whyidle run: the job with the recorder in front, then the summary. Whatever fails on our side, the job runs, and its status is ours.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cli.h"
#include "analyzer/report.h"
#include "analyzer/run_child.h"
#include "analyzer/run_session.h"

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("whyidle: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
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
	if (record && session_open(s, cli_value(cli, OPTION_output, NULL), why, note)) {
		say("not recording: %s", why);
		record = false;
	} else if (record && *note) {
		say("%s", note);
	}
	if (sim && find_simgpu(simgpu, why)) {
		say("%s", why);
		sim = false;
	}
	return child_environment(record ? recorder : NULL, record ? s->dir : NULL, sim ? simgpu : NULL);
}

static int summarise(const struct cli *cli, const struct session *s)
{
	char json[PATH_MAX + 16];
	unsigned n;
	char **paths = session_traces(s, &n);
	int rc;

	if (!n) {
		session_drop_empty(s);
		say("nothing was recorded: no process of the job could load the recorder (statically linked or set-user-id programs cannot), or none did "
			"anything that is recorded");
		session_free_traces(paths);
		return EXIT_DONE;
	}
	if (cli_given(cli, OPTION_no_report)) {
		say("recorded to %s; whyidle report %s tells what was found", s->dir, s->dir);
		session_free_traces(paths);
		return EXIT_DONE;
	}
	snprintf(json, sizeof(json), "%s/report.json", s->dir);
	rc = report_produce(cli, (const char *const *)paths, n, s->dir, stderr, json);
	session_free_traces(paths);
	return rc;
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

int cmd_run(const struct cli *cli)
{
	struct child_end end;
	struct session s;
	char **env;
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
	if (rc) {
		session_drop_empty(&s);
		say("%s could not be started: %s", cli->operands[0], strerror(-rc));
		return 126;
	}
	if (end.exec_errno)
		return not_executed(cli->operands[0], &end, &s);
	child_restore_signals();
	rc = s.dir[0] ? summarise(cli, &s) : EXIT_DONE;
	fflush(stderr);
	child_exit_as(&end, rc == EXIT_NO && !child_exit_code(&end) ? EXIT_NO : -1);
}
