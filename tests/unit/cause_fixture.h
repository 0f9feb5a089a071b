/* SPDX-License-Identifier: Apache-2.0
 *
 * A small world for tests of the causes: ranks with a training thread and a device each, and the engine's loop that puts a moment to the causes. Times in us
 * where the name says so.
 */
#ifndef WHYIDLE_TESTS_CAUSE_FIXTURE_H
#define WHYIDLE_TESTS_CAUSE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/cause.h"
#include "analyzer/collective.h"
#include "analyzer/retry.h"
#include "analyzer/timeline_build.h"

#define US 1000ll
#define MS 1000000ll

struct world {
	struct timeline *tl;
	struct process *rank[4];
	struct thread *main[4];
	struct device *gpu[4];
	uint64_t flow;
};

static inline struct world world_new(int ranks)
{
	struct world w = { .tl = timeline_new() };

	for (int i = 0; i < ranks; i++) {
		struct process *p = timeline_process(w.tl, "host", 100 + i, 1);

		p->rank = i;
		p->world_size = ranks;
		p->cpus = 8;
		free((char *)p->command);
		p->command = strdup("python train.py");
		w.rank[i] = p;
		w.main[i] = timeline_thread(w.tl, p, 100 + i);
		w.gpu[i] = timeline_device(w.tl, p, 0);
	}
	assert_int_equal(causes_open(w.tl), 0);
	return w;
}

static inline void world_free(struct world *w)
{
	causes_close(w->tl);
	timeline_free(w->tl);
}

/* All is in: let the causes look. */
static inline void world_ready(struct world *w)
{
	timeline_settle(w->tl, NS_OPEN);
	w->tl->complete_ns = INT64_MAX;
	w->tl->finished = true;
	causes_advance(w->tl);
}

static inline struct process *world_worker(struct world *w, int rank, int pid)
{
	struct process *p = timeline_process(w->tl, "host", pid, 1);

	p->rank = rank;
	p->cpus = 8;
	p->parent = w->rank[rank];
	w->rank[rank]->loads = true;
	free((char *)p->command);
	p->command = strdup("python train.py");
	return p;
}

static inline void add_call(struct world *w, struct thread *t, const char *name, const char *target, int64_t start, int64_t end, int64_t bytes, int err)
{
	timeline_call(w->tl, t, &(struct slice){ .start_ns = start, .end_ns = end, .bytes = bytes, .err = err, .name = timeline_name(w->tl, name),
		.target = target ? timeline_target(w->tl, t->process, target) : NULL });
}

static inline void add_op(struct world *w, int rank, const char *name, unsigned stream, int64_t launch, int64_t start, int64_t end, int64_t bytes)
{
	timeline_op(w->tl, w->gpu[rank], &(struct op){ .start_ns = start, .end_ns = end, .name = timeline_name(w->tl, name), .bytes = bytes, .stream = stream,
		.launcher = w->main[rank], .launch_start_ns = launch, .launch_end_ns = launch + 4 * US });
}

static inline void add_nccl(struct world *w, struct thread *t, const char *name, uint64_t comm, uint64_t seq, unsigned nranks, int64_t start, int64_t end,
	int64_t bytes)
{
	struct nccl_info info = { .comm = comm, .seq = seq, .nranks = nranks, .rank = (uint32_t)t->process->rank };

	timeline_call(w->tl, t, &(struct slice){ .start_ns = start, .end_ns = end, .bytes = bytes, .name = timeline_name(w->tl, name), .nccl = &info });
}

/* A collective as a rank runs it: the call, the launch inside, the kernel. */
static inline void add_collective(struct world *w, int rank, uint64_t comm, uint64_t seq, unsigned nranks, int64_t call, int64_t start, int64_t end)
{
	add_nccl(w, w->main[rank], "ncclAllReduce", comm, seq, nranks, call, call + 20 * US, 1 << 20);
	add_call(w, w->main[rank], "cudaLaunchKernel", NULL, call + 5 * US, call + 9 * US, -1, 0);
	add_op(w, rank, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, call + 5 * US, start, end, -1);
}

static inline const struct op *op_at(const struct world *w, int rank, int64_t start)
{
	const struct device *d = w->gpu[rank];
	size_t i = timeline_op_index(d, start);

	assert_true(i < d->nops);
	assert_int_equal(d->ops[i].start_ns, start);
	return &d->ops[i];
}

static inline const struct slice *call_at(const struct thread *t, int64_t at)
{
	const struct slice *s = timeline_call_at(t, at);

	assert_non_null(s);
	return s;
}

/* An idle moment of rank 0 in which `t` is inside the call recorded at its start, or in none (then it is on the CPU). */
static inline struct moment idle(const struct world *w, struct thread *t, int64_t start, int64_t end)
{
	struct moment m = { .start_ns = start, .end_ns = end, .state = LOST_IDLE, .device = w->gpu[0], .gap_start_ns = start, .gap_end_ns = end,
		.waiter = w->main[0], .thread = t, .hops = t == w->main[0] ? 0 : 1, .part = PART_HOST, .activity = ACT_CPU, .cpus = 8 };

	m.call = timeline_call_at(t, start);
	m.outer = m.call;
	while (m.outer && timeline_outer(t, m.outer))
		m.outer = timeline_outer(t, m.outer);
	if (m.call)
		m.activity = ACT_CALL;
	return m;
}

static inline struct moment exposed(const struct world *w, int rank, int64_t op_start, int64_t start, int64_t end)
{
	const struct op *op = op_at(w, rank, op_start);

	return (struct moment){ .start_ns = start, .end_ns = end, .state = op->name->op == OP_COMM ? LOST_EXPOSED_COMM : LOST_EXPOSED_COPY,
		.device = w->gpu[rank], .gap_start_ns = start, .gap_end_ns = end, .waiter = op->launcher, .thread = op->launcher, .op = op,
		.part = PART_EXPOSED, .activity = ACT_OFF_CPU };
}

/* What the engine does with a moment: asks until all of it is claimed. Checks that each claim is a proper one. */
struct shares { int64_t leaf[LEAF_COUNT]; };
static inline struct shares put(const struct world *w, struct moment m)
{
	struct shares s = {0};

	while (m.start_ns < m.end_ns) {
		int64_t until = m.end_ns;
		unsigned row = 0;

		while (!causes[row]->claim(w->tl, &m, &until)) {
			until = m.end_ns;
			assert_non_null(causes[++row]);
		}
		assert_true(until > m.start_ns && until <= m.end_ns);
		s.leaf[causes[row]->leaf] += until - m.start_ns;
		m.start_ns = until;
	}
	return s;
}

static inline enum leaf only(const struct world *w, struct moment m)
{
	struct shares s = put(w, m);

	for (int i = 0; i < LEAF_COUNT; i++)
		if (s.leaf[i] == m.end_ns - m.start_ns)
			return (enum leaf)i;
	for (int i = 0; i < LEAF_COUNT; i++)
		if (s.leaf[i])
			print_error("%s: %lld ns\n", leaf_name((enum leaf)i), (long long)s.leaf[i]);
	fail_msg("the moment was cut");
	return LEAF_UNKNOWN;
}

#define assert_leaf(w, m, expected) assert_string_equal(leaf_name(only(w, m)), leaf_name(expected))

#endif
