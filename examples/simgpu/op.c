/* SPDX-License-Identifier: Apache-2.0
 *
 * One operation of a stream: reference-counted, waited for by a futex of its own.
 */
#include "examples/simgpu/core.h"

#include <stdlib.h>

struct sg_op *sg_op_new(enum sg_op_kind kind)
{
	struct sg_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	atomic_init(&op->refs, 1);
	op->kind = kind;
	return op;
}

struct sg_op *sg_op_get(struct sg_op *op)
{
	if (op)
		atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
	return op;
}

void sg_op_put(struct sg_op *op)
{
	/* acq_rel: pairs with itself, so that the last owner sees what the others wrote */
	if (!op || atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (unsigned int i = 0; i < op->ndeps; i++)
		sg_op_put(op->deps[i]);
	free(op->deps);
	if (op->kind == SG_KERNEL)
		free(op->kernel.args);
	if (op->kind == SG_COPY)
		free(op->copy.staging);
	free(op);
}

bool sg_op_done(struct sg_op *op)
{
	/* acquire: pairs with op_finish in stream.c */
	return atomic_load_explicit(&op->done, memory_order_acquire) == 2;
}

void sg_op_wait(struct sg_op *op)
{
	uint32_t seen;

	while ((seen = atomic_load_explicit(&op->done, memory_order_acquire)) != 2) {
		if (seen == 0 && !atomic_compare_exchange_strong_explicit(&op->done, &seen, 1, memory_order_acquire,
									  memory_order_acquire))
			continue;
		futex_wait(&op->done, 1);
	}
}

int sg_op_depend(struct sg_op *op, struct sg_op *on)
{
	struct sg_op **more;

	if (op->ndeps == op->deps_cap) {
		more = realloc(op->deps, (op->deps_cap + 4) * sizeof(*more));
		if (!more)
			return cudaErrorMemoryAllocation;
		op->deps = more;
		op->deps_cap += 4;
	}
	op->deps[op->ndeps++] = sg_op_get(on);
	return 0;
}
