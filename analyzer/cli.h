/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: commands and options from their tables, parsed into values; help made from the same rows.
 * Single-threaded; values point into argv and the environment.
 */
#ifndef WHYIDLE_ANALYZER_CLI_H
#define WHYIDLE_ANALYZER_CLI_H

#include <stdbool.h>
#include <stdio.h>

enum command {
#define COMMAND(name, operands, line, more) COMMAND_##name,
#include "analyzer/command.def"
#undef COMMAND
	COMMAND_COUNT
};

enum option {
#define OPTION(id, letter, name, argument, env, commands, help) OPTION_##id,
#include "analyzer/option.def"
#undef OPTION
	OPTION_COUNT
};

#define CLI_REPEATS 32			/* an option may be given that often */

struct cli {
	enum command command;
	struct cli_option {
		const char *values[CLI_REPEATS];	/* of options with an argument */
		unsigned n;				/* times given; 0 = not at all */
	} options[OPTION_COUNT];
	char **operands;		/* what follows the options; NULL-terminated */
	int noperands;
	char error[256];		/* set by cli_parse: what is wrong and what to do */
};

/* Exit codes of every command but run, which hands on its child's. */
enum { EXIT_DONE, EXIT_NO, EXIT_USAGE, EXIT_IO };

/*
 * Parses argv[1..]. Returns 0, or -1 with cli->error filled (exit EXIT_USAGE). Options of `run` end at `--` or at the first word that is
 * no option; other commands take options and operands in any order. --help sets OPTION_help, and is not an error whatever else is wrong.
 */
int cli_parse(struct cli *cli, int argc, char **argv);

bool cli_given(const struct cli *cli, enum option o);
const char *cli_value(const struct cli *cli, enum option o, const char *otherwise);

void cli_help(FILE *to);				/* all commands */
void cli_help_command(FILE *to, enum command c);	/* one command */
int cli_command_by_name(const char *name);		/* -1 when there is none */

/* The commands. Each returns an exit code. */
#define COMMAND(name, operands, line, more) int cmd_##name(const struct cli *cli);
#include "analyzer/command.def"
#undef COMMAND

#endif
