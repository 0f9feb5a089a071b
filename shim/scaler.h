/* SPDX-License-Identifier: Apache-2.0
 *
 * What a loss scaler shows of itself to the wrappers of a shared CUDA runtime: the small values that the host reads back before it decides
 * (found_inf), and the arguments of the kernel that updates the scale. Costs one load a call until such a kernel is registered.
 * Runs in the traced thread: no allocation, no lock, no stdio, no CUDA call.
 */
#ifndef WHYIDLE_SHIM_SCALER_H
#define WHYIDLE_SHIM_SCALER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/span.h"

/* Kernels known that update a scale; 0 = no loss scaler can be in this process. */
extern _Atomic uint32_t scaler_kernels __attribute__((visibility("hidden")));

struct scaler_copy { const void *src, *dst; void *stream; uint64_t start_ns, call_ns; uint32_t bytes; };
extern _Thread_local struct scaler_copy scaler_copy __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline uint32_t scaler_any(void)
{
	/* relaxed: pairs with the release in scaler_register only in so far as a launch follows the registration of its kernel */
	return atomic_load_explicit(&scaler_kernels, memory_order_relaxed);
}

/* A kernel is registered under that mangled name. Any thread, before main too. */
void scaler_register(const void *stub, const char *name);

void scaler_launched_slow(const struct span *s, const void *stub, void **args);
void scaler_copied_slow(const struct span *s, void *dst, const void *src, size_t bytes, void *stream);
void scaler_synced_slow(void);

/* A launch succeeded. `args` as given to it, still the caller's. */
static inline void scaler_launched(const struct span *s, const void *stub, void **args)
{
	if (__builtin_expect(scaler_any() != 0, 0))
		scaler_launched_slow(s, stub, args);
}

/* A copy of `bytes` from the device to the host was enqueued. Its value is read when the thread's next CUDA call is a synchronisation of the same stream:
 * until then the destination is surely the caller's still (a variable on its stack, a pinned scalar). */
static inline void scaler_copied(const struct span *s, void *dst, const void *src, size_t bytes, int kind, void *stream)
{
	if (__builtin_expect(bytes <= 4, 0) && (kind == 2 || kind == 4) && scaler_any())
		scaler_copied_slow(s, dst, src, bytes, stream);
}

static inline void scaler_synced(void *stream)
{
	if (__builtin_expect(scaler_copy.dst != NULL, 0) && scaler_copy.stream == stream)
		scaler_synced_slow();
}

/* Any other CUDA call of the thread. */
static inline void scaler_forget(void)
{
	scaler_copy.dst = NULL;
}

#endif
