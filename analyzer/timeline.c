/* SPDX-License-Identifier: Apache-2.0
 *
 * The window of events: how it is filled, put in order and emptied. Each thread's calls and each device's operations lie in one
 * sorted array; what arrives late is sorted and merged at the next settle.
 */
#include "analyzer/timeline_store.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"

/* ---- objects by number ---- */

enum id_kind { ID_THREAD = 1, ID_DEVICE, ID_CONNECTION, ID_PROCESS };

static uint64_t id_key(enum id_kind kind, uint64_t owner, uint64_t number)
{
	return mem_mix(owner * 31 + (uint64_t)kind) ^ mem_mix(number + 0x9e3779b97f4a7c15u);
}

static void **id_slot(struct store *s, uint64_t key)
{
	size_t at;

	if ((s->ids_used + 1) * 2 > s->nids) {
		size_t n = s->nids ? s->nids * 2 : 256;
		typeof(s->ids) old = s->ids;

		s->ids = mem_new(n, sizeof(*s->ids));
		for (size_t i = 0; i < s->nids; i++) {
			if (!old[i].value)
				continue;
			at = old[i].key & (n - 1);
			while (s->ids[at].value)
				at = (at + 1) & (n - 1);
			s->ids[at] = old[i];
		}
		free(old);
		s->nids = n;
	}
	at = key & (s->nids - 1);
	while (s->ids[at].value && s->ids[at].key != key)
		at = (at + 1) & (s->nids - 1);
	if (!s->ids[at].value) {
		s->ids[at].key = key;
		s->ids_used++;		/* the caller fills it */
	}
	return &s->ids[at].value;
}

static void *id_find(const struct store *s, uint64_t key)
{
	size_t at;

	if (!s->nids)
		return NULL;
	for (at = key & (s->nids - 1); s->ids[at].value; at = (at + 1) & (s->nids - 1))
		if (s->ids[at].key == key)
			return s->ids[at].value;
	return NULL;
}

struct timeline *timeline_new(void)
{
	struct timeline *tl = mem_new(1, sizeof(*tl));

	tl->priv = mem_new(1, sizeof(struct store));
	tl->evicted_ns = INT64_MIN;
	tl->complete_ns = INT64_MIN;
	return tl;
}

const struct text *timeline_name(struct timeline *tl, const char *name)
{
	return text_intern(&store_of(tl)->texts, name, 0);
}

static uint64_t scope_of(const struct process *p, const char *target)
{
	const struct process_node *n = (const struct process_node *)p;

	switch (target[0]) {
	case 's': return strncmp(target, "sem:", 4) ? 0 : n->family;
	case 'c': return strncmp(target, "cond:", 5) ? 0 : n->family;
	case 'f': return strncmp(target, "fd:", 3) ? 0 : n->family;
	case 'u': return strncmp(target, "unix:", 5) ? 0 : n->host;
	case 'p': return n->host;		/* pipe:, pid: */
	case 't': return strncmp(target, "thread:", 7) ? 0 : n->host;
	}
	return 0;
}

const struct text *timeline_target(struct timeline *tl, const struct process *p, const char *target)
{
	return text_intern(&store_of(tl)->texts, target, scope_of(p, target));
}

uint64_t timeline_family(const struct process *p)
{
	return ((const struct process_node *)p)->family;
}

struct process *timeline_process(struct timeline *tl, const char *host, int pid, uint64_t family)
{
	struct store *s = store_of(tl);
	struct process_node *n = mem_new(1, sizeof(*n));
	size_t cap = s->processes_cap;
	void **slot;

	n->host = mem_hash(host, strlen(host), 7);
	n->family = mem_mix(family + n->host) | 1;
	n->p.pid = pid;
	n->p.rank = n->p.local_rank = n->p.world_size = -1;
	n->p.host = mem_copy(host);
	n->p.first_ns = INT64_MAX;
	n->p.last_ns = INT64_MIN;
	tl->processes = mem_more(tl->processes, tl->nprocesses, &cap, sizeof(*tl->processes));
	s->processes_cap = cap;
	tl->processes[tl->nprocesses++] = &n->p;
	slot = id_slot(s, id_key(ID_PROCESS, n->host, (uint64_t)pid));
	n->same_pid = *slot;
	*slot = n;
	return &n->p;
}

struct process *timeline_process_of(const struct timeline *tl, const char *host, int pid, int64_t at_ns)
{
	struct process_node *n = id_find(store_of(tl), id_key(ID_PROCESS, mem_hash(host, strlen(host), 7), (uint64_t)pid));
	struct process *best = NULL;

	for (; n; n = n->same_pid)
		if (n->p.first_ns <= at_ns && (!best || n->p.first_ns > best->first_ns))
			best = &n->p;
	return best;
}

struct thread *timeline_thread(struct timeline *tl, struct process *p, int64_t tid)
{
	struct store *s = store_of(tl);
	struct process_node *pn = (struct process_node *)p;
	void **slot = id_slot(s, id_key(ID_THREAD, (uint64_t)(uintptr_t)p, (uint64_t)tid));
	struct thread_node *t = *slot;

	if (t)
		return &t->t;
	*slot = t = mem_new(1, sizeof(*t));
	t->t.process = p;
	t->t.tid = tid;
	p->threads = mem_more(p->threads, p->nthreads, &pn->threads_cap, sizeof(*p->threads));
	p->threads[p->nthreads++] = &t->t;
	return &t->t;
}

void timeline_thread_name(struct thread *t, const char *name)
{
	free((char *)t->name);
	t->name = mem_copy(name);
}

struct device *timeline_device(struct timeline *tl, struct process *p, int id)
{
	struct process_node *pn = (struct process_node *)p;
	struct device_node *d;
	void **slot = id_slot(store_of(tl), id_key(ID_DEVICE, (uint64_t)(uintptr_t)p, (uint64_t)id));

	if (*slot)
		return *slot;
	*slot = d = mem_new(1, sizeof(*d));
	d->d.process = p;
	d->d.id = id;
	p->devices = mem_more(p->devices, p->ndevices, &pn->devices_cap, sizeof(*p->devices));
	p->devices[p->ndevices++] = &d->d;
	return &d->d;
}

struct connection *timeline_connection(struct timeline *tl, struct process *p, const struct text *target)
{
	struct store *s = store_of(tl);
	void **slot = id_slot(s, id_key(ID_CONNECTION, (uint64_t)(uintptr_t)p, target->id));
	struct connection_node *c;

	if (*slot)
		return *slot;
	*slot = c = mem_new(1, sizeof(*c));
	c->c.process = p;
	c->c.target = target;
	tl->connections = mem_more(tl->connections, tl->nconnections, &s->connections_cap, sizeof(*tl->connections));
	tl->connections[tl->nconnections++] = &c->c;
	return &c->c;
}

/* ---- events in ---- */

/* An array that loses elements at its front has come to its end: moves it back to its front, or makes it longer. `first` is base plus what was lost. */
static void *more_room(void **base, void *first, size_t n, size_t *cap, size_t size)
{
	size_t gone = (size_t)((char *)first - (char *)*base) / size;

	if (gone && gone >= n / 2) {
		memmove(*base, first, n * size);
		return *base;
	}
	*cap = *cap ? *cap + *cap / 2 : 32;
	*base = mem_resize(*base, *cap, size);
	return (char *)*base + gone * size;
}

/* Room for one more at the end of such an array. */
#define ROOM(node, array, n) do { \
	if (!(array)) \
		(array) = (node)->base; \
	if ((size_t)((array) - (node)->base) + (n) >= (node)->cap) \
		(array) = more_room((void **)&(node)->base, (array), (n), &(node)->cap, sizeof(*(array))); \
} while (0)

static bool ends_waits(const struct slice *s)
{
	if (!s->target || !s->name)
		return false;
	switch (s->name->class) {
	case CLASS_FD_WRITE:
	case CLASS_NET_WRITE:
		return s->target->target == TARGET_IS_PIPE || s->target->target == TARGET_IS_UNIX || s->target->target == TARGET_IS_FD;
	case CLASS_SEM_POST:
	case CLASS_COND_SIGNAL:
		return true;
	default:
		return false;
	}
}

/* How much was ever written to a target bounds what was written in any part of the window. */
static void count_written(const struct slice *s)
{
	struct text_node *n = (struct text_node *)s->target;

	if (!s->target || !s->name)
		return;
	if (s->name->class == CLASS_FD_SYNC)
		n->written = INT64_MAX;
	else if ((s->name->class == CLASS_FD_WRITE || s->name->class == CLASS_NET_WRITE) && s->bytes > 0 &&
		 __builtin_add_overflow(n->written, s->bytes, &n->written))
		n->written = INT64_MAX;
}

static void call_known(struct timeline *tl, struct thread *t, const struct slice *s)
{
	if (s->flow)
		launch_add(store_of(tl), &(struct launch){.flow = s->flow, .thread = t, .start_ns = s->start_ns,
			.ns = (uint64_t)(s->end_ns - s->start_ns)});
	if (ends_waits(s))
		text_wake(&store_of(tl)->texts, s->target, &(struct wake){s->start_ns, s->end_ns, t});
}

/* Order of calls: by start, the longer (outer) one first. */
static inline int call_order(const struct slice *a, const struct slice *b)
{
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	if (a->end_ns != b->end_ns)
		return a->end_ns > b->end_ns ? -1 : 1;
	return 0;
}

void timeline_without_launches(struct timeline *tl)
{
	store_of(tl)->without_launches = true;
}

void timeline_call(struct timeline *tl, struct thread *t, const struct slice *s)
{
	struct thread_node *n = (struct thread_node *)t;
	struct slice *at;

	if (store_of(tl)->without_launches && s->flow && s->name->class == CLASS_GPU_LAUNCH) {
		if (s->end_ns != NS_OPEN)
			call_known(tl, t, s);
		return;
	}
	ROOM(n, t->calls, t->ncalls);
	at = &t->calls[t->ncalls];
	*at = *s;
	at->depth = 0;
	at->up = 0;
	n->classes |= s->name ? 1ull << s->name->class : 0;
	count_written(s);
	if (s->nccl) {
		struct nccl_info *copy = mem_new(1, sizeof(*copy));

		*copy = *s->nccl;
		at->nccl = copy;
	}
	if (t->ncalls > n->settled && call_order(at - 1, at) > 0)
		n->tail_unsorted = true;
	/* after an outermost call that has ended: it is outermost, too */
	if (n->dirty == t->ncalls && (!t->ncalls || (!at[-1].up && at[-1].end_ns <= at->start_ns)))
		n->dirty++;
	t->ncalls++;
	if (s->end_ns != NS_OPEN)
		call_known(tl, t, s);
}

void timeline_call_end(struct timeline *tl, struct thread *t, const struct slice *s, int64_t end_ns)
{
	struct thread_node *n = (struct thread_node *)t;

	if (store_of(tl)->without_launches && s->flow && s->name->class == CLASS_GPU_LAUNCH) {
		struct slice ended = *s;

		ended.end_ns = end_ns;
		call_known(tl, t, &ended);
		return;
	}
	for (size_t i = timeline_call_index(t, s->start_ns); i < n->settled && t->calls[i].start_ns == s->start_ns; i++) {
		if (t->calls[i].end_ns != NS_OPEN || t->calls[i].name != s->name)
			continue;
		t->calls[i].end_ns = end_ns;
		/* what is known only when it is over */
		t->calls[i].bytes = s->bytes;
		t->calls[i].err = s->err;
		t->calls[i].at = s->at;
		if (s->target)
			t->calls[i].target = s->target;
		if (i < n->dirty)
			n->dirty = i;
		call_known(tl, t, &t->calls[i]);
		return;
	}
}

static inline int op_order(const struct op *a, const struct op *b)
{
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	if (a->end_ns != b->end_ns)
		return a->end_ns < b->end_ns ? -1 : 1;
	return a->flow < b->flow ? -1 : a->flow > b->flow;
}

static void join_op(struct store *s, struct op *op)
{
	const struct launch *l;

	if (!op->flow || op->launcher)
		return;
	l = launch_find(s, op->flow);
	if (!l)
		return;
	op->launcher = l->thread;
	op->launch_start_ns = l->start_ns;
	op->launch_end_ns = l->start_ns + (int64_t)l->ns;
}

void timeline_op(struct timeline *tl, struct device *d, const struct op *op)
{
	struct device_node *n = (struct device_node *)d;

	ROOM(n, d->ops, d->nops);
	d->ops[d->nops] = *op;
	if (d->nops > n->settled && op_order(&d->ops[d->nops - 1], op) > 0)
		n->tail_unsorted = true;
	/* mostly the launch was read just before: found now, it is still near */
	join_op(store_of(tl), &d->ops[d->nops]);
	if (n->joined == d->nops && (d->ops[d->nops].launcher || !op->flow))
		n->joined++;
	n->communicates |= op->name && op->name->op == OP_COMM;
	d->nops++;
}

void timeline_mark(struct timeline *tl, const struct thread *t, int64_t at_ns)
{
	struct store *s = store_of(tl);
	size_t at = tl->nmarks;

	tl->marks = mem_more(tl->marks, tl->nmarks, &s->marks_cap, sizeof(*tl->marks));
	for (; at && tl->marks[at - 1].at_ns > at_ns; at--)
		tl->marks[at] = tl->marks[at - 1];
	tl->marks[at] = (struct step_mark){t, at_ns};
	tl->nmarks++;
}

void timeline_use_sample(struct thread *t, enum use_counter which, int64_t at_ns, int64_t value)
{
	struct use_series *u = &((struct thread_node *)t)->use[which];
	size_t at = u->n;

	u->p = mem_more(u->p, u->n, &u->cap, sizeof(*u->p));
	while (at && u->p[at - 1].at_ns > at_ns) {
		u->p[at] = u->p[at - 1];
		at--;
	}
	u->p[at] = (struct use_point){at_ns, value};
	u->n++;
}

void timeline_tcp(struct timeline *tl, struct connection *c, const struct tcp_sample *s)
{
	struct connection_node *n = (struct connection_node *)c;

	ROOM(n, c->samples, c->nsamples);
	if (c->nsamples && c->samples[c->nsamples - 1].at_ns > s->at_ns)
		n->unsorted = true;
	c->samples[c->nsamples++] = *s;
}

/* ---- order ---- */

static int compare_calls(const void *a, const void *b)
{
	int c = call_order(a, b);
	const struct slice *x = a, *y = b;

	return c ? c : (x->name->id < y->name->id ? -1 : x->name->id > y->name->id);
}

static int compare_ops(const void *a, const void *b)
{
	return op_order(a, b);
}

static int compare_samples(const void *a, const void *b)
{
	const struct tcp_sample *x = a, *y = b;

	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

static void settle_calls(struct store *s, struct thread_node *n)
{
	struct thread *t = &n->t;
	size_t first = n->settled, m = t->ncalls - first;

	if (n->tail_unsorted) {
		qsort(t->calls + first, m, sizeof(*t->calls), compare_calls);
		if (first < n->dirty)
			n->dirty = first;
	}
	n->tail_unsorted = false;
	if (m && first && call_order(&t->calls[first - 1], &t->calls[first]) > 0) {
		size_t i = first, j = m, k = t->ncalls;

		while (m > s->tmp_calls_cap)
			s->tmp_calls = mem_more(s->tmp_calls, s->tmp_calls_cap, &s->tmp_calls_cap, sizeof(*s->tmp_calls));
		memcpy(s->tmp_calls, t->calls + first, m * sizeof(*t->calls));
		while (j) {
			if (i && call_order(&t->calls[i - 1], &s->tmp_calls[j - 1]) > 0)
				t->calls[--k] = t->calls[--i];
			else
				t->calls[--k] = s->tmp_calls[--j];
		}
		if (k < n->dirty)
			n->dirty = k;
	}
	n->settled = t->ncalls;
	/* depths: the candidate for an outer call is the one before, or one that encloses that */
	for (size_t i = n->dirty; i < t->ncalls; i++) {
		struct slice *c = &t->calls[i];
		size_t o = i;
		bool found = false;

		while (o && !found) {
			uint32_t up = o == i ? 1 : t->calls[o].up;

			if (!up)
				break;
			o -= up;
			found = t->calls[o].end_ns >= c->end_ns && t->calls[o].end_ns > c->start_ns;
		}
		c->up = found ? (uint32_t)(i - o) : 0;
		c->depth = found ? t->calls[o].depth + 1 : 0;
	}
	n->dirty = t->ncalls;
}

static void settle_ops(struct store *s, struct device_node *n)
{
	struct device *d = &n->d;
	size_t first = n->settled, m = d->nops - first;

	if (n->tail_unsorted)
		qsort(d->ops + first, m, sizeof(*d->ops), compare_ops);
	n->tail_unsorted = false;
	n->settled = d->nops;
	if (!m || !first || op_order(&d->ops[first - 1], &d->ops[first]) <= 0)
		return;
	while (m > s->tmp_ops_cap)
		s->tmp_ops = mem_more(s->tmp_ops, s->tmp_ops_cap, &s->tmp_ops_cap, sizeof(*s->tmp_ops));
	memcpy(s->tmp_ops, d->ops + first, m * sizeof(*d->ops));
	for (size_t i = first, j = m, k = d->nops; j;) {
		if (i && op_order(&d->ops[i - 1], &s->tmp_ops[j - 1]) > 0)
			d->ops[--k] = d->ops[--i];
		else
			d->ops[--k] = s->tmp_ops[--j];
		if (k < n->joined)
			n->joined = k;
	}
}

/* A launch has ended, and so has been read, when its operation has. */
static void join_ops(struct store *s, struct device_node *n, int64_t complete_ns)
{
	struct device *d = &n->d;

	for (; n->joined < d->nops; n->joined++) {
		if (d->ops[n->joined].start_ns >= complete_ns)
			return;
		join_op(s, &d->ops[n->joined]);
	}
}

void timeline_settle(struct timeline *tl, int64_t complete_ns)
{
	struct store *s = store_of(tl);

	tl->complete_ns = complete_ns;
	for (unsigned i = 0; i < tl->nprocesses; i++) {
		struct process *p = tl->processes[i];

		for (unsigned j = 0; j < p->nthreads; j++) {
			struct thread_node *n = (struct thread_node *)p->threads[j];

			if (n->settled != n->t.ncalls || n->dirty < n->t.ncalls)
				settle_calls(s, n);
			n->quiet_from_ns = INT64_MIN;
		}
		for (unsigned j = 0; j < p->ndevices; j++) {
			settle_ops(s, (struct device_node *)p->devices[j]);
			join_ops(s, (struct device_node *)p->devices[j], complete_ns);
		}
	}
	for (unsigned i = 0; i < tl->nconnections; i++) {
		struct connection_node *n = (struct connection_node *)tl->connections[i];

		if (n->unsorted)
			qsort(n->c.samples, n->c.nsamples, sizeof(*n->c.samples), compare_samples);
		n->unsorted = false;
	}
	text_settle(&s->texts);
}

/* ---- forgetting ---- */

/* Looking back is bounded by a number of calls (or operations) everywhere, and nowhere by as many as these: of a thread or device that has more, so many
 * stay before `busy_ns`, and the rest may go early. */
enum { MANY = 65536, STAY = 32768 };

/* How many of n go: those before index `old`, or for busy ones before `busy`. Only when a good part of the array is old, so that the cost per event is
 * constant. */
static size_t how_many_go(size_t n, size_t old, size_t busy)
{
	if (n >= MANY) {
		if (busy > STAY && busy - STAY > old)
			old = busy - STAY;
		return old * 16 < n ? 0 : old;
	}
	return old < 64 || old * 2 < n ? 0 : old;
}

/* What is long and still matters moves up. */
static void evict_calls(struct thread_node *n, int64_t before_ns, int64_t busy_ns)
{
	struct thread *t = &n->t;
	size_t old = how_many_go(t->ncalls, timeline_call_index(t, before_ns), t->ncalls < MANY ? 0 : timeline_call_index(t, busy_ns)), keep = old;
	int64_t until;

	if (!old)
		return;
	until = old < t->ncalls && t->calls[old].start_ns > before_ns ? t->calls[old].start_ns : before_ns;
	for (size_t i = old; i--;) {
		if (t->calls[i].end_ns >= until)
			t->calls[--keep] = t->calls[i];
		else
			free((struct nccl_info *)t->calls[i].nccl);
	}
	t->calls += keep;
	t->ncalls -= keep;
	n->settled -= keep;
	/* what encloses a call that stays has stayed, too; but it is nearer now */
	n->dirty = keep == old ? (n->dirty > keep ? n->dirty - keep : 0) : 0;
}

static void evict_ops(struct device_node *n, int64_t before_ns, int64_t busy_ns)
{
	struct device *d = &n->d;
	size_t old = how_many_go(d->nops, timeline_op_index(d, before_ns), d->nops < MANY ? 0 : timeline_op_index(d, busy_ns)), keep = old;
	int64_t until;

	if (!old)
		return;
	until = old < d->nops && d->ops[old].start_ns > before_ns ? d->ops[old].start_ns : before_ns;
	for (size_t i = old; i--;)
		if (d->ops[i].end_ns >= until)
			d->ops[--keep] = d->ops[i];
	d->ops += keep;
	d->nops -= keep;
	n->settled -= keep;
	n->joined = n->joined > keep ? n->joined - keep : 0;
}

static void evict_use(struct use_series *u, int64_t before_ns)
{
	size_t drop = 0;

	/* the last point before the window is where interpolation begins */
	while (drop + 1 < u->n && u->p[drop + 1].at_ns < before_ns)
		drop++;
	if (drop < 64 || drop * 2 < u->n)
		return;
	u->n -= drop;
	memmove(u->p, u->p + drop, u->n * sizeof(*u->p));
}

void timeline_evict(struct timeline *tl, int64_t before_ns)
{
	timeline_evict_busy(tl, before_ns, before_ns);
}

void timeline_evict_busy(struct timeline *tl, int64_t before_ns, int64_t busy_ns)
{
	struct store *s = store_of(tl);

	if (before_ns <= tl->evicted_ns)
		return;
	tl->evicted_ns = before_ns;
	for (unsigned i = 0; i < tl->nprocesses; i++) {
		struct process *p = tl->processes[i];

		for (unsigned j = 0; j < p->nthreads; j++) {
			evict_calls((struct thread_node *)p->threads[j], before_ns, busy_ns);
			timeline_evict_notes(p->threads[j], before_ns);
			for (int k = 0; k < USE_COUNTERS; k++)
				evict_use(&((struct thread_node *)p->threads[j])->use[k], before_ns);
		}
		for (unsigned j = 0; j < p->ndevices; j++)
			evict_ops((struct device_node *)p->devices[j], before_ns, busy_ns);
	}
	for (unsigned i = 0; i < tl->nconnections; i++) {
		struct connection *c = tl->connections[i];
		size_t drop = 0;

		while (drop + 1 < c->nsamples && c->samples[drop + 1].at_ns < before_ns)
			drop++;
		c->samples += drop;
		c->nsamples -= drop;
	}
	text_evict(&s->texts, before_ns);
}

static void free_process(struct process *p)
{
	for (unsigned j = 0; j < p->nthreads; j++) {
		struct thread_node *t = (struct thread_node *)p->threads[j];

		for (size_t i = 0; i < t->t.ncalls; i++)
			free((struct nccl_info *)t->t.calls[i].nccl);
		for (int k = 0; k < USE_COUNTERS; k++)
			free(t->use[k].p);
		free(t->notes);
		free(t->base);
		free((char *)t->t.name);
		free(t);
	}
	for (unsigned j = 0; j < p->ndevices; j++) {
		free(((struct device_node *)p->devices[j])->base);
		free((char *)p->devices[j]->name);
		free(p->devices[j]);
	}
	free(p->threads);
	free(p->devices);
	free((char *)p->host);
	free((char *)p->command);
	free((char *)p->gpu);
	free((char *)p->end);
	free(p);
}

void timeline_free(struct timeline *tl)
{
	struct store *s;

	if (!tl)
		return;
	s = store_of(tl);
	for (unsigned i = 0; i < tl->nprocesses; i++)
		free_process(tl->processes[i]);
	for (unsigned i = 0; i < tl->nconnections; i++) {
		free(((struct connection_node *)tl->connections[i])->base);
		free(tl->connections[i]);
	}
	free(tl->processes);
	free(tl->connections);
	free(tl->marks);
	text_free(&s->texts);
	launch_free(s);
	free(s->ids);
	free(s->tmp_calls);
	free(s->tmp_ops);
	free(s);
	free(tl);
}
