/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported wrappers of the CUDA runtime, made from the rows of cuda.def. Runs in the traced thread: no allocation, no lock,
 * no stdio, and no CUDA call of our own. The first call of a process brings CUPTI up (cupti.c); from then on launches and copies
 * are CUPTI's to record, and their wrappers only show in flight that they hang.
 */
#include "shim/cuda.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "shim/cuda_abi.h"
#include "shim/cuda_kernels.h"
#include "shim/cuda_resolve.h"
#include "shim/cupti.h"
#include "shim/scaler.h"
#include "shim/span.h"
#include "shim/strings.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf

#define EXPORT __attribute__((visibility("default")))
#define NAME_BYTES_MAX 4000		/* of the string table's 4 KB */

enum slot {
#define API(ret, name, call, params, args, capture) SLOT_##name,
#include "shim/cuda.def"
#undef API
	SLOT___cudaRegisterFunction,
	SLOT___cudaGetKernel,
	SLOT_COUNT
};

static const char *const slot_names[SLOT_COUNT] = {
#define API(ret, name, call, params, args, capture) #name,
#include "shim/cuda.def"
#undef API
	"__cudaRegisterFunction",
	"__cudaGetKernel",
};

static struct cuda_function functions[SLOT_COUNT];

const char *cuda_wrapped(unsigned int i)
{
	return i < SLOT_COUNT ? slot_names[i] : NULL;
}

static inline void *real_function(enum slot slot, const void *caller)
{
	return cuda_resolve(&functions[slot], LIBRARY_CUDART, slot_names[slot], caller);
}

static void begin(struct span *s, enum call call)
{
	enum call_class class = call_class(call);

	if (call != CALL_cudaStreamSynchronize)
		scaler_forget();
	cupti_start();
	if (cupti_records(call)) {
		span_begin_quiet(s, call);
		return;
	}
	span_begin(s, call);
	s->always = class == CLASS_GPU_LAUNCH || class == CLASS_GPU_COPY || class == CLASS_GPU_SYNC || class == CLASS_GPU_ALLOC;
}

static void end(struct span *s, int result)
{
	int err = result == CUDA_NOT_READY ? 0 : result;

	/* not left to span_end: CUDA's result 4 or 11 is not EINTR or EAGAIN */
	if (err)
		s->always = true;
	span_end(s, err);
	if (!err)
		cupti_call_succeeded();
}

/* Without CUPTI the launch is all that one sees of a kernel. */
static void capture_kernel(struct span *s, const void *stub)
{
	const char *name = s->quiet || !s->start_ns ? NULL : cuda_kernels_name(stub);

	if (!name)
		return;
	s->target_kind = TARGET_STRING;
	s->target = (intptr_t)strings_intern(PF_STRINGS, name, strnlen(name, NAME_BYTES_MAX));
}

#define CAP_NONE
#define CAP_BYTES(n) s.bytes = (int64_t)(n);
#define CAP_KERNEL(f) capture_kernel(&s, f);
#define CAP_LAUNCH(f, args) capture_kernel(&s, f); if (!result) scaler_launched(&s, f, args);
#define CAP_COPY(dst, src, n, kind, stream) s.bytes = (int64_t)(n); if (!result) scaler_copied(&s, dst, src, n, kind, stream);
#define CAP_SYNC(stream) if (!result) scaler_synced(stream); scaler_forget();

#define API(ret, name, call, params, args, capture) \
	EXPORT ret name params; \
	EXPORT ret name params \
	{ \
		ret(*real) params = real_function(SLOT_##name, __builtin_return_address(0)); \
		struct span s; \
		ret result; \
\
		if (!real) \
			return CUDA_SYMBOL_MISSING; \
		if (span_guarded()) \
			return real args; \
		begin(&s, CALL_##call); \
		result = real args; \
		capture \
		end(&s, result); \
		return result; \
	}
#include "shim/cuda.def"
#undef API

/* Written by nvcc into every program's static constructors: no span, no CUPTI, only the name. */
EXPORT void __cudaRegisterFunction(void **handle, const char *stub, char *device_stub, const char *device_name, int thread_limit,
				   void *tid, void *bid, void *block_dim, void *grid_dim, int *warp_size);
void __cudaRegisterFunction(void **handle, const char *stub, char *device_stub, const char *device_name, int thread_limit,
			    void *tid, void *bid, void *block_dim, void *grid_dim, int *warp_size)
{
	void (*real)(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *) =
		real_function(SLOT___cudaRegisterFunction, __builtin_return_address(0));

	cuda_kernels_add(stub, device_name);
	scaler_register(stub, device_name);
	if (real)
		real(handle, stub, device_stub, device_name, thread_limit, tid, bid, block_dim, grid_dim, warp_size);
}

/* nvcc 13 asks for the handle of a stub once and launches by handle. */
EXPORT int __cudaGetKernel(void **kernel, const void *stub);
int __cudaGetKernel(void **kernel, const void *stub)
{
	int (*real)(void **, const void *) = real_function(SLOT___cudaGetKernel, __builtin_return_address(0));
	int result;

	if (!real)
		return CUDA_SYMBOL_MISSING;
	result = real(kernel, stub);
	if (!result && kernel) {
		cuda_kernels_add(*kernel, cuda_kernels_name(stub));
		scaler_register(*kernel, cuda_kernels_name(stub));
	}
	return result;
}
