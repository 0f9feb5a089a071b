/* SPDX-License-Identifier: Apache-2.0
 *
 * From a communication kernel to the NCCL call or group that launched it, and to its partners on other devices.
 */
#include "analyzer/collective_call.h"

#include <string.h>

#include "analyzer/timeline_build.h"

/* Launch records and NCCL slices come from different clocks brought together: a launch may seem to lie this far outside its call. */
#define CLOCK_SLACK_NS 5000
enum { LOOK_BACK = 512, PARTNER_OPS = 2048 };

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

/* The calls of that class between the group's start and its end `s`, in order. Point-to-point calls carry no number. */
static unsigned group_members(const struct thread *t, const struct slice *s, enum call_class class, const struct slice **out)
{
	size_t end = (size_t)(s - t->calls), i = end;
	unsigned n = 0, open = 1;

	while (i > 0 && end - i < 4096 && open) {
		const struct slice *c = &t->calls[--i];

		if (c->name->class == CLASS_NCCL_GROUP)
			open += is_group_start(c) ? -1u : 1u;
	}
	for (; i < end && n < NCCL_MEMBERS; i++)
		if (t->calls[i].name->class == class && t->calls[i].nccl)
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
static bool describe_group(const struct thread *t, const struct slice *s, int64_t at_ns, struct nccl_work *d)
{
	const struct slice *members[NCCL_MEMBERS];
	uint64_t comms[NCCL_MEMBERS];
	unsigned n = group_members(t, s, CLASS_NCCL_COLL, members), ncomms = 0, nth, which;

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

bool nccl_describe(const struct op *op, struct nccl_work *d)
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
	*d = (struct nccl_work){ .key = { s->nccl->comm, s->nccl->seq, launches_before(op->launcher, s, op->launch_start_ns) }, .call = s->name,
		.nranks = s->nccl->nranks, .bytes = s->bytes > 0 ? s->bytes : 0 };
	return true;
}

/* The sends and receives that a kernel carries out. */
static unsigned pair_members(const struct op *op, const struct slice **out)
{
	const struct slice *s;

	if (!op->launcher || op->name->op != OP_COMM)
		return 0;
	s = nccl_call_at(op->launcher, op->launch_start_ns);
	if (!s)
		return 0;
	if (s->name->class == CLASS_NCCL_GROUP)
		return group_members(op->launcher, s, CLASS_NCCL_P2P, out);
	if (s->name->class != CLASS_NCCL_P2P || !s->nccl)
		return 0;
	out[0] = s;
	return 1;
}

/* Does one of `theirs` meet one of `ours`: same communicator, each the other's peer, one sends and one receives? */
static bool meet(const struct slice *const *ours, unsigned nours, const struct slice *const *theirs, unsigned ntheirs)
{
	for (unsigned i = 0; i < nours; i++) {
		for (unsigned k = 0; k < ntheirs; k++) {
			const struct nccl_info *a = ours[i]->nccl, *b = theirs[k]->nccl;

			if (a->comm == b->comm && a->peer == b->rank && b->peer == a->rank && ours[i]->name != theirs[k]->name)
				return true;
		}
	}
	return false;
}

/* The kernel on `d` that ran together with `op` and is its other side: of several that which ends nearest. */
static const struct op *partner_on(const struct device *d, const struct op *op, const struct slice *const *ours, unsigned nours)
{
	const struct slice *theirs[NCCL_MEMBERS];
	const struct op *best = NULL;
	int64_t best_apart = 0;

	for (size_t i = timeline_op_index(d, op->end_ns), n = 0; i-- > 0 && n < PARTNER_OPS; n++) {
		const struct op *other = &d->ops[i];
		int64_t apart = other->end_ns > op->end_ns ? other->end_ns - op->end_ns : op->end_ns - other->end_ns;
		unsigned ntheirs;

		if (other->name->op != OP_COMM || other->end_ns <= op->start_ns || (best && apart >= best_apart))
			continue;
		ntheirs = pair_members(other, theirs);
		if (!ntheirs || !meet(ours, nours, theirs, ntheirs))
			continue;
		best = other;
		best_apart = apart;
	}
	return best;
}

unsigned nccl_partners(const struct timeline *tl, const struct device *device, const struct op *op, struct arrival *out, const struct text **call)
{
	const struct slice *ours[NCCL_MEMBERS];
	unsigned nours = pair_members(op, ours), n = 0;

	if (!nours)
		return 0;
	*call = ours[0]->name;
	out[n++] = (struct arrival){ device, device->process->rank, op->start_ns, op->end_ns };
	for (unsigned i = 0; i < tl->nprocesses; i++) {
		for (unsigned k = 0; k < tl->processes[i]->ndevices && n < NCCL_MEMBERS; k++) {
			const struct device *d = tl->processes[i]->devices[k];
			const struct op *other = d == device ? NULL : partner_on(d, op, ours, nours);

			if (other)
				out[n++] = (struct arrival){ d, d->process->rank, other->start_ns, other->end_ns };
		}
	}
	return n;
}
