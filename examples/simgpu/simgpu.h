/* SPDX-License-Identifier: Apache-2.0
 *
 * How a program tells the software GPU what its kernels do and how long they take. The only thing here that NVIDIA's libraries
 * lack; exported by simgpu's libcudart.so.12.
 */
#ifndef SIMGPU_SIMGPU_H
#define SIMGPU_SIMGPU_H

#include "examples/simgpu/cudart.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Duration of one launch in ns. Called on the stream's thread when the kernel starts, that is after everything it follows
 * has run its body: it may read "device" memory (an optimizer that returns at once when found_inf is set). `args` points to
 * the copies of the arguments made at launch. Must not call CUDA and should not block.
 */
typedef uint64_t simgpu_duration_fn(void **args, dim3 grid, dim3 block);

/* What the kernel does. Called on the stream's thread at the modelled end, before anything that follows the kernel. Keep it
 * short: what it takes beyond the end delays the stream (in real time, not in modelled time). */
typedef void simgpu_body_fn(void **args, dim3 grid, dim3 block);

/*
 * Gives the kernel registered (before or after, by __cudaRegisterFunction) under the mangled name a model. `arg_bytes[i]` is the size of
 * argument i, for the copy made at launch; both callbacks may be NULL (a kernel without a model takes 10 us and does nothing).
 * A second call for the same name replaces the first for later launches. Any thread. 0, or -1 when a parameter is wrong.
 */
int simgpu_kernel_model(const char *mangled_name, simgpu_duration_fn *duration_ns, simgpu_body_fn *body, unsigned int args,
			const size_t *arg_bytes);

#ifdef __cplusplus
}
#endif

#endif
