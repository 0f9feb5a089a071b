/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of activity records, by version. A field never moved between the versions covered; records only grew.
 */
#include "examples/simgpu/cupti_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MAX = 8 };

/* From `since` (API version) on, a record of the kind has `bytes`. Last row that applies counts. */
static const struct {
	uint32_t kind;
	struct {
		uint32_t since, bytes;
	} sizes[SIZES_MAX];
} layouts[] = {
	{ CUPTI_ACTIVITY_KIND_MEMCPY, { { 13, 72 }, { 14, 80 }, { 17, 88 }, { 26, 96 } } },
	{ CUPTI_ACTIVITY_KIND_MEMSET, { { 13, 72 }, { 14, 80 }, { 17, 88 } } },
	{ CUPTI_ACTIVITY_KIND_KERNEL, { { 13, 160 }, { 15, 168 }, { 17, 176 }, { 18, 200 }, { 20, 208 }, { 130000, 216 } } },
	{ CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
	  { { 13, 160 }, { 15, 168 }, { 17, 176 }, { 18, 200 }, { 20, 208 }, { 130000, 216 } } },
	{ CUPTI_ACTIVITY_KIND_DRIVER, { { 13, 40 } } },
	{ CUPTI_ACTIVITY_KIND_RUNTIME, { { 13, 40 } } },
	{ CUPTI_ACTIVITY_KIND_DEVICE, { { 13, 176 }, { 22, 184 } } },
	{ CUPTI_ACTIVITY_KIND_CONTEXT, { { 13, 16 }, { 22, 24 }, { 130000, 32 } } },
	{ CUPTI_ACTIVITY_KIND_OVERHEAD, { { 13, 40 }, { 20, 48 }, { 22, 56 } } },
	{ CUPTI_ACTIVITY_KIND_MEMCPY2, { { 13, 80 }, { 14, 88 }, { 17, 96 } } },
	{ CUPTI_ACTIVITY_KIND_STREAM, { { 13, 24 } } },
	{ CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, { { 13, 40 }, { 26, 56 } } },
	{ CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, { { 13, 24 } } },
};

static uint32_t version_value;
static char device_names[SG_MAX_DEVICES][24];

static void init(void)
{
	const char *text = getenv("SIMGPU_CUPTI_VERSION");
	unsigned long value = text && *text ? strtoul(text, NULL, 10) : 22;

	version_value = value < 13 ? 22 : (uint32_t)value;
	for (int i = 0; i < SG_MAX_DEVICES; i++)
		snprintf(device_names[i], sizeof(device_names[i]), "Simulated GPU %d", i);
}

uint32_t cupti_version(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init);
	return version_value;
}

size_t record_bytes(uint32_t kind)
{
	uint32_t version = cupti_version();
	size_t bytes = 0;

	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (layouts[i].kind == kind)
			for (int s = 0; s < SIZES_MAX && layouts[i].sizes[s].bytes; s++)
				if (layouts[i].sizes[s].since <= version)
					bytes = layouts[i].sizes[s].bytes;
	return bytes;
}

static void put8(uint8_t *record, size_t at, uint8_t value)
{
	record[at] = value;
}

static void put16(uint8_t *record, size_t at, uint16_t value)
{
	memcpy(record + at, &value, sizeof(value));
}

static void put32(uint8_t *record, size_t at, uint32_t value)
{
	memcpy(record + at, &value, sizeof(value));
}

static void put64(uint8_t *record, size_t at, uint64_t value)
{
	memcpy(record + at, &value, sizeof(value));
}

static uint32_t context_of(int device)
{
	return (uint32_t)device + 1;
}

static void fill_kernel(uint8_t *record, const struct sg_op *op)
{
	bool work = op->kind == SG_WORK;
	dim3 grid = work ? op->work.grid : op->kernel.grid, block = work ? op->work.block : op->kernel.block;
	static _Atomic uint64_t grid_id;

	put16(record, 6, 32);
	put32(record, 40, (uint32_t)op->device);
	put32(record, 44, context_of(op->device));
	put32(record, 48, op->stream_id);
	put32(record, 52, grid.x);
	put32(record, 56, grid.y);
	put32(record, 60, grid.z);
	put32(record, 64, block.x);
	put32(record, 68, block.y);
	put32(record, 72, block.z);
	put32(record, 80, work ? 0 : op->kernel.shared_bytes);
	put32(record, 92, op->correlation);
	put64(record, 96, atomic_fetch_add(&grid_id, 1) + 1);
	put64(record, 104, (uintptr_t)(work ? op->work.name : op->kernel.name));
	if (record_bytes(10) >= 176)
		put32(record, 168, 8);	/* channel */
}

static void fill_copy(uint8_t *record, const struct sg_op *op, uint32_t kind)
{
	put8(record, 4, op->copy.kind);
	put8(record, 5, op->copy.src_memory);
	put8(record, 6, op->copy.dst_memory);
	put8(record, 7, op->copy.async);
	put64(record, 8, op->copy.bytes);
	put32(record, 32, (uint32_t)op->device);
	put32(record, 36, context_of(op->device));
	put32(record, 40, op->stream_id);
	if (kind != CUPTI_ACTIVITY_KIND_MEMCPY2) {
		put32(record, 44, op->correlation);
		if (record_bytes(kind) >= 96)
			put64(record, 88, 1);	/* copies in the batch */
		return;
	}
	put32(record, 44, (uint32_t)op->copy.src_device);
	put32(record, 48, context_of(op->copy.src_device));
	put32(record, 52, (uint32_t)op->copy.dst_device);
	put32(record, 56, context_of(op->copy.dst_device));
	put32(record, 60, op->correlation);
}

static void fill_set(uint8_t *record, const struct sg_op *op)
{
	put32(record, 4, (uint32_t)op->set.value);
	put64(record, 8, op->set.bytes);
	put32(record, 32, (uint32_t)op->device);
	put32(record, 36, context_of(op->device));
	put32(record, 40, op->stream_id);
	put32(record, 44, op->correlation);
	put16(record, 48, op->set.async);
	put16(record, 50, op->set.memory);
}

void record_fill_op(uint8_t *record, const struct sg_op *op, uint32_t kind)
{
	if (op->kind == SG_COPY)
		fill_copy(record, op, kind);
	else if (op->kind == SG_SET)
		fill_set(record, op);
	else
		fill_kernel(record, op);
}

/* Kernels, copies and sets keep them at the same place. */
void record_fill_times(uint8_t *record, uint64_t start, uint64_t end)
{
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	put64(record, 16, start);
	put64(record, 24, end);
	if (kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		put64(record, 32, end);
}

void record_fill_call(uint8_t *record, uint32_t kind, uint32_t cbid, uint64_t start, uint64_t end, uint32_t correlation,
		      int result, bool system_tid)
{
	(void)kind;
	put32(record, 4, cbid);
	put64(record, 8, start);
	put64(record, 16, end);
	put32(record, 24, (uint32_t)getpid());
	put32(record, 28, system_tid ? (uint32_t)gettid() : (uint32_t)(uintptr_t)pthread_self());
	put32(record, 32, correlation);
	put32(record, 36, (uint32_t)result);
}

void record_fill_external(uint8_t *record, uint32_t kind, uint64_t id, uint32_t correlation)
{
	put32(record, 4, kind);
	put64(record, 8, id);
	put32(record, 16, correlation);
}

void record_fill_sync(uint8_t *record, int type, uint64_t start, uint64_t end, uint32_t correlation, uint32_t context,
		      uint32_t stream_id, uint32_t event_id)
{
	put32(record, 4, (uint32_t)type);
	put64(record, 8, start);
	put64(record, 16, end);
	put32(record, 24, correlation);
	put32(record, 28, context);
	put32(record, 32, stream_id);
	put32(record, 36, event_id);
}

void record_fill_overhead(uint8_t *record, uint32_t kind, uint64_t start, uint64_t end)
{
	enum { OBJECT_THREAD = 2 };

	put32(record, 4, kind);
	put32(record, 8, OBJECT_THREAD);
	put32(record, 12, (uint32_t)getpid());
	put32(record, 16, (uint32_t)gettid());
	put64(record, 24, start);
	put64(record, 32, end);
}

void record_fill_device(uint8_t *record, int device)
{
	put64(record, 8, 3350000000);		/* kB/s */
	put64(record, 16, (uint64_t)1 << 36);
	put32(record, 32, 32);			/* threads in a warp */
	put32(record, 44, 132);			/* multiprocessors */
	put32(record, 104, 9);			/* compute capability 9.0 */
	put32(record, 112, (uint32_t)device);
	memset(record + 120, 0x51, 16);
	put8(record, 135, (uint8_t)device);	/* uuid */
	put64(record, 136, (uintptr_t)device_names[device]);
	put8(record, 144, 1);			/* visible */
}

void record_fill_context(uint8_t *record, int device)
{
	enum { API_CUDA = 1 };

	put32(record, 4, context_of(device));
	put32(record, 8, (uint32_t)device);
	put16(record, 12, API_CUDA);
	put16(record, 14, SG_NULL_STREAM_ID);
}

void record_fill_stream(uint8_t *record, const struct sg_stream *stream)
{
	enum { FLAG_DEFAULT = 1, FLAG_NON_BLOCKING = 2, FLAG_NULL = 3 };

	put32(record, 4, context_of(stream->device));
	put32(record, 8, stream->id);
	put32(record, 12, (uint32_t)stream->priority);
	put32(record, 16, stream->legacy ? FLAG_NULL :
	      stream->flags & cudaStreamNonBlocking ? FLAG_NON_BLOCKING : FLAG_DEFAULT);
	put32(record, 20, sg_correlation());
}
