/* SPDX-License-Identifier: Apache-2.0
 *
 * The window over an input and the framing of packets. A trace is nothing but `packet` fields, one after the other.
 */
#include "trace/cursor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/failure.h"
#include "trace/fields.h"

#define WINDOW (256u << 10)		/* small enough to stay in the second-level cache */
#define HEADER_MAX 20			/* a tag and a length of ten bytes each */
#define TAG_MAX 5			/* bytes of a tag that may be valid */

int cursor_init(struct cursor *c, struct pf_error *err)
{
	c->end_offset = 0;
	c->eof = false;
	c->cap = 0;
	c->p = c->end = NULL;
	c->buf = calloc(1, WINDOW + GET_SLACK);
	if (!c->buf) {
		input_close(&c->in);
		return failure(err, PF_ENOMEM, "no memory to read the trace");
	}
	c->cap = WINDOW;
	c->p = c->end = c->buf;
	return 0;
}

void cursor_close(struct cursor *c)
{
	input_close(&c->in);
	free(c->buf);
	*c = (struct cursor){.in.fd = -1};
}

static size_t left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

static uint64_t offset_of(const struct cursor *c)
{
	return c->end_offset - left(c);
}

/* Moves what is left to the front of a window that holds at least n bytes. */
static int make_room(struct cursor *c, size_t n, struct pf_error *err)
{
	size_t have = left(c);

	if (n > c->cap) {
		size_t cap = c->cap;
		uint8_t *buf;

		while (cap < n)
			cap *= 2;
		buf = calloc(1, cap + GET_SLACK);
		if (!buf)
			return failure(err, PF_ENOMEM, "no memory for a packet of %zu bytes", n);
		memcpy(buf, c->p, have);
		free(c->buf);
		c->buf = buf;
		c->cap = cap;
	} else if (have) {
		memmove(c->buf, c->p, have);
	}
	c->p = c->buf;
	c->end = c->buf + have;
	return 0;
}

int cursor_fill(struct cursor *c, size_t n, struct pf_error *err)
{
	if (left(c) >= n || c->eof)
		return 0;
	if (make_room(c, n, err) < 0)
		return -1;
	while (left(c) < n) {
		ssize_t got = input_read(&c->in, c->buf + left(c), c->cap - left(c), err);

		if (got < 0)
			return -1;
		if (got == 0) {
			c->eof = true;
			break;
		}
		c->end += got;
		c->end_offset += (uint64_t)got;
	}
	return 0;
}

static int cut(struct pf_error *err, uint64_t missing)
{
	return failure(err, PF_ECUT, "the last packet is cut off, at least %" PRIu64 " bytes are missing", missing);
}

static int skip(struct cursor *c, uint64_t n, struct pf_error *err)
{
	while (n) {
		size_t step;

		if (cursor_fill(c, 1, err) < 0)
			return -1;
		step = left(c);
		if (!step)
			return cut(err, n);
		if (step > n)
			step = (size_t)n;
		c->p += step;
		n -= step;
	}
	return 0;
}

/* A field of the trace itself that is not a packet: of a later version, perhaps. */
static int skip_other(struct cursor *c, uint32_t wire, struct pf_error *err)
{
	uint64_t v;
	const uint8_t *after;

	switch (wire) {
	case 0:
	case 2:
		after = get_varint(c->p, c->end, &v);
		if (!after)
			return c->eof ? cut(err, 1) : failure(err, PF_EDAMAGED, "a length is no number");
		c->p = after;
		return wire == 2 ? skip(c, v, err) : 0;
	case 1:
		return skip(c, 8, err);
	case 5:
		return skip(c, 4, err);
	default:
		return failure(err, PF_EDAMAGED, "these bytes are no packet");
	}
}

static void skip_padding(struct cursor *c)
{
	while (c->p < c->end && *c->p == 0)
		c->p++;
}

/* The slow way to a packet: at the window's end, at padding, at what is not a packet. */
static int packet_slow(struct cursor *c, struct bytes *body, uint64_t *offset, struct pf_error *err)
{
	for (;;) {
		const uint8_t *after;
		uint64_t tag, len;
		int rc = cursor_fill(c, HEADER_MAX, err);

		*offset = offset_of(c);
		if (rc < 0)
			return -1;
		if (c->p == c->end)
			return 0;
		if (*c->p == 0) {
			skip_padding(c);
			continue;
		}
		after = get_varint(c->p, c->end, &tag);
		if (!after || tag >> 3 == 0 || tag >> 32)
			return !after && c->eof && left(c) < TAG_MAX ? cut(err, 1)
			       : failure(err, PF_EDAMAGED, "these bytes are no packet");
		c->p = after;
		if (tag != (TRACE_PACKET << 3 | 2)) {
			if (skip_other(c, tag & 7, err) < 0)
				return -1;
			continue;
		}
		after = get_varint(c->p, c->end, &len);
		if (!after)
			return c->eof && left(c) < 10 ? cut(err, 1)
			       : failure(err, PF_EDAMAGED, "a packet's length is no number");
		c->p = after;
		if (len > PACKET_MAX)
			return failure(err, PF_EDAMAGED, "a packet says it has %" PRIu64 " bytes; more than %u are not read",
				       len, PACKET_MAX);
		if (cursor_fill(c, (size_t)len, err) < 0)
			return -1;
		if (left(c) < len) {
			uint64_t missing = len - left(c);

			c->p = c->end;
			return cut(err, missing);
		}
		*body = (struct bytes){c->p, (size_t)len};
		c->p += len;
		return 1;
	}
}

int cursor_packet(struct cursor *c, struct bytes *body, uint64_t *offset, struct pf_error *err)
{
	const uint8_t *p = c->p;

	/* Nearly always: a short packet that lies in the window. */
	if (c->end - p >= 2 && p[0] == (TRACE_PACKET << 3 | 2)) {
		size_t len = p[1], header = 2;

		if (len & 0x80 && c->end - p >= 3 && !(p[2] & 0x80)) {
			len = (len & 0x7f) | (size_t)p[2] << 7;
			header = 3;
		}
		if (!(len & 0x80 && header == 2) && (size_t)(c->end - p) >= header + len) {
			*offset = offset_of(c);
			*body = (struct bytes){p + header, len};
			c->p = p + header + len;
			return 1;
		}
	}
	return packet_slow(c, body, offset, err);
}

/* Whether the fields in these bytes are well formed as far as they go. */
static bool plausible(struct bytes b)
{
	const uint8_t *p = b.p, *const end = b.p + b.len;
	struct get_field f;
	int rc;

	while ((rc = get_next(&p, end, &f)) > 0)
		if (f.number > 1u << 20)
			return false;
	return rc == 0;
}

static int looks_like(struct pf_error *err, const char *what)
{
	return failure(err, PF_ENOT_A_TRACE, "is %s, not a Perfetto trace", what);
}

int cursor_check_start(struct cursor *c, struct pf_error *err)
{
	struct cursor ahead;
	struct bytes body;
	uint64_t offset;
	const uint8_t *p;
	size_t n;
	int rc;

	if (cursor_fill(c, WINDOW / 2, err) < 0 && left(c) == 0)
		return -1;
	p = c->p;
	n = left(c);
	if (!n)
		return failure(err, PF_ECUT, "is empty: nothing was written to it before it was cut off");
	if (*p == '{' || *p == '[')
		return looks_like(err, "JSON");
	if (n >= 4 && memcmp(p, "PK\3\4", 4) == 0)
		return looks_like(err, "a zip archive");
	if (n >= 4 && memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0)
		return failure(err, PF_ENOT_A_TRACE, "is compressed with zstd; decompress it first (zstd -d)");
	if (n >= 4 && memcmp(p, "\x7f" "ELF", 4) == 0)
		return looks_like(err, "a program or library");
	/* A look ahead at the first packet, in the window only. */
	ahead = *c;
	ahead.eof = true;
	rc = cursor_packet(&ahead, &body, &offset, err);
	if (rc < 0 && err->code == PF_ECUT)
		return 0;
	if (rc < 0 || (rc > 0 && !plausible(body)))
		return failure(err, PF_ENOT_A_TRACE, "does not begin like a Perfetto trace");
	return 0;
}
