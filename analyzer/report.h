/* SPDX-License-Identifier: Apache-2.0
 *
 * From traces to a printed summary: analysis, rendering, --fail-if. Shared by `run` and `report`.
 */
#ifndef WHYIDLE_ANALYZER_REPORT_H
#define WHYIDLE_ANALYZER_REPORT_H

#include <stdio.h>

struct cli;
struct result;

/* Analyses the traces, with progress on a terminal; says on stderr what goes wrong. EXIT_DONE with *r filled, to be freed with result_free, or EXIT_IO. */
int report_analyse(const char *const *paths, unsigned npaths, struct result *r);

/*
 * Analyses the traces, prints the summary to `to` (or the file that --report names) and, when `saved_json` is not NULL, the JSON into that file.
 * `shown` is what the reader should open (a session directory or a trace); `ending`: how the job ended when it did
 * not end well, else NULL. Says on stderr what goes wrong. Returns an exit code (cli.h).
 */
int report_produce(const struct cli *cli, const char *const *paths, unsigned npaths, const char *shown, const char *ending, FILE *to,
	const char *saved_json);

/* Checks --fail-if's expressions before anything long is done. 0, or -1 after a sentence on stderr. */
int report_check_options(const struct cli *cli);

#endif
