/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes protobuf fields out of bytes that nobody has checked. Every length is held against what is left before it is used;
 * fields that are not wanted are skipped by their length.
 */
#ifndef WHYIDLE_TRACE_GET_H
#define WHYIDLE_TRACE_GET_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const uint8_t *p;
	size_t len;
};

/* One field as found. `v` is the value of a varint, fixed64 or fixed32; `body` is that of a length-delimited field. */
struct get_field {
	uint32_t number;
	uint32_t wire;		/* 0 varint, 1 fixed64, 2 length-delimited, 5 fixed32 */
	uint64_t v;
	struct bytes body;
};

/* So many bytes after any bytes given to these functions must be readable, whatever they hold: varints are loaded as words. */
#define GET_SLACK 16

/* The byte after the varint, NULL when it is cut or longer than ten bytes. */
static inline const uint8_t *get_varint_slow(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
	uint64_t sum = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (p == end)
			return NULL;
		sum |= (uint64_t)(*p & 0x7f) << shift;
		if (!(*p++ & 0x80)) {
			*v = sum;
			return p;
		}
	}
	return NULL;
}

/* The same without a branch on the length, up to eight bytes: lengths of time stamps are not to be predicted. */
static inline const uint8_t *get_varint_any(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
	uint64_t word, stop;
	long len;

	memcpy(&word, p, sizeof(word));
	word = le64toh(word);
	stop = ~word & 0x8080808080808080u;
	if (!stop)
		return get_varint_slow(p, end, v);
	len = __builtin_ctzll(stop) / 8 + 1;
	if (len > end - p)
		return NULL;
	word &= (stop ^ (stop - 1)) & 0x7f7f7f7f7f7f7f7fu;
	word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
	word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
	*v = (word & 0x0fffffffu) | (word & 0x0fffffff00000000u) >> 4;
	return p + len;
}

static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
	if (p < end && !(*p & 0x80)) {
		*v = *p;
		return p + 1;
	}
	return get_varint_any(p, end, v);
}

/* Takes the field at *p and moves on. 1 got one, 0 at the end, -1 not a well-formed field. */
static inline __attribute__((always_inline)) int get_next(const uint8_t **p, const uint8_t *end, struct get_field *f)
{
	const uint8_t *q = *p;
	uint64_t tag;

	/* Inlined, gcc no longer sees that each is set where the wire type says so. */
	f->v = 0;
	f->body = (struct bytes){q, 0};
	if (q == end)
		return 0;
	q = get_varint(q, end, &tag);
	if (!q || tag >> 3 == 0 || tag >> 32)
		return -1;
	f->number = (uint32_t)(tag >> 3);
	f->wire = tag & 7;
	switch (f->wire) {
	case 0:
		q = get_varint(q, end, &f->v);
		if (!q)
			return -1;
		break;
	case 1:
		if (end - q < 8)
			return -1;
		memcpy(&f->v, q, 8);
		f->v = le64toh(f->v);
		q += 8;
		break;
	case 2: {
		uint64_t len;

		q = get_varint(q, end, &len);
		if (!q || len > (uint64_t)(end - q))
			return -1;
		f->body = (struct bytes){q, (size_t)len};
		q += len;
		break;
	}
	case 5:
		if (end - q < 4)
			return -1;
		f->v = (uint32_t)q[0] | (uint32_t)q[1] << 8 | (uint32_t)q[2] << 16 | (uint32_t)q[3] << 24;
		q += 4;
		break;
	default:
		return -1;
	}
	*p = q;
	return 1;
}

/* A case label's worth of number and wire type: the same number with another wire type is another, unknown field. */
#define GET_VARINT(number) ((uint32_t)(number) << 3 | 0)
#define GET_FIXED64(number) ((uint32_t)(number) << 3 | 1)
#define GET_LEN(number) ((uint32_t)(number) << 3 | 2)
#define GET_KEY(f) ((f)->number << 3 | (f)->wire)

/* for (each field f of b): `rc` is 0 after the last one and -1 after a malformed one. */
#define GET_EACH(b, f, rc)                                                                              \
	for (const uint8_t *get_p = (b).p, *const get_end = (b).p + (b).len;                            \
	     ((rc) = get_next(&get_p, get_end, (f))) > 0;)

static inline double get_double(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

#endif
