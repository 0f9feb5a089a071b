/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's buffers, treated as libcupti treats them:
 * - asked for on whichever thread needs room, with none of our locks held;
 * - room for a kernel, copy or set is taken at launch and completed when the operation ends, so a buffer may be full
 *   and yet not deliverable;
 * - full buffers are completed on a worker thread, others in the caller of FlushAll;
 * - records lie in no order, and behind the last one lies garbage.
 */
#include "examples/simgpu/cupti_internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { NULL_BUFFER_SAFE_SINCE = 27, GARBAGE = 0xa5 };

struct buffer {
	struct buffer *next;
	uint8_t *data;
	size_t bytes, used, records, max_records;
	struct pending *pending;	/* records not complete yet */
	pid_t owner;			/* thread it is for, 0: all */
	bool full;			/* the worker delivers it when complete */
	bool closed;			/* takes no more records */
};

struct pending {
	struct pending *next, *prev;
	struct buffer *buffer;		/* NULL: delivered incomplete, its end comes never */
	size_t at;
};

static struct sg_lock lock;
static struct buffer *buffers;
static CUpti_BuffersCallbackRequestFunc request_callback;
static CUpti_BuffersCallbackCompleteFunc complete_callback;
static struct buffer *taken_from;	/* between take and commit, under the lock */
static size_t taken_at;
static size_t dropped;
static bool per_thread;
static _Atomic uint32_t work;		/* the worker's futex */
static bool worker_started;
static uint64_t random_state;
static int shuffle = -1;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Under the lock. */
static bool shuffled(void)
{
	if (shuffle < 0) {
		const char *text = getenv("SIMGPU_CUPTI_SHUFFLE");

		shuffle = !text || strcmp(text, "0");
		random_state = sg_now() | 1;
	}
	return shuffle;
}

static bool ready(const struct buffer *buffer)
{
	return !buffer->pending && buffer->records;
}

static void buffer_unlink(struct buffer *buffer)
{
	for (struct buffer **at = &buffers; *at; at = &(*at)->next) {
		if (*at == buffer) {
			*at = buffer->next;
			buffer->next = NULL;
			return;
		}
	}
}

/* Puts the records into random order. */
static void mix_records(struct buffer *buffer)
{
	struct {
		size_t at, bytes;
	} *list = malloc(buffer->records * sizeof(*list) + 1), swap;
	uint8_t *copy = malloc(buffer->used + 1), *to = buffer->data;
	size_t n = 0;

	if (list && copy) {
		for (size_t at = 0; at < buffer->used && n < buffer->records; n++) {
			uint32_t kind;

			memcpy(&kind, buffer->data + at, sizeof(kind));
			list[n].at = at;
			list[n].bytes = record_bytes(kind);
			at += list[n].bytes;
		}
		memcpy(copy, buffer->data, buffer->used);
		for (size_t i = n; i > 1; i--) {
			size_t j = random_next() % i;

			swap = list[i - 1];
			list[i - 1] = list[j];
			list[j] = swap;
		}
		for (size_t i = 0; i < n; i++) {
			memcpy(to, copy + list[i].at, list[i].bytes);
			to += list[i].bytes;
		}
	}
	free(list);
	free(copy);
}

/* Not under the lock; the buffer is unlinked. */
static void deliver(struct buffer *buffer, CUpti_BuffersCallbackCompleteFunc complete)
{
	memset(buffer->data + buffer->used, GARBAGE, buffer->bytes - buffer->used);
	if (complete)
		complete(NULL, 0, buffer->data, buffer->bytes, buffer->used);
	free(buffer);
}

/* A random one of the full and complete buffers, unlinked. Under the lock. */
static struct buffer *next_full(void)
{
	struct buffer *found = NULL;
	unsigned int n = 0;

	for (struct buffer *b = buffers; b; b = b->next)
		if (b->full && ready(b) && (!n++ || (shuffled() && random_next() % n == 0)))
			found = b;
	if (found)
		buffer_unlink(found);
	return found;
}

static void *worker_main(void *arg)
{
	char name[16] = "simcupti";

	(void)arg;
	syscall(SYS_prctl, PR_SET_NAME, name);
	for (;;) {
		uint32_t seen = atomic_load(&work);
		CUpti_BuffersCallbackCompleteFunc complete;
		struct buffer *buffer;

		sg_lock(&lock);
		buffer = next_full();
		complete = complete_callback;
		if (buffer && shuffled())
			mix_records(buffer);
		sg_unlock(&lock);
		if (buffer)
			deliver(buffer, complete);
		else
			futex_wait(&work, seen);
	}
	return NULL;
}

/* Under the lock. */
static void worker_wake(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;

	atomic_fetch_add(&work, 1);
	futex_wake(&work, 1);
	if (worker_started)
		return;
	worker_started = true;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&thread, &attr, worker_main, NULL))
		worker_started = false;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
}

static bool has_room(const struct buffer *buffer, size_t bytes)
{
	return buffer->bytes - buffer->used >= bytes &&
	       (!buffer->max_records || buffer->records < buffer->max_records);
}

/* Under the lock. A buffer that is found full is closed on the way. */
static struct buffer *find_open(size_t bytes)
{
	pid_t owner = per_thread ? gettid() : 0;

	for (struct buffer *b = buffers; b; b = b->next) {
		if (b->closed || b->owner != owner)
			continue;
		if (has_room(b, bytes))
			return b;
		b->closed = b->full = true;
		if (ready(b))
			worker_wake();
	}
	return NULL;
}

/* Asks the client, not under the lock. NULL: nothing usable came. */
static struct buffer *ask(size_t bytes, CUpti_BuffersCallbackRequestFunc request)
{
	struct buffer *buffer;
	uint8_t *data = NULL;
	size_t size = 0, max_records = 0;

	request(&data, &size, &max_records);
	if (!data && cupti_version() < NULL_BUFFER_SAFE_SINCE) {
		fprintf(stderr, "simgpu libcupti: the request callback gave no buffer; before 12.9 that crashes\n");
		abort();
	}
	if (!data)
		return NULL;
	if ((uintptr_t)data % 8 || size < bytes) {
		fprintf(stderr, "simgpu libcupti: unusable buffer %p of %zu bytes\n", (void *)data, size);
		abort();
	}
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return NULL;
	buffer->data = data;
	buffer->bytes = size;
	buffer->max_records = max_records;
	return buffer;
}

uint8_t *buffers_take(uint32_t kind)
{
	size_t bytes = record_bytes(kind);
	CUpti_BuffersCallbackRequestFunc request;
	struct buffer *buffer, *fresh = NULL;
	uint8_t *record;

	if (!bytes)
		return NULL;
	sg_lock(&lock);
	buffer = find_open(bytes);
	request = request_callback;
	if (!buffer && request) {
		sg_unlock(&lock);
		fresh = ask(bytes, request);
		sg_lock(&lock);
		if (fresh) {
			fresh->owner = per_thread ? gettid() : 0;
			fresh->next = buffers;
			buffers = fresh;
		}
		buffer = find_open(bytes);
	}
	if (!buffer) {
		dropped++;
		sg_unlock(&lock);
		return NULL;
	}
	record = buffer->data + buffer->used;
	memset(record, 0, bytes);
	memcpy(record, &kind, sizeof(kind));
	taken_from = buffer;
	taken_at = buffer->used;
	buffer->used += bytes;
	buffer->records++;
	return record;
}

void buffers_commit(void)
{
	sg_unlock(&lock);
}

struct pending *buffers_keep(void)
{
	struct pending *pending = calloc(1, sizeof(*pending));

	if (pending) {
		pending->buffer = taken_from;
		pending->at = taken_at;
		pending->next = taken_from->pending;
		if (pending->next)
			pending->next->prev = pending;
		taken_from->pending = pending;
	}
	sg_unlock(&lock);
	return pending;
}

void buffers_finish(struct pending *pending, uint64_t start, uint64_t end)
{
	struct buffer *buffer;

	sg_lock(&lock);
	buffer = pending->buffer;
	if (buffer) {
		record_fill_times(buffer->data + pending->at, start, end);
		if (pending->prev)
			pending->prev->next = pending->next;
		else
			buffer->pending = pending->next;
		if (pending->next)
			pending->next->prev = pending->prev;
		if (buffer->full && ready(buffer))
			worker_wake();
	}
	sg_unlock(&lock);
	free(pending);
}

static void let_go_of_pending(struct buffer *buffer)
{
	for (struct pending *p = buffer->pending, *next; p; p = next) {
		next = p->next;
		p->buffer = NULL;
		p->next = p->prev = NULL;
	}
	buffer->pending = NULL;
}

/* Takes what may be delivered out of the list. Under the lock. */
static struct buffer *collect(bool forced)
{
	struct buffer *list = NULL;

	for (struct buffer *b = buffers, *next; b; b = next) {
		next = b->next;
		if (!forced && !ready(b)) {
			/* kept; closed so that a busy stream can't keep it incomplete for ever */
			b->closed = b->records > 0;
			continue;
		}
		let_go_of_pending(b);
		buffer_unlink(b);
		if (shuffled())
			mix_records(b);
		if (list && shuffled() && random_next() & 1) {
			b->next = list->next;
			list->next = b;
		} else {
			b->next = list;
			list = b;
		}
	}
	return list;
}

void buffers_flush(bool forced)
{
	static _Atomic bool flushing;
	CUpti_BuffersCallbackCompleteFunc complete;
	struct buffer *list;

	if (atomic_exchange(&flushing, true)) {
		fprintf(stderr, "simgpu libcupti: cuptiActivityFlushAll from two threads at once deadlocks in the real one\n");
		abort();
	}
	sg_lock(&lock);
	list = collect(forced);
	complete = complete_callback;
	sg_unlock(&lock);
	while (list) {
		struct buffer *next = list->next;

		deliver(list, complete);
		list = next;
	}
	atomic_store(&flushing, false);
}

void buffers_set_callbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete)
{
	sg_lock(&lock);
	request_callback = request;
	complete_callback = complete;
	sg_unlock(&lock);
}

bool buffers_have_callbacks(void)
{
	bool have;

	sg_lock(&lock);
	have = request_callback && complete_callback;
	sg_unlock(&lock);
	return have;
}

void buffers_per_thread(bool on)
{
	sg_lock(&lock);
	per_thread = on;
	sg_unlock(&lock);
}

size_t buffers_dropped(void)
{
	size_t n;

	sg_lock(&lock);
	n = dropped;
	dropped = 0;
	sg_unlock(&lock);
	return n;
}
