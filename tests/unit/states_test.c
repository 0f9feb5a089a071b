/* SPDX-License-Identifier: Apache-2.0
 *
 * The split of a device's time against a brute-force count of every ns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/states.h"

enum { SPAN = 400, MAX_OPS = 40 };

static const struct text compute = {.text = "gemm", .op = OP_COMPUTE}, comm = {.text = "ncclDevKernel", .op = OP_COMM},
	copy = {.text = "Memcpy HtoD", .op = OP_COPY};

struct seen {
	int state[SPAN];		/* 0 compute, 1 comm, 2 copy, 3 idle, -1 nobody */
	int64_t pos, gaps;
	const struct op *last;
	int64_t gap_op_start[SPAN];
};

static void put(struct seen *s, int state, int64_t a, int64_t b)
{
	assert_int_equal(a, s->pos);
	assert_true(b > a && b <= SPAN);
	for (int64_t i = a; i < b; i++)
		s->state[i] = state;
	s->pos = b;
}

static void on_compute(void *ctx, int64_t a, int64_t b) { put(ctx, 0, a, b); }

static void on_exposed(void *ctx, enum op_kind kind, int64_t a, int64_t b, const struct op *op)
{
	assert_int_equal(op->name->op, kind);
	assert_true(op->start_ns <= a && op->end_ns >= b);
	put(ctx, kind == OP_COMM ? 1 : 2, a, b);
}

static void on_gap(void *ctx, int64_t a, int64_t b, const struct op *op)
{
	struct seen *s = ctx;

	s->gaps++;
	if (op)
		assert_int_equal(op->start_ns, b);
	put(ctx, 3, a, b);
}

static const struct states_calls calls = {on_compute, on_exposed, on_gap};

static int by_start(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static void brute(const struct op *ops, int n, int *state)
{
	for (int t = 0; t < SPAN; t++) {
		int best = 3;

		for (int i = 0; i < n; i++) {
			int is = ops[i].name == &compute ? 0 : ops[i].name == &comm ? 1 : 2;

			if (ops[i].start_ns <= t && t < ops[i].end_ns && is < best)
				best = is;
		}
		state[t] = best;
	}
}

/* An operation too short for the clock parts two gaps. */
static int ran_at(const struct op *ops, int n, int t)
{
	for (int i = 0; i < n; i++)
		if (ops[i].start_ns == t && ops[i].end_ns == t)
			return 1;
	return 0;
}

static void split_equals_count_of_every_ns(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= 3000; seed++) {
		struct op ops[MAX_OPS] = {{0}};
		struct seen seen = {.pos = 0};
		int want[SPAN], n = 0, gaps = 0;
		struct states *s = states_open(&calls, &seen, 0);
		int64_t at = 0;

		srand(seed);
		n = rand() % MAX_OPS;
		for (int i = 0; i < n; i++) {
			int kind = rand() % 3;

			ops[i].name = kind == 0 ? &compute : kind == 1 ? &comm : &copy;
			ops[i].start_ns = rand() % (SPAN - 20);
			ops[i].end_ns = ops[i].start_ns + rand() % 20;
			ops[i].stream = (uint32_t)i;
		}
		qsort(ops, (size_t)n, sizeof(ops[0]), by_start);
		/* in pieces, as the window moves */
		for (int i = 0; at < SPAN - 10;) {
			int64_t to = at + 1 + rand() % 60;
			int j = i;

			if (to > SPAN - 10)
				to = SPAN - 10;
			while (j < n && ops[j].start_ns < to)
				j++;
			states_advance(s, ops + i, (size_t)(j - i), to);
			assert_true(states_settled(s) <= to);
			i = j;
			at = to;
			if (at == SPAN - 10)
				states_advance(s, ops + i, (size_t)(n - i), SPAN - 5);
		}
		states_finish(s, SPAN);
		brute(ops, n, want);
		for (int t = 0; t < SPAN; t++)
			gaps += want[t] == 3 && (t == 0 || want[t - 1] != 3 || ran_at(ops, n, t));
		if (seen.pos != SPAN || memcmp(want, seen.state, sizeof(want)))
			fail_msg("seed %u", seed);
		assert_int_equal(seen.gaps, gaps);
		states_close(s);
	}
}

static struct thread launcher;
static const struct op *ended_by;
static void note_gap(void *ctx, int64_t a, int64_t b, const struct op *op)
{
	static struct op copy_of;

	(void)ctx, (void)a, (void)b;
	if (op)
		copy_of = *op;
	ended_by = op ? &copy_of : NULL;
}
static void ignore_compute(void *ctx, int64_t a, int64_t b) { (void)ctx, (void)a, (void)b; }

static void gap_is_ended_by_the_op_launched_last(void **unused)
{
	static const struct states_calls quiet = {ignore_compute, NULL, note_gap};
	struct op ops[] = {
		{.start_ns = 100, .end_ns = 110, .name = &compute, .launcher = &launcher, .launch_start_ns = 10},
		{.start_ns = 100, .end_ns = 120, .name = &compute, .launcher = &launcher, .launch_start_ns = 90, .stream = 1},
		{.start_ns = 100, .end_ns = 130, .name = &compute, .stream = 2},
	};
	struct states *s = states_open(&quiet, NULL, 0);

	(void)unused;
	states_advance(s, ops, 3, 200);
	assert_non_null(ended_by);
	assert_int_equal(ended_by->launch_start_ns, 90);
	states_finish(s, 300);
	assert_null(ended_by);
	states_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split_equals_count_of_every_ns),
		cmocka_unit_test(gap_is_ended_by_the_op_launched_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
