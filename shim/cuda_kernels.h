/* SPDX-License-Identifier: Apache-2.0
 *
 * Host stub or kernel handle -> mangled kernel name, learnt from __cudaRegisterFunction and __cudaGetKernel. Names are not
 * copied: they lie in the image that registered them, which a launch of the kernel proves to be loaded.
 */
#ifndef WHYIDLE_SHIM_CUDA_KERNELS_H
#define WHYIDLE_SHIM_CUDA_KERNELS_H

/* Remembers a name. Any thread, lock-free; forgets silently when the table (128 Ki entries) is full. */
void cuda_kernels_add(const void *stub, const char *name);

/* The name, NULL when unknown. Any thread, lock-free, async-signal-safe. */
const char *cuda_kernels_name(const void *stub);

#endif
