/* SPDX-License-Identifier: Apache-2.0
 *
 * data.pageable_copy: a host-to-device copy from pageable memory: the copy itself while it is exposed, and the host's staging before it. The driver
 * copies through a small pinned buffer of its own, at a fraction of the bus, and the calling thread is held meanwhile.
 */
#include <stdlib.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"

struct seen {
	struct evidence e;
	int64_t copy_bytes, copy_ns, copies;	/* whole copies, once each */
	const struct op *last;
	int64_t last_start_ns;
};

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	if (m->state == LOST_EXPOSED_COPY)
		return op_is_pageable_h2d(m->op);
	if (!moment_idle(m) || moment_class(m) != CLASS_GPU_COPY)
		return false;
	if (m->part == PART_CALL && op_is_pageable_h2d(m->op))
		return true;
	return op_is_pageable_h2d(op_launched_by(m->device, m->thread, m->call));
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	const struct op *op = m->op;

	evidence_see(&s->e, tl, m);
	if (!op_is_pageable_h2d(op))
		op = op_launched_by(m->device, m->thread, m->call);
	if (!op || op->start_ns == s->last_start_ns)
		return;
	s->last_start_ns = op->start_ns;
	s->copies++;
	if (op->bytes > 0) {
		s->copy_bytes += op->bytes;
		s->copy_ns += op->end_ns - op->start_ns;
	}
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;

	(void)r;
	finding_title(f, "Copies from pageable memory hold up the GPU: %s", words_ns(f->ns));
	if (s->copies)
		finding_evidence(f, "%s of %s (mean) at %s; from pinned memory a copy runs at the speed of the bus and beside the kernels",
			words_count(s->copies, "copy", "copies"), words_bytes(s->copy_bytes / s->copies), words_rate(s->copy_bytes, s->copy_ns));
	evidence_say_place(&s->e, f);
	evidence_say_ranks(&s->e, f);
	finding_advice(f, "DataLoader(..., pin_memory=True) and batch.to(device, non_blocking=True)");
	finding_advice(f, "tensors made in the training loop: allocate them with pin_memory=True once and reuse them");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	free(s);
}

const struct cause cause_pageable = { LEAF_DATA_PAGEABLE_COPY, claim, open_seen, see, explain, close_seen };
