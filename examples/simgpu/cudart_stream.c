/* SPDX-License-Identifier: Apache-2.0
 *
 * libcudart: streams, events, host functions.
 */
#include "examples/simgpu/cudart_call.h"

#include <stdlib.h>

enum { EVENT_MAGIC = 0x65766e74 };

struct sg_event {
	uint32_t magic;
	unsigned int flags;
	uint32_t id;
	struct sg_lock lock;
	struct sg_op *op;	/* the latest record, NULL before */
};

static _Atomic uint32_t last_event_id;

static void tell_sync(int type, const struct sg_call *call, int device, uint32_t stream_id, uint32_t event_id)
{
	const struct sg_listener *listener = sg_listener();

	if (listener)
		listener->sync(type, call->start_ns, sg_now(), device, stream_id, event_id);
}

static cudaError_t stream_create(uint32_t cbid, cudaStream_t *out, unsigned int flags, int priority)
{
	struct sg_call call;
	int rc;

	CUDART_BEGIN(call, cbid);
	if (!out || flags > cudaStreamNonBlocking)
		return cudart_end(&call, cudaErrorInvalidValue);
	rc = sg_stream_new(flags, priority, out);
	return cudart_end(&call, rc);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return stream_create(CBID_cudaStreamCreate, stream, 0, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	return stream_create(CBID_cudaStreamCreateWithFlags, stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
	return stream_create(CBID_cudaStreamCreateWithPriority, stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaStreamDestroy);
	if ((uintptr_t)stream <= 2)
		return cudart_end(&call, cudaErrorInvalidResourceHandle);
	sg_stream_delete(stream);
	return cudart_end(&call, 0);
}

static cudaError_t stream_synchronize(uint32_t cbid, cudaStream_t handle, bool per_thread)
{
	struct sg_stream *stream;
	struct sg_call call;

	CUDART_BEGIN(call, cbid);
	stream = sg_stream_of(handle, per_thread);
	if (!stream)
		return cudart_end(&call, cudaErrorMemoryAllocation);
	sg_stream_sync(stream);
	tell_sync(SG_SYNC_STREAM, &call, stream->device, stream->id, UINT32_MAX);
	return cudart_end(&call, 0);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return stream_synchronize(CBID_cudaStreamSynchronize, stream, false);
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
	return stream_synchronize(CBID_cudaStreamSynchronize_ptsz, stream, true);
}

static cudaError_t stream_query(uint32_t cbid, cudaStream_t handle, bool per_thread)
{
	struct sg_stream *stream;
	struct sg_call call;
	struct sg_op *op;

	CUDART_BEGIN(call, cbid);
	stream = sg_stream_of(handle, per_thread);
	if (!stream)
		return cudart_end(&call, cudaErrorMemoryAllocation);
	op = sg_stream_last(stream);
	sg_op_put(op);
	return cudart_end(&call, op ? cudaErrorNotReady : 0);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return stream_query(CBID_cudaStreamQuery, stream, false);
}

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream)
{
	return stream_query(CBID_cudaStreamQuery_ptsz, stream, true);
}

static struct sg_op *event_op(struct sg_event *event)
{
	struct sg_op *op;

	sg_lock(&event->lock);
	op = sg_op_get(event->op);
	sg_unlock(&event->lock);
	return op;
}

static int wait_event(struct sg_stream *stream, struct sg_event *event)
{
	struct sg_op *op = event_op(event), *mark;
	int rc = 0;

	if (op && !sg_op_done(op)) {
		mark = sg_op_new(SG_MARK);
		rc = mark ? sg_op_depend(mark, op) : cudaErrorMemoryAllocation;
		if (!rc)
			rc = sg_submit(stream, mark, false);
		else
			sg_op_put(mark);
	}
	sg_op_put(op);
	return rc;
}

static cudaError_t stream_wait_event(uint32_t cbid, cudaStream_t handle, struct sg_event *event, bool per_thread)
{
	struct sg_stream *stream;
	struct sg_call call;
	int rc;

	CUDART_BEGIN(call, cbid);
	stream = sg_stream_of(handle, per_thread);
	if (!stream || !event || event->magic != EVENT_MAGIC)
		return cudart_end(&call, cudaErrorInvalidResourceHandle);
	rc = wait_event(stream, event);
	tell_sync(SG_SYNC_STREAM_WAIT, &call, stream->device, stream->id, event->id);
	return cudart_end(&call, rc);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	(void)flags;
	return stream_wait_event(CBID_cudaStreamWaitEvent, stream, event, false);
}

cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	(void)flags;
	return stream_wait_event(CBID_cudaStreamWaitEvent_ptsz, stream, event, true);
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority)
{
	struct sg_stream *stream;
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaStreamGetPriority);
	stream = sg_stream_of(handle, false);
	if (!stream)
		return cudart_end(&call, cudaErrorMemoryAllocation);
	*priority = stream->priority;
	return cudart_end(&call, 0);
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int *flags)
{
	struct sg_stream *stream;
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaStreamGetFlags);
	stream = sg_stream_of(handle, false);
	if (!stream)
		return cudart_end(&call, cudaErrorMemoryAllocation);
	*flags = stream->flags;
	return cudart_end(&call, 0);
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *id)
{
	struct sg_stream *stream;
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaStreamGetId);
	stream = sg_stream_of(handle, false);
	if (!stream)
		return cudart_end(&call, cudaErrorMemoryAllocation);
	*id = stream->id;
	return cudart_end(&call, 0);
}

/* There is no capture here, so the answer is always "none" (0). */
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaStreamIsCapturing);
	(void)stream;
	*status = 0;
	return cudart_end(&call, 0);
}

static cudaError_t launch_host_func(uint32_t cbid, cudaStream_t handle, cudaHostFn_t fn, void *data, bool per_thread)
{
	struct sg_stream *stream;
	struct sg_call call;
	struct sg_op *op;

	CUDART_BEGIN(call, cbid);
	stream = sg_stream_of(handle, per_thread);
	op = fn && stream ? sg_op_new(SG_HOST) : NULL;
	if (!op)
		return cudart_end(&call, fn ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
	op->host.fn = fn;
	op->host.data = data;
	return cudart_end(&call, sg_submit(stream, op, false));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *user_data)
{
	return launch_host_func(CBID_cudaLaunchHostFunc, stream, fn, user_data, false);
}

cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t fn, void *user_data)
{
	return launch_host_func(CBID_cudaLaunchHostFunc_ptsz, stream, fn, user_data, true);
}

static cudaError_t event_create(uint32_t cbid, struct sg_event **out, unsigned int flags)
{
	struct sg_event *event;
	struct sg_call call;

	CUDART_BEGIN(call, cbid);
	event = out ? calloc(1, sizeof(*event)) : NULL;
	if (!event)
		return cudart_end(&call, out ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
	event->magic = EVENT_MAGIC;
	event->flags = flags;
	event->id = atomic_fetch_add(&last_event_id, 1) + 1;
	*out = event;
	return cudart_end(&call, 0);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return event_create(CBID_cudaEventCreate, event, 0);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	return event_create(CBID_cudaEventCreateWithFlags, event, flags);
}

static cudaError_t event_record(uint32_t cbid, struct sg_event *event, cudaStream_t handle, bool per_thread)
{
	struct sg_op *op, *before;
	struct sg_stream *stream;
	struct sg_call call;
	int rc;

	CUDART_BEGIN(call, cbid);
	stream = sg_stream_of(handle, per_thread);
	if (!stream || !event || event->magic != EVENT_MAGIC)
		return cudart_end(&call, cudaErrorInvalidResourceHandle);
	op = sg_op_new(SG_MARK);
	if (!op)
		return cudart_end(&call, cudaErrorMemoryAllocation);
	rc = sg_submit(stream, op, true);
	if (rc)
		return cudart_end(&call, rc);
	sg_lock(&event->lock);
	before = event->op;
	event->op = op;
	sg_unlock(&event->lock);
	sg_op_put(before);
	return cudart_end(&call, 0);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return event_record(CBID_cudaEventRecord, event, stream, false);
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
	return event_record(CBID_cudaEventRecord_ptsz, event, stream, true);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	(void)flags;
	return event_record(CBID_cudaEventRecordWithFlags, event, stream, false);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	struct sg_call call;
	struct sg_op *op;
	int rc;

	CUDART_BEGIN(call, CBID_cudaEventQuery);
	if (!event || event->magic != EVENT_MAGIC)
		return cudart_end(&call, cudaErrorInvalidResourceHandle);
	op = event_op(event);
	rc = op && !sg_op_done(op) ? cudaErrorNotReady : 0;
	sg_op_put(op);
	return cudart_end(&call, rc);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	struct sg_call call;
	struct sg_op *op;

	CUDART_BEGIN(call, CBID_cudaEventSynchronize);
	if (!event || event->magic != EVENT_MAGIC)
		return cudart_end(&call, cudaErrorInvalidResourceHandle);
	op = event_op(event);
	if (op)
		sg_op_wait(op);
	tell_sync(SG_SYNC_EVENT, &call, op ? op->device : sg_current_device(), op ? op->stream_id : UINT32_MAX,
		  event->id);
	sg_op_put(op);
	return cudart_end(&call, 0);
}

static int elapsed(struct sg_event *start, struct sg_event *end, float *ms)
{
	struct sg_op *a = event_op(start), *b = event_op(end);
	int rc = 0;

	if (!a || !b || (start->flags | end->flags) & cudaEventDisableTiming)
		rc = cudaErrorInvalidResourceHandle;
	else if (!sg_op_done(a) || !sg_op_done(b))
		rc = cudaErrorNotReady;
	else
		*ms = (float)((double)(int64_t)(b->end_ns - a->end_ns) / 1e6);
	sg_op_put(a);
	sg_op_put(b);
	return rc;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaEventElapsedTime);
	if (!start || !end || start->magic != EVENT_MAGIC || end->magic != EVENT_MAGIC)
		return cudart_end(&call, cudaErrorInvalidResourceHandle);
	return cudart_end(&call, elapsed(start, end, ms));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaEventDestroy);
	if (!event || event->magic != EVENT_MAGIC)
		return cudart_end(&call, cudaErrorInvalidResourceHandle);
	event->magic = 0;
	sg_op_put(event->op);
	free(event);
	return cudart_end(&call, 0);
}
