/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer, see kineto_json.h. The text behind `end` is a 0, so that loops over characters need one test; a 0 inside of the text is told from it
 * by its place.
 */
#include "analyzer/kineto_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"
#include "trace/input.h"

enum { BLOCK = 256 << 10 };

struct jtext {
	struct input in;
	char *buf;
	size_t at, end;
	uint64_t base;			/* place of buf[0] in the text */
	bool eof, failed;
	char error[200];
	uint64_t error_at;
};

/* What ends a run of characters of no interest: in a string quotes and backslashes, between values quotes and brackets. */
enum { STRING_STOP = 1, VALUE_STOP = 2, SPACE = 4, SCALAR = 8 };
static const uint8_t kind[256] = {
	[0] = STRING_STOP | VALUE_STOP, ['"'] = STRING_STOP | VALUE_STOP, ['\\'] = STRING_STOP,
	['{'] = VALUE_STOP, ['}'] = VALUE_STOP, ['['] = VALUE_STOP, [']'] = VALUE_STOP,
	[' '] = SPACE, ['\t'] = SPACE, ['\n'] = SPACE, ['\r'] = SPACE,
	['0' ... '9'] = SCALAR, ['a' ... 'z'] = SCALAR, ['A' ... 'Z'] = SCALAR, ['+'] = SCALAR, ['-'] = SCALAR, ['.'] = SCALAR,
};

static inline uint8_t kind_at(const struct jtext *j)
{
	return kind[(uint8_t)j->buf[j->at]];
}

static struct jtext *begin(void)
{
	struct jtext *j = mem_new(1, sizeof(*j));

	j->buf = mem_new(BLOCK + 1, 1);
	return j;
}

static struct jtext *opened(struct jtext *j, int rc, const struct pf_error *err, char *error, size_t len)
{
	if (rc == 0)
		return j;
	snprintf(error, len, "%s%s%s", err->text, err->sys_errno ? ": " : "", err->sys_errno ? strerror(err->sys_errno) : "");
	free(j->buf);
	free(j);
	return NULL;
}

struct jtext *jtext_open_path(const char *path, char *error, size_t len)
{
	struct jtext *j = begin();
	struct pf_error err = {0};

	return opened(j, input_open_path(&j->in, path, &err), &err, error, len);
}

struct jtext *jtext_open_memory(const void *data, size_t n, char *error, size_t len)
{
	struct jtext *j = begin();
	struct pf_error err = {0};

	return opened(j, input_open_memory(&j->in, data, n, &err), &err, error, len);
}

void jtext_close(struct jtext *j)
{
	if (!j)
		return;
	input_close(&j->in);
	free(j->buf);
	free(j);
}

uint64_t jtext_offset(const struct jtext *j)
{
	return j->base + j->at;
}

bool jtext_refuse(struct jtext *j, const char *sentence)
{
	if (!j->failed) {
		j->failed = true;
		j->error_at = jtext_offset(j);
		snprintf(j->error, sizeof(j->error), "%s", sentence);
	}
	return false;
}

bool jtext_failed(const struct jtext *j)
{
	return j->failed;
}

const char *jtext_error(const struct jtext *j, uint64_t *offset)
{
	*offset = j->error_at;
	return j->error;
}

/* The next block. Everything before `at` is consumed; here `at` is always `end`. False = no more, or an error. */
static bool fill(struct jtext *j)
{
	struct pf_error err = {0};
	ssize_t n;

	if (j->failed || j->eof)
		return false;
	j->base += j->end;
	j->at = j->end = 0;
	n = input_read(&j->in, j->buf, BLOCK, &err);
	if (n < 0)
		return jtext_refuse(j, err.text);
	j->end = (size_t)n;
	j->buf[n] = '\0';
	j->eof = n == 0;
	return n > 0;
}

static bool cut(struct jtext *j)
{
	return jtext_refuse(j, "the JSON ends in the middle");
}

/* At a 0: is there more text? Steps over a 0 that is part of it. */
static bool past_zero(struct jtext *j)
{
	if (j->at < j->end) {
		j->at++;
		return true;
	}
	return fill(j);
}

int jtext_peek(struct jtext *j)
{
	if (j->failed)
		return -1;
	for (;;) {
		while (kind_at(j) & SPACE)
			j->at++;
		if (j->at < j->end)
			return (uint8_t)j->buf[j->at];
		if (!fill(j))
			return -1;
	}
}

bool jtext_take(struct jtext *j, char c)
{
	int found = jtext_peek(j);
	char text[64];

	if (found == (uint8_t)c) {
		j->at++;
		return true;
	}
	if (found < 0)
		return j->failed ? false : cut(j);
	snprintf(text, sizeof(text), found >= 32 && found < 127 ? "not JSON: '%c' expected, '%c' found" : "not JSON: '%c' expected, byte %d found", c, found);
	return jtext_refuse(j, text);
}

int jtext_element(struct jtext *j, bool *first)
{
	int c = jtext_peek(j);

	if (c == ']') {
		j->at++;
		return 0;
	}
	if (!*first && !jtext_take(j, ','))
		return -1;
	*first = false;
	c = jtext_peek(j);
	if (c < 0)
		return cut(j), -1;
	if (c == ']') {			/* a comma too many: written by some versions, harmless */
		j->at++;
		return 0;
	}
	return 1;
}

int jtext_key(struct jtext *j, bool *first, char *key, size_t cap)
{
	int c = jtext_peek(j);

	if (c != '}' && !*first) {
		if (!jtext_take(j, ','))
			return -1;
		c = jtext_peek(j);
	}
	*first = false;
	if (c == '}') {
		j->at++;
		return 0;
	}
	if (!jtext_string(j, key, cap, NULL) || !jtext_take(j, ':'))
		return -1;
	return 1;
}

/* ---- strings ---- */

static unsigned hex4(struct jtext *j)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++) {
		char c;

		if (j->at == j->end && !fill(j))
			return 0xfffd;
		c = j->buf[j->at];
		if (c >= '0' && c <= '9')
			v = v * 16 + (unsigned)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			v = v * 16 + (unsigned)((c | 32) - 'a' + 10);
		else
			return 0xfffd;
		j->at++;
	}
	return v;
}

/* After the backslash: what it stands for, as UTF-8. Halves of surrogate pairs become U+FFFD: names of kernels have none. */
static unsigned escape(struct jtext *j, char out[4])
{
	unsigned v;
	char c;

	if (j->at == j->end && !fill(j))
		return 0;
	c = j->buf[j->at++];
	switch (c) {
	case 'n': out[0] = '\n'; return 1;
	case 't': out[0] = '\t'; return 1;
	case 'r': out[0] = '\r'; return 1;
	case 'b': out[0] = '\b'; return 1;
	case 'f': out[0] = '\f'; return 1;
	case 'u': break;
	default: out[0] = c; return 1;	/* quote, backslash, slash; others are not JSON but meant so */
	}
	v = hex4(j);
	if ((v >= 0xd800 && v < 0xe000) || !v)
		v = 0xfffd;
	if (v < 0x80) {
		out[0] = (char)v;
		return 1;
	}
	if (v < 0x800) {
		out[0] = (char)(0xc0 | v >> 6);
		out[1] = (char)(0x80 | (v & 63));
		return 2;
	}
	out[0] = (char)(0xe0 | v >> 12);
	out[1] = (char)(0x80 | (v >> 6 & 63));
	out[2] = (char)(0x80 | (v & 63));
	return 3;
}

/* The rest of a string whose quote is consumed; out NULL = nobody wants it. */
static bool string_rest(struct jtext *j, char *out, size_t cap, size_t *len)
{
	size_t n = 0;

	for (;;) {
		const char *p = j->buf + j->at, *from = p;
		char room[4];
		unsigned k;

		while (!(kind[(uint8_t)*p] & STRING_STOP))
			p++;
		k = (unsigned)(p - from);
		if (out) {
			size_t keep = k < cap - 1 - n ? k : cap - 1 - n;

			memcpy(out + n, from, keep);
			n += keep;
		}
		j->at += k;
		if (*p == '"') {
			j->at++;
			break;
		}
		if (*p == '\0') {
			if (!past_zero(j))
				return j->failed ? false : cut(j);
			continue;
		}
		j->at++;
		k = escape(j, room);
		for (unsigned i = 0; out && i < k && n < cap - 1; i++)
			out[n++] = room[i];
	}
	if (out)
		out[n] = '\0';
	if (len)
		*len = n;
	return true;
}

bool jtext_string(struct jtext *j, char *out, size_t cap, size_t *len)
{
	return jtext_take(j, '"') && string_rest(j, out, cap, len);
}

bool jtext_scalar(struct jtext *j, char *out, size_t cap, size_t *len)
{
	size_t n = 0;

	if (jtext_peek(j) < 0)
		return j->failed ? false : cut(j);
	if (!(kind_at(j) & SCALAR))
		return jtext_refuse(j, "not JSON: a value expected");
	for (;;) {
		while (kind_at(j) & SCALAR) {
			if (n < cap - 1)
				out[n++] = j->buf[j->at];
			j->at++;
		}
		if (j->at < j->end || !fill(j))
			break;
	}
	if (j->failed)
		return false;
	out[n] = '\0';
	if (len)
		*len = n;
	return true;
}

/* ---- passing by ---- */

/* Brackets must match, what is between them need not be JSON. */
static bool skip_brackets(struct jtext *j)
{
	uint64_t square[JSON_DEEPEST / 64] = {0};
	unsigned depth = 0;

	for (;;) {
		char c;

		while (!(kind_at(j) & VALUE_STOP))
			j->at++;
		c = j->buf[j->at];
		switch (c) {
		case '\0':
			if (!past_zero(j))
				return j->failed ? false : cut(j);
			continue;
		case '"':
			j->at++;
			if (!string_rest(j, NULL, 0, NULL))
				return false;
			continue;
		case '{':
		case '[':
			if (depth == JSON_DEEPEST)
				return jtext_refuse(j, "nested deeper than 1024 levels");
			square[depth / 64] &= ~(1ull << depth % 64);
			square[depth / 64] |= (uint64_t)(c == '[') << depth % 64;
			depth++;
			break;
		default:
			depth--;
			if ((c == ']') != (square[depth / 64] >> depth % 64 & 1))
				return jtext_refuse(j, "not JSON: the brackets do not match");
			break;
		}
		j->at++;
		if (!depth)
			return true;
	}
}

bool jtext_skip(struct jtext *j)
{
	char room[8];

	switch (jtext_peek(j)) {
	case '{':
	case '[':
		return skip_brackets(j);
	case '"':
		j->at++;
		return string_rest(j, NULL, 0, NULL);
	default:
		return jtext_scalar(j, room, sizeof(room), NULL);
	}
}

/* ---- numbers ---- */

/* The general case: digits, where the point stands among them, an exponent. */
static bool decimal(const char *s, size_t len, int shift, bool negative, int64_t *out)
{
	char digits[64];
	int n = 0, point = -1, dropped = 0;
	int64_t exponent = 0, v = 0;
	size_t i;

	for (i = 0; i < len && ((s[i] >= '0' && s[i] <= '9') || s[i] == '.'); i++) {
		if (s[i] == '.') {
			if (point >= 0)
				return false;
			point = n + dropped;
		} else if (n == 0 && s[i] == '0' && point < 0) {
			digits[0] = '0';	/* leading zeros say nothing */
			n = 1;
		} else if (n == 1 && digits[0] == '0' && point < 0) {
			digits[0] = s[i];
		} else if (n < (int)sizeof(digits)) {
			digits[n++] = s[i];
		} else {
			dropped++;
		}
	}
	if (!n)
		return false;
	if (point < 0)
		point = n + dropped;
	if (i < len && (s[i] == 'e' || s[i] == 'E')) {
		bool minus = false;

		i++;
		if (i < len && (s[i] == '+' || s[i] == '-'))
			minus = s[i++] == '-';
		if (i == len)
			return false;
		for (; i < len && s[i] >= '0' && s[i] <= '9'; i++)
			exponent = exponent < 100000 ? exponent * 10 + (s[i] - '0') : exponent;
		exponent = minus ? -exponent : exponent;
	}
	if (i != len)
		return false;
	exponent += point + shift;		/* so many digits stand before the point of the result */
	for (int64_t k = 0; k < exponent; k++) {
		int digit = k < n ? digits[k] - '0' : 0;

		if (k >= n && v == 0)
			break;
		if (v > (INT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	if (exponent >= 0 && exponent < n && digits[exponent] >= '5') {
		if (v == INT64_MAX)
			return false;
		v++;
	}
	*out = negative ? -v : v;
	return true;
}

bool jtext_decimal(const char *s, size_t len, int shift, int64_t *out)
{
	bool negative = len && s[0] == '-';
	const int wanted = shift;
	int64_t v = 0;
	size_t i, whole;

	s += negative;
	len -= negative;
	/* what nearly all are: few digits, at most as many decimals as are wanted */
	for (i = 0; i < len && i < 16 && s[i] >= '0' && s[i] <= '9'; i++)
		v = v * 10 + (s[i] - '0');
	whole = i;
	if (!whole || whole + (size_t)(shift > 0 ? shift : 0) > 18)
		return decimal(s, len, shift, negative, out);
	if (i < len && s[i] == '.')
		for (i++; i < len && shift > 0 && s[i] >= '0' && s[i] <= '9'; i++, shift--)
			v = v * 10 + (s[i] - '0');
	if (i != len || shift < 0)
		return decimal(s, len, wanted, negative, out);
	for (; shift > 0; shift--)
		v *= 10;
	*out = negative ? -v : v;
	return true;
}
