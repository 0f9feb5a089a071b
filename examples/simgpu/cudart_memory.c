/* SPDX-License-Identifier: Apache-2.0
 *
 * libcudart: memory, copies, sets. What blocks the caller, as documented for the real one:
 *
 *	pinned -> device, device -> pinned	async: at once; sync: until done
 *	pageable -> device			until the source is staged: at once up to 64 KB, else until done
 *	device -> pageable			until done
 *	device -> device			at once, sync too
 */
#include "examples/simgpu/cudart_call.h"

#include <stdlib.h>
#include <string.h>

enum { STAGED_AT_ONCE = 64 << 10, COPY_SETUP_NS = 1000 };
enum { H2D = 1, D2H = 2, D2D = 8, H2H = 9, P2P = 10 };	/* CUPTI's copy kinds */

/* bytes per ns */
static const double device_rate = 800, peer_rate = 100, host_rate = 10, pin_rate = 4;

static cudaError_t alloc(uint32_t cbid, void **ptr, size_t bytes, uint8_t memory)
{
	uint64_t ns = sg_config.alloc_ns;
	struct sg_call call;

	CUDART_BEGIN(call, cbid);
	if (!ptr)
		return cudart_end(&call, cudaErrorInvalidValue);
	sg_context(sg_current_device());
	*ptr = NULL;
	if (!bytes)
		return cudart_end(&call, 0);
	*ptr = sg_memory_new(bytes, memory, sg_current_device());
	if (memory == SG_PINNED && *ptr)
		ns += (uint64_t)((double)bytes / pin_rate);	/* every page is locked */
	sg_cost(call.start_ns, ns);
	return cudart_end(&call, *ptr ? 0 : cudaErrorMemoryAllocation);
}

cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
	return alloc(CBID_cudaMalloc, ptr, bytes, SG_DEVICE);
}

cudaError_t cudaMallocHost(void **ptr, size_t bytes)
{
	return alloc(CBID_cudaMallocHost, ptr, bytes, SG_PINNED);
}

cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	(void)flags;
	return alloc(CBID_cudaHostAlloc, ptr, bytes, SG_PINNED);
}

/* Both frees wait for the device, as the real ones do. */
static cudaError_t release(uint32_t cbid, void *ptr, uint8_t memory)
{
	struct sg_range range;
	struct sg_call call;
	int rc;

	CUDART_BEGIN(call, cbid);
	sg_context(sg_current_device());
	if (!ptr)
		return cudart_end(&call, 0);
	if (!sg_memory_find(ptr, &range))
		return cudart_end(&call, cudaErrorInvalidValue);
	sg_device_sync(range.device);
	rc = sg_memory_delete(ptr, memory, true);
	if (!rc)
		sg_cost(sg_now(), sg_config.free_ns);
	return cudart_end(&call, rc);
}

cudaError_t cudaFree(void *ptr)
{
	return release(CBID_cudaFree, ptr, SG_DEVICE);
}

cudaError_t cudaFreeHost(void *ptr)
{
	return release(CBID_cudaFreeHost, ptr, SG_PINNED);
}

static cudaError_t malloc_async(uint32_t cbid, void **ptr, size_t bytes, cudaStream_t handle, bool per_thread)
{
	struct sg_stream *stream;
	struct sg_call call;

	CUDART_BEGIN(call, cbid);
	stream = sg_stream_of(handle, per_thread);
	if (!ptr || !stream)
		return cudart_end(&call, cudaErrorInvalidValue);
	*ptr = bytes ? sg_memory_new(bytes, SG_DEVICE, stream->device) : NULL;
	sg_cost(call.start_ns, 2000);	/* from the pool */
	return cudart_end(&call, *ptr || !bytes ? 0 : cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocAsync(void **ptr, size_t bytes, cudaStream_t stream)
{
	return malloc_async(CBID_cudaMallocAsync, ptr, bytes, stream, false);
}

cudaError_t cudaMallocAsync_ptsz(void **ptr, size_t bytes, cudaStream_t stream)
{
	return malloc_async(CBID_cudaMallocAsync_ptsz, ptr, bytes, stream, true);
}

static void free_in_order(void *ptr)
{
	sg_memory_delete(ptr, SG_DEVICE, true);
}

static cudaError_t free_async(uint32_t cbid, void *ptr, cudaStream_t handle, bool per_thread)
{
	struct sg_stream *stream;
	struct sg_range range;
	struct sg_call call;
	struct sg_op *op;

	CUDART_BEGIN(call, cbid);
	stream = sg_stream_of(handle, per_thread);
	if (!ptr)
		return cudart_end(&call, 0);
	if (!stream || !sg_memory_find(ptr, &range) || range.start != (uintptr_t)ptr || range.memory != SG_DEVICE)
		return cudart_end(&call, cudaErrorInvalidValue);
	op = sg_op_new(SG_HOST);
	if (!op)
		return cudart_end(&call, cudaErrorMemoryAllocation);
	op->host.fn = free_in_order;
	op->host.data = ptr;
	return cudart_end(&call, sg_submit(stream, op, false));
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
	return free_async(CBID_cudaFreeAsync, ptr, stream, false);
}

cudaError_t cudaFreeAsync_ptsz(void *ptr, cudaStream_t stream)
{
	return free_async(CBID_cudaFreeAsync_ptsz, ptr, stream, true);
}

cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned int flags)
{
	struct sg_call call;
	int rc;

	CUDART_BEGIN(call, CBID_cudaHostRegister);
	(void)flags;
	sg_context(sg_current_device());
	if (!ptr || !bytes)
		return cudart_end(&call, cudaErrorInvalidValue);
	rc = sg_memory_register(ptr, bytes);
	if (!rc)
		sg_cost(call.start_ns, sg_config.alloc_ns + (uint64_t)((double)bytes / pin_rate));
	return cudart_end(&call, rc);
}

cudaError_t cudaHostUnregister(void *ptr)
{
	struct sg_call call;
	int rc;

	CUDART_BEGIN(call, CBID_cudaHostUnregister);
	sg_device_sync(sg_current_device());
	rc = sg_memory_delete(ptr, SG_PINNED, false);
	return cudart_end(&call, rc ? cudaErrorHostMemoryNotRegistered : 0);
}

cudaError_t cudaHostGetDevicePointer(void **device_ptr, void *host_ptr, unsigned int flags)
{
	struct sg_range range;
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaHostGetDevicePointer);
	(void)flags;
	if (!sg_memory_find(host_ptr, &range) || range.memory != SG_PINNED)
		return cudart_end(&call, cudaErrorInvalidValue);
	*device_ptr = host_ptr;
	return cudart_end(&call, 0);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *ptr)
{
	struct sg_range range;
	struct sg_call call;

	CUDART_BEGIN(call, CBID_cudaPointerGetAttributes);
	if (!out)
		return cudart_end(&call, cudaErrorInvalidValue);
	*out = (struct cudaPointerAttributes){ .device = -2 };
	if (sg_memory_find(ptr, &range)) {
		out->type = range.memory == SG_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
		out->device = range.device;
		out->devicePointer = (void *)(uintptr_t)ptr;
		out->hostPointer = range.memory == SG_DEVICE ? NULL : (void *)(uintptr_t)ptr;
	} else {
		out->hostPointer = (void *)(uintptr_t)ptr;
	}
	return cudart_end(&call, 0);
}

/* Memory kind of [ptr, ptr + bytes), its device; 0 when it leaves an allocation of the device. */
static uint8_t memory_of(const void *ptr, size_t bytes, int *device)
{
	struct sg_range range;

	*device = -1;
	if (!sg_memory_find(ptr, &range))
		return SG_PAGEABLE;
	*device = range.device;
	if ((uintptr_t)ptr - range.start + bytes > range.bytes)
		return range.memory == SG_DEVICE ? 0 : SG_PAGEABLE;
	return range.memory;
}

static double copy_rate(const struct sg_op *op)
{
	switch (op->copy.kind) {
	case D2D:
		return device_rate;
	case P2P:
		return peer_rate;
	case H2H:
		return host_rate;
	}
	if (op->copy.src_memory == SG_PAGEABLE || op->copy.dst_memory == SG_PAGEABLE)
		return sg_config.pageable_bytes_ns;
	return sg_config.pcie_bytes_ns;
}

/* What the direction asked for says about source and destination must be true. */
static int copy_classify(struct sg_op *op, enum cudaMemcpyKind kind)
{
	uint8_t src = memory_of(op->copy.src, op->copy.bytes, &op->copy.src_device);
	uint8_t dst = memory_of(op->copy.dst, op->copy.bytes, &op->copy.dst_device);
	bool from = src == SG_DEVICE, to = dst == SG_DEVICE;

	if (!src || !dst)
		return cudaErrorInvalidValue;
	if ((kind == cudaMemcpyHostToDevice && (from || !to)) || (kind == cudaMemcpyDeviceToHost && (!from || to)) ||
	    (kind == cudaMemcpyDeviceToDevice && (!from || !to)) || (kind == cudaMemcpyHostToHost && (from || to)))
		return cudaErrorInvalidValue;
	op->copy.src_memory = src;
	op->copy.dst_memory = dst;
	op->copy.kind = from ? (to ? D2D : D2H) : (to ? H2D : H2H);
	if (op->copy.kind == D2D && op->copy.src_device != op->copy.dst_device)
		op->copy.kind = P2P;
	return 0;
}

static bool copy_waits(const struct sg_op *op)
{
	bool to_pageable = op->copy.dst_memory == SG_PAGEABLE, from_pageable = op->copy.src_memory == SG_PAGEABLE;

	if (op->copy.kind == D2D || op->copy.kind == P2P || op->copy.staging)
		return false;
	return !op->copy.async || to_pageable || from_pageable;
}

/* Takes the op over. */
static int copy_go(struct sg_stream *stream, struct sg_op *op, enum cudaMemcpyKind kind)
{
	bool waits;
	int rc = copy_classify(op, kind);

	if (!rc && op->copy.kind == H2D && op->copy.src_memory == SG_PAGEABLE && op->copy.bytes <= STAGED_AT_ONCE) {
		op->copy.staging = malloc(op->copy.bytes);
		if (op->copy.staging)
			memcpy(op->copy.staging, op->copy.src, op->copy.bytes);
		else
			rc = cudaErrorMemoryAllocation;
	}
	if (rc) {
		sg_op_put(op);
		return rc;
	}
	op->duration_ns = COPY_SETUP_NS + (uint64_t)((double)op->copy.bytes / copy_rate(op));
	waits = copy_waits(op);
	rc = sg_submit(stream, op, waits);
	if (waits && !rc) {
		sg_op_wait(op);
		sg_op_put(op);
	}
	return rc;
}

static cudaError_t copy(uint32_t cbid, void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
			cudaStream_t handle, bool async, bool per_thread)
{
	struct sg_stream *stream;
	struct sg_call call;
	struct sg_op *op;

	CUDART_BEGIN(call, cbid);
	if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
		return cudart_end(&call, cudaErrorInvalidMemcpyDirection);
	if (!bytes)
		return cudart_end(&call, 0);
	stream = sg_stream_of(handle, per_thread);
	op = stream ? sg_op_new(SG_COPY) : NULL;
	if (!op)
		return cudart_end(&call, cudaErrorMemoryAllocation);
	op->copy.dst = dst;
	op->copy.src = src;
	op->copy.bytes = bytes;
	op->copy.async = async;
	sg_cost(call.start_ns, sg_config.launch_ns);
	return cudart_end(&call, copy_go(stream, op, kind));
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
	return copy(CBID_cudaMemcpy, dst, src, bytes, kind, NULL, false, false);
}

cudaError_t cudaMemcpy_ptds(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
	return copy(CBID_cudaMemcpy_ptds, dst, src, bytes, kind, NULL, false, true);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy(CBID_cudaMemcpyAsync, dst, src, bytes, kind, stream, true, false);
}

cudaError_t cudaMemcpyAsync_ptsz(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy(CBID_cudaMemcpyAsync_ptsz, dst, src, bytes, kind, stream, true, true);
}

cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t bytes)
{
	(void)dst_device, (void)src_device;	/* the addresses tell */
	return copy(CBID_cudaMemcpyPeer, dst, src, bytes, cudaMemcpyDeviceToDevice, NULL, false, false);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
				cudaStream_t stream)
{
	(void)dst_device, (void)src_device;
	return copy(CBID_cudaMemcpyPeerAsync, dst, src, bytes, cudaMemcpyDeviceToDevice, stream, true, false);
}

static cudaError_t set(uint32_t cbid, void *ptr, int value, size_t bytes, cudaStream_t handle, bool async,
		       bool per_thread)
{
	struct sg_stream *stream;
	struct sg_call call;
	uint8_t memory;
	struct sg_op *op;
	int device;

	CUDART_BEGIN(call, cbid);
	if (!bytes)
		return cudart_end(&call, 0);
	stream = sg_stream_of(handle, per_thread);
	memory = memory_of(ptr, bytes, &device);
	if (!stream || !memory || memory == SG_PAGEABLE)
		return cudart_end(&call, cudaErrorInvalidValue);
	op = sg_op_new(SG_SET);
	if (!op)
		return cudart_end(&call, cudaErrorMemoryAllocation);
	op->set.ptr = ptr;
	op->set.value = value;
	op->set.bytes = bytes;
	op->set.memory = memory;
	op->set.async = async;
	op->duration_ns = COPY_SETUP_NS + (uint64_t)((double)bytes / device_rate);
	sg_cost(call.start_ns, sg_config.launch_ns);
	return cudart_end(&call, sg_submit(stream, op, false));
}

cudaError_t cudaMemset(void *ptr, int value, size_t bytes)
{
	return set(CBID_cudaMemset, ptr, value, bytes, NULL, false, false);
}

cudaError_t cudaMemset_ptds(void *ptr, int value, size_t bytes)
{
	return set(CBID_cudaMemset_ptds, ptr, value, bytes, NULL, false, true);
}

cudaError_t cudaMemsetAsync(void *ptr, int value, size_t bytes, cudaStream_t stream)
{
	return set(CBID_cudaMemsetAsync, ptr, value, bytes, stream, true, false);
}

cudaError_t cudaMemsetAsync_ptsz(void *ptr, int value, size_t bytes, cudaStream_t stream)
{
	return set(CBID_cudaMemsetAsync_ptsz, ptr, value, bytes, stream, true, true);
}
