// SPDX-License-Identifier: Apache-2.0
//
// The loop, and what each kind of scaler does around the optimizer, in the order of the framework that it comes from.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/amp/amp.h"
#include "examples/train/nccl.h"
#include "examples/train/util.h"

enum { MATMULS = 4, TENSORS = 3, NCCL_MAX = 2, NCCL_UINT8 = 1 };

struct amp {
	const struct amp_plan *plan;
	cudaStream_t stream;
	ncclComm_t comm;

	/* device */
	float *grad[OPTIMIZERS_MAX], *found[OPTIMIZERS_MAX], *scale, *new_scale, *inverse, *loss, *norm, *right;
	int *tracker, *flag;
	uint8_t *byte;
	struct amp_log *log;
	uint8_t *batch;

	uint8_t *host_batch;		/* pinned */
	float *item;			/* pinned scalar that .item() copies to */

	int step, optimizers;
	float host_scale;		/* DeepSpeed, Apex */
	int clean, left;		/* steps since the last overflow, overflows left before the scale falls */
	bool *checked, *host_found;	/* per step */
	float *host_scales;
	unsigned int random;
};

static void *device_memory(size_t bytes)
{
	void *ptr;

	CHECK(cudaMalloc(&ptr, bytes));
	CHECK(cudaMemset(ptr, 0, bytes));
	return ptr;
}

#define LAUNCH(k, blocks, ...) amp_launch(a->stream, k, blocks, (void *[]){ __VA_ARGS__ })

static double chance(struct amp *a)
{
	a->random = a->random * 1664525u + 1013904223u;
	return (double)(a->random >> 8) / (1 << 24);
}

static uint64_t share(const struct amp *a, double of_step)
{
	return (uint64_t)(a->plan->step_us * 1000 * of_step);
}

/* tensor.item() */
static void item(struct amp *a, const void *device, size_t bytes)
{
	CHECK(cudaMemcpyAsync(a->item, device, bytes, cudaMemcpyDeviceToHost, a->stream));
	CHECK(cudaStreamSynchronize(a->stream));
}

static float item_float(struct amp *a, const float *device)
{
	item(a, device, sizeof(float));
	return *a->item;
}

/* ---- forward and backward */

static void forward(struct amp *a, float loss)
{
	uint64_t matmul = share(a, 0.3 / MATMULS), little = 3000;

	CHECK(cudaMemcpyAsync(a->batch, a->host_batch, 65536, cudaMemcpyHostToDevice, a->stream));
	for (int i = 0; i < MATMULS; i++)
		LAUNCH(K_GEMM, 96, &matmul);
	LAUNCH(K_LOSS, 1, &little, &a->loss, &loss);
	if (a->plan->form != FORM_none)
		LAUNCH(K_SCALE_LOSS, 1, &little);
}

static void scale_from_host(struct amp *a)
{
	uint64_t little = 2000;

	if (a->plan->form == FORM_deepspeed || a->plan->form == FORM_apex)
		LAUNCH(K_FILL, 1, &little, &a->scale, &a->host_scale);
}

static void backward(struct amp *a, bool last)
{
	uint64_t matmul = share(a, 0.5 / MATMULS), little = 5000;
	int bits = 0;

	for (int i = 0; i < MATMULS; i++)
		LAUNCH(K_GEMM_BACK, 96, &matmul);
	for (int i = 0; i < a->optimizers; i++)
		bits |= (last && chance(a) < a->plan->overflow) << i;
	for (int i = 0; i < a->optimizers; i++) {
		/* an outlier that no scale would hold */
		float value = bits >> i & 1 ? 1e38f : 1e-6f;

		LAUNCH(K_WGRAD, 64, &little, &a->grad[i], &a->scale, &value);
	}
}

/* ---- optimizers */

static void optimizer_eager(struct amp *a, int i)
{
	uint64_t each = share(a, 0.1 / TENSORS / 5);
	struct amp_log *log = &a->log[a->step];
	uint32_t bit = 1u << i;

	for (int t = 0; t < TENSORS; t++) {
		LAUNCH(K_LERP, 64, &each);
		LAUNCH(K_MUL, 64, &each);
		LAUNCH(K_ADDCMUL, 64, &each);
		LAUNCH(K_SQRT, 64, &each);
		LAUNCH(K_ADDCDIV, 64, &each, &a->grad[i], &log, &bit);
	}
}

static void optimizer_foreach(struct amp *a, int i)
{
	uint64_t each = share(a, 0.1 / 4);
	struct amp_log *log = &a->log[a->step];
	uint32_t bit = 1u << i;

	LAUNCH(K_FE_LERP, 320, &each);
	LAUNCH(K_FE_ADDCMUL, 320, &each);
	LAUNCH(K_FE_SQRT, 320, &each);
	LAUNCH(K_FE_ADDCDIV, 320, &each, &a->grad[i], &log, &bit);
}

static void optimizer_fused(struct amp *a)
{
	uint64_t at_once = 2200, little = 2000, busy = share(a, 0.1);
	struct amp_log *log = &a->log[a->step];
	uint32_t bit = 1;

	LAUNCH(K_FUSED, 320, &at_once, &a->grad[0], &log, &bit, &a->found[0], &busy);
	LAUNCH(K_FE_SUB, 8, &little);
}

static void optimizer_apex(struct amp *a)
{
	uint64_t each = share(a, 0.1);
	struct amp_log *log = &a->log[a->step];
	uint32_t bit = 1;

	LAUNCH(K_APEX_ADAM, 320, &each, &a->grad[0], &log, &bit);
}

/* optimizer.zero_grad() of a step that was skipped: the optimizer's kernels did it otherwise */
static void zero_grad(struct amp *a, int i)
{
	CHECK(cudaMemsetAsync(a->grad[i], 0, PARAMS * sizeof(float), a->stream));
}

static void average_weights(struct amp *a)
{
	uint64_t each = 4000;

	for (int t = 0; a->plan->ema && t < TENSORS; t++)
		LAUNCH(K_EMA, 64, &each);
}

/* ---- scalers */

static void unscale(struct amp *a, int i)
{
	uint64_t little = 2000, pass = share(a, 0.01) + 3000;
	float zero = 0;

	LAUNCH(K_RECIPROCAL, 1, &little, &a->scale, &a->inverse);
	LAUNCH(K_FILL, 1, &little, &a->found[i], &zero);
	LAUNCH(K_UNSCALE, 320, &pass, &a->grad[i], &a->found[i], &a->inverse);
	LAUNCH(K_UNSCALE_ONE, 4, &little);
}

static void update(struct amp *a)
{
	const struct amp_plan *p = a->plan;
	double growth = p->growth, backoff = p->backoff;
	int interval = p->growth_interval;
	uint64_t little = 2000;

	for (int i = 1; i < a->optimizers; i++)
		LAUNCH(K_ADD_FOUND, 1, &little, &a->found[0], &a->found[i]);
	if (p->names == NAMES_1_8) {
		float *was = a->scale;

		LAUNCH(K_UPDATE, 1, &a->tracker, &a->scale, &a->found[0], &a->new_scale, &growth, &backoff, &interval);
		a->scale = a->new_scale;
		a->new_scale = was;
	} else {
		LAUNCH(K_UPDATE, 1, &a->scale, &a->tracker, &a->found[0], &growth, &backoff, &interval);
	}
	if (p->read_scale)
		item_float(a, a->scale);
}

static void grad_scaler(struct amp *a)
{
	enum form form = a->plan->form;
	uint64_t little = 3000;

	for (int i = 0; i < a->optimizers; i++)
		unscale(a, i);
	if (form == FORM_clip) {
		LAUNCH(K_NORM, 320, &little);
		LAUNCH(K_NORM_REDUCE, 1, &little, &a->grad[0], &a->norm);
		LAUNCH(K_CLIP, 320, &little);
		item_float(a, a->norm);
	}
	for (int i = 0; i < a->optimizers; i++) {
		if (form == FORM_fused) {
			optimizer_fused(a);
			continue;
		}
		if (item_float(a, a->found[i]) == 0) {
			if (form == FORM_eager)
				optimizer_eager(a, i);
			else
				optimizer_foreach(a, i);
		}
	}
	average_weights(a);
	update(a);
	for (int i = 0; i < a->optimizers; i++)
		zero_grad(a, i);
}

/* What Megatron's and DeepSpeed's scalers keep on the host. True = the scale changes by *factor. */
static bool host_update(struct amp *a, bool overflow, float *factor)
{
	const struct amp_plan *p = a->plan;

	if (overflow) {
		a->clean = 0;
		if (--a->left > 0)
			return false;
		a->left = p->hysteresis;
		*factor = (float)p->backoff;
		return true;
	}
	if (++a->clean < p->growth_interval)
		return false;
	a->clean = 0;
	a->left = p->hysteresis;
	*factor = (float)p->growth;
	return true;
}

static void megatron(struct amp *a)
{
	uint64_t little = 2000, copy = share(a, 0.02);
	float zero = 0, factor;
	bool overflow;

	LAUNCH(K_RECIPROCAL, 1, &little, &a->scale, &a->inverse);
	LAUNCH(K_FILL, 1, &little, &a->found[0], &zero);
	LAUNCH(K_UNSCALE, 320, &copy, &a->grad[0], &a->found[0], &a->inverse);
	CHECK(ncclAllReduce(a->found[0], a->found[0], 1, ncclFloat32, NCCL_MAX, a->comm, a->stream));
	overflow = item_float(a, a->found[0]) > 0;
	a->host_found[a->step] = overflow;
	if (host_update(a, overflow, &factor))
		LAUNCH(K_TINY_MUL, 1, &little, &a->scale, &factor);
	LAUNCH(K_MAXIMUM, 1, &little, &a->scale, &(float){ a->plan->min_scale });
	if (!overflow) {
		LAUNCH(K_NORM, 320, &little);
		LAUNCH(K_NORM_REDUCE, 1, &little, &a->grad[0], &a->norm);
		item_float(a, a->norm);
		LAUNCH(K_CLIP, 320, &little);
		optimizer_apex(a);
	} else {
		zero_grad(a, 0);
	}
}

static void host_scaler(struct amp *a, bool overflow)
{
	float factor;

	a->host_found[a->step] = overflow;
	if (host_update(a, overflow, &factor))
		a->host_scale = fmaxf(a->host_scale * factor, a->plan->min_scale);
	a->host_scales[a->step] = a->host_scale;
	if (overflow)
		zero_grad(a, 0);
}

static void deepspeed(struct amp *a)
{
	uint64_t little = 3000;
	bool overflow;

	for (int t = 0; t < TENSORS; t++)
		LAUNCH(K_IS_INF, 64, &little);
	LAUNCH(K_FLAG, 1, &little, &a->grad[0], &a->byte);
	CHECK(ncclAllReduce(a->byte, a->byte, 1, NCCL_UINT8, NCCL_MAX, a->comm, a->stream));
	item(a, a->byte, 1);
	overflow = *(uint8_t *)a->item != 0;
	if (!overflow) {
		LAUNCH(K_NORM, 320, &little);
		LAUNCH(K_NORM_REDUCE, 1, &little, &a->grad[0], &a->norm);
		item_float(a, a->norm);
		optimizer_apex(a);
	}
	host_scaler(a, overflow);
}

static void apex(struct amp *a)
{
	uint64_t pass = share(a, 0.02) + 3000;
	float inverse = 1 / a->host_scale;
	bool overflow;

	CHECK(cudaMemsetAsync(a->flag, 0, sizeof(int), a->stream));
	LAUNCH(K_APEX_SCALE, 320, &pass, &a->grad[0], &a->flag, &inverse);
	item(a, a->flag, sizeof(int));
	overflow = *(int *)a->item != 0;
	if (!overflow)
		optimizer_apex(a);
	host_scaler(a, overflow);
}

static void optimize(struct amp *a)
{
	a->checked[a->step] = a->plan->form != FORM_none;
	switch (a->plan->form) {
	case FORM_none:
		optimizer_foreach(a, 0);
		break;
	case FORM_megatron:
		megatron(a);
		break;
	case FORM_deepspeed:
		deepspeed(a);
		break;
	case FORM_apex:
		apex(a);
		break;
	default:
		grad_scaler(a);
	}
}

static void step(struct amp *a)
{
	const struct amp_plan *p = a->plan;
	int micro = p->form == FORM_accumulate ? 4 : 1;
	bool bad_loss = p->decoys && a->step && chance(a) < 0.01;
	struct amp_log *log = &a->log[a->step];
	uint64_t little = 2000;

	LAUNCH(K_ZERO_FLAG, 1, &little, &log);
	scale_from_host(a);
	for (int i = 0; i < micro; i++) {
		forward(a, bad_loss ? NAN : 0.5f);
		if (p->decoys && isnan(item_float(a, a->loss)))
			return;		/* the script leaves this batch out */
		backward(a, i == micro - 1);
	}
	if (p->decoys && a->step % 3 == 0) {
		LAUNCH(K_COUNT_RIGHT, 1, &little, &a->right, &(float){ (float)(a->step % 2) });
		item_float(a, a->right);
	}
	optimize(a);
	if (p->decoys && a->step % 2 == 0) {
		LAUNCH(K_COUNT_RIGHT, 1, &little, &a->right, &(float){ (float)(a->step / 2 % 2) });
		item_float(a, a->right);
	}
}

/* ---- begin, end */

static void begin(struct amp *a)
{
	const struct amp_plan *p = a->plan;
	float init = p->init_scale;
	ncclUniqueId id;

	CHECK(cudaSetDevice(0));
	amp_register(p->names);
	CHECK(cudaStreamCreateWithFlags(&a->stream, cudaStreamNonBlocking));
	for (int i = 0; i < OPTIMIZERS_MAX; i++) {
		a->grad[i] = device_memory(PARAMS * sizeof(float));
		a->found[i] = device_memory(sizeof(float));
	}
	a->scale = device_memory(sizeof(float));
	a->new_scale = device_memory(sizeof(float));
	a->inverse = device_memory(sizeof(float));
	a->loss = device_memory(sizeof(float));
	a->norm = device_memory(sizeof(float));
	a->right = device_memory(sizeof(float));
	a->tracker = device_memory(sizeof(int));
	a->flag = device_memory(sizeof(int));
	a->byte = device_memory(1);
	a->batch = device_memory(65536);
	a->log = device_memory((size_t)p->steps * sizeof(*a->log));
	CHECK(cudaMallocHost((void **)&a->host_batch, 65536));
	CHECK(cudaMallocHost((void **)&a->item, 64));
	memset(a->host_batch, 1, 65536);
	CHECK(cudaMemcpy(a->scale, &init, sizeof(init), cudaMemcpyHostToDevice));
	CHECK(cudaDeviceSynchronize());
	a->host_scale = init;
	a->left = p->hysteresis;
	a->optimizers = p->form == FORM_two ? 2 : 1;
	a->random = p->seed * 2654435761u + 1;
	a->checked = calloc((size_t)p->steps, sizeof(bool));
	a->host_found = calloc((size_t)p->steps, sizeof(bool));
	a->host_scales = calloc((size_t)p->steps, sizeof(float));
	if (!a->checked || !a->host_found || !a->host_scales)
		die("out of memory");
	if (p->form == FORM_megatron || p->form == FORM_deepspeed) {
		CHECK(ncclGetUniqueId(&id));
		CHECK(ncclCommInitRank(&a->comm, 1, id, 0));
	}
}

/* From the log of the device, where the scaler lives there. */
static void write_truth(const struct amp *a, const struct amp_log *log)
{
	const struct amp_plan *p = a->plan;
	uint32_t all = (1u << a->optimizers) - 1;
	bool on_host = p->form == FORM_deepspeed || p->form == FORM_apex;
	FILE *f = fopen(p->truth, "w");
	int check = 0;

	if (!f)
		die("cannot write %s", p->truth);
	for (int i = 0; i < p->steps; i++) {
		const char *verdict = !a->checked[i] ? "none" : log[i].ran == all ? "applied" : log[i].ran ? "partly" : "skipped";
		float scale = on_host ? a->host_scales[i] : log[i].scale;

		fprintf(f, "{\"step\": %d, \"check\": %d, \"verdict\": \"%s\", \"scale\": %.9g}\n", i, a->checked[i] ? check++ : -1, verdict, (double)scale);
	}
	if (fclose(f))
		die("cannot write %s", p->truth);
}

static void end(struct amp *a)
{
	const struct amp_plan *p = a->plan;
	struct amp_log *log = malloc((size_t)p->steps * sizeof(*log));
	int skipped = 0, partly = 0, checks = 0;

	CHECK(cudaDeviceSynchronize());
	if (!log)
		die("out of memory");
	CHECK(cudaMemcpy(log, a->log, (size_t)p->steps * sizeof(*log), cudaMemcpyDeviceToHost));
	for (int i = 0; i < p->steps; i++) {
		if (!a->checked[i])
			continue;
		checks++;
		skipped += log[i].ran == 0;
		partly += log[i].ran != 0 && log[i].ran != (1u << a->optimizers) - 1;
	}
	if (p->truth)
		write_truth(a, log);
	printf("done: %d steps, %d checks, %d skipped, %d partly\n", p->steps, checks, skipped, partly);
	free(log);
	if (a->comm)
		CHECK(ncclCommDestroy(a->comm));
	free(a->checked);
	free(a->host_found);
	free(a->host_scales);
}

int amp_run(const struct amp_plan *plan)
{
	struct amp a = { .plan = plan };

	begin(&a);
	for (a.step = 0; a.step < plan->steps; a.step++)
		step(&a);
	end(&a);
	return 0;
}
