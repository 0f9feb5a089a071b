/* SPDX-License-Identifier: Apache-2.0
 *
 * tracesum FILE: what our reader finds in a trace, summed up as JSON in the form that tests/perfetto/judge.mjs compares with what
 * Perfetto finds: slices by name (with Perfetto's rules of nesting), arrows, counters by track, attributes.
 * Holds the whole trace in memory. A cut-off last packet is ignored, as Perfetto does. Exit 0, or 3 when it could not be read.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reader.h"

#define DEPTH_MAX 512			/* deeper slices are dropped by Perfetto */

struct event {
	uint64_t ts_ns, order, flow_id, end_flow_id;
	struct pf_track_info *track;
	enum pf_kind kind;
	uint32_t name_id;
	int64_t counter;
};

struct frame {
	uint64_t ts_ns;
	uint32_t name_id;
};

/* Hangs on pf_track_info's user. */
struct open_slices {
	struct frame frame[DEPTH_MAX];
	unsigned depth;
	uint64_t samples;
	double sum;
};

struct sums {
	const char *name;
	uint64_t count, dur, open, depth;
};

struct attribute {
	char *key, *text;
	int64_t value;
	bool is_int;
};

static struct event *events;
static size_t nevents, room;
static struct sums *sums;		/* by name id */
static size_t nsums;
static struct pf_track_info **tracks;
static size_t ntracks;
static struct attribute attributes[1024];
static size_t nattributes;

static void *grow(void *p, size_t n, size_t size)
{
	p = realloc(p, n * size);
	if (!p) {
		fprintf(stderr, "tracesum: no memory\n");
		exit(3);
	}
	return p;
}

static struct open_slices *open_of(struct pf_track_info *t)
{
	if (!t->user) {
		t->user = calloc(1, sizeof(struct open_slices));
		tracks = grow(tracks, ntracks + 1, sizeof(*tracks));
		tracks[ntracks++] = t;
	}
	return t->user;
}

static void keep_event(const struct pf_item *item)
{
	if (nevents == room) {
		room = room ? room * 2 : 1024;
		events = grow(events, room, sizeof(*events));
	}
	events[nevents] = (struct event){
		.ts_ns = item->ts_ns, .order = nevents, .flow_id = item->flow_id, .end_flow_id = item->end_flow_id,
		.track = item->track, .kind = item->kind, .name_id = item->name_id, .counter = item->counter,
	};
	nevents++;
	if (item->name_id >= nsums) {
		sums = grow(sums, item->name_id + 1, sizeof(*sums));
		memset(sums + nsums, 0, (item->name_id + 1 - nsums) * sizeof(*sums));
		nsums = item->name_id + 1;
	}
	sums[item->name_id].name = item->name;
}

static void keep_attribute(const struct pf_item *item)
{
	size_t i = 0;

	while (i < nattributes && strcmp(attributes[i].key, item->attr_key) != 0)
		i++;
	if (i == sizeof(attributes) / sizeof(attributes[0]))
		return;
	if (i == nattributes)
		attributes[nattributes++].key = strdup(item->attr_key);
	free(attributes[i].text);
	attributes[i].is_int = item->attr_is_int;
	attributes[i].value = item->attr_int;
	attributes[i].text = strdup(item->attr_str);
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* --- flows that wait for their next slice --- */

static uint64_t *flows;
static size_t nflow_slots = 1024, nflows, arrows;

static uint64_t *flow_slot(uint64_t *table, size_t n, uint64_t id)
{
	size_t at = (size_t)(id * 0x9e3779b97f4a7c15u >> 20) & (n - 1);

	while (table[at] && table[at] != id)
		at = (at + 1) & (n - 1);
	return &table[at];
}

/* Ended flows stay as active ones do: our ids are used once. */
static void flow_seen(uint64_t id, bool ends)
{
	uint64_t *slot;

	if (!id)
		return;
	if (nflows * 2 >= nflow_slots) {
		uint64_t *bigger = calloc(nflow_slots * 2, sizeof(*bigger));

		for (size_t i = 0; i < nflow_slots; i++)
			if (flows[i])
				*flow_slot(bigger, nflow_slots * 2, flows[i]) = flows[i];
		free(flows);
		flows = bigger;
		nflow_slots *= 2;
	}
	slot = flow_slot(flows, nflow_slots, id);
	if (*slot) {
		arrows++;
	} else if (!ends) {
		*slot = id;
		nflows++;
	}
}

/* --- the sums --- */

static void replay(const struct event *e)
{
	struct open_slices *o = open_of(e->track);

	switch (e->kind) {
	case PF_SLICE_BEGIN:
		if (o->depth == DEPTH_MAX)
			return;
		o->frame[o->depth] = (struct frame){e->ts_ns, e->name_id};
		sums[e->name_id].count++;
		sums[e->name_id].depth += o->depth++;
		break;
	case PF_SLICE_END:
		if (o->depth) {
			const struct frame *f = &o->frame[--o->depth];

			sums[f->name_id].dur += e->ts_ns - f->ts_ns;
		}
		break;
	case PF_INSTANT:
		sums[e->name_id].count++;
		sums[e->name_id].depth += o->depth;
		break;
	default:
		o->samples++;
		o->sum += (double)e->counter;
		return;
	}
	flow_seen(e->flow_id, false);
	flow_seen(e->end_flow_id, true);
}

static void print_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if ((unsigned char)*s < 0x20 || *s == '"' || *s == '\\')
			printf("\\u%04x", (unsigned)(unsigned char)*s);
		else
			putchar(*s);
	}
	putchar('"');
}

static void print_slices(void)
{
	const char *comma = "";

	printf("{\"slices\": {");
	for (size_t i = 0; i < nsums; i++) {
		if (!sums[i].count)
			continue;
		printf("%s\n  ", comma);
		print_string(sums[i].name);
		printf(": {\"count\": %" PRIu64 ", \"dur\": %" PRIu64 ", \"open\": %" PRIu64 ", \"depth\": %" PRIu64 "}",
		       sums[i].count, sums[i].dur, sums[i].open, sums[i].depth);
		comma = ",";
	}
	printf("},\n\"flows\": %zu,\n", arrows);
}

/* Counters of equal name (one per thread) are one entry. */
static void print_counters(void)
{
	const char *comma = "";

	printf("\"counters\": {");
	for (size_t i = 0; i < ntracks; i++) {
		uint64_t samples = 0;
		double sum = 0;
		size_t j;

		for (j = 0; j < i; j++)
			if (open_of(tracks[j])->samples && strcmp(tracks[j]->name, tracks[i]->name) == 0)
				break;
		if (j < i || !open_of(tracks[i])->samples)
			continue;
		for (j = i; j < ntracks; j++) {
			if (strcmp(tracks[j]->name, tracks[i]->name) != 0)
				continue;
			samples += open_of(tracks[j])->samples;
			sum += open_of(tracks[j])->sum;
		}
		printf("%s\n  ", comma);
		print_string(tracks[i]->name);
		printf(": {\"count\": %" PRIu64 ", \"sum\": %.17g}", samples, sum);
		comma = ",";
	}
	printf("},\n");
}

static void print_attributes(void)
{
	printf("\"attributes\": {");
	for (size_t i = 0; i < nattributes; i++) {
		printf("%s\n  ", i ? "," : "");
		print_string(attributes[i].key);
		printf(": ");
		if (attributes[i].is_int)
			printf("%" PRId64, attributes[i].value);
		else
			print_string(attributes[i].text);
	}
	printf("}}\n");
}

/* Before the reader goes, who owns the tracks. */
static void let_go(void)
{
	for (size_t i = 0; i < ntracks; i++)
		free(tracks[i]->user);
	for (size_t i = 0; i < nattributes; i++) {
		free(attributes[i].key);
		free(attributes[i].text);
	}
	free(tracks);
	free(events);
	free(sums);
	free(flows);
}

int main(int argc, char **argv)
{
	struct pf_error err;
	struct pf_reader *r;
	struct pf_item item;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: tracesum FILE\n");
		return 2;
	}
	r = pf_reader_open(argv[1], &err);
	if (!r) {
		fprintf(stderr, "tracesum: %s: %s\n", argv[1], err.text);
		return 3;
	}
	while ((rc = pf_reader_next(r, &item, &err)) > 0) {
		if (item.kind <= PF_COUNTER)
			keep_event(&item);
		else if (item.kind == PF_ATTRIBUTE)
			keep_attribute(&item);
	}
	if (rc < 0 && err.code != PF_ECUT) {
		fprintf(stderr, "tracesum: %s: byte %" PRIu64 ": %s\n", argv[1], err.offset, err.text);
		let_go();
		pf_reader_close(r);
		return 3;
	}
	flows = calloc(nflow_slots, sizeof(*flows));
	if (nevents)
		qsort(events, nevents, sizeof(*events), by_time);
	for (size_t i = 0; i < nevents; i++)
		replay(&events[i]);
	for (size_t i = 0; i < ntracks; i++)
		for (unsigned d = 0; d < open_of(tracks[i])->depth; d++)
			sums[open_of(tracks[i])->frame[d].name_id].open++;
	print_slices();
	print_counters();
	print_attributes();
	let_go();
	pf_reader_close(r);
	return 0;
}
