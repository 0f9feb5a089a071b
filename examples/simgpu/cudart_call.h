/* SPDX-License-Identifier: Apache-2.0
 *
 * What every entry point of libcudart does first and last.
 */
#ifndef SIMGPU_CUDART_CALL_H
#define SIMGPU_CUDART_CALL_H

#include "examples/simgpu/core.h"

enum {
#define CBID(domain, number, name, suffix) CBID_##name = number,
#include "examples/simgpu/cbid.def"
#undef CBID
};

/* Closes the call and remembers an error for cudaGetLastError. */
cudaError_t cudart_end(struct sg_call *call, int rc);

/* Opens `call`, or returns from the function when the runtime is unusable. */
#define CUDART_BEGIN(call, cbid)                                              \
	do {                                                                  \
		int rc_ = sg_call_begin(&(call), SG_RUNTIME, (cbid));         \
		if (rc_)                                                      \
			return cudart_end(&(call), rc_);                      \
	} while (0)

#endif
