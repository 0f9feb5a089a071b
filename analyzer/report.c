/* SPDX-License-Identifier: Apache-2.0
 *
 * whyidle report: traces in, summary out.
 */
#include "analyzer/report.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/analysis.h"
#include "analyzer/cli.h"
#include "analyzer/fail_if.h"
#include "analyzer/mem.h"
#include "analyzer/out.h"
#include "analyzer/render.h"

/* ---- progress, on a terminal only */

static void show_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
	bool *shown = ctx;

	if (total_bytes)
		fprintf(stderr, "\rwhyidle: reading the traces, %3d %%", (int)((double)done_bytes / (double)total_bytes * 100));
	else
		fprintf(stderr, "\rwhyidle: reading the traces, %llu MB", (unsigned long long)(done_bytes / 1000000));
	fflush(stderr);
	*shown = true;
}

int report_analyse(const char *const *paths, unsigned npaths, struct result *r)
{
	bool shown = false;
	struct analysis_options opt = { .progress_ctx = &shown };
	struct analysis_error err = { 0 };
	int rc;

	if (isatty(STDERR_FILENO) == 1)
		opt.progress = show_progress;
	rc = analysis_run(paths, npaths, &opt, r, &err);
	if (shown)
		fprintf(stderr, "\r%60s\r", "");
	if (rc)
		fprintf(stderr, "whyidle: %s\n", err.text);
	return rc ? EXIT_IO : EXIT_DONE;
}

/* ---- output */

static int could_not_write(const char *where)
{
	fprintf(stderr, "whyidle: %s: could not be written: %s\n", where, strerror(errno));
	return EXIT_IO;
}

static int render(const struct cli *cli, const struct result *r, const char *shown, bool several, FILE *to)
{
	struct render_options opt = { .verbose = cli_given(cli, OPTION_verbose), .shown = shown, .several = several };

	if (cli_given(cli, OPTION_json))
		return render_json(to, r);
	opt.color = out_wants_color(to, cli_value(cli, OPTION_color, "auto"));
	return render_text(to, r, &opt);
}

static int write_report(const struct cli *cli, const struct result *r, const char *shown, bool several, FILE *to)
{
	const char *path = cli_value(cli, OPTION_report, NULL);
	FILE *f;
	int rc;

	if (!path || !strcmp(path, "-"))
		return render(cli, r, shown, several, to) ? could_not_write("the summary") : EXIT_DONE;
	f = fopen(path, "we");
	if (!f) {
		rc = could_not_write(path);
		render(cli, r, shown, several, to);	/* the work is done: do not throw it away */
		return rc;
	}
	rc = render(cli, r, shown, several, f);
	if (fclose(f) || rc)
		return could_not_write(path);
	return EXIT_DONE;
}

/* Beside the traces, for whoever comes later. Readable by the owner only, like them. */
static int save_json(const struct result *r, const char *path)
{
	char tmp[4200];
	FILE *f;
	int rc;

	snprintf(tmp, sizeof(tmp), "%s.%ld", path, (long)getpid());
	f = fopen(tmp, "we");
	if (!f)
		return could_not_write(path);
	fchmod(fileno(f), 0600);
	rc = render_json(f, r);
	if (fclose(f) || rc || rename(tmp, path)) {
		rc = could_not_write(path);
		unlink(tmp);
		return rc;
	}
	return EXIT_DONE;
}

/* ---- --fail-if */

int report_check_options(const struct cli *cli)
{
	const struct cli_option *o = &cli->options[OPTION_fail_if];
	struct fail_if f;
	char why[256];

	for (unsigned i = 0; i < o->n; i++) {
		if (fail_if_parse(&f, o->values[i], why)) {
			fprintf(stderr, "whyidle: %s\n", why);
			return -1;
		}
	}
	return 0;
}

static int decide(const struct cli *cli, const struct result *r)
{
	const struct cli_option *o = &cli->options[OPTION_fail_if];
	int code = EXIT_DONE;
	char text[256];
	struct fail_if f;

	for (unsigned i = 0; i < o->n; i++) {
		if (fail_if_parse(&f, o->values[i], text))
			continue;		/* was refused before */
		switch (fail_if_holds(&f, r, text)) {
		case 1:
			fprintf(stderr, "whyidle: --fail-if \"%s\" holds: %s\n", o->values[i], text);
			code = code == EXIT_DONE ? EXIT_NO : code;
			break;
		case -1:
			fprintf(stderr, "whyidle: --fail-if \"%s\" cannot be decided: %s\n", o->values[i], text);
			code = EXIT_IO;
			break;
		}
	}
	return code;
}

/* ---- the command */

int report_produce(const struct cli *cli, const char *const *paths, unsigned npaths, const char *shown, const char *ending, FILE *to,
	const char *saved_json)
{
	struct stat st;
	struct result r;
	bool several = !stat(shown, &st) && S_ISDIR(st.st_mode);
	int rc, saved = EXIT_DONE, decided;

	rc = report_analyse(paths, npaths, &r);
	if (rc)
		return rc;
	r.ending = ending ? mem_copy(ending) : NULL;
	rc = write_report(cli, &r, shown, several, to);
	if (saved_json)
		saved = save_json(&r, saved_json);
	decided = decide(cli, &r);
	result_free(&r);
	return rc ? rc : saved ? saved : decided;
}

int cmd_report(const struct cli *cli)
{
	if (!cli->noperands) {
		fprintf(stderr, "whyidle: report needs a session directory, .pftrace files or a profiler's traces: whyidle report PATH\n");
		return EXIT_USAGE;
	}
	if (report_check_options(cli))
		return EXIT_USAGE;
	return report_produce(cli, (const char *const *)cli->operands, (unsigned)cli->noperands, cli->operands[0], NULL, stdout, NULL);
}
