/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the training loop, registered as nvcc's code does it, under the names that such kernels have in a real job.
 *
 * Where libcudart is simgpu's, each gets a model: how long it takes, and host code for those that compute something. Elsewhere
 * there is only the registration, so nothing else in the program may know simgpu.
 */
#ifndef TRAIN_KERNELS_H
#define TRAIN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "examples/simgpu/cudart.h"

enum { KERNEL_TINY_NS = 3000 };

void kernels_register(void);

/* Pure time: forward and backward matrix products, element-wise work. */
void kernel_gemm(cudaStream_t s, int backward, const void *in, void *out, uint64_t work_ns);
void kernel_norm(cudaStream_t s, const void *in, void *out, uint64_t work_ns);
void kernel_add(cudaStream_t s, const void *in, void *out, uint64_t work_ns);
void kernel_tiny(cudaStream_t s, const void *in, void *out);		/* KERNEL_TINY_NS */

/* *loss = mean squared distance of param from the batch. */
void kernel_loss(cudaStream_t s, const uint8_t *batch, size_t n, const float *param, size_t count, float *loss, uint64_t work_ns);
/* Gradients of param[first, first + count) in half precision, times *scale and gain: what is too large for a half becomes infinite. */
void kernel_wgrad(cudaStream_t s, const uint8_t *batch, size_t n, const float *param, float *grad, size_t first, size_t count,
		  const float *scale, float gain, uint64_t work_ns);

void kernel_fill(cudaStream_t s, float *dst, float value);
void kernel_reciprocal(cudaStream_t s, const float *scale, float *inverse);
/* grad *= *inverse; *found_inf = 1 when any is not finite. */
void kernel_unscale(cudaStream_t s, float *grad, size_t count, float *found_inf, const float *inverse, uint64_t work_ns);
/* The three foreach kernels of the optimizer; the last changes param. */
void kernel_lerp(cudaStream_t s, float *momentum, const float *grad, size_t count, float weight, uint64_t work_ns);
void kernel_square(cudaStream_t s, float *variance, const float *grad, size_t count, float weight, uint64_t work_ns);
void kernel_step(cudaStream_t s, float *param, const float *momentum, size_t count, float rate, uint64_t work_ns);
void kernel_update_scale(cudaStream_t s, float *scale, int *growth_tracker, const float *found_inf, double growth, double backoff,
			 int interval);

#endif
