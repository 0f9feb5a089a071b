/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact split of a device's time, see states.h.
 */
#include "analyzer/states.h"

#include <stdlib.h>

#include "analyzer/mem.h"

struct running {
	struct op *ops;			/* in order of start */
	size_t n, cap;
};

struct states {
	const struct states_calls *calls;
	void *ctx;
	int64_t pos_ns, gap_ns;		/* gap_ns: where the open gap began, INT64_MIN = none open */
	int64_t compute_until_ns, last_end_ns;
	struct running comm, copy;
	/* one stretch is held back so that neighbours of one kind are called back as one */
	struct { enum op_kind kind; int64_t a, b; struct op op; } held;
};

struct states *states_open(const struct states_calls *calls, void *ctx, int64_t start_ns)
{
	struct states *s = mem_new(1, sizeof(*s));

	s->calls = calls;
	s->ctx = ctx;
	s->pos_ns = start_ns;
	s->gap_ns = INT64_MIN;
	s->compute_until_ns = INT64_MIN;
	s->last_end_ns = INT64_MIN;
	return s;
}

static void release(struct states *s)
{
	if (s->held.kind == OP_COMPUTE)
		s->calls->compute(s->ctx, s->held.a, s->held.b);
	else if (s->held.kind != OP_NONE)
		s->calls->exposed(s->ctx, s->held.kind, s->held.a, s->held.b, &s->held.op);
	s->held.kind = OP_NONE;
}

static void stretch(struct states *s, enum op_kind kind, int64_t a, int64_t b, const struct op *op)
{
	if (s->held.kind == kind && s->held.b == a &&
	    (!op || (op->start_ns == s->held.op.start_ns && op->stream == s->held.op.stream && op->flow == s->held.op.flow))) {
		s->held.b = b;
		return;
	}
	release(s);
	s->held.kind = kind;
	s->held.a = a;
	s->held.b = b;
	if (op)
		s->held.op = *op;
}

static const struct op *first_running(struct running *r, int64_t at_ns)
{
	size_t done = 0;

	while (done < r->n && r->ops[done].end_ns <= at_ns)
		done++;
	if (done) {
		r->n -= done;
		for (size_t i = 0; i < r->n; i++)
			r->ops[i] = r->ops[i + done];
	}
	return r->n ? &r->ops[0] : NULL;
}

static void run_until(struct states *s, int64_t to_ns)
{
	while (s->pos_ns < to_ns) {
		const struct op *op = NULL;
		enum op_kind kind = OP_NONE;
		int64_t until = to_ns;

		if (s->compute_until_ns > s->pos_ns) {
			kind = OP_COMPUTE;
			until = s->compute_until_ns;
		} else if ((op = first_running(&s->comm, s->pos_ns))) {
			kind = OP_COMM;
			until = op->end_ns;
		} else if ((op = first_running(&s->copy, s->pos_ns))) {
			kind = OP_COPY;
			until = op->end_ns;
		}
		if (until > to_ns)
			until = to_ns;
		if (kind != OP_NONE)
			stretch(s, kind, s->pos_ns, until, op);
		else if (s->gap_ns == INT64_MIN)
			s->gap_ns = s->pos_ns;
		s->pos_ns = until;
	}
}

static void end_gap(struct states *s, int64_t at_ns, const struct op *op)
{
	int64_t from = s->gap_ns;

	s->gap_ns = INT64_MIN;
	release(s);
	if (from < at_ns)
		s->calls->gap(s->ctx, from, at_ns, op);
}

static void add_running(struct running *r, const struct op *op)
{
	r->ops = mem_more(r->ops, r->n, &r->cap, sizeof(*r->ops));
	r->ops[r->n++] = *op;
}

void states_advance(struct states *s, const struct op *ops, size_t n, int64_t to_ns)
{
	for (size_t i = 0; i < n; i++) {
		const struct op *op = &ops[i];

		/* one too short for the clock takes no time, but it ran: it ends a gap, and the next gap has its own reason */
		if (op->end_ns <= op->start_ns ? op->start_ns < s->pos_ns : op->end_ns <= s->pos_ns)
			continue;
		run_until(s, op->start_ns);
		if (s->gap_ns != INT64_MIN) {
			const struct op *last = op;

			for (size_t j = i + 1; j < n && ops[j].start_ns == op->start_ns; j++)
				if (ops[j].launcher && (!last->launcher || ops[j].launch_start_ns > last->launch_start_ns))
					last = &ops[j];
			end_gap(s, op->start_ns > s->pos_ns ? op->start_ns : s->pos_ns, last);
		}
		if (op->end_ns > s->last_end_ns)
			s->last_end_ns = op->end_ns;
		if (op->end_ns <= op->start_ns)
			continue;
		if (op->name->op == OP_COMM)
			add_running(&s->comm, op);
		else if (op->name->op == OP_COPY)
			add_running(&s->copy, op);
		else if (op->end_ns > s->compute_until_ns)
			s->compute_until_ns = op->end_ns;
	}
	run_until(s, to_ns);
}

void states_finish(struct states *s, int64_t end_ns)
{
	run_until(s, end_ns);
	if (s->gap_ns != INT64_MIN)
		end_gap(s, end_ns, NULL);
	release(s);
}

void states_close(struct states *s)
{
	if (!s)
		return;
	free(s->comm.ops);
	free(s->copy.ops);
	free(s);
}

int64_t states_settled(const struct states *s)
{
	int64_t at = s->pos_ns;

	if (s->gap_ns != INT64_MIN && s->gap_ns < at)
		at = s->gap_ns;
	if (s->held.kind != OP_NONE && s->held.a < at)
		at = s->held.a;
	return at;
}

int64_t states_last_end(const struct states *s)
{
	return s->last_end_ns;
}
