/* SPDX-License-Identifier: Apache-2.0
 *
 * A result on paper. Renderers see the result only: no trace, no event, no option of the command line but these.
 */
#ifndef WHYIDLE_ANALYZER_RENDER_H
#define WHYIDLE_ANALYZER_RENDER_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/result.h"

struct render_options {
	bool color, verbose;
	const char *shown;		/* session directory or trace that the reader should open, NULL = not said */
	bool several;			/* `shown` is a directory with several traces */
};

/* Text of 100 columns, what matters first. A healthy run is one line. 0, or -1 when writing failed. */
int render_text(FILE *to, const struct result *r, const struct render_options *o);

/* Schema whyidle.report/1. 0, or -1 when writing failed. */
int render_json(FILE *to, const struct result *r);

#endif
