/* SPDX-License-Identifier: Apache-2.0
 *
 * One text for equal names and targets over all files, what kind each is, and who wrote to, posted or signalled a target lately.
 */
#include "analyzer/timeline_store.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/kineto_call.h"
#include "analyzer/mem.h"

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static enum target_kind kind_of(const char *s)
{
	static const struct { const char *prefix; enum target_kind kind; } kinds[] = {
		{"/", TARGET_IS_FILE}, {"dev:", TARGET_IS_DEV}, {"pipe:", TARGET_IS_PIPE}, {"unix:", TARGET_IS_UNIX},
		{"tcp:", TARGET_IS_TCP}, {"udp:", TARGET_IS_UDP}, {"fd:", TARGET_IS_FD}, {"sem:", TARGET_IS_SEM},
		{"cond:", TARGET_IS_COND}, {"thread:", TARGET_IS_THREAD}, {"pid:", TARGET_IS_PID},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (begins(s, kinds[i].prefix))
			return kinds[i].kind;
	return TARGET_IS_NONE;
}

static enum op_kind op_of(const char *s)
{
	/* kernels come under their mangled names: _Z, the name's length, the name */
	if (begins(s, "_Z")) {
		s += 2;
		while (*s >= '0' && *s <= '9')
			s++;
	}
	if (begins(s, "nccl") || begins(s, "rccl"))
		return OP_COMM;
	if (begins(s, "Memcpy") || begins(s, "Memset"))
		return OP_COPY;
	return OP_COMPUTE;
}

static enum range_kind range_of(const char *s)
{
	/* "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__" and its like; loaders of other kinds are taken to have workers */
	if (!begins(s, "enumerate(DataLoader)#"))
		return RANGE_NONE;
	return strstr(s, "_SingleProcess") ? RANGE_LOADS : RANGE_WAITS_FOR_WORKERS;
}

static void grow(struct text_table *tt)
{
	size_t n = tt->nslots ? tt->nslots * 2 : 1024;
	struct text_node **slots = mem_new(n, sizeof(*slots));

	for (size_t i = 0; i < tt->nall; i++) {
		size_t at = tt->all[i]->hash & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = tt->all[i];
	}
	free(tt->slots);
	tt->slots = slots;
	tt->nslots = n;
}

static struct text_node *find(const struct text_table *tt, const char *s, uint64_t scope, uint64_t hash, size_t *slot)
{
	size_t at = hash & (tt->nslots - 1);

	for (; tt->slots[at]; at = (at + 1) & (tt->nslots - 1)) {
		struct text_node *n = tt->slots[at];

		if (n->hash == hash && n->scope == scope && strcmp(n->t.text, s) == 0)
			return n;
	}
	*slot = at;
	return NULL;
}

struct text_node *text_find(const struct text_table *tt, const char *s, uint64_t scope)
{
	size_t slot;

	return tt->nslots ? find(tt, s, scope, mem_hash(s, strlen(s), scope), &slot) : NULL;
}

const struct text *text_intern(struct text_table *tt, const char *s, uint64_t scope)
{
	size_t slot = 0, len = strlen(s);
	uint64_t hash = mem_hash(s, len, scope);
	struct text_node *n;

	if ((tt->used + 1) * 2 > tt->nslots)
		grow(tt);
	n = find(tt, s, scope, hash, &slot);
	if (n)
		return &n->t;
	n = mem_new(1, sizeof(*n));
	n->scope = scope;
	n->hash = hash;
	n->t.text = mem_copy(s);
	n->t.call = call_by_name(s, len);
	if (n->t.call == CALL_NONE)
		n->t.call = kineto_call(s);
	n->t.class = call_class(n->t.call);
	n->t.op = op_of(s);
	n->t.range = range_of(s);
	n->t.target = kind_of(s);
	n->t.id = (uint32_t)tt->nall;
	tt->slots[slot] = n;
	tt->used++;
	tt->all = mem_more(tt->all, tt->nall, &tt->all_cap, sizeof(*tt->all));
	tt->all[tt->nall++] = n;
	return &n->t;
}

void text_wake(struct text_table *tt, const struct text *target, const struct wake *w)
{
	struct text_node *n = (struct text_node *)target;

	if (!n->wakes_cap) {
		tt->woken = mem_more(tt->woken, tt->nwoken, &tt->woken_cap, sizeof(*tt->woken));
		tt->woken[tt->nwoken++] = n;
	}
	n->wakes = mem_more(n->wakes, n->nwakes, &n->wakes_cap, sizeof(*n->wakes));
	if (n->nwakes && w->start_ns < n->wakes[n->nwakes - 1].start_ns)
		n->unsorted = true;
	n->wakes[n->nwakes++] = *w;
}

static int by_start(const void *a, const void *b)
{
	const struct wake *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	if (x->thread->tid != y->thread->tid)
		return x->thread->tid < y->thread->tid ? -1 : 1;
	return 0;
}

void text_settle(struct text_table *tt)
{
	for (size_t i = 0; i < tt->nwoken; i++) {
		struct text_node *n = tt->woken[i];

		if (n->unsorted)
			qsort(n->wakes, n->nwakes, sizeof(*n->wakes), by_start);
		n->unsorted = false;
	}
}

void text_evict(struct text_table *tt, int64_t before_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < tt->nwoken; i++) {
		struct text_node *n = tt->woken[i];
		size_t drop = 0;

		while (drop < n->nwakes && n->wakes[drop].end_ns < before_ns)
			drop++;
		if (drop == n->nwakes) {
			free(n->wakes);
			n->wakes = NULL;
			n->nwakes = n->wakes_cap = 0;
			continue;
		}
		if (drop * 2 > n->nwakes) {
			n->nwakes -= drop;
			memmove(n->wakes, n->wakes + drop, n->nwakes * sizeof(*n->wakes));
		}
		tt->woken[kept++] = n;
	}
	tt->nwoken = kept;
}

void text_free(struct text_table *tt)
{
	for (size_t i = 0; i < tt->nall; i++) {
		free((char *)tt->all[i]->t.text);
		free(tt->all[i]->wakes);
		free(tt->all[i]);
	}
	free(tt->all);
	free(tt->slots);
	free(tt->woken);
}
