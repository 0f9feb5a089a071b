/* SPDX-License-Identifier: Apache-2.0
 *
 * The few types of the CUDA runtime and of NCCL that are passed by value, in our own words: the shim is built without vendor
 * headers. Everything else that the wrappers forward is a pointer or a number.
 */
#ifndef WHYIDLE_SHIM_CUDA_ABI_H
#define WHYIDLE_SHIM_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

struct cuda_dim3 {
	unsigned int x, y, z;
};

struct cuda_pitched_ptr {
	void *ptr;
	size_t pitch, xsize, ysize;
};

struct cuda_extent {
	size_t width, height, depth;
};

/* What a wrapper answers when the loaded library has no such function. The caller would not have linked against that library,
 * so this is only seen by programs that find us by accident (weak references, RTLD_DEFAULT). */
#define CUDA_SYMBOL_MISSING 302		/* cudaErrorSharedObjectSymbolNotFound */
#define CUDA_NOT_READY 600		/* cudaErrorNotReady: an answer of the query calls, not a failure */

struct nccl_unique_id {
	char bytes[128];
};

enum nccl_result {
	NCCL_INVALID_USAGE = 5,		/* also our answer for a function that the loaded library lacks */
	NCCL_IN_PROGRESS = 7,		/* non-blocking communicators: not a failure */
};

#endif
