/* SPDX-License-Identifier: Apache-2.0
 *
 * data.handoff: the batch is finished by its worker but not yet delivered: pickling into the result pipe, shared memory, passing descriptors,
 * the pin-memory thread.
 */
#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"

/* The worker's side only: a consumer that waits at its end of the pipe waits for what comes before. */
static bool between_processes(const struct moment *m)
{
	enum target_kind k = moment_target(m);

	if (m->batch && m->thread == m->batch->consumer)
		return false;
	if (k == TARGET_IS_PIPE || k == TARGET_IS_UNIX)
		return true;
	return k == TARGET_IS_FILE && starts_with(moment_path(m), "/dev/shm/");
}

bool moment_fetches_batch(const struct timeline *tl, const struct moment *m)
{
	return moment_target(m) == TARGET_IS_UNIX && !m->loader && moment_on_waiter(m) && has_workers(tl, m->thread->process);
}

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	const struct batch *b = m->batch;

	*until_ns = m->end_ns;
	if (!moment_idle(m))
		return false;
	if (!m->loader)
		return moment_fetches_batch(tl, m);
	if (b && b->finished_ns && m->start_ns >= b->finished_ns)
		return true;
	cut_at_batch(m, until_ns);
	if (between_processes(m))
		return true;
	/* the pin-memory thread, or another helper of the training process */
	return m->thread && m->waiter && m->thread != m->waiter && (!b || m->thread != b->consumer) && m->thread->process == m->waiter->process && !moment_reads_file(m) && !moment_on_socket(m);
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;
	const struct tally_row *row;

	(void)r;
	finding_title(f, "Finished batches are delivered late: %s", words_ns(f->ns));
	for (unsigned k = 0; k < 2 && (row = tally_top(&e->threads, k)); k++)
		if (row->ns * 10 > e->ns)
			finding_evidence(f, "%s: %s", row->name, evidence_part(e, f, row->ns));
	if (e->cpu_ns * 2 > e->ns)
		finding_evidence(f, "%s of it on a CPU: pickling or copying", evidence_part(e, f, e->cpu_ns));
	row = tally_top(&e->names, 0);
	if (row && row->ns * 10 > e->ns)
		finding_evidence(f, "in %s: %s", row->name, evidence_part(e, f, row->ns));
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	finding_advice(f, "hand over few large tensors instead of many small objects: collate in the worker, return arrays instead of lists of Python objects");
	finding_advice(f, "if a pin-memory thread is among the threads above: it competes with the training thread for the interpreter; try pin_memory=False, or a batch already contiguous");
	finding_advice(f, "more batches in flight hide a slow hand-over: prefetch_factor");
}

const struct cause cause_handoff = { LEAF_DATA_HANDOFF, claim, evidence_open, evidence_see, explain, evidence_close };
