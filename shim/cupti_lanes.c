/* SPDX-License-Identifier: Apache-2.0
 *
 * Lane allocation, first fit. Memory: one mmap per stream, at its first operation, bounded by LANES_STREAMS.
 */
#include "shim/cupti_lanes.h"

#include <string.h>
#include <sys/mman.h>

#pragma GCC poison malloc calloc realloc free printf fprintf

static struct lanes_stream streams[LANES_STREAMS];
static unsigned int stream_count, last_stream;

static bool is_stream(const struct lanes_stream *s, uint32_t device, uint32_t context, uint32_t stream)
{
	return s->stream == stream && s->device == device && s->context == context;
}

struct lanes_stream *lanes_stream(uint32_t device, uint32_t context, uint32_t stream)
{
	struct lanes_stream *s;

	if (last_stream < stream_count && is_stream(&streams[last_stream], device, context, stream))
		return &streams[last_stream];
	for (unsigned int i = 0; i < stream_count; i++) {
		if (is_stream(&streams[i], device, context, stream)) {
			last_stream = i;
			return &streams[i];
		}
	}
	if (stream_count == LANES_STREAMS)
		return NULL;
	s = &streams[stream_count];
	if (!s->lane) {
		void *m = mmap(NULL, LANES_PER_STREAM * sizeof(*s->lane), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (m == MAP_FAILED)
			return NULL;
		s->lane = m;
	}
	s->device = device;
	s->context = context;
	s->stream = stream;
	s->index = stream_count;
	last_stream = stream_count++;
	return s;
}

/* Where in the lane's list the operation goes, -1 when it does not fit. Behind the last one touching is allowed: the file then has
 * the end before the next begin. Before one that is in the file already it is not: at equal times Perfetto keeps file order, and
 * would take the older slice for a child of the newer. */
static int place(const struct lane *l, uint64_t start, uint64_t end)
{
	unsigned int i = l->count;

	while (i && l->spans[i - 1].start_ns > end)
		i--;
	if (i ? l->spans[i - 1].end_ns > start : l->full || l->count == LANES_SPANS)
		return -1;
	return (int)i;
}

static void put(struct lane *l, unsigned int at, uint64_t start, uint64_t end)
{
	/* what touches its predecessor only makes it longer: in a busy stream the list stays short */
	if (at && l->spans[at - 1].end_ns == start) {
		l->spans[at - 1].end_ns = end;
		return;
	}
	if (l->count == LANES_SPANS) {
		memmove(&l->spans[0], &l->spans[1], (LANES_SPANS - 1) * sizeof(l->spans[0]));
		l->full = true;
		l->count--;
		at--;
	}
	memmove(&l->spans[at + 1], &l->spans[at], (l->count - at) * sizeof(l->spans[0]));
	l->spans[at].start_ns = start;
	l->spans[at].end_ns = end;
	l->count++;
}

int lanes_book(struct lanes_stream *s, uint64_t start, uint64_t end)
{
	for (unsigned int i = 0; i < LANES_PER_STREAM; i++) {
		int at = place(&s->lane[i], start, end);

		if (at < 0)
			continue;
		put(&s->lane[i], (unsigned int)at, start, end);
		if (i >= s->lanes)
			s->lanes = i + 1;
		return (int)i;
	}
	return -1;
}

void lanes_reset(void)
{
	for (unsigned int i = 0; i < LANES_STREAMS; i++) {
		if (streams[i].lane)
			memset(streams[i].lane, 0, LANES_PER_STREAM * sizeof(*streams[i].lane));
		streams[i].lanes = 0;
	}
	stream_count = last_stream = 0;
}
