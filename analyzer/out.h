/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of at most 100 columns, with colour where wanted. What goes through out_wrap and out_text is cleaned (util.h) first.
 */
#ifndef WHYIDLE_ANALYZER_OUT_H
#define WHYIDLE_ANALYZER_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define OUT_COLUMNS 100

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_BAD, STYLE_WARN, STYLE_GOOD };

struct out {
	FILE *to;
	bool color;
};

/* `when`: "auto" (a terminal, and NO_COLOR is not set), "always", "never". */
bool out_wants_color(FILE *to, const char *when);

/* Begins and ends a style; nothing without colour. */
void out_style(const struct out *o, enum style s);

/* printf in a style. For our own words: not cleaned. */
__attribute__((format(printf, 3, 4))) void out_print(const struct out *o, enum style s, const char *fmt, ...);

/* `text` broken at blanks, on a line that already has `column` columns; further lines begin there too. Newline at the end. */
void out_wrap_at(const struct out *o, enum style s, size_t column, const char *text);

/* `lead` (its columns are the indent of further lines), then `text` in style `s`, broken likewise. */
void out_wrap(const struct out *o, enum style s, const char *lead, const char *text);

/* printf, then out_wrap in plain style. */
__attribute__((format(printf, 3, 4))) void out_wrapf(const struct out *o, const char *lead, const char *fmt, ...);

#endif
