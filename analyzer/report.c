/* SPDX-License-Identifier: Apache-2.0
 *
 * whyidle report: traces in, summary out.
 */
#include "analyzer/report.h"

#include <stdio.h>

#include "analyzer/cli.h"

int report_check_options(const struct cli *cli)
{
	return 0;
}

int report_produce(const struct cli *cli, const char *const *paths, unsigned npaths, const char *shown, FILE *to, const char *saved_json)
{
	fprintf(stderr, "whyidle: %u traces lie in %s\n", npaths, shown);
	return EXIT_DONE;
}

int cmd_report(const struct cli *cli)
{
	fprintf(stderr, "whyidle: report is not built yet\n");
	return EXIT_IO;
}
