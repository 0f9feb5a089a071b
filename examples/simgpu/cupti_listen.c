/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns what the device tells into activity records of the enabled kinds.
 */
#include "examples/simgpu/cupti_internal.h"

_Atomic uint64_t cupti_kinds;
_Atomic uint8_t cupti_api_filter[2][API_MAX];
_Atomic bool cupti_system_tid;

/* A runtime call is carried out by a driver call inside it, with the same correlation id. */
static const struct {
	uint16_t runtime, driver;
} inner_calls[] = {
	{ 211, 307 }, { 214, 442 }, { 430, 652 }, { 431, 653 }, { 505, 307 }, { 506, 442 },
	{ 131, 126 }, { 239, 440 }, { 137, 121 }, { 165, 17 }, { 147, 295 }, { 247, 436 },
};

static __thread struct {
	unsigned int depth[EXTERNAL_KINDS];
	uint64_t id[EXTERNAL_KINDS][EXTERNAL_DEPTH];
} external;

bool cupti_enabled(uint32_t kind)
{
	return atomic_load_explicit(&cupti_kinds, memory_order_relaxed) >> kind & 1;
}

int cupti_external_push(int kind, uint64_t id)
{
	if (kind <= 0 || kind >= EXTERNAL_KINDS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (external.depth[kind] == EXTERNAL_DEPTH)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	external.id[kind][external.depth[kind]++] = id;
	return 0;
}

int cupti_external_pop(int kind, uint64_t *id)
{
	if (kind <= 0 || kind >= EXTERNAL_KINDS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!external.depth[kind])
		return CUPTI_ERROR_QUEUE_EMPTY;
	external.depth[kind]--;
	if (id)
		*id = external.id[kind][external.depth[kind]];
	return 0;
}

static void emit_external(uint32_t correlation)
{
	if (!cupti_enabled(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
		return;
	for (uint32_t kind = 1; kind < EXTERNAL_KINDS; kind++) {
		uint8_t *record;

		if (!external.depth[kind])
			continue;
		record = buffers_take(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
		if (!record)
			continue;
		record_fill_external(record, kind, external.id[kind][external.depth[kind] - 1], correlation);
		buffers_commit();
	}
}

static bool emit_call(uint32_t kind, uint32_t cbid, uint64_t start, uint64_t end, uint32_t correlation, int result)
{
	uint8_t filter = cbid < API_MAX ? atomic_load_explicit(&cupti_api_filter[kind == CUPTI_ACTIVITY_KIND_RUNTIME][cbid],
							       memory_order_relaxed) : API_DEFAULT;
	uint8_t *record;

	if (filter == API_OFF || (filter == API_DEFAULT && !cupti_enabled(kind)))
		return false;
	record = buffers_take(kind);
	if (!record)
		return false;
	record_fill_call(record, kind, cbid, start, end, correlation, result,
			 atomic_load_explicit(&cupti_system_tid, memory_order_relaxed));
	buffers_commit();
	return true;
}

static void on_call(const struct sg_call *call, uint64_t end_ns, int result)
{
	uint64_t start = sg_to_realtime(call->start_ns), length = end_ns - call->start_ns;
	bool runtime = call->domain == SG_RUNTIME, emitted;

	emitted = emit_call(runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER, call->cbid, start,
			    start + length, call->correlation, result);
	for (size_t i = 0; runtime && i < sizeof(inner_calls) / sizeof(*inner_calls); i++)
		if (inner_calls[i].runtime == call->cbid)
			emitted |= emit_call(CUPTI_ACTIVITY_KIND_DRIVER, inner_calls[i].driver, start + length / 8,
					     start + length - length / 8, call->correlation, result);
	if (emitted)
		emit_external(call->correlation);
}

/* The kind of record an operation gets, 0 for none. */
static uint32_t op_record_kind(const struct sg_op *op)
{
	switch (op->kind) {
	case SG_KERNEL:
	case SG_WORK:
		return cupti_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL :
		       cupti_enabled(CUPTI_ACTIVITY_KIND_KERNEL) ? CUPTI_ACTIVITY_KIND_KERNEL : 0;
	case SG_COPY:
		if (!cupti_enabled(CUPTI_ACTIVITY_KIND_MEMCPY))
			return 0;	/* peer copies too: MEMCPY2 alone yields nothing */
		if (op->copy.kind != 10)
			return CUPTI_ACTIVITY_KIND_MEMCPY;
		return cupti_enabled(CUPTI_ACTIVITY_KIND_MEMCPY2) ? CUPTI_ACTIVITY_KIND_MEMCPY2 : 0;
	case SG_SET:
		return cupti_enabled(CUPTI_ACTIVITY_KIND_MEMSET) ? CUPTI_ACTIVITY_KIND_MEMSET : 0;
	default:
		return 0;
	}
}

static void *on_queued(const struct sg_op *op)
{
	uint32_t kind = op_record_kind(op);
	uint8_t *record = kind ? buffers_take(kind) : NULL;

	if (!record)
		return NULL;
	record_fill_op(record, op, kind);
	return buffers_keep();
}

static void on_done(void *pending, const struct sg_op *op)
{
	/* of this stream, whose thread this is: what follows without a gap must not overlap by a clock's hair */
	static __thread uint64_t last_end, last_end_real;
	uint64_t start = sg_to_realtime(op->start_ns);

	if (op->start_ns >= last_end && start < last_end_real)
		start = last_end_real;
	if (op->start_ns == last_end && last_end)
		start = last_end_real;
	last_end = op->end_ns;
	last_end_real = start + (op->end_ns - op->start_ns);
	buffers_finish(pending, start, last_end_real);
}

static void on_sync(int type, uint64_t start_ns, uint64_t end_ns, int device, uint32_t stream_id, uint32_t event_id)
{
	uint64_t start = sg_to_realtime(start_ns);
	uint8_t *record;

	if (!cupti_enabled(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION))
		return;
	if (type == SG_SYNC_CONTEXT && cupti_version() == 130000)
		return;		/* a gap of that very release */
	record = buffers_take(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
	if (!record)
		return;
	record_fill_sync(record, type, start, start + (end_ns - start_ns), sg_correlation(), (uint32_t)device + 1,
			 stream_id, event_id);
	buffers_commit();
}

static void on_overhead(uint32_t kind, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t start = sg_to_realtime(start_ns);
	uint8_t *record;

	if (!cupti_enabled(CUPTI_ACTIVITY_KIND_OVERHEAD))
		return;
	record = buffers_take(CUPTI_ACTIVITY_KIND_OVERHEAD);
	if (!record)
		return;
	record_fill_overhead(record, kind, start, start + (end_ns - start_ns));
	buffers_commit();
}

static void emit_device(int device)
{
	uint8_t *record = buffers_take(CUPTI_ACTIVITY_KIND_DEVICE);

	if (!record)
		return;
	record_fill_device(record, device);
	buffers_commit();
}

static void emit_context(int device)
{
	uint8_t *record = buffers_take(CUPTI_ACTIVITY_KIND_CONTEXT);

	if (!record)
		return;
	record_fill_context(record, device);
	buffers_commit();
}

static void emit_stream(const struct sg_stream *stream)
{
	uint8_t *record = buffers_take(CUPTI_ACTIVITY_KIND_STREAM);

	if (!record)
		return;
	record_fill_stream(record, stream);
	buffers_commit();
}

static void on_context(int device)
{
	if (cupti_enabled(CUPTI_ACTIVITY_KIND_CONTEXT))
		emit_context(device);
}

static void on_stream(const struct sg_stream *stream)
{
	if (cupti_enabled(CUPTI_ACTIVITY_KIND_STREAM))
		emit_stream(stream);
}

void cupti_dump(uint32_t kind)
{
	for (int d = 0; d < sg_config.devices; d++) {
		if (kind == CUPTI_ACTIVITY_KIND_DEVICE)
			emit_device(d);
		if (kind == CUPTI_ACTIVITY_KIND_CONTEXT && sg_context_exists(d))
			emit_context(d);
	}
	if (kind == CUPTI_ACTIVITY_KIND_STREAM)
		sg_each_stream(emit_stream);
}

void cupti_listen(void)
{
	static const struct sg_listener listener = {
		.call = on_call, .op_queued = on_queued, .op_done = on_done, .sync = on_sync,
		.overhead = on_overhead, .context = on_context, .stream = on_stream,
	};

	sg_listen(&listener);
}
