/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the bytes of a trace come from: a descriptor or memory, plain or deflated. Gives them out in order, once.
 */
#ifndef WHYIDLE_TRACE_INPUT_H
#define WHYIDLE_TRACE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <zlib.h>

#include "trace/reader.h"

struct input {
	int fd;				/* -1 = memory */
	const uint8_t *memory;
	size_t memory_len;
	uint64_t consumed, size;	/* of the file, as it lies there; size 0 = unknown */
	bool deflated, between_members;
	z_stream z;
	uint8_t *raw;			/* the block read last from a descriptor */
	size_t raw_at, raw_len;
};

/* Opens; on failure fills *err and leaves nothing behind. A gzip'd file is recognised by its first bytes. */
int input_open_path(struct input *in, const char *path, struct pf_error *err);
int input_open_memory(struct input *in, const void *data, size_t len, struct pf_error *err);
/* Memory that is known to be a zlib or gzip stream (a packet bundle). */
int input_open_deflated(struct input *in, const void *data, size_t len, struct pf_error *err);

/* Up to `len` bytes to `buf`. Their number, 0 at the end, -1 with err's code, errno and text filled. */
ssize_t input_read(struct input *in, void *buf, size_t len, struct pf_error *err);

void input_close(struct input *in);

#endif
