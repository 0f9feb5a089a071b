/* SPDX-License-Identifier: Apache-2.0
 *
 * Registered kernels (host stub -> name) and their models (name -> duration and host code), in whichever order they come.
 */
#include "examples/simgpu/core.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, MAX_ARGS = 256, DEFAULT_NS = 10000 };

struct model {
	struct model *next;
	char *name;			/* lives for ever: records and kernels point to it */
	simgpu_duration_fn *duration;
	simgpu_body_fn *body;
	unsigned int args;
	size_t *arg_bytes;
	size_t total;
};

struct sg_kernel {
	struct sg_kernel *next;
	void *module;
	const void *stub;
	struct model *model;		/* created empty with the kernel */
	_Atomic bool loaded;
};

static struct sg_lock kernel_lock;
static struct sg_kernel *kernels[BUCKETS];
static struct model *models[BUCKETS];

static unsigned int hash_pointer(const void *ptr)
{
	return (unsigned int)(((uintptr_t)ptr >> 2) * 2654435761u >> 8) % BUCKETS;
}

static unsigned int hash_name(const char *name)
{
	unsigned int hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash % BUCKETS;
}

/* Under the lock. */
static struct model *model_of(const char *name)
{
	struct model **bucket = &models[hash_name(name)], *model;

	for (model = *bucket; model; model = model->next)
		if (!strcmp(model->name, name))
			return model;
	model = calloc(1, sizeof(*model));
	if (!model)
		return NULL;
	model->name = strdup(name);
	if (!model->name) {
		free(model);
		return NULL;
	}
	model->next = *bucket;
	*bucket = model;
	return model;
}

int sg_kernel_model(const char *name, simgpu_duration_fn *duration, simgpu_body_fn *body, unsigned int args,
			      const size_t *arg_bytes)
{
	size_t *copy = NULL, total = 0;
	struct model *model;

	if (!name || args > MAX_ARGS || (args && !arg_bytes))
		return -1;
	for (unsigned int i = 0; i < args; i++)
		total += (arg_bytes[i] + 15) & ~(size_t)15;
	if (args) {
		copy = malloc(args * sizeof(*copy));
		if (!copy)
			return -1;
		memcpy(copy, arg_bytes, args * sizeof(*copy));
	}
	sg_lock(&kernel_lock);
	model = model_of(name);
	if (model) {
		free(model->arg_bytes);
		model->arg_bytes = copy;
		model->args = args;
		model->total = total;
		model->duration = duration;
		model->body = body;
	}
	sg_unlock(&kernel_lock);
	if (!model)
		free(copy);
	return model ? 0 : -1;
}

void sg_kernel_add(void *module, const void *host_stub, const char *name)
{
	struct sg_kernel *kernel = calloc(1, sizeof(*kernel));
	struct sg_kernel **bucket = &kernels[hash_pointer(host_stub)];

	if (!kernel)
		return;
	kernel->module = module;
	kernel->stub = host_stub;
	sg_lock(&kernel_lock);
	kernel->model = model_of(name);
	if (kernel->model) {
		kernel->next = *bucket;
		*bucket = kernel;
		kernel = NULL;
	}
	sg_unlock(&kernel_lock);
	free(kernel);
}

void sg_module_delete(void *module)
{
	sg_lock(&kernel_lock);
	for (int i = 0; i < BUCKETS; i++) {
		for (struct sg_kernel **at = &kernels[i]; *at;) {
			struct sg_kernel *kernel = *at;

			if (kernel->module != module) {
				at = &kernel->next;
				continue;
			}
			*at = kernel->next;
			free(kernel);
		}
	}
	sg_unlock(&kernel_lock);
}

struct sg_kernel *sg_kernel_find(const void *host_stub)
{
	struct sg_kernel *kernel;

	sg_lock(&kernel_lock);
	for (kernel = kernels[hash_pointer(host_stub)]; kernel; kernel = kernel->next)
		if (kernel->stub == host_stub)
			break;
	sg_unlock(&kernel_lock);
	return kernel;
}

/* One block holds the pointers and, behind them, the values. Under the lock. */
static void **copy_args(const struct model *model, void **args)
{
	size_t head = (model->args * sizeof(void *) + 15) & ~(size_t)15;
	char *block, *at;
	void **out;

	if (!model->args || !args)
		return NULL;
	block = malloc(head + model->total);
	if (!block)
		return NULL;
	out = (void **)block;
	at = block + head;
	for (unsigned int i = 0; i < model->args; i++) {
		out[i] = at;
		memcpy(at, args[i], model->arg_bytes[i]);
		at += (model->arg_bytes[i] + 15) & ~(size_t)15;
	}
	return out;
}

/* The first launch loads the function's code, which a profiler shows as overhead. */
static void first_launch(struct sg_kernel *kernel)
{
	const struct sg_listener *listener = sg_listener();
	uint64_t start = sg_now();

	if (atomic_exchange(&kernel->loaded, true))
		return;
	sg_cost(start, 5000);
	if (listener)
		listener->overhead(SG_OVERHEAD_FUNCTION_LOAD, start, sg_now());
}

struct sg_op *sg_kernel_op(struct sg_kernel *kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes)
{
	struct sg_op *op = sg_op_new(SG_KERNEL);
	struct model *model = kernel->model;

	if (!op)
		return NULL;
	first_launch(kernel);
	op->duration_ns = DEFAULT_NS;
	op->kernel.name = model->name;
	op->kernel.grid = grid;
	op->kernel.block = block;
	op->kernel.shared_bytes = (uint32_t)shared_bytes;
	sg_lock(&kernel_lock);
	op->kernel.duration = model->duration;
	op->kernel.body = model->body;
	op->kernel.args = copy_args(model, args);
	sg_unlock(&kernel_lock);
	return op;
}
