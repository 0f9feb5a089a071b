// SPDX-License-Identifier: Apache-2.0

#include "examples/train/observe.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/train/util.h"

const char *const leaf_names[] = {
	"data.storage", "data.remote", "data.preprocess", "data.workers", "data.pageable_copy", "data.worker_start", "comm.retry",
	"comm.late_peer", "comm.transfer", "host.launch", "sync.bubble", "gpu.alloc", "io.checkpoint", "scaler.skip", NULL,
};

struct pending {
	struct record record;
	cudaEvent_t begin, end;
};

static struct {
	bool on;
	int step;
	cudaEvent_t base;
	int64_t base_ns;
	struct record *records;
	size_t count, cap;
	struct pending *pending;
	size_t npending, drained, pending_cap;
	cudaEvent_t *pool;
	size_t npool, pool_cap;
	struct { cudaStream_t stream; cudaEvent_t begin; } open[4];
} seen;

int leaf_index(const char *name)
{
	for (int i = 0; leaf_names[i]; i++)
		if (!strcmp(leaf_names[i], name))
			return i;
	die("no leaf %s", name);
}

static void *grow(void *array, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return array;
	*cap = *cap ? 2 * *cap : 256;
	array = realloc(array, *cap * size);
	if (!array)
		die("out of memory");
	return array;
}

static void add(struct record r)
{
	seen.records = grow(seen.records, seen.count, &seen.cap, sizeof(r));
	seen.records[seen.count++] = r;
}

static cudaEvent_t event_get(void)
{
	cudaEvent_t event;

	if (seen.npool)
		return seen.pool[--seen.npool];
	CHECK(cudaEventCreate(&event));
	return event;
}

static void event_put(cudaEvent_t event)
{
	seen.pool = grow(seen.pool, seen.npool, &seen.pool_cap, sizeof(event));
	seen.pool[seen.npool++] = event;
}

/* Ties the device's clock to ours: an event on an idle stream happens when it is recorded. */
void observe_start(bool on, cudaStream_t stream)
{
	int64_t before, after;

	seen.on = on;
	if (!on)
		return;
	for (int i = 0; i < 64; i++) {
		cudaEvent_t event;

		CHECK(cudaEventCreate(&event));
		event_put(event);
	}
	seen.base = event_get();
	CHECK(cudaEventRecord(seen.base, stream));
	CHECK(cudaStreamSynchronize(stream));
	before = now_ns();
	CHECK(cudaEventRecord(seen.base, stream));
	after = now_ns();
	CHECK(cudaEventSynchronize(seen.base));
	seen.base_ns = before + (after - before) / 2;
}

void observe_step(int step)
{
	seen.step = step;
}

void observe_begin(cudaStream_t stream)
{
	int i = 0;

	if (!seen.on)
		return;
	while (seen.open[i].begin)
		i++;
	seen.open[i].stream = stream;
	seen.open[i].begin = event_get();
	CHECK(cudaEventRecord(seen.open[i].begin, stream));
}

void observe_end(cudaStream_t stream, enum record_kind kind, int64_t what)
{
	struct pending p = { { kind, seen.step, what, 0, 0 }, NULL, NULL };

	if (!seen.on)
		return;
	for (int i = 0; i < 4; i++)
		if (seen.open[i].begin && seen.open[i].stream == stream) {
			p.begin = seen.open[i].begin;
			seen.open[i].begin = NULL;
		}
	p.end = event_get();
	CHECK(cudaEventRecord(p.end, stream));
	seen.pending = grow(seen.pending, seen.npending, &seen.pending_cap, sizeof(p));
	seen.pending[seen.npending++] = p;
}

void observe_end_busy(cudaStream_t stream, int64_t busy_ns)
{
	observe_end(stream, RECORD_COMPUTE, -busy_ns);
}

void observe_cause(const char *leaf, int64_t start_ns, int64_t end_ns)
{
	if (seen.on && leaf && end_ns > start_ns)
		add((struct record){ RECORD_CAUSE, seen.step, leaf_index(leaf), start_ns, end_ns });
}

void observe_step_done(bool skipped, int64_t start_ns)
{
	if (seen.on)
		add((struct record){ RECORD_STEP, seen.step, skipped, start_ns, start_ns });
}

void observe_drained(void)
{
	seen.drained = seen.npending;
}

static int64_t event_ns(cudaEvent_t event)
{
	float ms;

	CHECK(cudaEventElapsedTime(&ms, seen.base, event));
	return seen.base_ns + (int64_t)((double)ms * 1e6);
}

void observe_collect(void)
{
	if (!seen.drained)
		return;
	for (size_t i = 0; i < seen.drained; i++) {
		struct pending *p = &seen.pending[i];

		p->record.start_ns = event_ns(p->begin);
		p->record.end_ns = event_ns(p->end);
		if (p->record.what < 0)
			p->record.what += p->record.end_ns - p->record.start_ns;
		add(p->record);
		event_put(p->begin);
		event_put(p->end);
	}
	seen.npending -= seen.drained;
	memmove(seen.pending, seen.pending + seen.drained, seen.npending * sizeof(*seen.pending));
	seen.drained = 0;
}

int observe_close(const char *path)
{
	char *part;
	int fd, bad;

	if (!seen.on)
		return 0;
	part = text("%s.part", path);
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bad = fd < 0 || write_all(fd, seen.records, seen.count * sizeof(*seen.records)) < 0;
	if (fd >= 0)
		close(fd);
	bad = bad || rename(part, path);
	free(part);
	event_put(seen.base);
	while (seen.npool)
		CHECK(cudaEventDestroy(seen.pool[--seen.npool]));
	free(seen.pool);
	free(seen.pending);
	free(seen.records);
	memset(&seen, 0, sizeof(seen));
	return bad ? -1 : 0;
}
