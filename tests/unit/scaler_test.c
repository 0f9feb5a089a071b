/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss scaler as the device shows it, and what must not be taken for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
