/* SPDX-License-Identifier: Apache-2.0
 *
 * The real function behind a wrapper of CUDA or NCCL, by caller. One process may hold several libcudart (torch's 12, an
 * extension's 13). Their symbols are versioned and ours are not, so all of them arrive here, and each must go on to the library it
 * was linked with: a kernel registered with one runtime can't be launched by another.
 */
#ifndef WHYIDLE_SHIM_CUDA_RESOLVE_H
#define WHYIDLE_SHIM_CUDA_RESOLVE_H

#include <stdatomic.h>
#include <stdint.h>

#define CUDA_CALLERS 6		/* calling objects remembered per function; for more it is looked up each time */

/* Zero is a valid start. Entries are filled once: `bytes` last (release). */
struct cuda_function {
	struct cuda_caller {
		_Atomic uintptr_t bytes;	/* extent of the calling object; 0 = free, 1 = being filled */
		uintptr_t base;
		void *real;
	} callers[CUDA_CALLERS];
};

enum cuda_library { LIBRARY_CUDART, LIBRARY_NCCL };

/* Looks it up: what the caller would have got without us. NULL when nothing that is loaded has it. Keeps errno. */
void *cuda_resolve_slow(struct cuda_function *f, enum cuda_library library, const char *name, const void *caller);

static inline void *cuda_resolve(struct cuda_function *f, enum cuda_library library, const char *name, const void *caller)
{
	for (unsigned int i = 0; i < CUDA_CALLERS; i++) {
		struct cuda_caller *c = &f->callers[i];
		/* acquire pairs with the release in cuda_resolve_slow */
		uintptr_t bytes = atomic_load_explicit(&c->bytes, memory_order_acquire);

		if (bytes <= 1)
			break;
		if ((uintptr_t)caller - c->base < bytes)
			return c->real;
	}
	return cuda_resolve_slow(f, library, name, caller);
}

#endif
