/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the command line by the tables command.def and option.def. Knows no command's meaning.
 */
#include "analyzer/cli.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FOR(command) (1u << COMMAND_##command)

static const struct command_row {
	const char *name, *operands, *line, *more;
} commands[] = {
#define COMMAND(name, operands, line, more) { #name, operands, line, more },
#include "analyzer/command.def"
#undef COMMAND
};

static const struct option_row {
	char letter;
	const char *name, *argument, *env;
	unsigned commands;
	const char *help;
} rows[] = {
#define OPTION(id, letter, name, argument, env, commands, help) { letter, name, argument, env, commands, help },
#include "analyzer/option.def"
#undef OPTION
};

static const struct {
	const char *name, *otherwise, *meaning;
} environment[] = {
#define ENVIRONMENT(name, otherwise, meaning) { name, otherwise, meaning },
#include "analyzer/environment.def"
#undef ENVIRONMENT
};

#define fail(cli, ...) (snprintf((cli)->error, sizeof((cli)->error), __VA_ARGS__), -1)

bool cli_given(const struct cli *cli, enum option o)
{
	return cli->options[o].n > 0;
}

const char *cli_value(const struct cli *cli, enum option o, const char *otherwise)
{
	const struct cli_option *v = &cli->options[o];

	return v->n ? v->values[v->n - 1] : otherwise;
}

int cli_command_by_name(const char *name)
{
	for (int i = 0; i < COMMAND_COUNT; i++)
		if (!strcmp(commands[i].name, name))
			return i;
	return -1;
}

/* Edit distance of two short words, for "did you mean". */
static unsigned distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[32];

	if (la >= 32 || lb >= 32)
		return UINT_MAX;
	for (size_t j = 0; j <= lb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);

			best = above + 1 < best ? above + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			diagonal = above;
			row[j] = best;
		}
	}
	return row[lb];
}

/* Is `name` what `word` may have been meant to be, and nearer than *least? Half of the letters must be right. */
static bool nearer(const char *word, const char *name, unsigned *least)
{
	size_t lw = strlen(word), ln = strlen(name);
	unsigned d = distance(word, name);

	if (d >= *least || d * 2 > (lw > ln ? lw : ln))
		return false;
	*least = d;
	return true;
}

static const char *nearest_command(const char *word)
{
	const char *best = NULL;
	unsigned least = 3;

	for (int i = 0; i < COMMAND_COUNT; i++)
		if (nearer(word, commands[i].name, &least))
			best = commands[i].name;
	return best;
}

static const char *nearest_option(enum command c, const char *word)
{
	const char *best = NULL;
	unsigned least = 4;

	for (int i = 0; i < OPTION_COUNT; i++)
		if (rows[i].commands & 1u << c && nearer(word, rows[i].name, &least))
			best = rows[i].name;
	return best;
}

static int unknown_option(struct cli *cli, const char *word, const char *long_name)
{
	const char *name = commands[cli->command].name;
	const char *near = long_name ? nearest_option(cli->command, long_name) : NULL;

	if (near)
		return fail(cli, "%s has no option %.60s; did you mean --%s?", name, word, near);
	return fail(cli, "%s has no option %.60s; see whyidle %s --help", name, word, name);
}

static int add(struct cli *cli, enum option o, const char *value)
{
	struct cli_option *v = &cli->options[o];

	if (!rows[o].argument) {
		v->n++;
		return 0;
	}
	if (!*value)			/* an unset variable in a script, as a rule: the current directory is not what was meant */
		return fail(cli, "--%s is given nothing; it needs a value: --%s %s", rows[o].name, rows[o].name, rows[o].argument);
	if (v->n == CLI_REPEATS)
		return fail(cli, "--%s is given more than %d times", rows[o].name, CLI_REPEATS);
	v->values[v->n++] = value;
	return 0;
}

/* `--name`, `--name=value`, `--name value`. Advances *i over a value taken from the next word. */
static int parse_long(struct cli *cli, int argc, char **argv, int *i)
{
	const char *word = argv[*i], *name = word + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	char copy[64];

	for (int o = 0; o < OPTION_COUNT; o++) {
		if (!(rows[o].commands & 1u << cli->command) || strlen(rows[o].name) != len || strncmp(rows[o].name, name, len))
			continue;
		if (!rows[o].argument)
			return equals ? fail(cli, "--%s takes no value", rows[o].name) : add(cli, o, NULL);
		if (equals)
			return add(cli, o, equals + 1);
		if (*i + 1 >= argc || !strcmp(argv[*i + 1], "--"))
			return fail(cli, "--%s needs a value: --%s %s", rows[o].name, rows[o].name, rows[o].argument);
		return add(cli, o, argv[++*i]);
	}
	snprintf(copy, sizeof(copy), "%.*s", (int)(len < 60 ? len : 60), name);
	return unknown_option(cli, word, copy);
}

/* `-v`, `-vh`, `-oDIR`, `-o DIR`. */
static int parse_letters(struct cli *cli, int argc, char **argv, int *i)
{
	for (const char *p = argv[*i] + 1; *p; p++) {
		int o = 0;

		while (o < OPTION_COUNT && !(rows[o].letter == *p && rows[o].commands & 1u << cli->command))
			o++;
		if (o == OPTION_COUNT)
			return unknown_option(cli, argv[*i], NULL);
		if (!rows[o].argument) {
			add(cli, o, NULL);
			continue;
		}
		if (p[1])
			return add(cli, o, p + 1);
		if (*i + 1 >= argc || !strcmp(argv[*i + 1], "--"))
			return fail(cli, "-%c needs a value: -%c %s", *p, *p, rows[o].argument);
		return add(cli, o, argv[++*i]);
	}
	return 0;
}

static void add_environment(struct cli *cli)
{
	for (int o = 0; o < OPTION_COUNT; o++) {
		const char *value = rows[o].env ? getenv(rows[o].env) : NULL;

		if (!value || !*value || cli->options[o].n || !(rows[o].commands & 1u << cli->command))
			continue;
		if (rows[o].argument || strcmp(value, "0"))
			add(cli, o, value);
	}
}

static int parse_words(struct cli *cli, int argc, char **argv)
{
	int out = 2;				/* operands are gathered in argv itself, in place */

	for (int i = 2; i < argc; i++) {
		int rc = 0;

		if (!strcmp(argv[i], "--")) {
			while (++i < argc)
				argv[out++] = argv[i];
			break;
		}
		if (argv[i][0] == '-' && argv[i][1] == '-')
			rc = parse_long(cli, argc, argv, &i);
		else if (argv[i][0] == '-' && argv[i][1])
			rc = parse_letters(cli, argc, argv, &i);
		else
			argv[out++] = argv[i];
		if (rc)
			return rc;
		if (cli->command == COMMAND_run && out > 2) {
			while (++i < argc)	/* the rest is the child's, options and `--` included */
				argv[out++] = argv[i];
			break;
		}
	}
	argv[out] = NULL;			/* argv[argc] exists and is NULL */
	cli->operands = argv + 2;
	cli->noperands = out - 2;
	return 0;
}

static int check_color(struct cli *cli)
{
	const char *when = cli_value(cli, OPTION_color, "auto");

	if (strcmp(when, "auto") && strcmp(when, "always") && strcmp(when, "never"))
		return fail(cli, "--color is auto, always or never, not %.40s", when);
	return 0;
}

int cli_parse(struct cli *cli, int argc, char **argv)
{
	const char *near;
	int c;

	memset(cli, 0, sizeof(*cli));
	cli->command = COMMAND_help;
	if (argc < 2)
		return fail(cli, "a command is missing: whyidle run -- CMD, or whyidle report PATH; whyidle --help lists them all");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		cli->operands = argv + argc;
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		cli->command = COMMAND_version;
		cli->operands = argv + argc;
		return 0;
	}
	c = cli_command_by_name(argv[1]);
	if (c < 0) {
		near = nearest_command(argv[1]);
		if (near)
			return fail(cli, "there is no command %.60s; did you mean whyidle %s?", argv[1], near);
		if (argv[1][0] == '-')
			return fail(cli, "%.60s: options follow the command, as in whyidle run -o DIR -- CMD; see whyidle --help", argv[1]);
		return fail(cli, "there is no command %.60s; to profile it: whyidle run -- %.60s; see whyidle --help", argv[1], argv[1]);
	}
	cli->command = c;
	if (parse_words(cli, argc, argv))
		return -1;
	add_environment(cli);
	if (cli_given(cli, OPTION_help))
		return 0;
	return check_color(cli);
}

static void print_option(FILE *to, const struct option_row *row)
{
	char left[64];

	snprintf(left, sizeof(left), "%c%c%c --%s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ', row->letter ? ',' : ' ',
		row->name, row->argument ? " " : "", row->argument ? row->argument : "");
	fprintf(to, "  %-20s  %s\n", left, row->help);
}

static void print_environment(FILE *to, enum command c)
{
	fprintf(to, "\nEnvironment:\n");
	for (int i = 0; i < OPTION_COUNT; i++)
		if (rows[i].env && rows[i].commands & 1u << c)
			fprintf(to, "  %-20s  as --%s\n", rows[i].env, rows[i].name);
	if (c != COMMAND_run)
		return;
	for (size_t i = 0; i < sizeof(environment) / sizeof(environment[0]); i++)
		fprintf(to, "  %-20s  %s (%s)\n", environment[i].name, environment[i].meaning, environment[i].otherwise);
}

static void print_expressions(FILE *to)
{
	fprintf(to, "\nEXPR is SUBJECT OP NUMBER, e.g. \"lost > 20%%\", \"data.storage >= 5%%\", \"unknown > 10%%\", \"findings > 0\":\n"
		"  SUBJECT   idle, compute, exposed_comm, exposed_copy, lost (the last three but compute together), wasted (skipped steps);\n"
		"            a headline group: data, retries, other_comm, scaler, other, unknown; a leaf: data.storage ...; counts: findings,\n"
		"            warnings, criticals, dropped, skipped (steps)\n"
		"  OP        >  >=  <  <=  ==  !=\n"
		"  NUMBER    with %%: share of the steady window over all devices (run window when there are no steps); with ns, us, ms, s: time; bare: a count\n");
}

void cli_help_command(FILE *to, enum command c)
{
	const struct command_row *row = &commands[c];
	bool expressions = false;

	fprintf(to, "Usage: whyidle %s%s%s\n\n%s.\n%s%s", row->name, *row->operands ? " " : "", row->operands, row->line, *row->more ? "\n" : "",
		row->more);
	fprintf(to, "\nOptions:\n");
	for (int i = 0; i < OPTION_COUNT; i++) {
		if (!(rows[i].commands & 1u << c))
			continue;
		print_option(to, &rows[i]);
		expressions |= i == OPTION_fail_if;
	}
	if (expressions) {
		print_expressions(to);
		print_environment(to, c);
	}
}

void cli_help(FILE *to)
{
	fprintf(to, "whyidle says why your GPU was idle while a training job ran, and what to change.\n\nUsage:\n");
	for (int i = 0; i < COMMAND_COUNT; i++) {
		char left[64];

		snprintf(left, sizeof(left), "whyidle %s %s", commands[i].name, commands[i].operands);
		fprintf(to, "  %-42s  %s\n", left, commands[i].line);
	}
	fprintf(to, "\nwhyidle COMMAND --help tells more. Exit codes: 0 done, 1 done and the answer is no (--fail-if), 2 wrong usage,\n"
		"3 could not read or write; run exits with CMD's own status.\n");
}
