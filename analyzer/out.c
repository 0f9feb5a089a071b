/* SPDX-License-Identifier: Apache-2.0
 *
 * Colour and line breaking.
 */
#include "analyzer/out.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/util.h"

static const char *const codes[] = { [STYLE_PLAIN] = "", [STYLE_BOLD] = "\033[1m", [STYLE_DIM] = "\033[2m", [STYLE_BAD] = "\033[1;31m",
	[STYLE_WARN] = "\033[33m", [STYLE_GOOD] = "\033[32m" };

bool out_wants_color(FILE *to, const char *when)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (!strcmp(when, "always"))
		return true;
	if (!strcmp(when, "never") || (no && *no) || (term && !strcmp(term, "dumb")))
		return false;
	return isatty(fileno(to)) == 1;
}

void out_style(const struct out *o, enum style s)
{
	if (o->color)
		fputs(s == STYLE_PLAIN ? "\033[0m" : codes[s], o->to);
}

void out_print(const struct out *o, enum style s, const char *fmt, ...)
{
	va_list ap;

	if (s != STYLE_PLAIN)
		out_style(o, s);
	va_start(ap, fmt);
	vfprintf(o->to, fmt, ap);
	va_end(ap);
	if (s != STYLE_PLAIN)
		out_style(o, STYLE_PLAIN);
}

/* Bytes of the next line: up to `width` columns, broken at the last blank; a word too long for a line gets one of its own. */
static size_t line_bytes(const char *p, size_t width)
{
	size_t columns = 0, at = 0, blank = 0;

	for (; p[at]; at++) {
		if (((unsigned char)p[at] & 0xc0) != 0x80 && ++columns > width && blank)
			return blank;
		if (p[at] == ' ' && at && p[at - 1] != ' ') {
			if (columns > width)
				return at;
			blank = at;
		}
	}
	return at;
}

void out_wrap_at(const struct out *o, enum style s, size_t column, const char *text)
{
	char *clean = clean_text(text);
	const char *p = clean;
	size_t n;

	if (s != STYLE_PLAIN)
		out_style(o, s);
	for (;;) {
		n = line_bytes(p, OUT_COLUMNS - column);
		fwrite(p, 1, n, o->to);
		p += n;
		while (*p == ' ')
			p++;
		if (!*p)
			break;
		fprintf(o->to, "\n%*s", (int)column, "");
	}
	if (s != STYLE_PLAIN)
		out_style(o, STYLE_PLAIN);
	fputc('\n', o->to);
	free(clean);
}

void out_wrap(const struct out *o, enum style s, const char *lead, const char *text)
{
	fputs(lead, o->to);
	out_wrap_at(o, s, text_columns(lead), text);
}

void out_wrapf(const struct out *o, const char *lead, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	out_wrap(o, STYLE_PLAIN, lead, text ? text : "");
	free(text);
}
