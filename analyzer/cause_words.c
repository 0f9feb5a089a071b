/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as people say them: three significant digits, decimal units.
 */
#include "analyzer/cause_words.h"

#include <stdarg.h>
#include <stdio.h>

#include "analyzer/result.h"

static const char *say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static const char *say(const char *fmt, ...)
{
	static char buffers[32][64];
	static unsigned next;
	char *out = buffers[next++ % 32];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out, sizeof(buffers[0]), fmt, ap);
	va_end(ap);
	return out;
}

static const char *three_digits(double v, const char *unit)
{
	if (v >= 99.95)
		return say("%.0f %s", v, unit);
	if (v >= 9.995)
		return say("%.1f %s", v, unit);
	return say("%.2f %s", v, unit);
}

const char *words_ns(int64_t ns)
{
	double v = (double)ns;

	if (ns < 0)
		return say("-%s", words_ns(-ns));
	if (v >= 999.5e6)
		return three_digits(v / 1e9, "s");
	if (v >= 999.5e3)
		return three_digits(v / 1e6, "ms");
	if (ns >= 1000)
		return three_digits(v / 1e3, "us");
	return say("%d ns", (int)ns);
}

const char *words_bytes(int64_t bytes)
{
	double v = (double)bytes;

	if (v >= 999.5e6)
		return three_digits(v / 1e9, "GB");
	if (v >= 999.5e3)
		return three_digits(v / 1e6, "MB");
	if (v >= 1000)
		return three_digits(v / 1e3, "KB");
	return say("%lld bytes", (long long)bytes);
}

const char *words_rate(int64_t bytes, int64_t ns)
{
	double mbs = ns > 0 ? (double)bytes / (double)ns * 1e3 : 0;

	return mbs >= 9995 ? three_digits(mbs / 1e3, "GB/s") : three_digits(mbs, "MB/s");
}

const char *words_share(int64_t part, int64_t whole)
{
	double v = whole > 0 ? 100.0 * (double)part / (double)whole : 0;

	return v >= 9.95 ? say("%.0f %%", v) : say("%.1f %%", v);
}

const char *words_count(int64_t n, const char *one, const char *many)
{
	return say("%lld %s", (long long)n, n == 1 ? one : many);
}

const char *words_waiter(const struct result *r, bool begins_sentence)
{
	if (r->ndevices)
		return begins_sentence ? "The GPU" : "the GPU";
	return begins_sentence ? "Training" : "training";
}
