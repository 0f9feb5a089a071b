/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: options of run end where the job's begin, mistakes get a hint, help comes from the tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/cli.h"
#include "trace/settings.h"

static char *words[128];

/* Splits at blanks; keeps its own copy. */
static int parse(struct cli *cli, const char *line)
{
	static char copy[1024];
	int argc = 0;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		words[argc++] = w;
	words[argc] = NULL;
	return cli_parse(cli, argc, words);
}

static void run_options_end_at_the_command(void **state)
{
	struct cli cli;

	assert_int_equal(parse(&cli, "whyidle run -o D --json -- prog -v --json -- x"), 0);
	assert_int_equal(cli.command, COMMAND_run);
	assert_string_equal(cli_value(&cli, OPTION_output, ""), "D");
	assert_int_equal(cli.options[OPTION_json].n, 1);
	assert_int_equal(cli.noperands, 5);
	assert_string_equal(cli.operands[0], "prog");
	assert_string_equal(cli.operands[3], "--");
	assert_null(cli.operands[5]);
	assert_int_equal(parse(&cli, "whyidle run prog --json"), 0);
	assert_false(cli_given(&cli, OPTION_json));
	assert_int_equal(cli.noperands, 2);
	assert_int_equal(parse(&cli, "whyidle run --"), 0);
	assert_int_equal(cli.noperands, 0);
	assert_int_equal(parse(&cli, "whyidle run --sim -- --weird"), 0);
	assert_string_equal(cli.operands[0], "--weird");
}

static void report_takes_options_anywhere(void **state)
{
	struct cli cli;

	assert_int_equal(parse(&cli, "whyidle report a --json b --fail-if x --fail-if=y -v"), 0);
	assert_int_equal(cli.noperands, 2);
	assert_string_equal(cli.operands[1], "b");
	assert_int_equal(cli.options[OPTION_fail_if].n, 2);
	assert_string_equal(cli.options[OPTION_fail_if].values[1], "y");
	assert_true(cli_given(&cli, OPTION_verbose));
	assert_int_equal(parse(&cli, "whyidle report -- --json"), 0);
	assert_int_equal(cli.noperands, 1);
}

static void letters_take_values_attached_or_not(void **state)
{
	struct cli cli;

	assert_int_equal(parse(&cli, "whyidle run -oDIR x"), 0);
	assert_string_equal(cli_value(&cli, OPTION_output, ""), "DIR");
	assert_int_equal(parse(&cli, "whyidle run -vo DIR x"), 0);
	assert_true(cli_given(&cli, OPTION_verbose));
	assert_string_equal(cli_value(&cli, OPTION_output, ""), "DIR");
}

static void mistakes_get_a_sentence(void **state)
{
	static const char *const bad[][2] = {
		{ "whyidle", "command is missing" }, { "whyidle rum", "did you mean whyidle run" }, { "whyidle --json", "follow the command" },
		{ "whyidle python train.py", "whyidle run -- python" }, { "whyidle run --jsno x", "did you mean --json" },
		{ "whyidle run -z x", "has no option -z" }, { "whyidle run -o", "needs a value" }, { "whyidle run -o -- x", "needs a value" },
		{ "whyidle run --output", "needs a value" }, { "whyidle run --json=1 x", "takes no value" },
		{ "whyidle run --foo x", "see whyidle run --help" }, { "whyidle run --no x", "see whyidle run --help" },
		{ "whyidle run --fial-if x", "did you mean --fail-if" }, { "whyidle ls", "whyidle run -- ls" }, { "whyidle repor x", "did you mean whyidle report" },
		{ "whyidle run --output= x", "is given nothing" }, { "whyidle report --report= x", "is given nothing" },
		{ "whyidle report --fail-if= x", "is given nothing" }, { "whyidle annotate --output= x", "is given nothing" },
		{ "whyidle report --sim x", "has no option --sim" }, { "whyidle report --color=sometimes x", "auto, always or never" },
	};
	struct cli cli;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!parse(&cli, bad[i][0]))
			fail_msg("accepted: %s", bad[i][0]);
		if (!strstr(cli.error, bad[i][1]))
			fail_msg("%s: %s", bad[i][0], cli.error);
	}
}

static void an_empty_word_is_no_value(void **state)
{
	char *lines[][6] = { { "whyidle", "run", "-o", "", "x" }, { "whyidle", "run", "--report", "", "x" }, { "whyidle", "annotate", "-o", "", "x" } };
	struct cli cli;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(cli_parse(&cli, 5, lines[i]), -1);
		assert_non_null(strstr(cli.error, "is given nothing"));
	}
}

static void environment_counts_when_the_option_is_not_given(void **state)
{
	struct cli cli;

	setenv("WHYIDLE_DIR", "E", 1);
	setenv("WHYIDLE_JSON", "0", 1);
	setenv("WHYIDLE_SIM", "1", 1);
	assert_int_equal(parse(&cli, "whyidle run x"), 0);
	assert_string_equal(cli_value(&cli, OPTION_output, ""), "E");
	assert_false(cli_given(&cli, OPTION_json));
	assert_true(cli_given(&cli, OPTION_sim));
	assert_int_equal(parse(&cli, "whyidle run -o D x"), 0);
	assert_string_equal(cli_value(&cli, OPTION_output, ""), "D");
	unsetenv("WHYIDLE_DIR");
	unsetenv("WHYIDLE_JSON");
	unsetenv("WHYIDLE_SIM");
}

static void too_many_repeats_are_refused(void **state)
{
	char line[1024] = "whyidle report";
	struct cli cli;

	for (int i = 0; i <= CLI_REPEATS; i++)
		strcat(line, " --fail-if x");
	assert_int_equal(parse(&cli, line), -1);
}

static void help_names_every_option_once(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (int c = 0; c < COMMAND_COUNT; c++)
		cli_help_command(f, c);
	cli_help(f);
	fclose(f);
#define OPTION(id, letter, name, argument, env, commands, help) assert_non_null(strstr(text, "--" name));
#include "analyzer/option.def"
#undef OPTION
#define COMMAND(name, operands, line, more) assert_non_null(strstr(text, "whyidle " #name));
#include "analyzer/command.def"
#undef COMMAND
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (strlen(line) > 150)
			fail_msg("too long: %s", line);
	free(text);
}

/* The defaults that help tells are those that the recorder takes. */
static void help_tells_the_recorders_defaults(void **state)
{
#define ENVIRONMENT(name, otherwise, meaning) { name, otherwise },
	static const char *const told[][2] = {
#include "analyzer/environment.def"
	};
#undef ENVIRONMENT
#define SETTING(name, otherwise, least, most) { "WHYIDLE_" #name, #otherwise },
	static const char *const taken[][2] = { SETTINGS(SETTING) };
#undef SETTING
	size_t found = 0;

	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		for (size_t j = 0; j < sizeof(told) / sizeof(told[0]); j++) {
			if (strcmp(taken[i][0], told[j][0]))
				continue;
			assert_string_equal(taken[i][1], told[j][1]);
			found++;
		}
	}
	assert_int_equal(found, sizeof(taken) / sizeof(taken[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_options_end_at_the_command),
		cmocka_unit_test(report_takes_options_anywhere),
		cmocka_unit_test(letters_take_values_attached_or_not),
		cmocka_unit_test(mistakes_get_a_sentence),
		cmocka_unit_test(an_empty_word_is_no_value),
		cmocka_unit_test(environment_counts_when_the_option_is_not_given),
		cmocka_unit_test(too_many_repeats_are_refused),
		cmocka_unit_test(help_names_every_option_once),
		cmocka_unit_test(help_tells_the_recorders_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
