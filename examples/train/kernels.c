// SPDX-License-Identifier: Apache-2.0

#include "examples/train/kernels.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

#include "examples/simgpu/simgpu.h"
#include "examples/train/util.h"

enum kernel { GEMM_FORWARD, GEMM_BACKWARD, NORM, ADD, TINY, LOSS, WGRAD, FILL, RECIPROCAL, UNSCALE, LERP, SQUARE, STEP, UPDATE_SCALE, KERNELS };

/* ---- models: the arguments come as at the launch, in the order of the launch functions below */
#define ARG(i, type) (*(type *)args[i])

static uint64_t work_0(void **args, dim3 grid, dim3 block) { (void)grid, (void)block; return ARG(0, uint64_t); }
static uint64_t tiny_ns(void **args, dim3 grid, dim3 block) { (void)args, (void)grid, (void)block; return KERNEL_TINY_NS; }
static uint64_t small_ns(void **args, dim3 grid, dim3 block) { (void)args, (void)grid, (void)block; return 2000; }

static float target(uint8_t byte)
{
	return ((float)byte - 127.5f) / 127.5f;
}

static void loss_body(void **args, dim3 grid, dim3 block)
{
	const uint8_t *batch = ARG(1, const uint8_t *);
	size_t n = ARG(2, size_t), count = ARG(4, size_t);
	const float *param = ARG(3, const float *);
	double sum = 0;

	(void)grid, (void)block;
	for (size_t i = 0; i < count; i++) {
		double d = (double)param[i] - (double)target(batch[i % n]);

		sum += d * d;
	}
	*ARG(5, float *) = (float)(sum / (double)count);
}

static void wgrad_body(void **args, dim3 grid, dim3 block)
{
	const uint8_t *batch = ARG(1, const uint8_t *);
	size_t n = ARG(2, size_t), first = ARG(5, size_t), count = ARG(6, size_t);
	const float *param = ARG(3, const float *);
	float *grad = ARG(4, float *), factor = *ARG(7, const float *) * ARG(8, float) / 64;

	(void)grid, (void)block;
	for (size_t i = first, at = first % n; i < first + count; i++, at = at + 1 < n ? at + 1 : 0) {
		float g = (param[i] - target(batch[at])) * factor;

		grad[i] = fabsf(g) > 65504 ? copysignf(INFINITY, g) : g;	/* the largest half */
	}
}

static void fill_body(void **args, dim3 grid, dim3 block)
{
	(void)grid, (void)block;
	*ARG(0, float *) = ARG(1, float);
}

static void reciprocal_body(void **args, dim3 grid, dim3 block)
{
	(void)grid, (void)block;
	*ARG(1, float *) = 1 / *ARG(0, const float *);
}

static void unscale_body(void **args, dim3 grid, dim3 block)
{
	float *grad = ARG(1, float *), inverse = *ARG(4, const float *);
	size_t count = ARG(2, size_t);
	int bad = 0;

	(void)grid, (void)block;
	for (size_t i = 0; i < count; i++) {
		bad |= !isfinite(grad[i]);
		grad[i] *= inverse;
	}
	if (bad)
		*ARG(3, float *) = 1;
}

static void lerp_body(void **args, dim3 grid, dim3 block)
{
	float *momentum = ARG(1, float *), weight = ARG(4, float);
	const float *grad = ARG(2, const float *);
	size_t count = ARG(3, size_t);

	(void)grid, (void)block;
	for (size_t i = 0; i < count; i++)
		momentum[i] += weight * (grad[i] - momentum[i]);
}

static void step_body(void **args, dim3 grid, dim3 block)
{
	float *param = ARG(1, float *), rate = ARG(4, float);
	const float *momentum = ARG(2, const float *);
	size_t count = ARG(3, size_t);

	(void)grid, (void)block;
	for (size_t i = 0; i < count; i++)
		param[i] -= rate * momentum[i];
}

/* The state machine of amp_update_scale_cuda_kernel. */
static void update_scale_body(void **args, dim3 grid, dim3 block)
{
	float *scale = ARG(0, float *);
	int *tracker = ARG(1, int *);

	(void)grid, (void)block;
	if (*ARG(2, const float *) != 0) {
		*scale = (float)(*scale * ARG(4, double));
		*tracker = 0;
	} else if (++*tracker == ARG(5, int)) {
		float grown = (float)(*scale * ARG(3, double));

		if (isfinite(grown))
			*scale = grown;
		*tracker = 0;
	}
}

#define P sizeof(void *)
#define W sizeof(uint64_t)
#define Z sizeof(size_t)
#define F sizeof(float)

static const struct {
	const char *name;
	simgpu_duration_fn *duration;
	simgpu_body_fn *body;
	unsigned int nargs;
	size_t arg_bytes[10];
} kernels[KERNELS] = {
	[GEMM_FORWARD] = { "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", work_0, NULL, 3, { W, P, P } },
	[GEMM_BACKWARD] = { "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nt", work_0, NULL, 3, { W, P, P } },
	[NORM] = { "_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIffEEviT_PKT0_", work_0, NULL, 3, { W, P, P } },
	[ADD] = { "_ZN2at6native12_GLOBAL__N_129vectorized_elementwise_kernelILi4ENS1_4plusENS1_5ArrayIPcLi3EEEEEviT0_T1_",
		  work_0, NULL, 3, { W, P, P } },
	[TINY] = { "_ZN2at6native12_GLOBAL__N_129vectorized_elementwise_kernelILi4ENS1_3mulENS1_5ArrayIPcLi3EEEEEviT0_T1_",
		   tiny_ns, NULL, 2, { P, P } },
	[LOSS] = { "_ZN2at6native12_GLOBAL__N_138nll_loss_forward_reduce_cuda_kernel_2dIffEEvPT_S4_PKS3_PKl",
		   work_0, loss_body, 6, { W, P, Z, P, Z, P } },
	[WGRAD] = { "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_nt",
		    work_0, wgrad_body, 9, { W, P, Z, P, P, Z, Z, P, F } },
	[FILL] = { "_ZN2at6native12_GLOBAL__N_129vectorized_elementwise_kernelILi4ENS1_11FillFunctorIfEENS1_5ArrayIPcLi1EEEEEviT0_T1_",
		   small_ns, fill_body, 2, { P, F } },
	[RECIPROCAL] = { "_ZN2at6native12_GLOBAL__N_129vectorized_elementwise_kernelILi4ENS1_13reciprocal_fnIfEENS1_5ArrayIPcLi2EEEEEviT0_T1_",
			 small_ns, reciprocal_body, 2, { P, P } },
	[UNSCALE] = { "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi1EEENS1_14UnaryOpFunctorIfLi1ELi1ELi0EEE"
		      "JZZZNS0_47_amp_foreach_non_finite_check_and_unscale_cuda_EN3c108ArrayRefINS_6TensorEEERS9_RKS9_ENKUlvE_clEvENKUlvE_clEv"
		      "EUlfE_EEEvT_T0_DpT1_", work_0, unscale_body, 5, { W, P, Z, P, P } },
	[LERP] = { "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEENS1_22TernaryOpScalarFunctor"
		   "IfLi2ELi2ELi0EEEJNS1_4lerpIfEEfEEEvT_T0_DpT1_", work_0, lerp_body, 5, { W, P, P, Z, F } },
	[SQUARE] = { "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi3EEENS1_24PointwiseOpScalarFunctor"
		     "IfLi3ELi3ELi0EEEJNS1_7addcmulEfEEEvT_T0_DpT1_", work_0, NULL, 5, { W, P, P, Z, F } },
	[STEP] = { "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi4EEENS1_24PointwiseOpScalarFunctor"
		   "IfLi4ELi3ELi0EEEJNS1_7addcdivEfEEEvT_T0_DpT1_", work_0, step_body, 5, { W, P, P, Z, F } },
	[UPDATE_SCALE] = { "_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi",
			   small_ns, update_scale_body, 6, { P, P, P, sizeof(double), sizeof(double), sizeof(int) } },
};

static char stubs[KERNELS];	/* only their addresses count */

void kernels_register(void)
{
	static struct { int magic, version; const void *data; void *more; } image = { 0x466243b1, 1, NULL, NULL };
	__typeof__(&simgpu_kernel_model) model = (__typeof__(model))dlsym(RTLD_DEFAULT, "simgpu_kernel_model");
	void **handle = __cudaRegisterFatBinary(&image);

	for (int i = 0; i < KERNELS; i++) {
		__cudaRegisterFunction(handle, &stubs[i], (char *)kernels[i].name, kernels[i].name, -1, NULL, NULL, NULL, NULL, NULL);
		if (model && model(kernels[i].name, kernels[i].duration, kernels[i].body, kernels[i].nargs, kernels[i].arg_bytes))
			die("no model for kernel %s", kernels[i].name);
	}
	__cudaRegisterFatBinaryEnd(handle);
}

static void launch(enum kernel k, cudaStream_t s, unsigned int blocks, unsigned int threads, void **args)
{
	check(cudaLaunchKernel(&stubs[k], (dim3){ blocks, 1, 1 }, (dim3){ threads, 1, 1 }, args, 0, s), kernels[k].name);
}

static unsigned int blocks_for(size_t count)
{
	return (unsigned int)((count + 65535) / 65536);
}

void kernel_gemm(cudaStream_t s, int backward, const void *in, void *out, uint64_t work_ns)
{
	launch(backward ? GEMM_BACKWARD : GEMM_FORWARD, s, 96, 256, (void *[]){ &work_ns, &in, &out });
}

void kernel_norm(cudaStream_t s, const void *in, void *out, uint64_t work_ns)
{
	launch(NORM, s, 512, 128, (void *[]){ &work_ns, &in, &out });
}

void kernel_add(cudaStream_t s, const void *in, void *out, uint64_t work_ns)
{
	launch(ADD, s, 256, 128, (void *[]){ &work_ns, &in, &out });
}

void kernel_tiny(cudaStream_t s, const void *in, void *out)
{
	launch(TINY, s, 1, 128, (void *[]){ &in, &out });
}

void kernel_loss(cudaStream_t s, const uint8_t *batch, size_t n, const float *param, size_t count, float *loss, uint64_t work_ns)
{
	launch(LOSS, s, 1, 32, (void *[]){ &work_ns, &batch, &n, &param, &count, &loss });
}

void kernel_wgrad(cudaStream_t s, const uint8_t *batch, size_t n, const float *param, float *grad, size_t first, size_t count,
		  const float *scale, float gain, uint64_t work_ns)
{
	launch(WGRAD, s, 64, 256, (void *[]){ &work_ns, &batch, &n, &param, &grad, &first, &count, &scale, &gain });
}

void kernel_fill(cudaStream_t s, float *dst, float value)
{
	launch(FILL, s, 1, 128, (void *[]){ &dst, &value });
}

void kernel_reciprocal(cudaStream_t s, const float *scale, float *inverse)
{
	launch(RECIPROCAL, s, 1, 128, (void *[]){ &scale, &inverse });
}

void kernel_unscale(cudaStream_t s, float *grad, size_t count, float *found_inf, const float *inverse, uint64_t work_ns)
{
	launch(UNSCALE, s, blocks_for(count), 512, (void *[]){ &work_ns, &grad, &count, &found_inf, &inverse });
}

void kernel_lerp(cudaStream_t s, float *momentum, const float *grad, size_t count, float weight, uint64_t work_ns)
{
	launch(LERP, s, blocks_for(count), 512, (void *[]){ &work_ns, &momentum, &grad, &count, &weight });
}

void kernel_square(cudaStream_t s, float *variance, const float *grad, size_t count, float weight, uint64_t work_ns)
{
	launch(SQUARE, s, blocks_for(count), 512, (void *[]){ &work_ns, &variance, &grad, &count, &weight });
}

void kernel_step(cudaStream_t s, float *param, const float *momentum, size_t count, float rate, uint64_t work_ns)
{
	launch(STEP, s, blocks_for(count), 512, (void *[]){ &work_ns, &param, &momentum, &count, &rate });
}

void kernel_update_scale(cudaStream_t s, float *scale, int *growth_tracker, const float *found_inf, double growth, double backoff,
			 int interval)
{
	launch(UPDATE_SCALE, s, 1, 1, (void *[]){ &scale, &growth_tracker, &found_inf, &growth, &backoff, &interval });
}
