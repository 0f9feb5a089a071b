/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: an ordered queue and a thread each, started by the first operation. Modelled time is computed here:
 *
 *	start = max(submitted + latency, end of the predecessor in the stream, ends of what the operation waits for)
 *	end   = start + modelled duration
 *
 * A thread that wakes late changes none of these times; it only delivers the completion late.
 */
#include "examples/simgpu/core.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { NICE = -15 };

static struct sg_lock core_lock;	/* of all streams' lists, `last` and flags; taken before a stream's own lock */
static struct sg_stream *streams[SG_MAX_DEVICES];
static struct sg_stream *legacy[SG_MAX_DEVICES];
static _Atomic uint32_t last_stream_id = 12;	/* a real context's first made stream is 13 */

struct per_thread {
	struct sg_stream *stream[SG_MAX_DEVICES];
};
static __thread struct per_thread *per_thread_streams;
static pthread_key_t per_thread_key;
static pthread_once_t per_thread_once = PTHREAD_ONCE_INIT;

static void op_finish(struct sg_op *op)
{
	/* release: pairs with sg_op_done and sg_op_wait */
	if (atomic_exchange_explicit(&op->done, 2, memory_order_acq_rel) == 1)
		futex_wake(&op->done, 1 << 30);
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The bytes move within the copy's own time, at its end. */
static void copy_run(struct sg_op *op)
{
	uint64_t need = op->copy.bytes / 4;	/* a CPU copies some 4 GB/s */

	sg_sleep_until(op->end_ns > need ? max_u64(op->start_ns, op->end_ns - need) : op->start_ns);
	memcpy(op->copy.dst, op->copy.staging ? op->copy.staging : op->copy.src, op->copy.bytes);
	sg_sleep_until(op->end_ns);
}

static void op_run(struct sg_op *op)
{
	uint64_t before;

	op->end_ns = op->start_ns;
	switch (op->kind) {
	case SG_KERNEL:
		op->end_ns += op->kernel.duration ?
			op->kernel.duration(op->kernel.args, op->kernel.grid, op->kernel.block) : op->duration_ns;
		sg_sleep_until(op->end_ns);
		if (op->kernel.body)
			op->kernel.body(op->kernel.args, op->kernel.grid, op->kernel.block);
		break;
	case SG_COPY:
		op->end_ns += op->duration_ns;
		copy_run(op);
		break;
	case SG_SET:
		op->end_ns += op->duration_ns;
		sg_sleep_until(op->end_ns);
		memset(op->set.ptr, op->set.value, op->set.bytes);
		break;
	case SG_HOST:
		sg_sleep_until(op->start_ns);
		before = sg_now();
		op->host.fn(op->host.data);
		op->end_ns += sg_now() - before;
		break;
	case SG_WORK:
		sg_sleep_until(op->start_ns);
		op->end_ns = max_u64(op->start_ns, op->work.fn(op->work.data, op->start_ns));
		break;
	case SG_MARK:
	case SG_STOP:
		sg_sleep_until(op->end_ns);
		break;
	}
}

static struct sg_op *queue_pop(struct sg_stream *stream)
{
	for (;;) {
		uint32_t seen = atomic_load(&stream->queued);
		struct sg_op *op;

		sg_lock(&stream->lock);
		op = stream->head;
		if (op) {
			stream->head = op->next;
			if (!stream->head)
				stream->tail = NULL;
		}
		sg_unlock(&stream->lock);
		if (op)
			return op;
		/* seq_cst with queue_push: either it sees asleep, or we see the count moved */
		atomic_store(&stream->asleep, 1);
		if (atomic_load(&stream->queued) == seen)
			futex_wait(&stream->queued, seen);
		atomic_store(&stream->asleep, 0);
	}
}

static void queue_push(struct sg_stream *stream, struct sg_op *op)
{
	sg_lock(&stream->lock);
	if (stream->tail)
		stream->tail->next = op;
	else
		stream->head = op;
	stream->tail = op;
	sg_unlock(&stream->lock);
	atomic_fetch_add(&stream->queued, 1);
	if (atomic_load(&stream->asleep))
		futex_wake(&stream->queued, 1);
}

static void *stream_main(void *arg)
{
	struct sg_stream *stream = arg;
	char name[16] = "simgpu";
	bool stop = false;

	syscall(SYS_prctl, PR_SET_NAME, name);
	syscall(SYS_prctl, PR_SET_TIMERSLACK, 1);
	/* A GPU does not wait for a CPU. Only where it is allowed; otherwise completions may come late under load. */
	syscall(SYS_setpriority, PRIO_PROCESS, 0, NICE);
	while (!stop) {
		struct sg_op *op = queue_pop(stream);
		uint64_t start = max_u64(op->ready_ns, stream->last_end_ns);

		for (unsigned int i = 0; i < op->ndeps; i++) {
			sg_op_wait(op->deps[i]);
			start = max_u64(start, op->deps[i]->end_ns);
		}
		op->start_ns = start;
		op_run(op);
		stream->last_end_ns = op->end_ns;
		if (op->record)
			sg_listener()->op_done(op->record, op);
		stop = op->kind == SG_STOP;
		op_finish(op);
		sg_op_put(op);
		atomic_fetch_sub(&stream->outstanding, 1);
		if (atomic_load(&stream->blocked))
			futex_wake(&stream->outstanding, 1 << 30);
	}
	sg_lock(&core_lock);	/* sg_stream_delete is through with it */
	sg_unlock(&core_lock);
	sg_op_put(stream->last);
	free(stream);
	return NULL;
}

/* A signal meant for the job must never land on a thread of the device. */
static int stream_start(struct sg_stream *stream)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, &attr, stream_main, stream);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return rc ? cudaErrorMemoryAllocation : 0;
}

static struct sg_stream *stream_alloc(int device, unsigned int flags, int priority, bool is_legacy)
{
	struct sg_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->device = device;
	stream->flags = flags;
	stream->priority = priority;
	stream->legacy = is_legacy;
	stream->id = is_legacy ? SG_NULL_STREAM_ID : atomic_fetch_add(&last_stream_id, 1) + 1;
	return stream;
}

static void tell_stream(const struct sg_stream *stream)
{
	const struct sg_listener *listener = sg_listener();

	if (listener)
		listener->stream(stream);
}

int sg_stream_new(unsigned int flags, int priority, struct sg_stream **out)
{
	int device = sg_current_device();
	struct sg_stream *stream;

	sg_context(device);
	stream = stream_alloc(device, flags, priority, false);
	if (!stream)
		return cudaErrorMemoryAllocation;
	sg_lock(&core_lock);
	stream->next = streams[device];
	streams[device] = stream;
	sg_unlock(&core_lock);
	tell_stream(stream);
	*out = stream;
	return 0;
}

struct sg_stream *sg_legacy_stream(int device)
{
	struct sg_stream *stream;
	bool made = false;

	sg_lock(&core_lock);
	if (!legacy[device]) {
		legacy[device] = stream_alloc(device, 0, 0, true);
		made = legacy[device];
		if (made) {
			legacy[device]->next = streams[device];
			streams[device] = legacy[device];
		}
	}
	stream = legacy[device];
	sg_unlock(&core_lock);
	if (made)
		tell_stream(stream);
	return stream;
}

static void stream_unlink(struct sg_stream *stream)
{
	for (struct sg_stream **at = &streams[stream->device]; *at; at = &(*at)->next) {
		if (*at == stream) {
			*at = stream->next;
			return;
		}
	}
}

/* Returns at once; the thread ends, and the stream is freed, when what was queued is done. */
void sg_stream_delete(struct sg_stream *stream)
{
	struct sg_op *stop = NULL;

	if (stream->started)
		stop = sg_op_new(SG_STOP);
	if (stop)
		sg_submit(stream, stop, false);
	sg_lock(&core_lock);
	stream_unlink(stream);
	if (stop)
		queue_push(stream, stop);	/* only now: its thread frees the stream */
	sg_unlock(&core_lock);
	if (!stop && !stream->started)
		free(stream);
}

static void per_thread_end(void *arg)
{
	struct per_thread *mine = arg;

	for (int i = 0; i < SG_MAX_DEVICES; i++)
		if (mine->stream[i] && !sg_forked())
			sg_stream_delete(mine->stream[i]);
	free(mine);
}

static void per_thread_make_key(void)
{
	pthread_key_create(&per_thread_key, per_thread_end);
}

static struct sg_stream *per_thread_stream(int device)
{
	if (!per_thread_streams) {
		per_thread_streams = calloc(1, sizeof(*per_thread_streams));
		if (!per_thread_streams)
			return NULL;
		pthread_once(&per_thread_once, per_thread_make_key);
		pthread_setspecific(per_thread_key, per_thread_streams);
	}
	if (!per_thread_streams->stream[device])
		sg_stream_new(0, 0, &per_thread_streams->stream[device]);
	return per_thread_streams->stream[device];
}

struct sg_stream *sg_stream_of(cudaStream_t handle, bool per_thread)
{
	int device = sg_current_device();

	if (handle == cudaStreamPerThread || (!handle && per_thread))
		return per_thread_stream(device);
	if (!handle || handle == cudaStreamLegacy) {
		sg_context(device);
		return sg_legacy_stream(device);
	}
	return handle;
}

static bool blocking(const struct sg_stream *stream)
{
	return !stream->legacy && !(stream->flags & cudaStreamNonBlocking);
}

static int depend_on_last(struct sg_op *op, struct sg_stream *stream)
{
	if (!stream || !stream->last || sg_op_done(stream->last))
		return 0;
	return sg_op_depend(op, stream->last);
}

/* The legacy stream waits for all blocking streams, and they for it. Under core_lock. */
static int legacy_order(struct sg_stream *stream, struct sg_op *op)
{
	int rc = 0;

	if (blocking(stream))
		return depend_on_last(op, legacy[stream->device]);
	for (struct sg_stream *s = streams[stream->device]; stream->legacy && s && !rc; s = s->next)
		if (blocking(s))
			rc = depend_on_last(op, s);
	return rc;
}

static void wait_for_room(struct sg_stream *stream)
{
	const struct sg_listener *listener = sg_listener();
	uint64_t start = 0;
	uint32_t seen;

	while ((seen = atomic_load(&stream->outstanding)) >= sg_config.queue_depth) {
		if (!start)
			start = sg_now();
		atomic_fetch_add(&stream->blocked, 1);
		futex_wait(&stream->outstanding, seen);
		atomic_fetch_sub(&stream->blocked, 1);
	}
	if (start && listener)
		listener->overhead(SG_OVERHEAD_QUEUE_FULL, start, sg_now());
}

int sg_submit(struct sg_stream *stream, struct sg_op *op, bool keep)
{
	const struct sg_listener *listener = sg_listener();
	struct sg_op *before;
	int rc = 0;

	if (op->kind != SG_MARK && op->kind != SG_STOP)
		wait_for_room(stream);
	op->stream = stream;
	op->device = stream->device;
	op->stream_id = stream->id;
	op->correlation = sg_correlation();
	if (listener && op->kind != SG_MARK && op->kind != SG_STOP && op->kind != SG_HOST)
		op->record = listener->op_queued(op);
	sg_lock(&core_lock);
	if (!stream->started)
		rc = stream_start(stream);
	if (!rc) {
		stream->started = true;
		rc = legacy_order(stream, op);
	}
	if (rc) {
		sg_unlock(&core_lock);
		if (op->record)
			listener->op_done(op->record, op);
		sg_op_put(op);
		return rc;
	}
	op->ready_ns = sg_now();
	if (op->kind != SG_MARK && op->kind != SG_STOP)
		op->ready_ns += sg_config.latency_ns;
	before = stream->last;
	stream->last = sg_op_get(op);
	atomic_fetch_add(&stream->outstanding, 1);
	if (keep)
		sg_op_get(op);
	if (op->kind != SG_STOP)
		queue_push(stream, op);
	sg_unlock(&core_lock);
	sg_op_put(before);
	return 0;
}

struct sg_op *sg_stream_last(struct sg_stream *stream)
{
	struct sg_op *op;

	sg_lock(&core_lock);
	op = stream->last && !sg_op_done(stream->last) ? sg_op_get(stream->last) : NULL;
	sg_unlock(&core_lock);
	return op;
}

void sg_stream_sync(struct sg_stream *stream)
{
	struct sg_op *op = sg_stream_last(stream);

	if (op)
		sg_op_wait(op);
	sg_op_put(op);
}

/* Waits for what was queued before the call, not for what other threads queue meanwhile. */
void sg_device_sync(int device)
{
	struct sg_op *all = sg_op_new(SG_MARK);

	if (!all)
		return;
	sg_lock(&core_lock);
	for (struct sg_stream *s = streams[device]; s; s = s->next)
		depend_on_last(all, s);
	sg_unlock(&core_lock);
	for (unsigned int i = 0; i < all->ndeps; i++)
		sg_op_wait(all->deps[i]);
	sg_op_put(all);
}

void sg_each_stream(void (*fn)(const struct sg_stream *stream))
{
	struct sg_stream copy[64];
	int n = 0;

	sg_lock(&core_lock);	/* copies: the callback may take the listener's lock */
	for (int d = 0; d < SG_MAX_DEVICES; d++)
		for (struct sg_stream *s = streams[d]; s && n < 64; s = s->next)
			memcpy(&copy[n++], s, offsetof(struct sg_stream, lock));
	sg_unlock(&core_lock);
	for (int i = 0; i < n; i++)
		fn(&copy[i]);
}
