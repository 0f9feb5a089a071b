/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of libcupti.
 */
#ifndef SIMGPU_CUPTI_INTERNAL_H
#define SIMGPU_CUPTI_INTERNAL_H

#include "examples/simgpu/core.h"
#include "examples/simgpu/cupti.h"

/* --- cupti_records.c: layouts --- */
/* What cuptiGetVersion returns. */
uint32_t cupti_version(void);
/* Bytes of a record of that kind in this version, 0: no such record. */
size_t record_bytes(uint32_t kind);
void record_fill_op(uint8_t *record, const struct sg_op *op, uint32_t kind);
void record_fill_times(uint8_t *record, uint64_t start, uint64_t end);
void record_fill_call(uint8_t *record, uint32_t kind, uint32_t cbid, uint64_t start, uint64_t end, uint32_t correlation,
		      int result, bool system_tid);
void record_fill_external(uint8_t *record, uint32_t kind, uint64_t id, uint32_t correlation);
void record_fill_sync(uint8_t *record, int type, uint64_t start, uint64_t end, uint32_t correlation, uint32_t context,
		      uint32_t stream_id, uint32_t event_id);
void record_fill_overhead(uint8_t *record, uint32_t kind, uint64_t start, uint64_t end);
void record_fill_device(uint8_t *record, int device);
void record_fill_context(uint8_t *record, int device);
void record_fill_stream(uint8_t *record, const struct sg_stream *stream);

/* --- cupti_buffers.c: the client's buffers --- */
struct pending;

/*
 * Room for a record in a buffer of the client, asking for one on the calling thread when there is none. Returns zeroed room
 * with the buffers locked: fill it, then call buffers_commit or buffers_keep. NULL: dropped and counted, not locked.
 */
uint8_t *buffers_take(uint32_t kind);
void buffers_commit(void);		/* the record is complete */
struct pending *buffers_keep(void);	/* it will be completed by buffers_finish */
void buffers_finish(struct pending *pending, uint64_t start, uint64_t end);
void buffers_set_callbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);
bool buffers_have_callbacks(void);
void buffers_flush(bool forced);	/* completes on the calling thread */
void buffers_per_thread(bool on);
size_t buffers_dropped(void);		/* since the last call */

/* --- cupti_listen.c: from the device to records --- */
extern _Atomic uint64_t cupti_kinds;	/* bit k: kind k is enabled */
enum { API_DEFAULT, API_ON, API_OFF, API_MAX = 1024 };
extern _Atomic uint8_t cupti_api_filter[2][API_MAX];	/* [0] driver, [1] runtime */
extern _Atomic bool cupti_system_tid;
void cupti_listen(void);
void cupti_dump(uint32_t kind);		/* records of what exists already */
bool cupti_enabled(uint32_t kind);
enum { EXTERNAL_KINDS = 6, EXTERNAL_DEPTH = 32 };
int cupti_external_push(int kind, uint64_t id);
int cupti_external_pop(int kind, uint64_t *id);

#endif
