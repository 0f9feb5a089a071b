/* SPDX-License-Identifier: Apache-2.0
 *
 * The layouts of CPython, and its line tables. Pure: reads what it is given.
 */
#include "shim/pystack_layout.h"

#include <stddef.h>
#include <string.h>

static const struct { const char *version; struct pystack_layout layout; } known[] = {
	{ "3.9.", { .state_frame = 24, .frame_previous = 24, .frame_code = 32, .frame_position = 104, .position = POSITION_BYTES,
		.code_file = 104, .code_name = 112, .code_first = 40, .code_table = 120, .text = 48, .table = TABLE_LNOTAB } },
	{ "3.10.", { .state_frame = 24, .frame_previous = 24, .frame_code = 32, .frame_position = 96, .position = POSITION_UNITS,
		.code_file = 104, .code_name = 112, .code_first = 40, .code_table = 120, .text = 48, .table = TABLE_PAIRS } },
	{ "3.11.", { .state_cframe = 56, .state_frame = 8, .frame_previous = 48, .frame_code = 32, .frame_position = 56,
		.position = POSITION_POINTER, .code_file = 112, .code_name = 120, .code_first = 72, .code_table = 136, .code_code = 184,
		.text = 48, .table = TABLE_VARINT } },
	{ "3.12.", { .state_cframe = 56, .state_frame = 0, .frame_previous = 8, .frame_code = 0, .frame_position = 56, .frame_owner = 70,
		.owner_foreign = 3, .position = POSITION_POINTER, .code_file = 112, .code_name = 120, .code_first = 68, .code_table = 136,
		.code_code = 192, .text = 40, .table = TABLE_VARINT } },
};

const struct pystack_layout *pystack_layout_of(const char *version)
{
	if (strstr(version, "free-threading"))
		return NULL;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strncmp(version, known[i].version, strlen(known[i].version)) == 0)
			return &known[i].layout;
	return NULL;
}

/* The table's words by number; they moved between versions. The last five are known for what they must say. */
struct words {
	uint8_t state_size, current_frame, frame_size, previous, executable, instr_ptr, owner, code_size, file, name, table, first, code, ob_type,
		bytes_data, text_length, text_header;
};

static const struct words words_313 = { .state_size = 19, .current_frame = 23, .frame_size = 28, .previous = 29, .executable = 30, .instr_ptr = 31,
	.owner = 33, .code_size = 34, .file = 35, .name = 36, .table = 38, .first = 39, .code = 43, .ob_type = 45, .bytes_data = 66,
	.text_length = 69, .text_header = 70 };
static const struct words words_314 = { .state_size = 22, .current_frame = 26, .frame_size = 31, .previous = 32, .executable = 33, .instr_ptr = 34,
	.owner = 36, .code_size = 39, .file = 40, .name = 41, .table = 43, .first = 44, .code = 48, .ob_type = 51, .bytes_data = 76,
	.text_length = 79, .text_header = 80 };

/* A field of 8 bytes inside of a struct of a believable size. */
static bool inside(const uint64_t *w, uint8_t field, uint8_t size)
{
	return w[size] <= 4096 && w[field] + 1 <= w[size];
}

bool pystack_layout_from(const uint64_t *w, struct pystack_layout *l)
{
	const struct words *at;
	uint64_t version = w[1];

	/* "xdebugpy", little-endian; then the version as in PY_VERSION_HEX: only final releases keep their layout */
	if (memcmp(w, "xdebugpy", 8) != 0 || w[2] || (version >> 4 & 15) != 15)
		return false;
	if (version >> 16 == 0x030d)
		at = &words_313;
	else if (version >> 16 == 0x030e)
		at = &words_314;
	else
		return false;
	if (w[at->ob_type] != 8 || w[at->bytes_data] != 32 || w[at->text_length] != 16 || w[at->text_header] != 40)
		return false;
	if (!inside(w, at->current_frame, at->state_size) || !inside(w, at->previous, at->frame_size) ||
	    !inside(w, at->executable, at->frame_size) || !inside(w, at->instr_ptr, at->frame_size) || !inside(w, at->owner, at->frame_size) ||
	    !inside(w, at->file, at->code_size) || !inside(w, at->name, at->code_size) || !inside(w, at->table, at->code_size) ||
	    !inside(w, at->first, at->code_size) || !inside(w, at->code, at->code_size))
		return false;
	*l = (struct pystack_layout){ .state_frame = (uint16_t)w[at->current_frame], .frame_previous = (uint16_t)w[at->previous],
		.frame_code = (uint16_t)w[at->executable], .frame_position = (uint16_t)w[at->instr_ptr], .frame_owner = (uint16_t)w[at->owner],
		.owner_foreign = 3, .position = POSITION_POINTER, .tagged = true, .code_file = (uint16_t)w[at->file],
		.code_name = (uint16_t)w[at->name], .code_first = (uint16_t)w[at->first], .code_table = (uint16_t)w[at->table],
		.code_code = (uint16_t)w[at->code], .text = 40, .table = TABLE_VARINT };
	return true;
}

/* ---- line tables ---- */

/* Pairs of bytes and lines to go on by; the instruction lies before the pair that passes it. */
static int line_of_lnotab(int line, int64_t offset, int (*next)(void *ctx), void *ctx)
{
	int64_t at = 0;
	int bytes, lines;

	while ((bytes = next(ctx)) >= 0 && (lines = next(ctx)) >= 0) {
		at += bytes;
		if (at > offset)
			break;
		line += (int8_t)lines;
	}
	return line;
}

/* Pairs of lines to go on by first and of the bytes that then have that line; -128 = these have none. */
static int line_of_pairs(int line, int64_t offset, int (*next)(void *ctx), void *ctx)
{
	int64_t end = 0;
	int bytes, lines;

	while ((bytes = next(ctx)) >= 0 && (lines = next(ctx)) >= 0) {
		bool none = (int8_t)lines == -128;

		if (!none)
			line += (int8_t)lines;
		end += bytes;
		if (end > offset)
			return none ? -1 : line;
	}
	return -1;
}

/* Six bits a byte, the lowest first; bit 6 = goes on. -1 at the end of the table. */
static int64_t varint(int (*next)(void *ctx), void *ctx)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 36; shift += 6) {
		int b = next(ctx);

		if (b < 0)
			return -1;
		v |= (uint64_t)(b & 63) << shift;
		if (!(b & 64))
			return (int64_t)v;
	}
	return -1;
}

/* Entries of a first byte (bit 7 set, kind, length in units of two bytes less one) and what the kind wants. */
static int line_of_varints(int line, int64_t offset, int (*next)(void *ctx), void *ctx)
{
	int64_t end = 0;
	int head;

	while ((head = next(ctx)) >= 0 && head & 128) {
		int kind = head >> 3 & 15;
		unsigned skip = 0;

		if (kind >= 10 && kind <= 12)
			line += kind - 10;
		if (kind == 13 || kind == 14) {
			int64_t v = varint(next, ctx);

			if (v < 0)
				return -1;
			line += (int)(v & 1 ? -(v >> 1) : v >> 1);
		}
		end += ((head & 7) + 1) * 2;
		if (end > offset)
			return kind == 15 ? -1 : line;
		if (kind == 14)
			for (int i = 0; i < 3; i++)
				varint(next, ctx);
		else if (kind < 13)
			skip = kind < 10 ? 1 : 2;
		while (skip--)
			next(ctx);
	}
	return -1;
}

int pystack_line(enum pystack_table kind, int first_line, int64_t offset, int (*next)(void *ctx), void *ctx)
{
	switch (kind) {
	case TABLE_LNOTAB:
		return line_of_lnotab(first_line, offset, next, ctx);
	case TABLE_PAIRS:
		return line_of_pairs(first_line, offset, next, ctx);
	default:
		return line_of_varints(first_line, offset, next, ctx);
	}
}
