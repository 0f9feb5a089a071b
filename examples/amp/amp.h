/* SPDX-License-Identifier: Apache-2.0
 *
 * A small mixed-precision training loop with each kind of loss scaler that is in use. Scale, growth tracker and overflow flags lie in device
 * memory and the kernels compute them; which steps are skipped follows from the gradients. What happened is logged by the kernels themselves.
 */
#ifndef AMP_AMP_H
#define AMP_AMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/simgpu/cudart.h"

#define FORMS(F) \
	F(none)		/* bfloat16: no scaler */ \
	F(eager)	/* GradScaler, optimizer with one kernel per tensor and operation */ \
	F(foreach)	/* GradScaler, multi-tensor optimizer */ \
	F(fused)	/* GradScaler, the optimizer's kernel looks at the flag itself: nobody reads it back */ \
	F(two)		/* GradScaler, two optimizers that may skip each for itself */ \
	F(accumulate)	/* GradScaler, four micro batches a step */ \
	F(clip)		/* GradScaler, unscale_(), clip_grad_norm_(), norm.item() before step() */ \
	F(megatron)	/* torch's unscale kernel, flag reduced over ranks, scale kept on the device without an update kernel, hysteresis */ \
	F(deepspeed)	/* a byte reduced over ranks, scale kept on the host */ \
	F(apex)		/* amp_C's scale kernel with an int flag, scale kept on the host */

enum form {
#define F(name) FORM_##name,
	FORMS(F)
#undef F
	FORM_COUNT
};

/* The kernels' names follow these versions of PyTorch. */
enum names { NAMES_1_8, NAMES_1_12, NAMES_2_6, NAMES_COUNT };

struct amp_plan {
	enum form form;
	enum names names;
	int steps, growth_interval, step_us, hysteresis;
	double overflow;		/* share of the checks whose gradients hold an infinity */
	double growth, backoff;
	float init_scale, min_scale;
	bool decoys, read_scale, ema;
	unsigned int seed;
	const char *truth;
};

enum { OPTIMIZERS_MAX = 2, PARAMS = 64 };

/* What the state machine itself says about a step; in device memory, written by kernels. */
struct amp_log {
	float found;			/* the flag at the end, summed over optimizers */
	float scale;			/* after the step */
	uint32_t ran;			/* bit per optimizer whose parameters changed */
};

void amp_register(enum names names);

enum amp_kernel { K_GEMM, K_GEMM_BACK, K_SCALE_LOSS, K_LOSS, K_WGRAD, K_FILL, K_RECIPROCAL, K_UNSCALE, K_UNSCALE_ONE, K_NORM, K_NORM_REDUCE, K_CLIP,
	K_MUL, K_LERP, K_ADDCMUL, K_SQRT, K_ADDCDIV, K_FE_LERP, K_FE_ADDCMUL, K_FE_SQRT, K_FE_ADDCDIV, K_FUSED, K_FE_SUB, K_UPDATE, K_ADD_FOUND,
	K_COUNT_RIGHT, K_EMA, K_TINY_MUL, K_MAXIMUM, K_IS_INF, K_FLAG, K_APEX_SCALE, K_APEX_ADAM, K_ZERO_FLAG, K_KERNELS };

void amp_launch(cudaStream_t s, enum amp_kernel k, unsigned int blocks, void **args);

int amp_run(const struct amp_plan *plan);

#endif
