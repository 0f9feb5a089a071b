/* SPDX-License-Identifier: Apache-2.0
 *
 * What one may ask the timeline: the call at an instant, who ended a wait, how a silent stretch was spent.
 */
#include "analyzer/timeline_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One asks near where one asked before: from there the right place is bracketed in growing steps, then halved. */
size_t timeline_call_index(const struct thread *t, int64_t at_ns)
{
	struct thread_node *n = (struct thread_node *)t;
	size_t lo = 0, hi = t->ncalls, step = 4, from = n->hint < hi ? n->hint : hi;

	if (from < hi && t->calls[from].start_ns < at_ns) {
		for (lo = from + 1; lo + step < hi && t->calls[lo + step].start_ns < at_ns; step *= 4)
			lo += step;
		if (lo + step < hi)
			hi = lo + step;
	} else {
		for (hi = from; hi > step && t->calls[hi - step].start_ns >= at_ns; step *= 4)
			hi -= step;
		if (hi > step)
			lo = hi - step;
	}

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->calls[mid].start_ns < at_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return n->hint = lo;
}

size_t timeline_op_index(const struct device *d, int64_t at_ns)
{
	size_t lo = 0, hi = d->nops;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (d->ops[mid].start_ns < at_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool timeline_has_class(const struct thread *t, uint64_t classes)
{
	return ((const struct thread_node *)t)->classes & classes;
}

bool timeline_has_comm(const struct device *d)
{
	return ((const struct device_node *)d)->communicates;
}

int64_t timeline_written(const struct text *target)
{
	return ((const struct text_node *)target)->written;
}

const struct slice *timeline_outer(const struct thread *t, const struct slice *s)
{
	return s->up ? s - s->up : NULL;
}

const struct slice *timeline_call_at(const struct thread *t, int64_t at_ns)
{
	size_t i = at_ns == INT64_MAX ? t->ncalls : timeline_call_index(t, at_ns + 1);
	const struct slice *s = i ? &t->calls[i - 1] : NULL;

	while (s && s->end_ns <= at_ns)
		s = timeline_outer(t, s);
	return s;
}

const struct slice *timeline_call_after(const struct thread *t, int64_t at_ns)
{
	size_t i = timeline_call_index(t, at_ns);

	return i < t->ncalls ? &t->calls[i] : NULL;
}

/* ---- wakers ---- */

enum { WAKER_LOOK_BACK = 512 };

static const struct wake *last_wake(const struct text_node *n, const struct thread *waiter, bool same_process, int64_t after_ns,
	int64_t until_ns)
{
	size_t lo = 0, hi = n->nwakes;
	const struct wake *best = NULL;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (n->wakes[mid].start_ns < until_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (int i = 0; lo && i < WAKER_LOOK_BACK; i++) {
		const struct wake *w = &n->wakes[--lo];

		if (w->end_ns <= after_ns || w->thread == waiter || (same_process && w->thread->process != waiter->process))
			continue;
		/* of those that ended in the wait, the one that ended last; one that outlasts it (a write that went on) counts as at its end */
		if (!best)
			best = w;
		else
			break;
	}
	return best;
}

/* The two ends of a socketpair have neighbouring inodes, a write on one wakes a reader of the other. */
static const struct wake *unix_wake(const struct timeline *tl, const struct text_node *n, const struct thread *waiter, int64_t after_ns,
	int64_t until_ns)
{
	unsigned long inode = strtoul(n->t.text + strlen("unix:["), NULL, 10);
	const struct wake *best = NULL;

	for (int side = -1; side <= 1; side += 2) {
		char name[48];
		const struct text_node *peer;
		const struct wake *w;

		snprintf(name, sizeof(name), "unix:[%lu]", inode + (unsigned long)side);
		peer = text_find(&store_of(tl)->texts, name, n->scope);
		w = peer ? last_wake(peer, waiter, false, after_ns, until_ns) : NULL;
		if (w && (!best || w->start_ns > best->start_ns))
			best = w;
	}
	return best;
}

bool timeline_waker(const struct timeline *tl, const struct text *target, const struct thread *waiter, int64_t after_ns, int64_t until_ns,
	struct thread **who, const struct slice **call)
{
	const struct text_node *n = (const struct text_node *)target;
	const struct wake *w = NULL;

	if (!n)
		return false;
	switch (n->t.target) {
	case TARGET_IS_UNIX:
		w = unix_wake(tl, n, waiter, after_ns, until_ns);
		break;
	case TARGET_IS_SEM:
	case TARGET_IS_COND:
		/* forked children have private locks at equal addresses: one's own process goes first */
		w = last_wake(n, waiter, true, after_ns, until_ns);
		if (!w)
			w = last_wake(n, waiter, false, after_ns, until_ns);
		break;
	case TARGET_IS_FD:
		w = last_wake(n, waiter, true, after_ns, until_ns);
		break;
	case TARGET_IS_PIPE:
		w = last_wake(n, waiter, false, after_ns, until_ns);
		break;
	default:
		return false;
	}
	if (!w)
		return false;
	*who = w->thread;
	*call = NULL;
	for (size_t i = timeline_call_index(w->thread, w->start_ns); i < w->thread->ncalls; i++) {
		const struct slice *s = &w->thread->calls[i];

		if (s->start_ns != w->start_ns)
			break;
		if (s->end_ns == w->end_ns)
			*call = s;
	}
	return true;
}

bool timeline_peer_recorded(const struct timeline *tl, const struct text *tcp)
{
	const char *arrow = strstr(tcp->text, "->");
	char name[160];

	if (!arrow || strncmp(tcp->text, "tcp:", 4))
		return false;
	snprintf(name, sizeof(name), "tcp:%s->%.*s", arrow + 2, (int)(arrow - tcp->text - 4), tcp->text + 4);
	return text_find(&store_of(tl)->texts, name, 0);
}

/* ---- counters ---- */

/* Index of the last point at or before at_ns; -1 = none. */
static long point_before(const struct use_series *u, int64_t at_ns)
{
	size_t lo = 0, hi = u->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (u->p[mid].at_ns <= at_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return (long)lo - 1;
}

static int64_t value_at(const struct use_series *u, int64_t at_ns)
{
	long i;
	const struct use_point *a, *b;

	if (!u->n)
		return 0;
	i = point_before(u, at_ns);
	if (i < 0)
		return u->p[0].value;
	if ((size_t)i + 1 >= u->n)
		return u->p[i].value;
	a = &u->p[i];
	b = &u->p[i + 1];
	return a->value + (int64_t)((__int128)(b->value - a->value) * (at_ns - a->at_ns) / (b->at_ns - a->at_ns));
}

bool timeline_use(const struct thread *t, int64_t a_ns, int64_t b_ns, struct thread_use *use)
{
	const struct thread_node *n = (const struct thread_node *)t;
	const struct use_series *u = n->use;

	if (!u[USE_CPU].n && !u[USE_RUNQUEUE].n && !u[USE_SHORT_FILE].n && !u[USE_SHORT_SOCKET].n && !u[USE_SHORT_OTHER].n)
		return false;
	use->cpu_ns = value_at(&u[USE_CPU], b_ns) - value_at(&u[USE_CPU], a_ns);
	use->runqueue_ns = value_at(&u[USE_RUNQUEUE], b_ns) - value_at(&u[USE_RUNQUEUE], a_ns);
	use->short_file_ns = value_at(&u[USE_SHORT_FILE], b_ns) - value_at(&u[USE_SHORT_FILE], a_ns);
	use->short_socket_ns = value_at(&u[USE_SHORT_SOCKET], b_ns) - value_at(&u[USE_SHORT_SOCKET], a_ns);
	use->short_other_ns = value_at(&u[USE_SHORT_OTHER], b_ns) - value_at(&u[USE_SHORT_OTHER], a_ns);
	return true;
}

int64_t timeline_cpu_total(const struct thread *t)
{
	const struct use_series *u = &((const struct thread_node *)t)->use[USE_CPU];

	return u->n ? u->p[u->n - 1].value : 0;
}

/* Calls that hardly ever sleep: their time is part of what `cpu ns` counts. */
static bool on_cpu(const struct slice *s)
{
	switch (s->name->class) {
	case CLASS_GPU_LAUNCH:
	case CLASS_GPU_ORDER:
	case CLASS_GPU_QUERY:
	case CLASS_NCCL_COLL:
	case CLASS_NCCL_P2P:
	case CLASS_NCCL_GROUP:
	case CLASS_PROC:
		return true;
	default:
		return false;
	}
}

static void quiet_between(struct thread_node *n, int64_t from_ns, int64_t to_ns)
{
	const struct thread *t = &n->t;
	int64_t calls = 0, busy = 0, pos = from_ns;
	const struct slice *s = timeline_call_at(t, from_ns);
	size_t i;

	while (s && s->up)
		s -= s->up;
	i = s ? (size_t)(s - t->calls) : timeline_call_index(t, from_ns);
	for (; i < t->ncalls && t->calls[i].start_ns < to_ns; i++) {
		int64_t a = t->calls[i].start_ns, b = t->calls[i].end_ns;

		if (b <= pos)
			continue;
		a = a < pos ? pos : a;
		b = b > to_ns ? to_ns : b;
		if (b <= a)
			continue;
		calls += b - a;
		busy += on_cpu(&t->calls[i]) ? b - a : 0;
		pos = b;
	}
	n->quiet_from_ns = from_ns;
	n->quiet_ns = to_ns - from_ns - calls;
	n->busy_calls_ns = busy;
}

bool timeline_silence(const struct thread *t, int64_t a_ns, int64_t b_ns, int64_t *cpu_ns, int64_t *runqueue_ns)
{
	struct thread_node *n = (struct thread_node *)t;
	const struct use_series *u = &n->use[USE_CPU];
	long i;

	*cpu_ns = *runqueue_ns = 0;
	if (u->n < 2)
		return false;
	i = point_before(u, a_ns);
	if (i < 0) {
		/* before the first sample: as busy as a thread that just began */
		int64_t to = b_ns < u->p[0].at_ns ? b_ns : u->p[0].at_ns;

		*cpu_ns += to - a_ns;
		a_ns = to;
		i = 0;
	}
	for (; a_ns < b_ns && (size_t)i + 1 < u->n; i++) {
		int64_t from = u->p[i].at_ns, to = u->p[i + 1].at_ns, end = b_ns < to ? b_ns : to, len = end - a_ns, cpu, rq;

		if (len <= 0)
			continue;
		if (n->quiet_from_ns != from)
			quiet_between(n, from, to);
		cpu = u->p[i + 1].value - u->p[i].value - n->busy_calls_ns;
		rq = value_at(&n->use[USE_RUNQUEUE], to) - value_at(&n->use[USE_RUNQUEUE], from);
		cpu = cpu < 0 ? 0 : cpu > n->quiet_ns ? n->quiet_ns : cpu;
		rq = rq < 0 ? 0 : rq > n->quiet_ns - cpu ? n->quiet_ns - cpu : rq;
		if (n->quiet_ns > 0) {
			*cpu_ns += (int64_t)((__int128)len * cpu / n->quiet_ns);
			*runqueue_ns += (int64_t)((__int128)len * rq / n->quiet_ns);
		}
		a_ns = end;
	}
	return true;
}
