/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses and decides --fail-if expressions.
 */
#include "analyzer/fail_if.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings.h"
#include "analyzer/util.h"

enum kind { TIME, COUNT };

static const struct {
	const char *name;
	enum kind kind;
} subjects[] = {
#define SUBJECT(name, kind, value) { name, kind },
#include "analyzer/subject.def"
#undef SUBJECT
};

#define NSUBJECTS ((int)(sizeof(subjects) / sizeof(subjects[0])))
#define fail(...) (snprintf(why, 256, __VA_ARGS__), -1)

/* ---- parsing */

static const char *skip_blanks(const char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

static int parse_subject(struct fail_if *f, const char **p, char why[256])
{
	size_t len = 0;
	char name[64];

	while (isalnum((unsigned char)(*p)[len]) || (*p)[len] == '_' || (*p)[len] == '.')
		len++;
	if (!len || len >= sizeof(name))
		return fail("--fail-if begins with what to look at, as in \"idle > 20%%\"");
	snprintf(name, sizeof(name), "%.*s", (int)len, *p);
	*p += len;
	for (int i = 0; i < NSUBJECTS; i++) {
		if (!strcmp(subjects[i].name, name)) {
			f->subject = i;
			return 0;
		}
	}
	if (leaf_by_name(name) < 0)
		return fail("--fail-if knows no \"%s\": it is idle, lost, data, retries, findings ..., or a leaf such as data.storage "
			"(whyidle report --help)", name);
	f->subject = -1 - leaf_by_name(name);
	return 0;
}

static int parse_op(struct fail_if *f, const char **p, char why[256])
{
	static const char *const ops[] = { [FAIL_GE] = ">=", [FAIL_LE] = "<=", [FAIL_EQ] = "==", [FAIL_NE] = "!=", [FAIL_GT] = ">", [FAIL_LT] = "<" };
	static const int longest_first[] = { FAIL_GE, FAIL_LE, FAIL_EQ, FAIL_NE, FAIL_GT, FAIL_LT };

	*p = skip_blanks(*p);
	for (int i = 0; i < 6; i++) {
		const char *op = ops[longest_first[i]];

		if (!strncmp(*p, op, strlen(op))) {
			f->op = longest_first[i];
			*p = skip_blanks(*p + strlen(op));
			return 0;
		}
	}
	return fail("--fail-if compares with >, >=, <, <=, == or !=, as in \"idle > 20%%\"");
}

/* Digits and one point only: strtod would take "inf", "0x1p3" and, in some locales, a comma. */
static bool parse_number(double *out, const char **p)
{
	double v = 0, scale = 1;
	bool any = false;

	for (; isdigit((unsigned char)**p); (*p)++, any = true)
		v = v * 10 + (**p - '0');
	if (**p == '.')
		for ((*p)++; isdigit((unsigned char)**p); (*p)++, any = true)
			v += (**p - '0') * (scale /= 10);
	*out = v;
	return any;
}

static int parse_unit(struct fail_if *f, const char *p, char why[256])
{
	static const struct {
		const char *name;
		int unit;
		double factor;
	} units[] = { { "%", FAIL_SHARE, 0.01 }, { "ns", FAIL_TIME, 1 }, { "us", FAIL_TIME, 1e3 }, { "ms", FAIL_TIME, 1e6 }, { "s", FAIL_TIME, 1e9 },
		{ "", FAIL_COUNT, 1 } };
	bool count = f->subject >= 0 && subjects[f->subject].kind == COUNT;

	p = skip_blanks(p);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t len = strlen(units[i].name);

		if (strncmp(p, units[i].name, len) || *skip_blanks(p + len))
			continue;
		f->unit = units[i].unit;
		f->number *= units[i].factor;
		if (count && f->unit != FAIL_COUNT)
			return fail("--fail-if: %s is a count: no %% and no unit, as in \"%s > 0\"", subjects[f->subject].name,
				subjects[f->subject].name);
		if (!count && f->unit == FAIL_COUNT)
			return fail("--fail-if: a time is compared with a share or a time, as in \"> 20%%\" or \"> 500ms\"");
		return 0;
	}
	return fail("--fail-if: \"%.40s\" is not a unit: %%, ns, us, ms, s or nothing; one comparison each, more with another --fail-if", p);
}

int fail_if_parse(struct fail_if *f, const char *text, char why[256])
{
	const char *p = skip_blanks(text);
	int rc;

	memset(f, 0, sizeof(*f));
	rc = parse_subject(f, &p, why);
	if (!rc)
		rc = parse_op(f, &p, why);
	if (!rc && !parse_number(&f->number, &p))
		rc = fail("--fail-if needs a number after the comparison, as in \"idle > 20%%\"");
	return rc ? rc : parse_unit(f, p, why);
}

/* ---- deciding */

static struct window_result states(const struct result *r)
{
	struct window_result sum = { 0 };

	for (unsigned i = 0; i < r->ndevices; i++) {
		const struct window_result *w = device_window(&r->devices[i]);

		sum.compute_ns += w->compute_ns;
		sum.exposed_comm_ns += w->exposed_comm_ns;
		sum.exposed_copy_ns += w->exposed_copy_ns;
		sum.idle_ns += w->idle_ns;
	}
	return sum;
}

static int64_t lost(const struct result *r)
{
	struct window_result w = states(r);

	return w.exposed_comm_ns + w.exposed_copy_ns + w.idle_ns;
}

static int64_t severities(const struct result *r, enum severity least)
{
	int64_t n = 0;

	for (unsigned i = 0; i < r->nfindings; i++)
		n += r->findings[i].severity >= least;
	return n;
}

static int64_t skipped(const struct result *r)
{
	int64_t most = 0;

	for (unsigned i = 0; i < r->ndevices; i++)
		if (r->devices[i].steps.skipped > most)
			most = r->devices[i].steps.skipped;
	return most;
}

static int64_t value(int subject, const struct result *r)
{
	int row = 0;

	if (subject < 0)
		return result_leaf_ns(r, -1 - subject);
#define SUBJECT(name, kind, expression)	\
	if (row++ == subject)		\
		return (int64_t)(expression);
#include "analyzer/subject.def"
#undef SUBJECT
	return 0;
}

/* States of a device are unknown, not zero, when no device was seen. */
static bool measured(int subject, const struct result *r)
{
	static const char *const of_devices[] = { "compute", "exposed_comm", "exposed_copy", "idle", "lost", "wasted", "skipped" };

	if (subject >= 0)
		for (size_t i = 0; i < sizeof(of_devices) / sizeof(of_devices[0]); i++)
			if (!strcmp(subjects[subject].name, of_devices[i]) && !r->ndevices)
				return false;
	return (subject >= 0 && subjects[subject].kind == COUNT) || result_window_ns(r) > 0;
}

int fail_if_holds(const struct fail_if *f, const struct result *r, char found[64])
{
	char amount[AMOUNT_MAX];
	double v;

	snprintf(found, 64, "nothing was measured");
	if (!measured(f->subject, r))
		return -1;
	v = (double)value(f->subject, r);
	if (f->unit == FAIL_SHARE) {
		v /= (double)result_window_ns(r);
		snprintf(found, 64, "%s", amount_share(amount, v));
	} else if (f->unit == FAIL_TIME) {
		snprintf(found, 64, "%s", amount_time(amount, (int64_t)v));
	} else {
		snprintf(found, 64, "%.0f", v);
	}
	switch (f->op) {
	case FAIL_GT: return v > f->number;
	case FAIL_GE: return v >= f->number;
	case FAIL_LT: return v < f->number;
	case FAIL_LE: return v <= f->number;
	case FAIL_EQ: return v == f->number;
	case FAIL_NE: return v != f->number;
	}
	return -1;
}
