/* SPDX-License-Identifier: Apache-2.0
 *
 * Flow id -> the call that launched the operation. Two tables of recent launches: when the younger one is full it becomes the old one, and the old
 * one goes, all but the launches that have not had their operation yet. So the tables are small enough to stay in the processor's caches, however long
 * the trace and however fast the launches.
 */
#include "analyzer/timeline_store.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"

enum { FULL = 32767 };		/* at which half of the slots are used */
/* A launch that had no operation for so long, with that many others since, is given up. */
#define GIVEN_UP_NS 30000000000

/* Flow ids mostly count up: eight neighbours stay together, which spares the cache; more would make long runs that probing has to pass. */
static size_t slot_of(const struct launch_table *t, uint64_t flow)
{
	return ((mem_mix(flow >> 3) << 3) + (flow & 7)) & (t->nslots - 1);
}

static void put(struct launch_table *t, const struct launch *l)
{
	size_t at = slot_of(t, l->flow);

	while (t->slots[at].flow && t->slots[at].flow != l->flow)
		at = (at + 1) & (t->nslots - 1);
	/* Two calls of one flow: the inner one was wrapped by the other; the later start is the launch proper. */
	if (t->slots[at].flow && t->slots[at].start_ns > l->start_ns)
		return;
	t->used += !t->slots[at].flow;
	t->slots[at] = *l;
}

static struct launch *get(const struct launch_table *t, uint64_t flow)
{
	size_t at;

	if (!t->nslots)
		return NULL;
	for (at = slot_of(t, flow); t->slots[at].flow; at = (at + 1) & (t->nslots - 1))
		if (t->slots[at].flow == flow)
			return &t->slots[at];
	return NULL;
}

static void grow(struct launch_table *t)
{
	struct launch_table bigger = {.nslots = t->nslots ? t->nslots * 2 : 4096};

	bigger.slots = mem_new(bigger.nslots, sizeof(*bigger.slots));
	for (size_t i = 0; i < t->nslots; i++)
		if (t->slots[i].flow)
			put(&bigger, &t->slots[i]);
	free(t->slots);
	*t = bigger;
}

static void add(struct launch_table *t, const struct launch *l)
{
	if (t->used * 2 >= t->nslots)
		grow(t);
	put(t, l);
}

static void turn_over(struct store *s, int64_t now_ns)
{
	struct launch_table gone = s->old, empty = s->spare;

	if (empty.nslots)
		memset(empty.slots, 0, empty.nslots * sizeof(*empty.slots));
	empty.used = 0;
	s->old = s->young;
	s->young = empty;
	s->spare = gone;
	for (size_t i = 0; i < gone.nslots; i++) {
		const struct launch *l = &gone.slots[i];

		if (l->flow && !l->joined && l->start_ns > now_ns - GIVEN_UP_NS && !get(&s->old, l->flow))
			add(&s->young, l);
	}
	s->launches_full = s->young.used + FULL;
}

void launch_add(struct store *s, const struct launch *l)
{
	if (s->young.used >= (s->launches_full ? s->launches_full : FULL))
		turn_over(s, l->start_ns);
	add(&s->young, l);
}

const struct launch *launch_find(struct store *s, uint64_t flow)
{
	struct launch *l = get(&s->young, flow);

	if (!l)
		l = get(&s->old, flow);
	if (l)
		l->joined = true;
	return l;
}

void launch_free(struct store *s)
{
	free(s->young.slots);
	free(s->old.slots);
	free(s->spare.slots);
}
