/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss scaler as the device shows it, and what must not be taken for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/scaler.h"
#include "analyzer/timeline_build.h"

#define UNSCALE "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi1EEENS1_14UnaryOpFunctorIfLi1ELi1ELi0EEEJZZZNS0_47_amp_foreach_non_finite_check_and_unscale_cuda_ERN3c108ArrayRefE"
#define UPDATE "_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi"
#define ADAM "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi3EEENS1_24PointwiseOpScalarFunctorIfLi3ELi3ELi0EEE"
#define NORM "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi1EEENS0_13LpNormFunctorIfLN7NormTypeE1EEE"
#define CLIP "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi1EEENS1_27BinaryOpScalarTensorFunctorIfLi1ELi1ELi0EEE"
#define FUSED "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_28FusedOptimizerTensorListMetadataILi4EEENS1_20FusedAdamMathFunctorIfLi4EEE"
#define PLAIN "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_"
#define GEMM "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
#define DTOH "Memcpy DtoH (Device -> Pinned)"
#define HTOD "Memcpy HtoD (Pinned -> Device)"

struct run {
	struct timeline *tl;
	struct scaler *s;
	int64_t now;
	struct scaler_step last;
	int64_t done, skipped;
};

static struct run begin(void)
{
	return (struct run){ .tl = timeline_new(), .s = scaler_open(), .now = 1000 };
}

static void end(struct run *r)
{
	scaler_close(r->s);
	timeline_free(r->tl);
}

static void op_of(struct run *r, const char *name, unsigned stream, int64_t bytes, int64_t ns)
{
	struct op op = { .start_ns = r->now, .end_ns = r->now + ns, .name = timeline_name(r->tl, name), .bytes = bytes, .stream = stream };

	if (scaler_op(r->s, &op, &r->last)) {
		r->done++;
		r->skipped += r->last.skipped;
	}
	r->now += ns + 500;
}

static void kernel(struct run *r, const char *name)
{
	op_of(r, name, 7, -1, 10000);
}

static void item(struct run *r)
{
	op_of(r, DTOH, 7, 4, 1500);
}

static void forward_backward(struct run *r)
{
	op_of(r, HTOD, 9, 1 << 20, 90000);
	for (int i = 0; i < 12; i++)
		kernel(r, GEMM);
}

static void step(struct run *r, const char *optimizer, int kernels)
{
	forward_backward(r);
	kernel(r, UNSCALE);
	kernel(r, UNSCALE);
	item(r);
	for (int i = 0; i < kernels; i++)
		kernel(r, optimizer);
	kernel(r, UPDATE);
}

static void scaler_counts_checks_and_skips(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 20; i++)
		step(&r, ADAM, i % 5 == 3 ? 0 : 10);
	assert_int_equal(r.done, 20);
	assert_int_equal(r.skipped, 4);
	assert_int_equal(scaler_checks(r.s), 20);
	assert_int_equal(scaler_skips(r.s), 4);
	end(&r);
}

static void scaler_tells_when_the_check_was(void **state)
{
	struct run r = begin();
	int64_t unscale, check;

	(void)state;
	forward_backward(&r);
	unscale = r.now;
	kernel(&r, UNSCALE);
	item(&r);
	check = r.now - 500;
	assert_int_equal(r.done, 0);
	kernel(&r, UPDATE);
	assert_int_equal(r.done, 1);
	assert_true(r.last.skipped && r.last.sure);
	assert_int_equal(r.last.unscale_ns, unscale);
	assert_int_equal(r.last.check_ns, check);
	assert_int_equal(r.last.update_ns, check + 500);
	assert_int_equal(r.last.end_ns, r.now - 500);
	assert_int_equal(r.last.stream, 7);
	end(&r);
}

static void scaler_sees_none_where_there_is_none(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 10; i++) {
		forward_backward(&r);
		item(&r);			/* loss.item() */
		kernel(&r, ADAM);
	}
	assert_int_equal(scaler_checks(r.s), 0);
	end(&r);
}

/* loss.item() before, between and after must change nothing. */
static void scaler_is_not_misled_by_other_read_backs(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 12; i++) {
		bool skip = i == 4 || i == 9;

		forward_backward(&r);
		item(&r);
		kernel(&r, UNSCALE);
		item(&r);
		item(&r);
		for (int k = 0; k < (skip ? 0 : 8); k++)
			kernel(&r, ADAM);
		item(&r);
		kernel(&r, UPDATE);
		item(&r);
		assert_int_equal(r.last.skipped, skip);
	}
	assert_int_equal(scaler_skips(r.s), 2);
	end(&r);
}

/* clip_grad_norm_ runs on a skipped step, too, before the read-back or with a read-back of its own. */
static void scaler_does_not_take_clipping_for_the_optimizer(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 12; i++) {
		bool skip = i % 4 == 1;

		forward_backward(&r);
		kernel(&r, UNSCALE);
		kernel(&r, NORM);
		if (i % 2)
			item(&r);
		kernel(&r, CLIP);
		item(&r);
		for (int k = 0; k < (skip ? 0 : 8); k++)
			kernel(&r, ADAM);
		kernel(&r, UPDATE);
		assert_int_equal(r.last.skipped, skip);
	}
	end(&r);
}

/* A script that leaves out scaler.step and scaler.update when its loss is NaN: not the scaler's doing. */
static void scaler_leaves_a_users_own_skip_alone(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 10; i++) {
		forward_backward(&r);
		item(&r);
		if (i == 5)
			continue;
		kernel(&r, UNSCALE);
		item(&r);
		for (int k = 0; k < 8; k++)
			kernel(&r, ADAM);
		kernel(&r, UPDATE);
	}
	assert_int_equal(scaler_checks(r.s), 9);
	assert_int_equal(scaler_skips(r.s), 0);
	end(&r);
}

/* Gradient accumulation: several backward passes, one check. */
static void scaler_counts_a_check_per_update_not_per_backward(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 5; i++) {
		forward_backward(&r);
		forward_backward(&r);
		step(&r, ADAM, 8);
	}
	assert_int_equal(scaler_checks(r.s), 5);
	assert_int_equal(scaler_skips(r.s), 0);
	end(&r);
}

/* Single-tensor optimizers run kernels whose names say nothing. */
static void scaler_learns_an_optimizer_without_a_name(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 20; i++) {
		step(&r, PLAIN, i == 7 || i == 8 ? 0 : 40);
		assert_int_equal(r.last.skipped, i == 7 || i == 8);
	}
	end(&r);
}

/* The first steps of a run overflow because the scale starts high. */
static void scaler_sees_skips_before_any_applied_step(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 10; i++)
		step(&r, ADAM, i < 3 ? 0 : 10);
	assert_int_equal(scaler_checks(r.s), 10);
	assert_int_equal(scaler_skips(r.s), 3);
	end(&r);
}

/* Fused: nobody reads the flag back; the kernels return at once on a skip. */
static void scaler_tells_fused_skips_by_their_time(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 20; i++) {
		bool skip = i == 10 || i == 15;

		forward_backward(&r);
		kernel(&r, UNSCALE);
		for (int k = 0; k < 3; k++)
			op_of(&r, FUSED, 7, -1, skip ? 3000 : 200000);
		kernel(&r, ADAM);	/* takes found_inf off the step counters */
		kernel(&r, UPDATE);
		assert_int_equal(r.last.skipped, skip);
		assert_false(r.last.sure);
	}
	end(&r);
}

/* Work on other streams in between (next batch, communication) is not the optimizer. */
static void scaler_looks_at_its_own_stream_only(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 6; i++) {
		forward_backward(&r);
		kernel(&r, UNSCALE);
		item(&r);
		op_of(&r, GEMM, 11, -1, 5000);
		op_of(&r, ADAM, 11, -1, 5000);
		op_of(&r, HTOD, 9, 1 << 20, 5000);
		for (int k = 0; k < (i == 3 ? 0 : 8); k++)
			kernel(&r, ADAM);
		kernel(&r, UPDATE);
		assert_int_equal(r.last.skipped, i == 3);
	}
	end(&r);
}

/* A scaler that updates its scale on the host: no update kernel closes the window, the next unscale does. */
static void scaler_without_an_update_kernel(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 10; i++) {
		forward_backward(&r);
		kernel(&r, UNSCALE);
		item(&r);
		for (int k = 0; k < (i == 6 ? 0 : 8); k++)
			kernel(&r, ADAM);
	}
	assert_int_equal(scaler_checks(r.s), 9);
	assert_int_equal(scaler_skips(r.s), 1);
	end(&r);
}

static void scaler_knows_an_update_by_name(void **state)
{
	(void)state;
	assert_true(scaler_is_update(UPDATE));
	assert_false(scaler_is_update(UNSCALE));
	assert_false(scaler_is_update(GEMM));
}

/* ---- where the runtime is shared: what the host read */

struct shared {
	struct run r;
	struct thread *thread;
};

static struct shared begin_shared(void)
{
	struct shared s = { .r = begin() };
	struct process *p = timeline_process(s.r.tl, "host", 100, 0);

	s.thread = timeline_thread(s.r.tl, p, 100);
	return s;
}

/* An operation that the thread launched, and what its wrapper noted of it. */
static void noted(struct shared *s, const char *name, int64_t bytes, const struct scaler_note *note)
{
	struct run *r = &s->r;
	struct op op = { .start_ns = r->now + 2000, .end_ns = r->now + 4000, .name = timeline_name(r->tl, name), .bytes = bytes, .stream = 7,
		.launcher = s->thread, .launch_start_ns = r->now + 200, .launch_end_ns = r->now + 900 };
	struct scaler_note n = *note;

	n.start_ns = r->now;
	n.call_ns = 1000;
	n.end_ns = r->now + 5000;
	timeline_add_note(s->thread, &n);
	if (scaler_op(r->s, &op, &r->last)) {
		r->done++;
		r->skipped += r->last.skipped;
	}
	r->now += 6000;
}

static void read_back(struct shared *s, uint64_t address, float value)
{
	struct scaler_note n = { .address = address, .bytes = 4, .known = true };

	memcpy(&n.bits, &value, sizeof(value));
	noted(s, DTOH, 4, &n);
}

static void update(struct shared *s, int64_t interval)
{
	noted(s, UPDATE, -1, &(struct scaler_note){ .update = true, .known = true, .address = 0x5000, .result = 0x5000, .found = 0xf000, .growth = 2,
		.backoff = 0.5, .interval = interval });
}

static void scaler_believes_the_flag_before_the_kernels(void **state)
{
	struct shared s = begin_shared();

	(void)state;
	for (int i = 0; i < 8; i++) {
		bool skip = i == 3;

		forward_backward(&s.r);
		kernel(&s.r, UNSCALE);
		read_back(&s, 0xa000, 1.37f);		/* norm.item() */
		read_back(&s, 0xf000, skip ? 1 : 0);
		for (int k = 0; k < 8; k++)
			kernel(&s.r, skip ? PLAIN : ADAM);	/* an average of the weights */
		update(&s, 2000);
		assert_int_equal(s.r.last.verdict, skip ? SCALER_SKIPPED : SCALER_APPLIED);
		assert_int_equal(s.r.last.evidence, SCALER_BY_FLAG);
		assert_true(s.r.last.confidence == 1);
	}
	assert_int_equal(s.r.skipped, 1);
	end(&s.r);
}

static void scaler_tells_several_optimizers_apart(void **state)
{
	struct shared s = begin_shared();

	(void)state;
	for (int i = 0; i < 8; i++) {
		bool first = i & 1, second = i & 2;

		forward_backward(&s.r);
		kernel(&s.r, UNSCALE);
		kernel(&s.r, UNSCALE);
		read_back(&s, 0xf000, first);
		for (int k = 0; k < (first ? 0 : 8); k++)
			kernel(&s.r, ADAM);
		read_back(&s, 0xf100, second);
		for (int k = 0; k < (second ? 0 : 8); k++)
			kernel(&s.r, ADAM);
		kernel(&s.r, PLAIN);			/* the flags are added up */
		update(&s, 2000);
		assert_int_equal(s.r.last.verdict, first && second ? SCALER_SKIPPED : first || second ? SCALER_PARTLY : SCALER_APPLIED);
	}
	end(&s.r);
}

/* Replayed from the default until it is read; then it is known, and so is what was before. */
static void scaler_follows_the_scale(void **state)
{
	struct shared s = begin_shared();

	(void)state;
	for (int i = 0; i < 5; i++) {
		forward_backward(&s.r);
		kernel(&s.r, UNSCALE);
		read_back(&s, 0xf000, i == 1);
		for (int k = 0; k < (i == 1 ? 0 : 8); k++)
			kernel(&s.r, ADAM);
		update(&s, 3);
		if (i == 0)
			assert_true(s.r.last.scale == 65536 && s.r.last.scale_known == SCALE_ASSUMED);
		if (i == 1)
			assert_true(s.r.last.scale == 32768);
		if (i == 2)
			read_back(&s, 0x5000, 512);
		if (i == 3)
			assert_true(s.r.last.scale == 512 && s.r.last.scale_known == SCALE_REPLAYED);
	}
	assert_true(s.r.last.scale == 1024);	/* three clean steps */
	assert_true(scaler_so_far(s.r.s)->scale_first == 1024 && scaler_so_far(s.r.s)->scale_anchors == 1);
	assert_true(scaler_so_far(s.r.s)->constants_known && scaler_so_far(s.r.s)->interval == 3);
	end(&s.r);
}

/* DeepSpeed: a byte that went over all ranks; a script's own isnan().any().item() did not. */
static void scaler_knows_a_flag_reduced_over_ranks(void **state)
{
	struct shared s = begin_shared();
	struct nccl_info max = { .op = 2 };

	(void)state;
	for (int i = 0; i < 10; i++) {
		bool skip = i == 4;

		forward_backward(&s.r);
		noted(&s, DTOH, 1, &(struct scaler_note){ .address = 0xb000, .bytes = 1, .bits = i == 2, .known = true });
		kernel(&s.r, PLAIN);
		timeline_call(s.r.tl, s.thread, &(struct slice){ .start_ns = s.r.now, .end_ns = s.r.now + 400, .bytes = 1, .nccl = &max,
			.name = timeline_name(s.r.tl, "ncclAllReduce") });
		timeline_settle(s.r.tl, s.r.now + 400);
		s.r.now += 500;
		noted(&s, DTOH, 1, &(struct scaler_note){ .address = 0xf000, .bytes = 1, .bits = skip, .known = true });
		for (int k = 0; k < (skip ? 0 : 8); k++)
			kernel(&s.r, ADAM);
	}
	scaler_finish(s.r.s);
	assert_int_equal(scaler_checks(s.r.s), 10);
	assert_int_equal(scaler_skips(s.r.s), 1);
	assert_int_equal(scaler_so_far(s.r.s)->evidence[SCALER_BY_FLAG], 10);
	end(&s.r);
}

/* All fused kernels equally short: nothing but skips, or a small model. */
static void scaler_says_when_it_cannot_tell(void **state)
{
	struct run r = begin();

	(void)state;
	for (int i = 0; i < 30; i++) {
		forward_backward(&r);
		kernel(&r, UNSCALE);
		op_of(&r, FUSED, 7, -1, 3000);
		kernel(&r, UPDATE);
	}
	scaler_finish(r.s);
	assert_int_equal(scaler_checks(r.s), 30);
	assert_int_equal(scaler_so_far(r.s)->verdicts[SCALER_UNKNOWN], 30);
	end(&r);
}

/* More skips than applied steps, from the first one on. */
static void scaler_tells_fused_skips_where_they_are_the_rule(void **state)
{
	struct run r = begin();
	int skips = 0;

	(void)state;
	for (int i = 0; i < 60; i++) {
		bool skip = i < 4 || i % 3;

		skips += skip;
		forward_backward(&r);
		kernel(&r, UNSCALE);
		op_of(&r, FUSED, 7, -1, skip ? 3000 : 150000);
		kernel(&r, UPDATE);
	}
	scaler_finish(r.s);
	assert_int_equal(scaler_checks(r.s), 60);
	assert_int_equal(scaler_skips(r.s), skips);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scaler_counts_checks_and_skips),
		cmocka_unit_test(scaler_tells_when_the_check_was),
		cmocka_unit_test(scaler_sees_none_where_there_is_none),
		cmocka_unit_test(scaler_is_not_misled_by_other_read_backs),
		cmocka_unit_test(scaler_does_not_take_clipping_for_the_optimizer),
		cmocka_unit_test(scaler_leaves_a_users_own_skip_alone),
		cmocka_unit_test(scaler_counts_a_check_per_update_not_per_backward),
		cmocka_unit_test(scaler_learns_an_optimizer_without_a_name),
		cmocka_unit_test(scaler_sees_skips_before_any_applied_step),
		cmocka_unit_test(scaler_tells_fused_skips_by_their_time),
		cmocka_unit_test(scaler_looks_at_its_own_stream_only),
		cmocka_unit_test(scaler_without_an_update_kernel),
		cmocka_unit_test(scaler_knows_an_update_by_name),
		cmocka_unit_test(scaler_believes_the_flag_before_the_kernels),
		cmocka_unit_test(scaler_tells_several_optimizers_apart),
		cmocka_unit_test(scaler_follows_the_scale),
		cmocka_unit_test(scaler_knows_a_flag_reduced_over_ranks),
		cmocka_unit_test(scaler_says_when_it_cannot_tell),
		cmocka_unit_test(scaler_tells_fused_skips_where_they_are_the_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
