/* SPDX-License-Identifier: Apache-2.0
 *
 * Flow id -> the call that launched the operation. Two tables: when the window has moved on far enough, the younger one becomes the
 * old one and the old one goes, so that the size follows the rate of launches and not the length of the trace.
 */
#include "analyzer/timeline_store.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"

enum { LEAST_KEPT = 65536 };

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

void launch_add(struct store *s, const struct launch *l)
{
	struct launch_table *t = &s->young;

	if (t->used * 2 >= t->nslots) {
		struct launch_table bigger = {.nslots = t->nslots ? t->nslots * 2 : 4096};

		bigger.slots = mem_new(bigger.nslots, sizeof(*bigger.slots));
		for (size_t i = 0; i < t->nslots; i++)
			if (t->slots[i].flow)
				put(&bigger, &t->slots[i]);
		free(t->slots);
		*t = bigger;
	}
	put(t, l);
}

static const struct launch *get(const struct launch_table *t, uint64_t flow)
{
	size_t at;

	if (!t->nslots)
		return NULL;
	for (at = slot_of(t, flow); t->slots[at].flow; at = (at + 1) & (t->nslots - 1))
		if (t->slots[at].flow == flow)
			return &t->slots[at];
	return NULL;
}

const struct launch *launch_find(const struct store *s, uint64_t flow)
{
	const struct launch *l = get(&s->young, flow);

	return l ? l : get(&s->old, flow);
}

void launch_evict(struct store *s, int64_t now_ns, int64_t keep_ns)
{
	struct launch_table empty;

	/* queues are deep: time alone does not say that a launch has had its operation */
	if (s->launches_since_ns && (now_ns - s->launches_since_ns < keep_ns || s->young.used < LEAST_KEPT))
		return;
	s->launches_since_ns = now_ns;
	empty = s->old;
	s->old = s->young;
	/* reuse the room when it is about right */
	if (empty.nslots && empty.nslots <= s->old.nslots * 2) {
		memset(empty.slots, 0, empty.nslots * sizeof(*empty.slots));
		empty.used = 0;
		s->young = empty;
	} else {
		free(empty.slots);
		s->young = (struct launch_table){0};
	}
}
