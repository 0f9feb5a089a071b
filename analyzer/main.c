/* SPDX-License-Identifier: Apache-2.0
 *
 * whyidle: which command is meant, and its exit code.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/cli.h"

#ifndef WHYIDLE_VERSION
#define WHYIDLE_VERSION "0"
#endif

int cmd_version(const struct cli *cli)
{
	printf("whyidle %s\n", WHYIDLE_VERSION);
	return EXIT_DONE;
}

int cmd_help(const struct cli *cli)
{
	int c;

	if (!cli->noperands) {
		cli_help(stdout);
		return EXIT_DONE;
	}
	c = cli_command_by_name(cli->operands[0]);
	if (c < 0) {
		fprintf(stderr, "whyidle: there is no command %s; whyidle --help lists them\n", cli->operands[0]);
		return EXIT_USAGE;
	}
	cli_help_command(stdout, c);
	return EXIT_DONE;
}

int main(int argc, char **argv)
{
	static int (*const functions[])(const struct cli *) = {
#define COMMAND(name, operands, line, more) cmd_##name,
#include "analyzer/command.def"
#undef COMMAND
	};
	struct cli cli;
	int rc;

	if (cli_parse(&cli, argc, argv)) {
		fprintf(stderr, "whyidle: %s\n", cli.error);
		return EXIT_USAGE;
	}
	if (cli.command != COMMAND_run)		/* too long a file is an error to be told, not a way to die; run takes care of its job's signals */
		signal(SIGXFSZ, SIG_IGN);
	if (cli_given(&cli, OPTION_help)) {
		if (cli.command == COMMAND_help)
			cli_help(stdout);
		else
			cli_help_command(stdout, cli.command);
		rc = EXIT_DONE;
	} else {
		rc = functions[cli.command](&cli);
	}
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "whyidle: could not write to stdout\n");
		return rc ? rc : EXIT_IO;
	}
	return rc;
}
