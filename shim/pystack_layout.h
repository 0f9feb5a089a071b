/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the fields lie that lead from a CPython thread state to file and line. Offsets in bytes.
 */
#ifndef WHYIDLE_SHIM_PYSTACK_LAYOUT_H
#define WHYIDLE_SHIM_PYSTACK_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum pystack_position { POSITION_BYTES, POSITION_UNITS, POSITION_POINTER };	/* f_lasti in bytes, in units of two, pointer to the instruction */
enum pystack_table { TABLE_LNOTAB, TABLE_PAIRS, TABLE_VARINT };

struct pystack_layout {
	uint16_t state_cframe;		/* thread state: pointer to a struct with the frame; 0 = the frame is here */
	uint16_t state_frame;		/* in the thread state, or in that struct */
	uint16_t frame_previous, frame_code, frame_position, frame_owner;	/* frame_owner 0 = none */
	uint16_t code_file, code_name, code_first, code_table, code_code;
	uint16_t text;			/* header of a compact ASCII string */
	uint8_t owner_foreign;		/* owners from this on are no Python frames */
	bool tagged;			/* the code pointer may carry a mark in its lowest bit */
	enum pystack_position position;
	enum pystack_table table;
};

enum { PYSTACK_TABLE_WORDS = 81 };	/* the longest table of offsets that is known */

/* By what Py_GetVersion() says, for 3.9 to 3.12. NULL = not known, or a free-threaded build. */
const struct pystack_layout *pystack_layout_of(const char *version);

/* From the table at the start of _PyRuntime, 3.13 and 3.14. False = none, not known, or its own words contradict each other. */
bool pystack_layout_from(const uint64_t *words, struct pystack_layout *l);

/* The line of the instruction at `offset` bytes, by a function that gives the table's bytes one by one, -1 at its end. -1 = none. */
int pystack_line(enum pystack_table kind, int first_line, int64_t offset, int (*next)(void *ctx), void *ctx);

#endif
