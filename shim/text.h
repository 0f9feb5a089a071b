/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts short texts together in memory of fixed size; what does not fit is cut. Async-signal-safe.
 */
#ifndef WHYIDLE_SHIM_TEXT_H
#define WHYIDLE_SHIM_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text_out {
	char *at, *end;		/* `end` leaves room for the terminator */
};

static inline struct text_out text_out(char *buf, size_t size)
{
	return (struct text_out){ .at = buf, .end = buf + size - 1 };
}

static inline void text_bytes(struct text_out *o, const char *s, size_t n)
{
	size_t room = (size_t)(o->end - o->at);

	if (n > room)
		n = room;
	memcpy(o->at, s, n);
	o->at += n;
	*o->at = 0;
}

static inline void text_str(struct text_out *o, const char *s)
{
	text_bytes(o, s, strlen(s));
}

static inline void text_base(struct text_out *o, uint64_t v, unsigned base)
{
	char digits[24];
	unsigned n = sizeof(digits);

	do
		digits[--n] = "0123456789abcdef"[v % base];
	while (v /= base);
	text_bytes(o, digits + n, sizeof(digits) - n);
}

static inline void text_uint(struct text_out *o, uint64_t v)
{
	text_base(o, v, 10);
}

static inline void text_hex(struct text_out *o, uint64_t v)
{
	text_base(o, v, 16);
}

#endif
