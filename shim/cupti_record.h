/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads one CUPTI activity record, of any version, by the offsets of cupti_abi.h. Pure functions; drain thread or test.
 */
#ifndef WHYIDLE_SHIM_CUPTI_RECORD_H
#define WHYIDLE_SHIM_CUPTI_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "trace/calls.h"

enum cupti_record_type { RECORD_OTHER, RECORD_OP, RECORD_API, RECORD_OVERHEAD, RECORD_DEVICE };

/* What the record says; times are in CUPTI's clock. `start` = `end` = 0: no time could be taken. `end` = 0: still running. */
struct cupti_record {
	enum cupti_record_type type;
	uint32_t device, context, stream;	/* RECORD_OP, RECORD_DEVICE (device) */
	uint32_t correlation;			/* 0 = none */
	uint64_t start, end;
	int64_t bytes;				/* copies and sets, else -1 */
	const char *name;			/* kernel or device: CUPTI's memory, valid until the buffer goes back; NULL unknown */
	uint8_t copy_kind, src, dst;		/* RECORD_OP without name: copy_kind 0 = a set, of memory kind dst */
	enum call call;				/* RECORD_API; CALL_NONE = not one of ours */
	int64_t tid;				/* RECORD_API */
	int result;				/* RECORD_API */
	void *owned;				/* RECORD_OVERHEAD: a block to free(), or NULL */
};

/* Decodes the record at `bytes` (8-byte aligned, as long as the library of this API version made it). */
void cupti_record_read(const uint8_t *bytes, uint32_t api_version, struct cupti_record *out);

/* The call behind an API record, CALL_NONE when it is not recorded from CUPTI. `kind` is CUPTI_RUNTIME or CUPTI_DRIVER. */
enum call cupti_record_call(int kind, uint32_t cbid);

/* The name of a copy or set in the PyTorch profiler's words, written to buf (at least 64 bytes); returns its length. */
size_t cupti_record_copy_name(const struct cupti_record *r, char *buf);

#endif
