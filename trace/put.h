/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts protobuf fields into memory from the last byte to the first. Going backwards, a message's length is known when its
 * header is due, so that nothing is sized twice and lengths take as few bytes as protobuf-c would give them. Fields must
 * therefore be put in falling order of their numbers, and repeated ones last first.
 *
 * When room runs out, `p` sticks at `low` and `short_of_room` is set; the caller throws the packet away whole.
 * No allocation, no libc but memcpy: safe in a signal handler.
 */
#ifndef WHYIDLE_TRACE_PUT_H
#define WHYIDLE_TRACE_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct put {
	uint8_t *p;			/* first byte put so far */
	uint8_t *low;			/* nothing below this is ours */
	bool short_of_room;
};

enum put_wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LEN = 2, WIRE_FIXED32 = 5 };

static inline uint8_t *put_room(struct put *o, size_t n)
{
	if ((size_t)(o->p - o->low) < n) {
		o->short_of_room = true;
		return NULL;
	}
	o->p -= n;
	return o->p;
}

static inline void put_varint(struct put *o, uint64_t v)
{
	/* bits / 7 rounded up, at least one byte */
	size_t n = (size_t)(70 - __builtin_clzll(v | 1)) / 7;
	uint8_t *p = put_room(o, n);

	if (!p)
		return;
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p = (uint8_t)v;
}

static inline void put_tag(struct put *o, unsigned field, enum put_wire wire)
{
	put_varint(o, (uint64_t)field << 3 | wire);
}

static inline void put_uint(struct put *o, unsigned field, uint64_t v)
{
	put_varint(o, v);
	put_tag(o, field, WIRE_VARINT);
}

/* int32 and int64 alike: negative values take ten bytes. */
static inline void put_int(struct put *o, unsigned field, int64_t v)
{
	put_uint(o, field, (uint64_t)v);
}

static inline void put_fixed64(struct put *o, unsigned field, uint64_t v)
{
	uint8_t *p = put_room(o, 8);

	if (!p)
		return;
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> 8 * i);
	put_tag(o, field, WIRE_FIXED64);
}

static inline void put_double(struct put *o, unsigned field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	put_fixed64(o, field, bits);
}

static inline void put_bytes(struct put *o, unsigned field, const void *bytes, size_t len)
{
	uint8_t *p = put_room(o, len);

	if (!p)
		return;
	if (len)
		memcpy(p, bytes, len);
	put_varint(o, len);
	put_tag(o, field, WIRE_LEN);
}

/* A message: remember `o->p` as its end, put its fields, then close it with this. */
static inline void put_message(struct put *o, unsigned field, const uint8_t *end)
{
	put_varint(o, (uint64_t)(end - o->p));
	put_tag(o, field, WIRE_LEN);
}

#endif
