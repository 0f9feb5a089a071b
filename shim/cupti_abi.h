/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI's activity API in our own words: numbers and byte offsets that are the same in every version from CUDA 11.0
 * (API 13) to 13.0. A test checks them against each vendor header set that the machine has (tests/unit/shimgpu_record_test.c).
 * No record size stands here on purpose: only the library knows how far the next record is.
 */
#ifndef WHYIDLE_SHIM_CUPTI_ABI_H
#define WHYIDLE_SHIM_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

#define CUPTI_OLDEST_API 13		/* CUDA 11.0; older kernel records have other offsets */
#define CUPTI_API_OVERHEAD_DATA 22	/* CUDA 12.4: overhead records own a block that the client frees */

enum cupti_result {
	CUPTI_OK = 0,
	CUPTI_NOT_INITIALIZED = 15,	/* no driver, one that is too old, or the child of a fork */
	CUPTI_HELD = 39,		/* another subscriber: nsys, ncu, cuda-gdb, compute-sanitizer, torch.profiler */
	CUPTI_UNKNOWN = 999,		/* what 13.x says without a driver */
};

enum cupti_kind {
	CUPTI_MEMCPY = 1,
	CUPTI_MEMSET = 2,
	CUPTI_DRIVER = 4,
	CUPTI_RUNTIME = 5,
	CUPTI_DEVICE = 8,
	CUPTI_KERNEL = 10,		/* CONCURRENT_KERNEL; 3 would serialise kernels */
	CUPTI_OVERHEAD = 17,
	CUPTI_MEMCPY_P2P = 22,
};

enum { CUPTI_ATTR_ZEROED_BUFFERS = 5 };
enum { CUPTI_THREAD_ID_SYSTEM = 1 };
enum { CUPTI_FLUSH_FORCED = 1 };
enum { CUPTI_OVERHEAD_COMMAND_BUFFER_FULL = 6 << 16 };

/* Bytes from the start of a record. `kind` is a uint32 at 0 in all of them. */
enum cupti_offset {
	KERNEL_START = 16, KERNEL_END = 24, KERNEL_DEVICE = 40, KERNEL_CONTEXT = 44, KERNEL_STREAM = 48,
	KERNEL_CORRELATION = 92, KERNEL_NAME = 104,

	MEMCPY_KIND = 4, MEMCPY_SRC = 5, MEMCPY_DST = 6, MEMCPY_BYTES = 8, MEMCPY_START = 16, MEMCPY_END = 24, MEMCPY_DEVICE = 32,
	MEMCPY_CONTEXT = 36, MEMCPY_STREAM = 40, MEMCPY_CORRELATION = 44,

	P2P_CORRELATION = 60,		/* the rest as in MEMCPY */

	MEMSET_BYTES = 8, MEMSET_START = 16, MEMSET_END = 24, MEMSET_DEVICE = 32, MEMSET_CONTEXT = 36, MEMSET_STREAM = 40,
	MEMSET_CORRELATION = 44, MEMSET_MEMORY = 50,

	API_CBID = 4, API_START = 8, API_END = 16, API_TID = 28, API_CORRELATION = 32, API_RESULT = 36,

	OVERHEAD_KIND = 4, OVERHEAD_START = 24, OVERHEAD_END = 32, OVERHEAD_DATA = 48,

	DEVICE_ID = 112, DEVICE_NAME = 136,
};

typedef void *cupti_subscriber;

struct cupti_subscribe_params {		/* of cuptiSubscribe_v2 */
	size_t size;
	const char *name;
	char *old_name;			/* gets the holder's name on CUPTI_HELD */
	size_t old_name_size;
};

/* The functions we use; looked up by name, never linked. OPTIONAL ones are absent from some versions. */
#define CUPTI_FUNCTIONS(REQUIRED, OPTIONAL) \
	REQUIRED(GetVersion, (uint32_t *version)) \
	REQUIRED(Subscribe, (cupti_subscriber *subscriber, void (*callback)(void *, int, uint32_t, const void *), void *user)) \
	OPTIONAL(Subscribe_v2, (cupti_subscriber *subscriber, void (*callback)(void *, int, uint32_t, const void *), void *user, \
				struct cupti_subscribe_params *params)) \
	REQUIRED(Unsubscribe, (cupti_subscriber subscriber)) \
	REQUIRED(ActivityRegisterCallbacks, (void (*request)(uint8_t **buffer, size_t *size, size_t *max_records), \
					     void (*complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size, \
							      size_t valid))) \
	REQUIRED(ActivityEnable, (int kind)) \
	REQUIRED(ActivityDisable, (int kind)) \
	REQUIRED(ActivityGetNextRecord, (uint8_t *buffer, size_t valid, uint8_t **record)) \
	REQUIRED(ActivityFlushAll, (uint32_t flag)) \
	OPTIONAL(ActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *dropped)) \
	OPTIONAL(ActivitySetAttribute, (int attribute, size_t *size, void *value)) \
	OPTIONAL(SetThreadIdType, (int type)) \
	OPTIONAL(GetTimestamp, (uint64_t *ns)) \
	OPTIONAL(ActivityEnableRuntimeApi, (uint32_t cbid, uint8_t enable)) \
	OPTIONAL(ActivityEnableDriverApi, (uint32_t cbid, uint8_t enable))

struct cupti_functions {
#define CUPTI_POINTER(name, params) int(*name) params;
	CUPTI_FUNCTIONS(CUPTI_POINTER, CUPTI_POINTER)
#undef CUPTI_POINTER
};

#endif
