/* SPDX-License-Identifier: Apache-2.0
 *
 * Where steps are found, by which rule, and where none are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analyzer/steps.h"
#include "analyzer/timeline_build.h"

#define MS 1000000
#define UPDATE "_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi"

static struct timeline *tl;
static struct thread *t;
static struct steps_learner *l;

static int setup(void **unused)
{
	(void)unused;
	tl = timeline_new();
	t = timeline_thread(tl, timeline_process(tl, "h", 1, 1), 1);
	l = steps_learner_open();
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	steps_learner_close(l);
	timeline_free(tl);
	return 0;
}

static struct op op(const char *name, int64_t at)
{
	return (struct op){.start_ns = at, .end_ns = at + MS / 2, .name = timeline_name(tl, name), .launcher = t, .launch_start_ns = at - 1000,
		.launch_end_ns = at - 500};
}

/* One step of twelve kernels; some names come back several times in it. */
static const char *const forward[] = {"embed", "gemm", "relu", "gemm", "relu", "gemm", "softmax", "loss", "gemm_b", "gemm_b", "gemm_b", "embed_b"};
enum { KERNELS = 12 };

static void feed(int steps, const char *last, bool batches, void (*fn)(const struct op *op, void *ctx), void *ctx)
{
	for (int i = 0; i < steps; i++) {
		int64_t at = (int64_t)(i + 1) * 20 * MS;

		if (batches)
			steps_learn_take(l, t, at - 5000);
		for (int k = 0; k < KERNELS; k++) {
			struct op o = op(forward[k], at + k * MS);

			fn(&o, ctx);
		}
		if (last) {
			struct op o = op(last, at + KERNELS * MS);

			fn(&o, ctx);
		}
	}
}

static void learn(const struct op *o, void *ctx)
{
	(void)ctx;
	steps_learn_op(l, o);
}

static struct steps_rule decided(void)
{
	struct steps_rule rule;

	steps_decide(l, &rule);
	return rule;
}

struct count { struct steps *s; int n; int64_t first, last; };

static void apply(const struct op *o, void *ctx)
{
	struct count *c = ctx;
	int64_t at;

	if (!steps_op(c->s, o, &at))
		return;
	if (!c->n++)
		c->first = at;
	c->last = at;
}

static void scaler_update_goes_first(void **unused)
{
	struct steps_rule rule;
	struct count c = {0};
	struct step_result r;

	(void)unused;
	feed(20, UPDATE, true, learn, NULL);
	rule = decided();
	assert_int_equal(rule.kind, STEPS_SCALER);
	assert_int_equal(rule.warm_steps, 2);
	c.s = steps_open(&rule);
	feed(20, UPDATE, false, apply, &c);
	assert_int_equal(c.n, 20);
	assert_int_equal(c.first, 20 * MS + KERNELS * MS + MS / 2);
	assert_int_equal(rule.steady_ns, c.first + 2 * 20 * MS);
	steps_fill(c.s, &r);
	assert_int_equal(r.count, 20);
	assert_int_equal(r.median_ns, 20 * MS);
	assert_string_equal(r.rule, "scaler update");
	steps_close(c.s);
}

static void batch_begins_with_what_is_launched_next(void **unused)
{
	struct steps_rule rule;

	(void)unused;
	feed(20, NULL, true, learn, NULL);
	rule = decided();
	assert_int_equal(rule.kind, STEPS_BATCH);
	assert_int_equal(rule.steady_ns, 3 * 20 * MS);
}

static void takes_of_another_thread_are_no_steps_of_this_one(void **unused)
{
	struct thread *pin = timeline_thread(tl, t->process, 2);

	(void)unused;
	for (int i = 0; i < 20; i++)
		steps_learn_take(l, pin, (int64_t)(i + 1) * 20 * MS - 5000);
	feed(20, NULL, false, learn, NULL);
	assert_int_not_equal(decided().kind, STEPS_BATCH);
}

static void optimizer_kernels_come_in_bursts(void **unused)
{
	(void)unused;
	feed(20, "multi_tensor_apply_kernel<FusedAdamMathFunctor>", false, learn, NULL);
	assert_int_equal(decided().kind, STEPS_OPTIMIZER);
}

static void rarest_regular_kernel_marks_the_step(void **unused)
{
	struct steps_rule rule;
	struct count c = {0};

	(void)unused;
	feed(20, NULL, false, learn, NULL);
	rule = decided();
	assert_int_equal(rule.kind, STEPS_KERNEL);
	assert_string_equal(rule.kernel, "embed");
	c.s = steps_open(&rule);
	feed(20, NULL, false, apply, &c);
	assert_int_equal(c.n, 20);
	steps_close(c.s);
}

static void no_steps_where_nothing_comes_back(void **unused)
{
	(void)unused;
	srand(1);
	for (int i = 0; i < 5000; i++) {
		char name[] = "kernel_?";
		struct op o;

		name[7] = (char)('a' + rand() % 20);
		o = op(name, (int64_t)i * MS);
		steps_learn_op(l, &o);
	}
	assert_int_equal(decided().kind, STEPS_NONE);
	assert_string_equal(steps_rule_name(decided().kind), "");
}

static void very_short_runs_have_little_warm_up(void **unused)
{
	(void)unused;
	feed(4, UPDATE, false, learn, NULL);
	assert_int_equal(decided().kind, STEPS_SCALER);
	assert_int_equal(decided().warm_steps, 0);
}

/* Two steps hold four of what comes twice in each: no rule may make four steps of them, or eight. */
static void one_or_two_steps_are_not_taken_apart(void **unused)
{
	(void)unused;
	for (int steps = 1; steps <= 2; steps++)
		for (int batches = 0; batches <= 1; batches++) {
			steps_learner_close(l);
			l = steps_learner_open();
			for (int i = 0; i < steps; i++) {
				int64_t at = (int64_t)(i + 1) * 100 * MS;

				if (batches)
					steps_learn_take(l, t, at - 5000);
				for (int k = 0; k < 40; k++) {
					struct op o = op(k % 5 == 4 ? "multi_tensor_apply_kernel<FusedAdamMathFunctor>" : forward[k % 5], at + k * MS);

					if (k % 5 == 4 && batches)
						o = op("relu_b", at + k * MS);
					steps_learn_op(l, &o);
				}
				if (!batches) {
					struct op o = op(UPDATE, at + 50 * MS);

					steps_learn_op(l, &o);
				}
			}
			assert_int_equal(decided().kind, STEPS_NONE);
		}
}

static void lengths_of_a_long_run_take_bounded_memory(void **unused)
{
	struct steps_rule rule = {.kind = STEPS_SCALER};
	struct steps *s = steps_open(&rule);
	struct step_result r;
	int64_t at;

	(void)unused;
	for (int64_t i = 0; i < 300000; i++) {
		struct op o = op(UPDATE, i * 2 * MS);

		steps_op(s, &o, &at);
	}
	steps_fill(s, &r);
	assert_int_equal(r.count, 300000);
	assert_int_equal(r.p95_ns, 2 * MS);
	steps_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(scaler_update_goes_first),
		T(batch_begins_with_what_is_launched_next),
		T(takes_of_another_thread_are_no_steps_of_this_one),
		T(optimizer_kernels_come_in_bursts),
		T(rarest_regular_kernel_marks_the_step),
		T(no_steps_where_nothing_comes_back),
		T(very_short_runs_have_little_warm_up),
		T(one_or_two_steps_are_not_taken_apart),
		T(lengths_of_a_long_run_take_bounded_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
