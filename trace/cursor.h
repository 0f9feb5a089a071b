/* SPDX-License-Identifier: Apache-2.0
 *
 * A window over an input, and the packets in it. The only place where the reader's bytes come from. The window is fixed;
 * it grows only for a packet that is larger, up to PACKET_MAX.
 */
#ifndef WHYIDLE_TRACE_CURSOR_H
#define WHYIDLE_TRACE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/get.h"
#include "trace/input.h"

#define PACKET_MAX (64u << 20)

struct cursor {
	struct input in;
	uint8_t *buf;			/* GET_SLACK more than cap */
	size_t cap;
	const uint8_t *p, *end;		/* what is left in the window */
	uint64_t end_offset;		/* of `end` in the (inflated) stream */
	bool eof;			/* nothing comes after `end` */
};

/* Starts over c->in, which the caller opened in its place (zlib's state must not move). -1 without memory (it is closed then). */
int cursor_init(struct cursor *c, struct pf_error *err);
void cursor_close(struct cursor *c);

/* Tries to have `n` bytes in the window; fewer only at the end. -1 on error. */
int cursor_fill(struct cursor *c, size_t n, struct pf_error *err);

/* The next packet's body, valid until the next call. 1 got one, 0 end, -1 error; *offset is set in all three cases. */
int cursor_packet(struct cursor *c, struct bytes *body, uint64_t *offset, struct pf_error *err);

/* 0 when the stream begins like a trace. Else -1 with a sentence on what it looks like. */
int cursor_check_start(struct cursor *c, struct pf_error *err);

#endif
