/* SPDX-License-Identifier: Apache-2.0
 *
 * Matching collectives across ranks.
 *
 * A table of (communicator, sequence number) holds who arrived when. It is filled as the window moves on, and, for kernels so long that the window
 * passed their start before their end was known, when somebody asks for the collective. Old entries go when the window leaves them behind.
 */
#include "analyzer/collective.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/mem.h"
#include "analyzer/timeline_build.h"

/* Launch records and NCCL slices come from different clocks brought together: a launch may seem to lie this far outside its call. */
#define CLOCK_SLACK_NS 5000
/* Hosts whose clocks were never compared by a common collective. */
#define HOSTS_APART_NS 1000000
#define KEEP_NS 30000000000
enum { LOOK_BACK = 512, GROUP_MEMBERS = 128, SEARCH_OPS = 8192 };

struct key {
	uint64_t comm, seq;
	unsigned extra;			/* further kernels of one group on the same communicator */
};

struct entry {
	struct key key;
	struct entry *next;
	const struct text *call;
	unsigned nranks;
	int64_t bytes, last_end_ns;
	struct arrival *arrivals;
	unsigned narrivals;
	size_t cap;
	bool searched;			/* everybody was looked for */
	int64_t searched_upto_ns;
};

struct collectives {
	struct entry **heads;
	size_t nheads, nentries;
	int64_t upto_ns;		/* operations that start before it were looked at */
	bool hosts;			/* more than one host seen */
	int64_t ends_apart_ns;		/* smallest distance of the ends of a collective on different hosts, INT64_MAX none */
};

/* What one NCCL call or group adds up to, as far as one of its kernels is concerned. */
struct description { struct key key; const struct text *call; unsigned nranks; int64_t bytes; };

struct collectives *collectives_open(void)
{
	struct collectives *c = mem_new(1, sizeof(*c));

	c->nheads = 1024;
	c->heads = mem_new(c->nheads, sizeof(*c->heads));
	c->upto_ns = INT64_MIN;
	c->ends_apart_ns = INT64_MAX;
	return c;
}

static void entry_free(struct entry *e)
{
	free(e->arrivals);
	free(e);
}

void collectives_close(struct collectives *c)
{
	for (size_t i = 0; i < c->nheads; i++) {
		while (c->heads[i]) {
			struct entry *e = c->heads[i];

			c->heads[i] = e->next;
			entry_free(e);
		}
	}
	free(c->heads);
	free(c);
}

/* ---- from a kernel to its call ---- */

static bool is_nccl(enum call_class class)
{
	return class == CLASS_NCCL_COLL || class == CLASS_NCCL_P2P || class == CLASS_NCCL_GROUP;
}

/* The NCCL call that launched at `at_ns`; the innermost that spans it. Not by nesting alone: see CLOCK_SLACK_NS. */
static const struct slice *nccl_call_at(const struct thread *t, int64_t at_ns)
{
	size_t i = timeline_call_index(t, at_ns + CLOCK_SLACK_NS);

	for (int n = 0; i-- > 0 && n < LOOK_BACK; n++) {
		const struct slice *s = &t->calls[i];

		if (is_nccl(s->name->class) && (s->end_ns == NS_OPEN || s->end_ns + CLOCK_SLACK_NS >= at_ns))
			return s;
	}
	return NULL;
}

static bool is_group_start(const struct slice *s)
{
	return s->name->call == CALL_ncclGroupStart;
}

/* The collectives between the group's start and its end `s`, in order. Point-to-point calls carry no number and are left out. */
static unsigned group_members(const struct thread *t, const struct slice *s, const struct slice **out)
{
	size_t end = (size_t)(s - t->calls), i = end;
	unsigned n = 0, open = 1;

	while (i > 0 && end - i < 4096 && open) {
		const struct slice *c = &t->calls[--i];

		if (c->name->class == CLASS_NCCL_GROUP)
			open += is_group_start(c) ? -1u : 1u;
	}
	for (; i < end && n < GROUP_MEMBERS; i++)
		if (t->calls[i].name->class == CLASS_NCCL_COLL && t->calls[i].nccl)
			out[n++] = &t->calls[i];
	return n;
}

/* How many kernels were launched inside `s` before at_ns. */
static unsigned launches_before(const struct thread *t, const struct slice *s, int64_t at_ns)
{
	unsigned n = 0;

	for (size_t i = (size_t)(s - t->calls) + 1; i < t->ncalls && t->calls[i].start_ns < at_ns; i++)
		n += t->calls[i].name->class == CLASS_GPU_LAUNCH;
	return n;
}

/* One kernel per communicator, in the order in which the group first names them; all collectives of a communicator share it. */
static bool describe_group(const struct thread *t, const struct slice *s, int64_t at_ns, struct description *d)
{
	const struct slice *members[GROUP_MEMBERS];
	uint64_t comms[GROUP_MEMBERS];
	unsigned n = group_members(t, s, members), ncomms = 0, nth, which;

	if (!n)
		return false;
	for (unsigned i = 0, k; i < n; i++) {
		for (k = 0; k < ncomms && comms[k] != members[i]->nccl->comm; k++)
			;
		if (k == ncomms)
			comms[ncomms++] = members[i]->nccl->comm;
	}
	nth = launches_before(t, s, at_ns);
	which = nth < ncomms ? nth : ncomms - 1;
	memset(d, 0, sizeof(*d));
	for (unsigned i = 0; i < n; i++) {
		if (members[i]->nccl->comm != comms[which])
			continue;
		d->key.comm = comms[which];
		d->key.seq = members[i]->nccl->seq;
		d->call = members[i]->name;
		d->nranks = members[i]->nccl->nranks;
		if (members[i]->bytes > 0)
			d->bytes += members[i]->bytes;
	}
	d->key.extra = nth - which;
	return true;
}

static bool describe(const struct op *op, struct description *d)
{
	const struct slice *s;

	if (!op->launcher || op->name->op != OP_COMM)
		return false;
	s = nccl_call_at(op->launcher, op->launch_start_ns);
	if (!s)
		return false;
	if (s->name->class == CLASS_NCCL_GROUP)
		return describe_group(op->launcher, s, op->launch_start_ns, d);
	if (s->name->class != CLASS_NCCL_COLL || !s->nccl)
		return false;
	*d = (struct description){ .key = { s->nccl->comm, s->nccl->seq, launches_before(op->launcher, s, op->launch_start_ns) }, .call = s->name,
		.nranks = s->nccl->nranks, .bytes = s->bytes > 0 ? s->bytes : 0 };
	return true;
}

/* ---- the table ---- */

static size_t head_of(const struct collectives *c, const struct key *k)
{
	return mem_mix(k->comm ^ mem_mix(k->seq * 31 + k->extra)) & (c->nheads - 1);
}

static struct entry *find(const struct collectives *c, const struct key *k)
{
	struct entry *e = c->heads[head_of(c, k)];

	while (e && (e->key.comm != k->comm || e->key.seq != k->seq || e->key.extra != k->extra))
		e = e->next;
	return e;
}

static void grow(struct collectives *c)
{
	struct entry **old = c->heads;
	size_t n = c->nheads;

	c->nheads *= 2;
	c->heads = mem_new(c->nheads, sizeof(*c->heads));
	for (size_t i = 0; i < n; i++) {
		while (old[i]) {
			struct entry *e = old[i];
			size_t h = head_of(c, &e->key);

			old[i] = e->next;
			e->next = c->heads[h];
			c->heads[h] = e;
		}
	}
	free(old);
}

static void compare_clocks(struct collectives *c, const struct entry *e, const struct arrival *a)
{
	for (unsigned i = 0; i < e->narrivals; i++) {
		const struct arrival *b = &e->arrivals[i];
		int64_t apart = a->end_ns > b->end_ns ? a->end_ns - b->end_ns : b->end_ns - a->end_ns;

		if (!a->device->process->host || !b->device->process->host || !strcmp(a->device->process->host, b->device->process->host))
			continue;
		c->hosts = true;
		if (apart < c->ends_apart_ns)
			c->ends_apart_ns = apart;
	}
}

static struct entry *arrive(struct collectives *c, const struct device *device, const struct op *op, const struct description *d)
{
	struct entry *e = find(c, &d->key);
	struct arrival a = { device, device->process->rank, op->start_ns, op->end_ns };

	if (!e) {
		size_t h;

		if (c->nentries >= c->nheads)
			grow(c);
		h = head_of(c, &d->key);
		e = mem_new(1, sizeof(*e));
		e->key = d->key;
		e->call = d->call;
		e->next = c->heads[h];
		c->heads[h] = e;
		c->nentries++;
	}
	for (unsigned i = 0; i < e->narrivals; i++)
		if (e->arrivals[i].device == device)
			return e;
	if (d->nranks > e->nranks)
		e->nranks = d->nranks;
	if (d->bytes > e->bytes)
		e->bytes = d->bytes;
	compare_clocks(c, e, &a);
	e->arrivals = mem_more(e->arrivals, e->narrivals, &e->cap, sizeof(*e->arrivals));
	e->arrivals[e->narrivals++] = a;
	if (op->end_ns > e->last_end_ns)
		e->last_end_ns = op->end_ns;
	return e;
}

static void forget(struct collectives *c, int64_t before_ns)
{
	for (size_t i = 0; i < c->nheads; i++) {
		struct entry **at = &c->heads[i];

		while (*at) {
			struct entry *e = *at;

			if (e->last_end_ns >= before_ns) {
				at = &e->next;
				continue;
			}
			*at = e->next;
			entry_free(e);
			c->nentries--;
		}
	}
}

static void look_at(struct collectives *c, const struct device *d, int64_t from_ns, int64_t to_ns)
{
	struct description desc;

	for (size_t i = timeline_op_index(d, from_ns); i < d->nops && d->ops[i].start_ns < to_ns; i++)
		if (d->ops[i].name->op == OP_COMM && describe(&d->ops[i], &desc))
			arrive(c, d, &d->ops[i], &desc);
}

void collectives_advance(struct collectives *c, const struct timeline *tl)
{
	int64_t to = tl->finished ? INT64_MAX : tl->complete_ns;

	if (to <= c->upto_ns)
		return;
	for (unsigned i = 0; i < tl->nprocesses; i++)
		for (unsigned k = 0; k < tl->processes[i]->ndevices; k++)
			look_at(c, tl->processes[i]->devices[k], c->upto_ns, to);
	c->upto_ns = to;
	if (tl->evicted_ns > INT64_MIN + KEEP_NS)
		forget(c, tl->evicted_ns - KEEP_NS);
}

/* ---- asking ---- */

/* Looks on device `d` for its part in a collective that ran in [from, to]: backwards from its end, as all parts overlap there. */
static void search(struct collectives *c, const struct device *d, const struct key *key, int64_t from_ns, int64_t to_ns)
{
	struct description desc;

	for (size_t i = timeline_op_index(d, to_ns), n = 0; i-- > 0 && n < SEARCH_OPS; n++) {
		const struct op *op = &d->ops[i];

		if (op->name->op != OP_COMM || !describe(op, &desc))
			continue;
		if (desc.key.comm != key->comm)
			continue;
		arrive(c, d, op, &desc);
		if (desc.key.seq <= key->seq || op->end_ns < from_ns)
			return;
	}
}

static void search_all(struct collectives *c, const struct timeline *tl, struct entry *e, const struct op *op)
{
	struct key key = e->key;

	for (unsigned i = 0; i < tl->nprocesses; i++)
		for (unsigned k = 0; k < tl->processes[i]->ndevices; k++)
			search(c, tl->processes[i]->devices[k], &key, op->start_ns, op->end_ns);
}

bool collective_of(const struct timeline *tl, const struct device *device, const struct op *op, struct collective *out)
{
	struct collectives *c = tl->causes ? memory_of(tl)->collectives : NULL;
	struct description d;
	struct entry *e;

	if (!c || !describe(op, &d))
		return false;
	e = arrive(c, device, op, &d);
	if (e->narrivals < e->nranks && (!e->searched || e->searched_upto_ns < c->upto_ns)) {
		e->searched = true;
		e->searched_upto_ns = c->upto_ns;
		search_all(c, tl, e, op);
	}
	memset(out, 0, sizeof(*out));
	out->call = e->call;
	out->comm = e->key.comm;
	out->seq = e->key.seq;
	out->nranks = e->nranks;
	out->bytes = e->bytes;
	out->arrivals = e->arrivals;
	out->narrivals = e->narrivals;
	out->own = out->last = (struct arrival){ device, device->process->rank, op->start_ns, op->end_ns };
	for (unsigned i = 0; i < e->narrivals; i++) {
		const struct arrival *a = &e->arrivals[i];

		/* one that starts after this rank was through was not waited for (the root of a broadcast), or is no part of it */
		if (a->device != device && a->start_ns > out->last.start_ns && a->start_ns <= op->end_ns)
			out->last = *a;
	}
	if (out->last.device != device && c->hosts && out->last.device->process->host && device->process->host &&
	    strcmp(out->last.device->process->host, device->process->host))
		out->clock_error_ns = c->ends_apart_ns < HOSTS_APART_NS ? c->ends_apart_ns : HOSTS_APART_NS;
	return true;
}
