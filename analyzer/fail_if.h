/* SPDX-License-Identifier: Apache-2.0
 *
 * --fail-if: `SUBJECT OP NUMBER`, for gating a pipeline on a result. The grammar is told by cli.c's help.
 */
#ifndef WHYIDLE_ANALYZER_FAIL_IF_H
#define WHYIDLE_ANALYZER_FAIL_IF_H

#include "analyzer/result.h"

struct fail_if {
	int subject;			/* row of subject.def, or -1 - leaf */
	enum { FAIL_GT, FAIL_GE, FAIL_LT, FAIL_LE, FAIL_EQ, FAIL_NE } op;
	enum { FAIL_SHARE, FAIL_TIME, FAIL_COUNT } unit;
	double number;			/* a share (0.2 for 20 %), ns, or a count */
};

/* 0, or -1 with a sentence in `why` that says how to write it. */
int fail_if_parse(struct fail_if *f, const char *text, char why[256]);

/* 1 holds, 0 does not, -1 cannot be told (nothing was measured). `found` gets the value that was compared, as people read it. */
int fail_if_holds(const struct fail_if *f, const struct result *r, char found[64]);

#endif
