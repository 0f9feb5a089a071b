/* SPDX-License-Identifier: Apache-2.0
 *
 * whyidle compare: two runs of one job, cause by cause. Times per step, so that runs of different length can be held against each other.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cli.h"
#include "analyzer/findings.h"
#include "analyzer/mem.h"
#include "analyzer/out.h"
#include "analyzer/report.h"
#include "analyzer/util.h"

/* What of a step is smaller is not spoken of. */
#define LITTLE 0.02

/* One run, as ns of a GPU (of a training thread, where there is none) per step, or in all when no steps are known. */
struct side {
	struct result r;
	double step_ns, compute_ns, idle_ns, wasted_ns, leaf_ns[LEAF_COUNT];
	int64_t steps, checks, skips;
};

struct comparison {
	struct side before, after;
	bool per_step;
	enum leaf culprit;		/* the cause that grew most */
	double culprit_ns;
};

/* Mean length of a step: of the slowest rank, since the others wait for it. 0 = none found. */
static int64_t usual_step(const struct result *r)
{
	int64_t most = 0;

	for (unsigned i = 0; i < r->ndevices; i++) {
		const struct window_result *w = &r->devices[i].windows[WINDOW_STEADY];

		if (!w->present || w->steps < 1)
			return 0;
		if (w->ns / w->steps > most)
			most = w->ns / w->steps;
	}
	for (unsigned i = 0; !r->ndevices && i < r->nhost_only; i++) {
		const struct host_result *h = &r->host_only[i];

		if (h->steps.count < 1)
			return 0;
		if (h->wall_ns / h->steps.count > most)
			most = h->wall_ns / h->steps.count;
	}
	return most;
}

static void measure(struct side *s, bool per_step)
{
	const struct result *r = &s->r;
	double window = (double)result_window_ns(r), scale;
	unsigned n = r->ndevices ? r->ndevices : r->nhost_only;

	s->step_ns = per_step ? (double)usual_step(r) : n ? window / n : 0;
	scale = window > 0 ? s->step_ns / window : 0;
	for (unsigned i = 0; i < r->ndevices; i++) {
		s->compute_ns += (double)device_window(&r->devices[i])->compute_ns * scale;
		s->idle_ns += (double)device_window(&r->devices[i])->idle_ns * scale;
		if (r->devices[i].scaler_checks > s->checks) {
			s->checks = r->devices[i].scaler_checks;
			s->skips = r->devices[i].scaler_skips;
		}
	}
	for (int l = 0; l < LEAF_COUNT; l++)
		s->leaf_ns[l] = (double)result_leaf_ns(r, l) * scale;
	s->wasted_ns = (double)result_wasted_ns(r) * scale;
	s->steps = result_steps(r);
}

static void compare(struct comparison *c)
{
	c->per_step = usual_step(&c->before.r) && usual_step(&c->after.r);
	measure(&c->before, c->per_step);
	measure(&c->after, c->per_step);
	for (int l = 0; l < LEAF_COUNT; l++) {
		double grew = c->after.leaf_ns[l] - c->before.leaf_ns[l];

		if (grew > c->culprit_ns) {
			c->culprit = l;
			c->culprit_ns = grew;
		}
	}
}

/* ---- words */

/* "38 % shorter", "2.4 x as long", "unchanged" */
static char *change(double before, double after, const char *less, const char *more)
{
	double ratio = before > 0 ? after / before : 0;

	if (before <= 0 && after <= 0)
		return mem_copy("unchanged");
	if (before <= 0)
		return mem_copy("new");
	if (fabs(ratio - 1) < LITTLE)
		return mem_copy("unchanged");
	if (ratio >= 2)
		return mem_format("%.1f x", ratio);
	return mem_format("%.0f %% %s", fabs(ratio - 1) * 100, ratio < 1 ? less : more);
}

/* "got 38 % shorter" */
static char *how(const char *what, const char *got, double before, double after, const char *less, const char *more)
{
	char *by = change(before, after, less, more), *out;
	double ratio = before > 0 ? after / before : 0;

	if (!strcmp(by, "unchanged"))
		out = mem_format("%s did not change", what);
	else if (!strcmp(by, "new"))
		out = mem_format("%s %s new", what, got);
	else if (ratio >= 2)
		out = mem_format("%s grew %s", what, by);
	else
		out = mem_format("%s got %s", what, by);
	free(by);
	return out;
}

static char *verdict(const struct comparison *c)
{
	const struct side *b = &c->before, *a = &c->after;
	char *step = how(c->per_step ? "A step" : "The run", "is", b->step_ns, a->step_ns, "shorter", "longer"), *kernels, *idle, *out;

	if (!a->r.ndevices || !b->r.ndevices) {
		out = c->culprit_ns > LITTLE * a->step_ns ? mem_format("%s: look at %s", step, leaf_name(c->culprit)) : mem_copy(step);
		free(step);
		return out;
	}
	kernels = how("kernels", "are", b->compute_ns, a->compute_ns, "shorter", "longer");
	idle = how("idle", "is", b->idle_ns, a->idle_ns, "shorter", "longer");
	out = mem_format("%s; %s, %s%s%s", step, kernels, idle, c->culprit_ns > LITTLE * a->step_ns ? ": look at " : "",
		c->culprit_ns > LITTLE * a->step_ns ? leaf_name(c->culprit) : "");
	free(step);
	free(kernels);
	free(idle);
	return out;
}

/* NULL = there is nothing to say. */
static char *scaler_words(const struct comparison *c)
{
	const struct side *a = &c->after;
	double cost = a->step_ns > 0 ? (a->wasted_ns + a->leaf_ns[LEAF_SCALER_SKIP]) / a->step_ns : 0;
	char share[AMOUNT_MAX];

	if (!a->checks)
		return NULL;
	amount_share(share, cost);
	if (cost < thresholds.note)
		return mem_format("loss scaler: %lld of %lld steps skipped, it costs %s: not your problem", (long long)a->skips, (long long)a->checks, share);
	return mem_format("loss scaler: %lld of %lld steps skipped, it costs %s: whyidle report tells more", (long long)a->skips, (long long)a->checks, share);
}

/* ---- text and JSON */

static void print_row(const struct out *o, const char *name, double before, double after, double step_ns)
{
	char was[AMOUNT_MAX], is[AMOUNT_MAX], *by = change(before, after, "less", "more");
	bool worth = fabs(after - before) > LITTLE * step_ns;

	fprintf(o->to, "  %-28s %10s %10s  ", name, amount_time(was, (int64_t)before), amount_time(is, (int64_t)after));
	out_print(o, !worth ? STYLE_DIM : after > before ? STYLE_BAD : STYLE_GOOD, "%s\n", by);
	free(by);
}

static void print_text(const struct out *o, const struct comparison *c)
{
	const struct side *b = &c->before, *a = &c->after;
	char *words = verdict(c);

	out_wrap(o, STYLE_BOLD, "", words);
	free(words);
	fprintf(o->to, "\n  %-28s %10s %10s  change\n", c->per_step ? "per step" : "whole run (no steps found)", "before", "after");
	print_row(o, c->per_step ? "a step" : "the run", b->step_ns, a->step_ns, a->step_ns);
	if (b->r.ndevices || a->r.ndevices) {
		print_row(o, "GPU computing", b->compute_ns, a->compute_ns, a->step_ns);
		print_row(o, "idle", b->idle_ns, a->idle_ns, a->step_ns);
	}
	for (int l = 0; l < LEAF_COUNT; l++)
		if (b->leaf_ns[l] > LITTLE / 4 * b->step_ns || a->leaf_ns[l] > LITTLE / 4 * a->step_ns)
			print_row(o, leaf_name(l), b->leaf_ns[l], a->leaf_ns[l], a->step_ns);
	if (b->wasted_ns > 0 || a->wasted_ns > 0)
		print_row(o, "computing of skipped steps", b->wasted_ns, a->wasted_ns, a->step_ns);
	words = scaler_words(c);
	if (words)
		fprintf(o->to, "\n  %s\n", words);
	free(words);
}

static json_t *side_json(const struct side *s)
{
	json_t *o = json_object(), *leaves = json_object();

	json_object_set_new(o, "steps", json_integer(s->steps));
	json_object_set_new(o, "step_ns", json_integer((json_int_t)s->step_ns));
	json_object_set_new(o, "compute_ns", json_integer((json_int_t)s->compute_ns));
	json_object_set_new(o, "idle_ns", json_integer((json_int_t)s->idle_ns));
	json_object_set_new(o, "scaler_wasted_ns", json_integer((json_int_t)s->wasted_ns));
	json_object_set_new(o, "scaler_checks", json_integer(s->checks));
	json_object_set_new(o, "scaler_skips", json_integer(s->skips));
	for (int l = 0; l < LEAF_COUNT; l++)
		json_object_set_new(leaves, leaf_name(l), json_integer((json_int_t)s->leaf_ns[l]));
	json_object_set_new(o, "lost_ns", leaves);
	return o;
}

static int print_json(FILE *to, const struct comparison *c)
{
	json_t *o = json_object();
	char *words = verdict(c), *scaler = scaler_words(c);
	int rc;

	json_object_set_new(o, "schema", json_string("whyidle.compare/1"));
	json_object_set_new(o, "verdict", json_string(words));
	json_object_set_new(o, "per_step", json_boolean(c->per_step));
	json_object_set_new(o, "before", side_json(&c->before));
	json_object_set_new(o, "after", side_json(&c->after));
	if (c->culprit_ns > LITTLE * c->after.step_ns)
		json_object_set_new(o, "look_at", json_string(leaf_name(c->culprit)));
	if (scaler)
		json_object_set_new(o, "loss_scaler", json_string(scaler));
	rc = json_dumpf(o, to, JSON_INDENT(1));
	fputc('\n', to);
	json_decref(o);
	free(words);
	free(scaler);
	return rc;
}

/* ---- the command */

static int decide(const struct cli *cli, const struct comparison *c, double percent)
{
	double slower = c->before.step_ns > 0 ? (c->after.step_ns / c->before.step_ns - 1) * 100 : 0;

	if (!cli_given(cli, OPTION_fail_if_slower) || slower <= percent)
		return EXIT_DONE;
	fprintf(stderr, "whyidle: %s takes %.1f %% longer than before\n", c->per_step ? "a step" : "the run", slower);
	return EXIT_NO;
}

int cmd_compare(const struct cli *cli)
{
	struct comparison c = { 0 };
	struct out o = { .to = stdout };
	const char *limit = cli_value(cli, OPTION_fail_if_slower, "0");
	char *end;
	double percent = strtod(limit, &end);
	int rc;

	if (cli->noperands != 2) {
		fprintf(stderr, "whyidle: compare needs two sessions: whyidle compare BEFORE AFTER\n");
		return EXIT_USAGE;
	}
	if (end == limit || strcmp(end, *end == '%' ? "%" : "") || !isfinite(percent) || percent < 0) {
		fprintf(stderr, "whyidle: --fail-if-slower: %s is no percentage\n", limit);
		return EXIT_USAGE;
	}
	rc = report_analyse((const char *const *)&cli->operands[0], 1, &c.before.r);
	if (rc)
		return rc;
	rc = report_analyse((const char *const *)&cli->operands[1], 1, &c.after.r);
	if (rc) {
		result_free(&c.before.r);
		return rc;
	}
	compare(&c);
	o.color = out_wants_color(stdout, cli_value(cli, OPTION_color, "auto"));
	if (!cli_given(cli, OPTION_json))
		print_text(&o, &c);
	else if (print_json(stdout, &c))
		rc = EXIT_IO;
	if (!rc)
		rc = decide(cli, &c, percent);
	result_free(&c.before.r);
	result_free(&c.after.r);
	return rc;
}
