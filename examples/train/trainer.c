// SPDX-License-Identifier: Apache-2.0
//
// The loop itself, in the order in which an ordinary mixed-precision loop does things: take a batch, copy it, forward, backward with
// all-reduce of each bucket as it is ready, check for infinities, step unless there were some, update the scale.

#include "examples/train/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/train/dist.h"
#include "examples/train/kernels.h"
#include "examples/train/loader.h"
#include "examples/train/netfault.h"
#include "examples/train/observe.h"
#include "examples/train/plan.h"
#include "examples/train/util.h"

enum { LAYERS = 12, PRINT_EVERY = 10 };

/* Shares of a step's compute. */
#define FORWARD 0.30
#define BACKWARD 0.62
#define UNSCALE 0.01
#define OPTIMIZER 0.07

/* The last bucket, which nothing is left to hide behind, is small: as frameworks choose it. */
static const double bucket_share[BUCKETS] = { 0.4, 0.32, 0.24, 0.04 };

struct trainer {
	const struct plan *plan;
	struct loader loader;
	struct dist dist;
	struct netfault *fault;
	cudaStream_t compute, copy;
	cudaEvent_t copied;

	/* device */
	uint8_t *batch[2], *activations;
	float *param, *grad, *momentum, *variance;
	float *loss, *scale, *inverse, *found_inf;
	int *tracker;

	/* pinned */
	uint8_t *staging[2];
	float *host_found_inf, *host_loss, *host_scale, *host_params;

	int step, skipped;
	bool was_skipped;
	double unit_ns;			/* compute of a step on this rank */
	int64_t scaler_ns;		/* when the overflow check of the step before began */
};

static void *device_memory(size_t bytes)
{
	void *ptr;

	CHECK(cudaMalloc(&ptr, bytes));
	return ptr;
}

static void *pinned_memory(size_t bytes)
{
	void *ptr;

	CHECK(cudaMallocHost(&ptr, bytes));
	return ptr;
}

static void start(struct trainer *t)
{
	const struct plan *p = t->plan;
	size_t bytes = p->params * sizeof(float);
	int devices, zero = 0;
	float scale = 65536;

	CHECK(cudaGetDeviceCount(&devices));
	CHECK(cudaSetDevice(p->local_rank % devices));
	kernels_register();
	CHECK(cudaStreamCreateWithFlags(&t->compute, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&t->copy, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&t->copied, cudaEventDisableTiming));
	for (int i = 0; i < 2; i++) {
		t->batch[i] = device_memory(p->batch_bytes);
		t->staging[i] = p->pageable ? NULL : pinned_memory(p->batch_bytes);
	}
	t->activations = device_memory(1 << 20);
	t->param = device_memory(bytes);
	t->grad = device_memory(bytes);
	t->momentum = device_memory(bytes);
	t->variance = device_memory(bytes);
	t->loss = device_memory(4 * sizeof(float));
	t->scale = device_memory(sizeof(float));
	t->inverse = device_memory(sizeof(float));
	t->found_inf = device_memory(sizeof(float));
	t->tracker = device_memory(sizeof(int));
	t->host_found_inf = pinned_memory(3 * sizeof(float));
	t->host_loss = t->host_found_inf + 1;
	t->host_scale = t->host_found_inf + 2;
	t->host_params = pinned_memory(bytes);
	CHECK(cudaMemset(t->param, 0, bytes));
	CHECK(cudaMemset(t->momentum, 0, bytes));
	CHECK(cudaMemset(t->variance, 0, bytes));
	CHECK(cudaMemcpy(t->scale, &scale, sizeof(scale), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(t->tracker, &zero, sizeof(zero), cudaMemcpyHostToDevice));
	CHECK(cudaDeviceSynchronize());

	t->unit_ns = p->step_ms * 1e6;
	if (p->rank == p->world - 1)
		t->unit_ns *= p->late_factor;
	if (p->loss_burst_ns && p->rank == 0)
		t->fault = netfault_new();
	dist_open(&t->dist, p);
	observe_start(p->truth != NULL, t->compute);
}

static void finish(struct trainer *t)
{
	void *device[] = { t->batch[0], t->batch[1], t->activations, t->param, t->grad, t->momentum, t->variance, t->loss, t->scale,
			   t->inverse, t->found_inf, t->tracker };

	loader_stop(&t->loader);
	loader_close(&t->loader);
	dist_close(&t->dist);
	for (size_t i = 0; i < sizeof(device) / sizeof(device[0]); i++)
		CHECK(cudaFree(device[i]));
	for (int i = 0; i < 2; i++)
		if (t->staging[i])
			CHECK(cudaFreeHost(t->staging[i]));
	CHECK(cudaFreeHost(t->host_found_inf));
	CHECK(cudaFreeHost(t->host_params));
	CHECK(cudaEventDestroy(t->copied));
	CHECK(cudaStreamDestroy(t->copy));
	CHECK(cudaStreamDestroy(t->compute));
}

/* The batch, on its way to the device. */
static const uint8_t *load(struct trainer *t)
{
	const struct plan *p = t->plan;
	int64_t waited[2], begin = now_ns();
	bool epoch = p->epoch_steps && t->step && t->step % p->epoch_steps == 0;
	uint8_t *device = t->batch[t->step & 1], *staging = t->staging[t->step & 1];
	const uint8_t *bytes;

	if (epoch) {
		loader_stop(&t->loader);
		loader_start(&t->loader, t->loader.end + (uint64_t)p->epoch_steps);
	}
	bytes = loader_next(&t->loader, waited);
	observe_cause(epoch ? "data.worker_start" : p->wait_leaf, epoch ? begin : waited[0], waited[1]);
	if (p->pageable) {
		begin = now_ns();
		CHECK(cudaMemcpyAsync(device, bytes, p->batch_bytes, cudaMemcpyHostToDevice, t->compute));
		observe_cause("data.pageable_copy", begin, now_ns());
	} else {
		memcpy(staging, bytes, p->batch_bytes);
		CHECK(cudaMemcpyAsync(device, staging, p->batch_bytes, cudaMemcpyHostToDevice, t->copy));
		CHECK(cudaEventRecord(t->copied, t->copy));
		CHECK(cudaStreamWaitEvent(t->compute, t->copied, 0));
	}
	return device;
}

/* Scratch memory from the driver each time, in place of a caching allocator. */
static void scratch(struct trainer *t)
{
	for (int i = 0; i < t->plan->allocations; i++) {
		int64_t begin = now_ns();
		void *ptr = device_memory(1 << 20);

		CHECK(cudaFree(ptr));
		observe_cause("gpu.alloc", begin, now_ns());
	}
}

static void layers_forward(struct trainer *t, int from, int to)
{
	double unit = t->unit_ns * FORWARD / LAYERS;

	for (int layer = from; layer < to; layer++) {
		kernel_gemm(t->compute, 0, t->param, t->activations, (uint64_t)(unit * 0.55));
		kernel_norm(t->compute, t->activations, t->activations, (uint64_t)(unit * 0.15));
		kernel_gemm(t->compute, 0, t->param, t->activations, (uint64_t)(unit * 0.25));
		kernel_add(t->compute, t->activations, t->activations, (uint64_t)(unit * 0.05));
	}
}

/* loss.item() after each piece, and some bookkeeping in Python before the next one is launched. */
static void forward_in_pieces(struct trainer *t, const uint8_t *batch)
{
	const struct plan *p = t->plan;
	int64_t synced = 0;

	for (int i = 0; i < p->micro_batches; i++) {
		if (synced) {
			burn_ns(p->micro_host_ns, (const uint8_t *)t->host_params, p->params);
			observe_cause("sync.bubble", synced, now_ns());
		}
		observe_begin(t->compute);
		layers_forward(t, i * LAYERS / p->micro_batches, (i + 1) * LAYERS / p->micro_batches);
		kernel_loss(t->compute, batch, p->batch_bytes, t->param, 4096, t->loss, 20000);
		observe_end(t->compute, RECORD_COMPUTE, 0);
		synced = now_ns();
		CHECK(cudaMemcpyAsync(t->host_loss, t->loss, sizeof(float), cudaMemcpyDeviceToHost, t->compute));
		CHECK(cudaStreamSynchronize(t->compute));
	}
	burn_ns(p->micro_host_ns, (const uint8_t *)t->host_params, p->params);
	observe_cause("sync.bubble", synced, now_ns());
	observe_begin(t->compute);
	if (t->step % PRINT_EVERY == 0)
		CHECK(cudaMemcpyAsync(t->host_scale, t->scale, sizeof(float), cudaMemcpyDeviceToHost, t->compute));
}

static void forward(struct trainer *t, const uint8_t *batch)
{
	const struct plan *p = t->plan;

	if (p->micro_batches) {
		forward_in_pieces(t, batch);
		return;
	}
	if (p->tiny_kernels) {
		observe_begin(t->compute);
		for (int i = 0; i < p->tiny_kernels; i++)
			kernel_tiny(t->compute, t->activations, t->activations);
		observe_end_busy(t->compute, (int64_t)p->tiny_kernels * KERNEL_TINY_NS);
	}
	observe_begin(t->compute);
	layers_forward(t, 0, LAYERS);
	kernel_loss(t->compute, batch, p->batch_bytes, t->param, 4096, t->loss, 20000);
	if (t->step % PRINT_EVERY == 0) {
		CHECK(cudaMemcpyAsync(t->host_loss, t->loss, sizeof(float), cudaMemcpyDeviceToHost, t->compute));
		CHECK(cudaMemcpyAsync(t->host_scale, t->scale, sizeof(float), cudaMemcpyDeviceToHost, t->compute));
	}
}

static bool overflows(const struct trainer *t)
{
	const struct plan *p = t->plan;

	return p->overflow_every && t->step % p->overflow_every == p->overflow_every - 1 && p->rank == 0;
}

static void backward(struct trainer *t, const uint8_t *batch)
{
	const struct plan *p = t->plan;
	double unit = t->unit_ns * BACKWARD / LAYERS;
	float gain = overflows(t) ? 1e6f : 1;	/* an outlier among the samples */
	size_t end = p->params;

	for (int bucket = 0; bucket < BUCKETS; bucket++) {
		size_t first = bucket + 1 < BUCKETS ? end - (size_t)((double)p->params * bucket_share[bucket]) : 0;

		for (int i = 0; i < LAYERS / BUCKETS; i++) {
			kernel_add(t->compute, t->activations, t->activations, (uint64_t)(unit * 0.05));
			kernel_gemm(t->compute, 1, t->param, t->activations, (uint64_t)(unit * 0.45));
			kernel_norm(t->compute, t->activations, t->activations, (uint64_t)(unit * 0.15));
			if (i + 1 < LAYERS / BUCKETS)
				kernel_gemm(t->compute, 1, t->param, t->activations, (uint64_t)(unit * 0.35));
		}
		kernel_wgrad(t->compute, batch, p->batch_bytes, t->param, t->grad, first, end - first, t->scale, gain,
			     (uint64_t)(unit * 0.35));
		dist_bucket(&t->dist, bucket, t->grad + first, end - first, t->compute);
		end = first;
	}
	observe_end(t->compute, RECORD_COMPUTE, 0);
	dist_join(&t->dist, t->compute);
}

/* GradScaler: unscale_, the decision on the host, the optimizer or not, update. */
static void scaler_step(struct trainer *t)
{
	const struct plan *p = t->plan;
	double unit = t->unit_ns * OPTIMIZER;

	observe_begin(t->compute);
	kernel_fill(t->compute, t->found_inf, 0);
	kernel_reciprocal(t->compute, t->scale, t->inverse);
	kernel_unscale(t->compute, t->grad, p->params, t->found_inf, t->inverse, (uint64_t)(t->unit_ns * UNSCALE));
	observe_end(t->compute, RECORD_COMPUTE, 0);
	t->scaler_ns = now_ns();
	CHECK(cudaMemcpyAsync(t->host_found_inf, t->found_inf, sizeof(float), cudaMemcpyDeviceToHost, t->compute));
	CHECK(cudaStreamSynchronize(t->compute));
	observe_drained();
	t->was_skipped = *t->host_found_inf != 0;
	observe_begin(t->compute);
	if (!t->was_skipped) {
		kernel_lerp(t->compute, t->momentum, t->grad, p->params, 0.1f, (uint64_t)(unit * 0.3));
		kernel_square(t->compute, t->variance, t->grad, p->params, 0.001f, (uint64_t)(unit * 0.3));
		kernel_step(t->compute, t->param, t->momentum, p->params, 3.2f / (float)p->world, (uint64_t)(unit * 0.4));
	}
	kernel_update_scale(t->compute, t->scale, t->tracker, t->found_inf, 2, 0.5, p->growth_interval);
	observe_end(t->compute, RECORD_COMPUTE, 0);
	/* A healthy loop's own bubble; that of a skipped step lasts until the next forward pass. */
	if (!t->was_skipped)
		observe_cause("sync.bubble", t->scaler_ns, now_ns());
	t->skipped += t->was_skipped;
	observe_collect();
}

/* torch.save() in the training thread: parameters to the host, a file, fsync, rename. */
static void save(struct trainer *t)
{
	const struct plan *p = t->plan;
	size_t bytes = p->params * sizeof(float);
	char *path, *part;
	int64_t begin = now_ns();
	int fd;

	CHECK(cudaMemcpyAsync(t->host_params, t->param, bytes, cudaMemcpyDeviceToHost, t->compute));
	CHECK(cudaStreamSynchronize(t->compute));
	path = text("%s/checkpoint-rank%d.bin", p->dir, p->rank);
	part = text("%s.part", path);
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write_all(fd, t->host_params, bytes) < 0 || fsync(fd) || close(fd) || rename(part, path))
		die("cannot write %s: %s", path, strerror(errno));
	free(path);
	free(part);
	observe_cause("io.checkpoint", begin, now_ns());
}

static void evaluate(struct trainer *t)
{
	char *number = text("%d", t->plan->syn_drop_ms);
	int64_t begin = now_ns();

	setenv("SIMGPU_NCCL_SYN_DROP_MS", number, 1);
	dist_evaluate(&t->dist, t->loss);
	unsetenv("SIMGPU_NCCL_SYN_DROP_MS");
	observe_cause("comm.retry", begin, now_ns());
	free(number);
}

static void print(const struct trainer *t)
{
	if (t->plan->rank == 0 && t->step % PRINT_EVERY == 0) {
		printf("step %5d/%d  loss %.6f  scale %g\n", t->step, t->plan->steps, (double)*t->host_loss, (double)*t->host_scale);
		fflush(stdout);
	}
}

static void train_step(struct trainer *t)
{
	const struct plan *p = t->plan;
	bool after_skip = t->was_skipped;
	int64_t begin = now_ns();
	const uint8_t *batch;

	observe_step(t->step);
	if (t->step == p->blocked_step)
		evaluate(t);
	batch = load(t);
	scratch(t);
	if (after_skip)
		observe_cause("scaler.skip", t->scaler_ns, now_ns());
	forward(t, batch);
	backward(t, batch);
	scaler_step(t);
	print(t);
	observe_step_done(t->was_skipped, begin);
	if (p->checkpoint_every && (t->step + 1) % p->checkpoint_every == 0)
		save(t);
	if (t->fault && t->step == 3)
		netfault_start(t->fault, (int64_t)p->loss_every_ns, p->loss_burst_ns, p->seed);
}

int trainer_run(const struct plan *plan, int data_port)
{
	struct trainer t = { .plan = plan };
	char *log = text("%s/rank%d.log", plan->dir, plan->rank);

	loader_open(&t.loader, plan, data_port);
	loader_start(&t.loader, plan->epoch_steps ? (uint64_t)plan->epoch_steps : (uint64_t)plan->steps);
	start(&t);
	for (t.step = 0; t.step < plan->steps; t.step++)
		train_step(&t);
	CHECK(cudaDeviceSynchronize());
	if (t.fault)
		netfault_stop(t.fault);
	observe_drained();
	observe_collect();
	if (observe_close(log))
		die("cannot write %s: %s", log, strerror(errno));
	finish(&t);
	if (plan->rank == 0)
		printf("done: %d steps, %d skipped\n", plan->steps, t.skipped);
	free(log);
	return 0;
}
