/* SPDX-License-Identifier: Apache-2.0
 *
 * libcudart: devices, versions, errors.
 */
#include "examples/simgpu/cudart_call.h"

#include <stdio.h>
#include <string.h>

enum { CUDA_VERSION_HERE = 12040, DEVICE_BYTES_SHIFT = 36 /* 64 GiB each */ };

_Static_assert(sizeof(struct cudaDeviceProp) == 1032, "size in CUDA 12");

static __thread cudaError_t last_error;

static const struct {
	cudaError_t code;
	const char *name, *text;
} errors[] = {
	{ cudaSuccess, "cudaSuccess", "no error" },
	{ cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
	{ cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
	{ cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error" },
	{ cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "driver shutting down" },
	{ cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument" },
	{ cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy" },
	{ cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function" },
	{ cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
	{ cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
	{ cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
	{ cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
	{ cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
	  "part or all of the requested memory range is already mapped" },
	{ cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
	  "pointer does not correspond to a registered memory region" },
	{ cudaErrorUnknown, "cudaErrorUnknown", "unknown error" },
};

cudaError_t cudart_end(struct sg_call *call, int rc)
{
	if (rc && rc != cudaErrorNotReady)
		last_error = (cudaError_t)rc;
	return (cudaError_t)sg_call_end(call, rc);
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

cudaError_t cudaPeekAtLastError(void)
{
	return last_error;
}

const char *cudaGetErrorString(cudaError_t error)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == error)
			return errors[i].text;
	return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == error)
			return errors[i].name;
	return "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int *version)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaDriverGetVersion);
	*version = CUDA_VERSION_HERE;
	return cudart_end(&call, 0);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = CUDA_VERSION_HERE;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	struct sg_call call;

	*count = 0;
	CUDART_BEGIN(call, CBID_cudaGetDeviceCount);
	*count = sg_config.devices;
	return cudart_end(&call, 0);
}

cudaError_t cudaGetDevice(int *device)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaGetDevice);
	*device = sg_current_device();
	return cudart_end(&call, 0);
}

cudaError_t cudaSetDevice(int device)
{
	struct sg_call call;
	int rc;

	CUDART_BEGIN(call, CBID_cudaSetDevice);
	rc = sg_set_device(device);
	if (!rc)
		sg_context(device);	/* since 12.0 this call makes the context */
	return cudart_end(&call, rc);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaSetDeviceFlags);
	(void)flags;
	return cudart_end(&call, 0);
}

static bool device_valid(int device)
{
	return device >= 0 && device < sg_config.devices;
}

cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaGetDeviceProperties_v2);
	if (!prop || !device_valid(device))
		return cudart_end(&call, prop ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
	memset(prop, 0, sizeof(*prop));
	snprintf(prop->name, sizeof(prop->name), "Simulated GPU %d", device);
	memset(prop->uuid, 0x51, sizeof(prop->uuid));
	prop->uuid[15] = (unsigned char)device;
	prop->totalGlobalMem = (size_t)1 << DEVICE_BYTES_SHIFT;
	prop->sharedMemPerBlock = 49152;
	prop->regsPerBlock = 65536;
	prop->warpSize = 32;
	prop->maxThreadsPerBlock = 1024;
	prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
	prop->maxThreadsDim[2] = 64;
	prop->maxGridSize[0] = 0x7fffffff;
	prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
	prop->clockRate = 1500000;
	prop->totalConstMem = 65536;
	prop->major = 9;
	return cudart_end(&call, 0);
}

/* 12.x keeps the old name for old binaries; here both fill the same members. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	return cudaGetDeviceProperties_v2(prop, device);
}

cudaError_t cudaDeviceGetAttribute(int *value, int attr, int device)
{
	enum { WARP_SIZE = 10, MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 };
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaDeviceGetAttribute);
	if (!device_valid(device))
		return cudart_end(&call, cudaErrorInvalidDevice);
	*value = attr == WARP_SIZE ? 32 : attr == MULTIPROCESSORS ? 132 : attr == MAJOR ? 9 : attr == MINOR ? 0 : 1;
	return cudart_end(&call, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaDeviceGetStreamPriorityRange);
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return cudart_end(&call, 0);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int len, int device)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaDeviceGetPCIBusId);
	if (!device_valid(device))
		return cudart_end(&call, cudaErrorInvalidDevice);
	snprintf(id, (size_t)len, "0000:%02X:00.0", device + 1);
	return cudart_end(&call, 0);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaDeviceCanAccessPeer);
	if (!device_valid(device) || !device_valid(peer))
		return cudart_end(&call, cudaErrorInvalidDevice);
	*can = device != peer;
	return cudart_end(&call, 0);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaDeviceEnablePeerAccess);
	return cudart_end(&call, flags ? cudaErrorInvalidValue : device_valid(peer) ? 0 : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize(void)
{
	const struct sg_listener *listener;
	int device = sg_current_device();
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaDeviceSynchronize);
	sg_context(device);
	sg_device_sync(device);
	listener = sg_listener();
	if (listener)
		listener->sync(SG_SYNC_CONTEXT, call.start_ns, sg_now(), device, UINT32_MAX, UINT32_MAX);
	return cudart_end(&call, 0);
}

cudaError_t cudaDeviceReset(void)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaDeviceReset);
	sg_device_sync(sg_current_device());
	return cudart_end(&call, 0);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaMemGetInfo);
	*total_bytes = (size_t)1 << DEVICE_BYTES_SHIFT;
	*free_bytes = *total_bytes - sg_memory_used(sg_current_device());
	return cudart_end(&call, 0);
}

cudaError_t cudaProfilerStart(void)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaProfilerStart);
	return cudart_end(&call, 0);
}

cudaError_t cudaProfilerStop(void)
{
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaProfilerStop);
	return cudart_end(&call, 0);
}
