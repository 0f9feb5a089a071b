/* SPDX-License-Identifier: Apache-2.0
 *
 * Where PyTorch scales its loss on the CPU there is no device to watch: the one function that updates the scale there is wrapped, under its C++ name. It is
 * reached only with tensors in host memory (the dispatcher has chosen), so what it was given can be read. An exception of the real function passes through:
 * nothing is held meanwhile. No header: nobody here calls it.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shim/pulse.h"
#include "shim/resolve.h"
#include "shim/span.h"
#include "shim/sys.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf

#define LIBRARY "libtorch_cpu"
#define UPDATE _ZN2at6native22_amp_update_scale_cpu_ERNS_6TensorES2_RKS1_ddl
#define NAME_OF(x) NAME_OF_(x)
#define NAME_OF_(x) #x

typedef void *update_fn(void *scale, void *tracker, const void *found, double growth, double backoff, int64_t interval);
typedef const float *data_fn(const void *tensor);

/* at::native::_amp_update_scale_cpu_(Tensor &, Tensor &, const Tensor &, double, double, int64_t) */
__attribute__((visibility("default"))) update_fn UPDATE;

static _Atomic(void *) real_update, real_data;

static void *cached(_Atomic(void *) *at, const char *name, const void *caller)
{
	void *fn = atomic_load_explicit(at, memory_order_relaxed);	/* any thread finds the same */

	if (!fn) {
		fn = resolve_symbol(name, LIBRARY, caller);
		atomic_store_explicit(at, fn, memory_order_relaxed);
	}
	return fn;
}

static data_fn *data_of_tensor(const void *caller)
{
	data_fn *fn = (data_fn *)cached(&real_data, "_ZNK2at10TensorBase14const_data_ptrIfEEPKT_v", caller);

	return fn ? fn : (data_fn *)cached(&real_data, "_ZNK2at10TensorBase8data_ptrIfEEPT_v", caller);
}

static void read_back(const float *at, uint64_t now)
{
	struct span_note n = { .kind = NOTE_READ_BACK, .known = true, .start_ns = now, .address = (uintptr_t)at, .bytes = 4 };

	memcpy(&n.bits, at, sizeof(n.bits));
	span_note(&n);
}

void *UPDATE(void *scale, void *tracker, const void *found, double growth, double backoff, int64_t interval)
{
	const void *caller = __builtin_return_address(0);
	update_fn *real = (update_fn *)cached(&real_update, NAME_OF(UPDATE), caller);
	struct span_note n = { .kind = NOTE_SCALE_UPDATE, .known = true, .interval = (int32_t)interval };
	const float *scale_at, *found_at;
	data_fn *data;
	void *result;

	if (!real)
		return scale;		/* cannot be: its own library calls it */
	n.start_ns = now_ns();
	result = real(scale, tracker, found, growth, backoff, interval);
	/* it succeeded, so that both are floats: the accessor does not throw */
	if (!atomic_load_explicit(&pulse_on, memory_order_relaxed) || span_guarded() || !(data = data_of_tensor(caller)))
		return result;
	scale_at = data(scale);
	found_at = data(found);
	if (!scale_at || !found_at)
		return result;
	n.address = n.result = (uintptr_t)scale_at;
	n.found = (uintptr_t)found_at;
	memcpy(&n.growth_bits, &growth, sizeof(growth));
	memcpy(&n.backoff_bits, &backoff, sizeof(backoff));
	read_back(found_at, n.start_ns);
	n.start_ns++;			/* in this order, whatever the clock */
	span_note(&n);
	read_back(scale_at, n.start_ns + 1);
	return result;
}
