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
#include "analyzer/collective_call.h"
#include "analyzer/mem.h"
#include "analyzer/timeline_build.h"

/* Hosts whose clocks were never compared by a common collective. */
#define HOSTS_APART_NS 1000000
#define KEEP_NS 30000000000
enum { SEARCH_OPS = 8192 };

struct entry {
	struct nccl_key key;
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
	int64_t ends_apart_ns;		/* smallest distance of the ends of a collective on different hosts, INT64_MAX none */
	struct arrival pairs[NCCL_MEMBERS + 1];	/* of the point-to-point calls that were asked for last */
};

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

/* ---- the table ---- */

static size_t head_of(const struct collectives *c, const struct nccl_key *k)
{
	return mem_mix(k->comm ^ mem_mix(k->seq * 31 + k->extra)) & (c->nheads - 1);
}

static struct entry *find(const struct collectives *c, const struct nccl_key *k)
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
		if (apart < c->ends_apart_ns)
			c->ends_apart_ns = apart;
	}
}

static struct entry *arrive(struct collectives *c, const struct device *device, const struct op *op, const struct nccl_work *d)
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
	struct nccl_work desc;

	for (size_t i = timeline_op_index(d, from_ns); i < d->nops && d->ops[i].start_ns < to_ns; i++)
		if (d->ops[i].name->op == OP_COMM && nccl_describe(&d->ops[i], &desc))
			arrive(c, d, &d->ops[i], &desc);
}

void collectives_advance(struct collectives *c, const struct timeline *tl)
{
	int64_t to = tl->finished ? INT64_MAX : tl->complete_ns;

	if (to <= c->upto_ns)
		return;
	for (unsigned i = 0; i < tl->nprocesses; i++)
		for (unsigned k = 0; k < tl->processes[i]->ndevices; k++)
			if (timeline_has_comm(tl->processes[i]->devices[k]))
				look_at(c, tl->processes[i]->devices[k], c->upto_ns, to);
	c->upto_ns = to;
	if (tl->evicted_ns > INT64_MIN + KEEP_NS)
		forget(c, tl->evicted_ns - KEEP_NS);
}

/* ---- asking ---- */

/* Looks on device `d` for its part in a collective that ran in [from, to]: backwards from its end, as all parts overlap there. */
static void search(struct collectives *c, const struct device *d, const struct nccl_key *key, int64_t from_ns, int64_t to_ns)
{
	struct nccl_work desc;

	for (size_t i = timeline_op_index(d, to_ns), n = 0; i-- > 0 && n < SEARCH_OPS; n++) {
		const struct op *op = &d->ops[i];

		if (op->name->op != OP_COMM || !nccl_describe(op, &desc))
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
	struct nccl_key key = e->key;

	for (unsigned i = 0; i < tl->nprocesses; i++)
		for (unsigned k = 0; k < tl->processes[i]->ndevices; k++)
			search(c, tl->processes[i]->devices[k], &key, op->start_ns, op->end_ns);
}

static bool find_last(const struct collectives *c, const struct device *device, const struct op *op, struct collective *out)
{
	for (unsigned i = 0; i < out->narrivals; i++) {
		const struct arrival *a = &out->arrivals[i];

		/* one that starts after this rank was through was not waited for (the root of a broadcast), or is no part of it */
		if (a->device != device && a->start_ns > out->last.start_ns && a->start_ns <= op->end_ns)
			out->last = *a;
	}
	if (out->last.device != device && out->last.device->process->host && device->process->host &&
	    strcmp(out->last.device->process->host, device->process->host))
		out->clock_error_ns = c->ends_apart_ns < HOSTS_APART_NS ? c->ends_apart_ns : HOSTS_APART_NS;
	return true;
}

/* Sends and receives: whoever waits, waits for the kernel on the other side. */
static bool pairs_of(const struct timeline *tl, struct collectives *c, const struct device *device, const struct op *op, struct collective *out)
{
	const struct text *call;
	unsigned n = nccl_partners(tl, device, op, c->pairs, &call);

	if (!n)
		return false;
	memset(out, 0, sizeof(*out));
	out->call = call;
	out->nranks = out->narrivals = n;
	out->arrivals = c->pairs;
	out->own = out->last = c->pairs[0];
	return true;
}

bool collective_of(const struct timeline *tl, const struct device *device, const struct op *op, struct collective *out)
{
	struct collectives *c = tl->causes ? memory_of(tl)->collectives : NULL;
	struct nccl_work d;
	struct entry *e;

	if (!c)
		return false;
	if (!nccl_describe(op, &d)) {
		if (!pairs_of(tl, c, device, op, out))
			return false;
		return find_last(c, device, op, out);
	}
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
	return find_last(c, device, op, out);
}
