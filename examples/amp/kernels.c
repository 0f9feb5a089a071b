// SPDX-License-Identifier: Apache-2.0
//
// The kernels: their mangled names in several versions of PyTorch and Apex, and what those that matter compute. The first argument of all is
// how long they take in ns.

#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include "examples/amp/amp.h"
#include "examples/simgpu/simgpu.h"
#include "examples/train/util.h"

#define ARG(i, type) (*(type *)args[i])
#define BODY(name) static void name(void **args, dim3 grid, dim3 block)
#define UNUSED (void)grid, (void)block

static uint64_t work(void **args, dim3 grid, dim3 block)
{
	UNUSED;
	return ARG(0, uint64_t);
}

/* (.., loss, value) */
BODY(loss_body)
{
	UNUSED;
	*ARG(1, float *) = ARG(2, float);
}

/* (.., grad, scale, value): gradients in half precision */
BODY(wgrad_body)
{
	float *grad = ARG(1, float *), scale = *ARG(2, const float *), value = ARG(3, float);

	UNUSED;
	for (int i = 0; i < PARAMS; i++) {
		float g = scale * (i == 7 ? value : 1e-6f);

		grad[i] += fabsf(g) > 65504 ? copysignf(INFINITY, g) : g;
	}
}

/* (.., to, value) */
BODY(fill_body)
{
	UNUSED;
	*ARG(1, float *) = ARG(2, float);
}

/* (.., scale, inverse) */
BODY(reciprocal_body)
{
	UNUSED;
	*ARG(2, float *) = (float)(1 / (double)*ARG(1, const float *));
}

static int unscale(float *grad, float inverse)
{
	int bad = 0;

	for (int i = 0; i < PARAMS; i++) {
		bad |= !isfinite(grad[i]);
		grad[i] *= inverse;
	}
	return bad;
}

/* (.., grad, found, inverse) */
BODY(unscale_body)
{
	UNUSED;
	if (unscale(ARG(1, float *), *ARG(3, const float *)))
		*ARG(2, float *) = 1;
}

/* (.., grad, norm) */
BODY(norm_body)
{
	const float *grad = ARG(1, const float *);
	double sum = 0;

	UNUSED;
	for (int i = 0; i < PARAMS; i++)
		sum += (double)grad[i] * (double)grad[i];
	*ARG(2, float *) = (float)sqrt(sum);
}

/* the optimizer's last kernel: (.., grad, log, bit) */
BODY(applied_body)
{
	UNUSED;
	ARG(2, struct amp_log *)->ran |= ARG(3, uint32_t);
	memset(ARG(1, float *), 0, PARAMS * sizeof(float));
}

/* (.., grad, log, bit, found, busy ns): returns at once when found_inf is 1 */
static uint64_t fused_work(void **args, dim3 grid, dim3 block)
{
	UNUSED;
	return *ARG(4, const float *) == 1 ? ARG(0, uint64_t) : ARG(5, uint64_t);
}

BODY(fused_body)
{
	if (*ARG(4, const float *) != 1)
		applied_body(args, grid, block);
}

/* (.., found, other) */
BODY(add_body)
{
	UNUSED;
	*ARG(1, float *) += *ARG(2, const float *);
}

static void update(float *scale, int *tracker, const float *found, float *out, double growth, double backoff, int interval)
{
	if (*found != 0) {
		*out = (float)(*scale * backoff);
		*tracker = 0;
	} else if (++*tracker == interval) {
		float grown = (float)(*scale * growth);

		*out = isfinite(grown) ? grown : *scale;
		*tracker = 0;
	} else {
		*out = *scale;
	}
}

static struct amp_log *log_now;		/* of the update that runs next; set by K_ZERO_FLAG, in stream order */

/* amp_update_scale_cuda_kernel(float *scale, int *tracker, const float *found_inf, double growth, double backoff, int interval), 1.9 and later */
BODY(update_body)
{
	float *scale = ARG(0, float *);

	UNUSED;
	update(scale, ARG(1, int *), ARG(2, const float *), scale, ARG(3, double), ARG(4, double), ARG(5, int));
	log_now->found = *ARG(2, const float *);
	log_now->scale = *scale;
}

/* amp_update_scale_cuda_kernel(int *tracker, float *scale, float *found_inf, float *new_scale, double, double, int), before that */
BODY(update_old_body)
{
	UNUSED;
	update(ARG(1, float *), ARG(0, int *), ARG(2, const float *), ARG(3, float *), ARG(4, double), ARG(5, double), ARG(6, int));
	log_now->found = *ARG(2, const float *);
	log_now->scale = *ARG(3, float *);
}

static uint64_t update_work(void **args, dim3 grid, dim3 block)
{
	(void)args, (void)grid, (void)block;
	return 2000;
}

/* (.., log): names the step to the state machine */
BODY(name_step_body)
{
	UNUSED;
	log_now = ARG(1, struct amp_log *);
}

/* Megatron's scale: (.., scale, factor) and (.., scale, least) */
BODY(mul_body)
{
	UNUSED;
	*ARG(1, float *) *= ARG(2, float);
}

BODY(maximum_body)
{
	UNUSED;
	*ARG(1, float *) = fmaxf(*ARG(1, float *), ARG(2, float));
	log_now->scale = *ARG(1, float *);
}

/* (.., grad, byte) */
BODY(flag_body)
{
	const float *grad = ARG(1, const float *);
	int bad = 0;

	UNUSED;
	for (int i = 0; i < PARAMS; i++)
		bad |= !isfinite(grad[i]);
	*ARG(2, uint8_t *) = (uint8_t)bad;
}

/* (.., grad, flag, inverse) */
BODY(apex_scale_body)
{
	UNUSED;
	if (unscale(ARG(1, float *), ARG(3, float)))
		*ARG(2, int *) = 1;
}

#define P sizeof(void *)
#define W sizeof(uint64_t)
#define F sizeof(float)
#define U sizeof(uint32_t)
#define D sizeof(double)

#define ELEMENTWISE "_ZN2at6native29vectorized_elementwise_kernelILi4E"
#define MULTI_1_8 "_ZN2at6native57_GLOBAL__N__41_tmpxft_00004d5e_00000000_6_ForeachOp_cpp1_ii_4f3c2a1125multi_tensor_apply_kernelINS1_18TensorListMetadata"
#define MULTI "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadata"
#define AMP_2_6 "_ZN2at6native55_GLOBAL__N__7f2bd0a7_16_AmpKernels_cu_7b25ae81_608125multi_tensor_apply_kernelINS1_18TensorListMetadata"
#define AMP_LAMBDA "ILi1EEENS1_14UnaryOpFunctorIfLi1ELi1ELi0EEEJZZZNS0_47_amp_foreach_non_finite_check_and_unscale_cuda_EN3c108ArrayRefINS_6TensorEEE" \
	"RS9_RKS9_ENKUlvE_clEvENKUlvE_clEvEUlfE_EEEvT_T0_DpT1_"

static const struct {
	const char *name[NAMES_COUNT];	/* NULL = as the next newer */
	simgpu_duration_fn *duration;
	simgpu_body_fn *body;
	unsigned int nargs;
	size_t bytes[8];
} kernels[K_KERNELS] = {
	[K_GEMM] = { { NULL, NULL, "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn" }, work, NULL, 1, { W } },
	[K_GEMM_BACK] = { { NULL, NULL, "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nt" }, work, NULL, 1, { W } },
	[K_SCALE_LOSS] = { { NULL, NULL, ELEMENTWISE "NS0_15CUDAFunctor_mulIfEESt5arrayIPcLm3EEEEviT0_T1_" }, work, NULL, 1, { W } },
	[K_LOSS] = { { NULL, NULL, "_ZN2at6native12_GLOBAL__N_138nll_loss_forward_reduce_cuda_kernel_2dIffEEvPT_S4_PKS3_PKl" }, work, loss_body, 3, { W, P, F } },
	[K_WGRAD] = { { NULL, NULL, "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_nt" }, work, wgrad_body, 4, { W, P, P, F } },
	[K_FILL] = { { NULL, NULL, ELEMENTWISE "NS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_" }, work, fill_body, 3, { W, P, F } },
	[K_RECIPROCAL] = { { NULL, NULL, ELEMENTWISE "ZZZNS0_22reciprocal_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE_clEvENKUlvE_clEvEUldE_St5arrayIPcLm2EEEEviT0_T1_" },
			   work, reciprocal_body, 3, { W, P, P } },
	[K_UNSCALE] = { { MULTI_1_8 AMP_LAMBDA, MULTI AMP_LAMBDA, AMP_2_6 AMP_LAMBDA }, work, unscale_body, 4, { W, P, P, P } },
	[K_UNSCALE_ONE] = { { NULL, NULL, ELEMENTWISE "ZZZNS0_66_GLOBAL__N__7f2bd0a7_16_AmpKernels_cu_7b25ae81_6081_amp_non_finite_check_and_unscale_cuda_"
			      "ERNS_6TensorES3_RKS2_ENKUlvE_clEvENKUlvE_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_" }, work, NULL, 1, { W } },
	[K_NORM] = { { MULTI_1_8 "ILi1EEENS1_13LpNormFunctorIfLi2ELi1ELi1ELi0EEEJPfiEEEvT_T0_DpT1_", NULL,
		       MULTI "ILi1EEENS0_13LpNormFunctorIffLNS0_8NormTypeE1EfLi1ELi1ELi0EEEJPfiEEEvT_T0_DpT1_" }, work, NULL, 1, { W } },
	[K_NORM_REDUCE] = { { NULL, NULL, "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_10NormTwoOpsIfffEEjfLi4EEEEEvT1_" }, work, norm_body, 3, { W, P, P } },
	[K_CLIP] = { { NULL, NULL, MULTI "ILi1EEENS1_27BinaryOpScalarTensorFunctorIfLi1ELi1ELi0EEEJSt10multipliesIfEPffEEEvT_T0_DpT1_" }, work, NULL, 1, { W } },
	[K_MUL] = { { NULL, NULL, ELEMENTWISE "NS0_13AUnaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm2EEEEviT0_T1_" }, work, NULL, 1, { W } },
	[K_LERP] = { { NULL, NULL, ELEMENTWISE "ZZZNS0_12_GLOBAL__N_118lerp_scalar_kernelERNS_18TensorIteratorBaseERKN3c106ScalarEENKUlvE_clEvENKUlvE0_clEvEUlffE_"
		       "St5arrayIPcLm3EEEEviT0_T1_" }, work, NULL, 1, { W } },
	[K_ADDCMUL] = { { NULL, NULL, ELEMENTWISE "ZZZNS0_19addcmul_cuda_kernelERNS_18TensorIteratorBaseERKN3c106ScalarEENKUlvE0_clEvENKUlvE0_clEvEUlfffE_"
			  "St5arrayIPcLm4EEEEviT0_T1_" }, work, NULL, 1, { W } },
	[K_SQRT] = { { NULL, NULL, ELEMENTWISE "ZZZNS0_16sqrt_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE0_clEvENKUlvE0_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_" },
		     work, NULL, 1, { W } },
	[K_ADDCDIV] = { { NULL, NULL, ELEMENTWISE "ZZZNS0_19addcdiv_cuda_kernelERNS_18TensorIteratorBaseERKN3c106ScalarEENKUlvE_clEvENKUlvE0_clEvEUlfffE_"
			  "St5arrayIPcLm4EEEEviT0_T1_" }, work, applied_body, 4, { W, P, P, U } },
	[K_FE_LERP] = { { MULTI_1_8 "ILi2EEENS1_26BinaryOpListAlphaFunctorIfLi2ELi2ELi0EEEJSt4plusIfEfEEEvT_T0_DpT1_", NULL,
			  MULTI "ILi2EEENS1_22TernaryOpScalarFunctorIfLi2ELi2ELi0EEEJNS0_11LerpFunctorIfEEfEEEvT_T0_DpT1_" }, work, NULL, 1, { W } },
	[K_FE_ADDCMUL] = { { NULL, NULL, MULTI "ILi3EEENS1_24PointwiseOpScalarFunctorIfLi3ELi3ELi0EEEJSt10multipliesIfEfEEEvT_T0_DpT1_" }, work, NULL, 1, { W } },
	[K_FE_SQRT] = { { NULL, NULL, MULTI "ILi2EEENS1_14UnaryOpFunctorIfLi2ELi1ELi1EEEJNS0_4SqrtIfEEEEEvT_T0_DpT1_" }, work, NULL, 1, { W } },
	[K_FE_ADDCDIV] = { { NULL, NULL, MULTI "ILi4EEENS1_28PointwiseOpScalarListFunctorIfLi4ELi3ELi0EEEJSt7dividesIfEEEEvT_T0_DpT1_" }, work, applied_body, 4, { W, P, P, U } },
	[K_FUSED] = { { NULL, MULTI "ILi4EEENS1_20FusedAdamMathFunctorIfLi4EEEJPfPKfdddddbbS7_S7_EEEvT_T0_DpT1_",
			"_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_32FusedOptimizerTensorListMetadataILi4EEENS1_20FusedAdamMathFunctorI"
			"fLi4ELNS0_9ADAM_MODEE1ELb0EEEJPKfdddddbS9_S9_EEEvT_T0_DpT1_" }, fused_work, fused_body, 6, { W, P, P, U, P, W } },
	[K_FE_SUB] = { { NULL, NULL, MULTI "ILi1EEENS1_27BinaryOpScalarTensorFunctorIfLi1ELi1ELi0EEEJSt5minusIfEPffEEEvT_T0_DpT1_" }, work, NULL, 1, { W } },
	[K_UPDATE] = { { "_ZN2at6native28amp_update_scale_cuda_kernelEPiPfS2_S2_ddi", "_ZN2at6native28amp_update_scale_cuda_kernelEPfPiS1_ddi",
			 "_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi" }, update_work, update_body, 6, { P, P, P, D, D, sizeof(int) } },
	[K_ADD_FOUND] = { { NULL, NULL, ELEMENTWISE "NS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_" }, work, add_body, 3, { W, P, P } },
	[K_COUNT_RIGHT] = { { NULL, NULL, "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIbNS0_14func_wrapper_tIlZNS0_11sum_functorIblllEclERNS_14TensorIteratorE"
			      "EUlllE_EEjlLi4EEEEEvT1_" }, work, loss_body, 3, { W, P, F } },
	[K_EMA] = { { NULL, NULL, ELEMENTWISE "ZZZNS0_12_GLOBAL__N_118lerp_tensor_kernelERNS_18TensorIteratorBaseEENKUlvE_clEvENKUlvE0_clEvEUlfffE_St5arrayIPcLm4EEEEviT0_T1_" },
		    work, NULL, 1, { W } },
	[K_TINY_MUL] = { { NULL, NULL, ELEMENTWISE "NS0_13BUnaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm2EEEEviT0_T1_" }, work, mul_body, 3, { W, P, F } },
	[K_MAXIMUM] = { { NULL, NULL, ELEMENTWISE "ZZZNS0_19maximum_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE0_clEvENKUlvE0_clEvEUlffE_St5arrayIPcLm3EEEEviT0_T1_" },
			work, maximum_body, 3, { W, P, F } },
	[K_IS_INF] = { { NULL, NULL, ELEMENTWISE "ZZZNS0_22isposinf_kernel_implERNS_18TensorIteratorBaseEENKUlvE_clEvENKUlvE0_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_" },
		       work, NULL, 1, { W } },
	[K_FLAG] = { { NULL, NULL, "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIbNS0_14func_wrapper_tIbZZZNS0_14or_kernel_cudaERNS_14TensorIteratorE"
		       "ENKUlvE_clEvENKUlvE10_clEvEUlbbE_EEjbLi4EEEEEvT1_" }, work, flag_body, 3, { W, P, P } },
	[K_APEX_SCALE] = { { NULL, NULL, "_Z25multi_tensor_apply_kernelI18TensorListMetadataILi2EE12ScaleFunctorIffEJfEEvlPViT_T0_DpT1_" },
			   work, apex_scale_body, 4, { W, P, P, F } },
	[K_APEX_ADAM] = { { NULL, NULL, "_Z25multi_tensor_apply_kernelI18TensorListMetadataILi4EE11AdamFunctorIfEJffffff10adamMode_tfEEvlPViT_T0_DpT1_" },
			  work, applied_body, 4, { W, P, P, U } },
	[K_ZERO_FLAG] = { { NULL, NULL, ELEMENTWISE "NS0_11FillFunctorIiEESt5arrayIPcLm1EEEEviT0_T1_" }, work, name_step_body, 2, { W, P } },
};

static char stubs[K_KERNELS];		/* only their addresses count */

static const char *name_of(int k, enum names names)
{
	while (!kernels[k].name[names])
		names++;
	return kernels[k].name[names];
}

void amp_register(enum names names)
{
	static struct { int magic, version; const void *data; void *more; } image = { 0x466243b1, 1, NULL, NULL };
	static const size_t old_update[] = { P, P, P, P, D, D, sizeof(int) };
	__typeof__(&simgpu_kernel_model) model = (__typeof__(model))dlsym(RTLD_DEFAULT, "simgpu_kernel_model");
	void **handle = __cudaRegisterFatBinary(&image);

	for (int k = 0; k < K_KERNELS; k++) {
		const char *name = name_of(k, names);
		int old = k == K_UPDATE && names == NAMES_1_8;

		__cudaRegisterFunction(handle, &stubs[k], (char *)name, name, -1, NULL, NULL, NULL, NULL, NULL);
		if (model && model(name, kernels[k].duration, old ? update_old_body : kernels[k].body, old ? 7 : kernels[k].nargs,
				   old ? old_update : kernels[k].bytes))
			die("no model for kernel %s", name);
	}
	__cudaRegisterFatBinaryEnd(handle);
}

void amp_launch(cudaStream_t s, enum amp_kernel k, unsigned int blocks, void **args)
{
	unsigned int threads = k == K_UPDATE ? 1 : 512;

	check(cudaLaunchKernel(&stubs[k], (dim3){ blocks, 1, 1 }, (dim3){ threads, 1, 1 }, args, 0, s), "cudaLaunchKernel");
}
