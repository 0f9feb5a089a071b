/* SPDX-License-Identifier: Apache-2.0
 *
 * whyidle doctor: asks the questions of doctor_check.h and prints the answers.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/cli.h"
#include "analyzer/doctor_check.h"
#include "analyzer/mem.h"
#include "analyzer/out.h"
#include "analyzer/util.h"

static const struct {
	const char *name;
	struct check (*ask)(void);
} questions[] = {
#define CHECK(name, function) { name, function },
	CHECKS(CHECK)
#undef CHECK
};

static const struct {
	const char *word;
	enum style style;
} states[] = { [CHECK_OK] = { "ok", STYLE_GOOD }, [CHECK_INFO] = { "note", STYLE_PLAIN }, [CHECK_MISSING] = { "missing", STYLE_WARN },
	[CHECK_BAD] = { "BAD", STYLE_BAD } };

static void print_check(const struct out *o, const char *name, const struct check *c)
{
	char *lead = mem_format("%24s", "");

	out_print(o, states[c->state].style, "%-8s", states[c->state].word);
	fprintf(o->to, "%-14s  ", name);
	out_wrap_at(o, STYLE_PLAIN, 24, c->found);
	if (c->missing)
		out_wrapf(o, lead, "in recordings: %s", c->missing);
	if (c->how)
		out_wrapf(o, lead, "to get it: %s", c->how);
	free(lead);
}

static json_t *text(const char *s)
{
	char *clean = s ? clean_text(s) : NULL;
	json_t *j = clean ? json_string(clean) : json_null();

	free(clean);
	return j;
}

static void add_json(json_t *list, const char *name, const struct check *c)
{
	json_t *o = json_object();

	json_object_set_new(o, "check", json_string(name));
	json_object_set_new(o, "state", json_string(c->state == CHECK_BAD ? "bad" : states[c->state].word));
	json_object_set_new(o, "found", text(c->found));
	json_object_set_new(o, "missing", text(c->missing));
	json_object_set_new(o, "how", text(c->how));
	json_array_append_new(list, o);
}

int cmd_doctor(const struct cli *cli)
{
	const struct out o = { .to = stdout, .color = out_wants_color(stdout, cli_value(cli, OPTION_color, "auto")) };
	json_t *list = cli_given(cli, OPTION_json) ? json_array() : NULL;
	unsigned bad = 0, missing = 0;

	if (cli->noperands) {
		fprintf(stderr, "whyidle: doctor takes no operand; see whyidle doctor --help\n");
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		struct check c = questions[i].ask();

		bad += c.state == CHECK_BAD;
		missing += c.state == CHECK_MISSING;
		if (list)
			add_json(list, questions[i].name, &c);
		else
			print_check(&o, questions[i].name, &c);
		free(c.found);
		free(c.missing);
		free(c.how);
	}
	if (list) {
		json_dumpf(list, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(list);
	} else if (bad) {
		out_print(&o, STYLE_BAD, "\nwhyidle run cannot record here until what is BAD above is mended; jobs run all the same.\n");
	} else {
		printf("\nwhyidle run records here%s.\n", missing ? "; what is missing above will be missing in reports" : "");
	}
	return bad ? EXIT_NO : EXIT_DONE;
}
