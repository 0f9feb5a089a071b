/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats amounts and cleans text.
 */
#include "analyzer/util.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"

static const char *three_digits(char out[AMOUNT_MAX], double v, const char *unit)
{
	double a = fabs(v);

	snprintf(out, AMOUNT_MAX, "%.*f %s", a < 9.995 ? 2 : a < 99.95 ? 1 : 0, v, unit);
	return out;
}

const char *amount_time(char out[AMOUNT_MAX], int64_t ns)
{
	double v = (double)ns, a = fabs(v);

	if (a < 1e3) {
		snprintf(out, AMOUNT_MAX, "%lld ns", (long long)ns);
		return out;
	}
	if (a < 999.5e3)
		return three_digits(out, v / 1e3, "us");
	if (a < 999.5e6)
		return three_digits(out, v / 1e6, "ms");
	if (a < 119.5e9)
		return three_digits(out, v / 1e9, "s");
	if (a < 3600e9)
		snprintf(out, AMOUNT_MAX, "%lld min %02lld s", (long long)(ns / 60000000000), llabs(ns / 1000000000 % 60));
	else
		snprintf(out, AMOUNT_MAX, "%lld h %02lld min", (long long)(ns / 3600000000000), llabs(ns / 60000000000 % 60));
	return out;
}

const char *amount_share(char out[AMOUNT_MAX], double share)
{
	if (share > 0 && share < 0.0005)
		snprintf(out, AMOUNT_MAX, "< 0.1 %%");
	else
		snprintf(out, AMOUNT_MAX, "%.1f %%", share * 100);
	return out;
}

const char *amount_bytes(char out[AMOUNT_MAX], int64_t bytes)
{
	static const char *const units[] = { "kB", "MB", "GB", "TB", "PB" };
	double v = (double)bytes / 1e3;
	size_t i = 0;

	if (bytes < 1000) {
		snprintf(out, AMOUNT_MAX, "%lld B", (long long)bytes);
		return out;
	}
	for (; v >= 999.5 && i < 4; i++)
		v /= 1e3;
	return three_digits(out, v, units[i]);
}

/* Length of the valid UTF-8 character at p, 0 = not one. */
static size_t character(const unsigned char *p)
{
	uint32_t c;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	n = (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : (p[0] & 0xf8) == 0xf0 ? 4 : 0;
	if (!n)
		return 0;
	c = p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)	/* the terminator, too */
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < (n == 2 ? 0x80u : n == 3 ? 0x800u : 0x10000u) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	return n == 2 && c < 0xa0 ? 0 : n;	/* C1 controls */
}

char *clean_text(const char *s)
{
	const unsigned char *p = (const unsigned char *)(s ? s : "");
	size_t len = strlen((const char *)p), n;
	char *out = mem_new(len * 3 + 1, 1), *to = out;

	while (*p) {
		n = character(p);
		if (n == 1 && (*p < 0x20 || *p == 0x7f)) {
			*to++ = *p == '\t' || *p == '\n' ? ' ' : '?';
			p++;
		} else if (n) {
			memcpy(to, p, n);
			to += n;
			p += n;
		} else {
			memcpy(to, "\xef\xbf\xbd", 3);	/* the replacement character */
			to += 3;
			p++;
		}
	}
	return out;
}

size_t text_columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}
