/* SPDX-License-Identifier: Apache-2.0
 *
 * libcudart: registration of kernels, as code compiled by nvcc does it, and launches in all their spellings.
 */
#include "examples/simgpu/cudart_call.h"

#include <stdlib.h>

enum { CONFIG_DEPTH = 16 };

struct launch_config {
	dim3 grid, block;
	size_t shared_bytes;
	cudaStream_t stream;
};

static __thread struct launch_config configs[CONFIG_DEPTH];
static __thread unsigned int nconfigs;

void **__cudaRegisterFatBinary(void *image)
{
	void **handle = malloc(sizeof(*handle));

	if (handle)
		*handle = image;
	return handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
	if (!handle || sg_forked())	/* in the child of a fork the lock may be held for ever */
		return;
	sg_module_delete(handle);
	free(handle);
}

void __cudaRegisterFunction(void **handle, const char *host_stub, char *device_stub, const char *device_name,
			    int thread_limit, void *tid, void *bid, dim3 *block, dim3 *grid, int *warp_size)
{
	(void)device_stub, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp_size;
	sg_kernel_add(handle, host_stub, device_name);
}

int simgpu_kernel_model(const char *mangled_name, simgpu_duration_fn *duration_ns, simgpu_body_fn *body, unsigned int args,
			const size_t *arg_bytes)
{
	return sg_kernel_model(mangled_name, duration_ns, body, args, arg_bytes);
}

unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream)
{
	if (nconfigs == CONFIG_DEPTH)
		return 1;
	configs[nconfigs++] = (struct launch_config){ grid, block, shared_bytes, stream };
	return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
	const struct launch_config *config;

	if (!nconfigs)
		return cudaErrorInvalidConfiguration;
	config = &configs[--nconfigs];
	*grid = config->grid;
	*block = config->block;
	*shared_bytes = config->shared_bytes;
	*(cudaStream_t *)stream = config->stream;
	return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host_stub)
{
	int rc = sg_init();

	if (rc)
		return (cudaError_t)rc;
	*kernel = sg_kernel_find(host_stub);
	return *kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

static bool config_valid(const struct launch_config *c)
{
	uint64_t threads = (uint64_t)c->block.x * c->block.y * c->block.z;

	return c->grid.x && c->grid.y && c->grid.z && threads && threads <= 1024 && c->block.x <= 1024 &&
	       c->block.y <= 1024 && c->grid.y <= 65535 && c->grid.z <= 65535 && c->shared_bytes <= 232448;
}

static int launch_kernel(const struct sg_call *call, struct sg_kernel *kernel, const struct launch_config *config,
			 void **args, bool per_thread)
{
	struct sg_stream *stream;
	struct sg_op *op;

	if (!kernel)
		return cudaErrorInvalidDeviceFunction;
	if (!config_valid(config))
		return cudaErrorInvalidConfiguration;
	stream = sg_stream_of(config->stream, per_thread);
	op = stream ? sg_kernel_op(kernel, config->grid, config->block, args, config->shared_bytes) : NULL;
	if (!op)
		return cudaErrorMemoryAllocation;
	sg_cost(call->start_ns, sg_config.launch_ns);
	return sg_submit(stream, op, false);
}

static cudaError_t launch(uint32_t cbid, const void *func, const struct launch_config *config, void **args,
			  bool per_thread)
{
	struct sg_call call;

	CUDART_BEGIN(call, cbid);
	return cudart_end(&call, launch_kernel(&call, sg_kernel_find(func), config, args, per_thread));
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared_bytes, cudaStream_t stream)
{
	struct launch_config config = { grid, block, shared_bytes, stream };

	return launch(CBID_cudaLaunchKernel, func, &config, args, false);
}

cudaError_t cudaLaunchKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args, size_t shared_bytes,
				  cudaStream_t stream)
{
	struct launch_config config = { grid, block, shared_bytes, stream };

	return launch(CBID_cudaLaunchKernel_ptsz, func, &config, args, true);
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared_bytes,
					cudaStream_t stream)
{
	struct launch_config config = { grid, block, shared_bytes, stream };

	return launch(CBID_cudaLaunchCooperativeKernel, func, &config, args, false);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *func, void **args)
{
	struct launch_config config = { c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream };

	return launch(CBID_cudaLaunchKernelExC, func, &config, args, false);
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *c, const void *func, void **args)
{
	struct launch_config config = { c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream };

	return launch(CBID_cudaLaunchKernelExC_ptsz, func, &config, args, true);
}

static cudaError_t launch_handle(uint32_t cbid, struct sg_kernel *kernel, const struct launch_config *config,
				 void **args, bool per_thread)
{
	struct sg_call call;

	CUDART_BEGIN(call, cbid);
	return cudart_end(&call, launch_kernel(&call, kernel, config, args, per_thread));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
			       cudaStream_t stream)
{
	struct launch_config config = { grid, block, shared_bytes, stream };

	return launch_handle(CBID___cudaLaunchKernel, kernel, &config, args, false);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
				    cudaStream_t stream)
{
	struct launch_config config = { grid, block, shared_bytes, stream };

	return launch_handle(CBID___cudaLaunchKernel_ptsz, kernel, &config, args, true);
}
