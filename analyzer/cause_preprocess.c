/* SPDX-License-Identifier: Apache-2.0
 *
 * data.preprocess: the worker that holds the awaited batch is working on it: decoding, augmenting, collating. Also what it does off the CPU in ways
 * that were not recorded. Whether more workers would help was decided before (cause_workers.c): here they would not.
 */
#include <stdlib.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"
#include "analyzer/where.h"

struct seen { struct evidence e; int64_t queued_ns, own_ns, blind_ns, alone_ns; };

/* No workers: the training thread makes its batches itself. Where it waits it tells what for. */
static bool makes_its_own(const struct moment *m)
{
	return !m->loader && moment_on_waiter(m) && m->activity == ACT_CALL && m->call && m->call->at && where_loads(m->call->at->text);
}

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	if (!moment_idle(m) || (!m->loader && !makes_its_own(m)))
		return false;
	cut_at_batch(m, until_ns);
	return true;
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;

	evidence_see(&s->e, tl, m);
	if (m->call && m->call->name->range == RANGE_LOADS)
		s->own_ns += m->end_ns - m->start_ns;
	else if (m->call && m->call->name->range == RANGE_WAITS_FOR_WORKERS)
		s->blind_ns += m->end_ns - m->start_ns;
	if (!m->loader)
		s->alone_ns += m->end_ns - m->start_ns;
	if (m->batch && m->batch->queued_behind)
		s->queued_ns += m->end_ns - m->start_ns;
}

/* From annotations only that a batch was waited for is known: not whether it was read or computed, nor what workers did. */
static bool explain_annotated(struct seen *s, const struct result *r, struct finding *f)
{
	struct evidence *e = &s->e;
	bool own = s->own_ns >= s->blind_ns;

	if ((s->own_ns + s->blind_ns) * 2 < e->ns)
		return false;
	finding_title(f, own ? "%s waits %s while the training process makes its batches itself" : "%s waits %s for batches from the loader's workers",
		words_waiter(r, true), words_ns(f->ns));
	finding_evidence(f, own ? "all of it in the DataLoader's next batch (num_workers=0): while it reads and decodes, nothing is launched"
		: "all of it in the DataLoader's next batch: the workers do not keep up");
	finding_evidence(f, own ? "a profiler's trace does not say whether the batch was read or computed meanwhile; `whyidle run` does"
		: "a profiler's trace does not say what the workers did meanwhile (reading, computing, too few of them); `whyidle run` does");
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	if (own)
		finding_advice(f, "DataLoader(..., num_workers=4 or more, persistent_workers=True): batches are then made beside the training");
	else
		finding_advice(f, "more workers (num_workers) while CPUs are free, prefetch_factor for uneven batches, a cheaper sample else");
	finding_advice(f, "`whyidle run -- ...` tells storage, network, computing and too few workers apart");
	return true;
}

static void explain_alone(struct seen *s, const struct result *r, struct finding *f)
{
	struct evidence *e = &s->e;
	const struct tally_row *row = tally_top(&e->names, 0);

	finding_title(f, "%s waits %s while the training thread prepares samples itself", words_waiter(r, true), words_ns(f->ns));
	finding_evidence(f, "the training thread waits inside the data set's own code: num_workers is 0");
	if (row)
		finding_evidence(f, "%s of it in %s", evidence_part(e, f, row->ns), row->name);
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	finding_advice(f, "DataLoader(..., num_workers=%lld): samples are then prepared while the model computes",
		(long long)(e->cpus > 1 ? (e->cpus < 4 ? e->cpus : 4) : 2));
	finding_advice(f, "make a sample cheaper: look at what waits there");
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	struct evidence *e = &s->e;
	const struct tally_row *row;
	int64_t wants_cpu_ns = e->cpu_ns + e->runnable_ns;
	bool no_cpu = e->runnable_ns * 2 > e->ns || (e->cpus && evidence_needed(e) > e->cpus && wants_cpu_ns * 2 > e->ns);

	if (explain_annotated(s, r, f))
		return;
	if (s->alone_ns * 2 > e->ns) {
		explain_alone(s, r, f);
		return;
	}
	finding_title(f, "%s waits %s for workers that prepare samples%s", words_waiter(r, true), words_ns(f->ns), no_cpu ? ": no CPU left" : "");
	finding_evidence(f, "%s on a CPU, %s waiting for one, %s elsewhere", words_share(e->cpu_ns, e->ns), words_share(e->runnable_ns, e->ns),
		words_share(e->ns - e->cpu_ns - e->runnable_ns, e->ns));
	if (e->workers_seen)
		finding_evidence(f, "%s seen, %s needed to keep up with the training step; %lld CPUs allowed", words_count(e->workers_seen, "worker", "workers"),
			evidence_needed(e) ? words_count(evidence_needed(e), "is", "are") : "more are", (long long)e->cpus);
	for (unsigned k = 0; k < 2 && (row = tally_top(&e->threads, k)); k++)
		if (row->ns * 5 > e->ns)
			finding_evidence(f, "%s: %s", row->name, evidence_part(e, f, row->ns));
	row = tally_top(&e->names, 0);
	if (row && row->ns * 5 > e->ns)
		finding_evidence(f, "%s of it in %s", evidence_part(e, f, row->ns), row->name);
	if (e->off_cpu_ns * 5 > e->ns)
		finding_evidence(f, "%s off the CPU in nothing that was recorded: raw system calls, locks, or page faults", evidence_part(e, f, e->off_cpu_ns));
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	if (no_cpu)
		finding_advice(f, "give the job more CPUs, or use them less: one thread per worker (torch.set_num_threads(1), cv2.setNumThreads(0), OMP_NUM_THREADS=1)");
	else if (e->cpus > e->workers_seen)
		finding_advice(f, "workers are busy and CPUs are free: num_workers %lld (now %lld)",
			(long long)(evidence_needed(e) > e->workers_seen ? evidence_needed(e) : e->cpus), (long long)e->workers_seen);
	finding_advice(f, "make a sample cheaper: decode to the size you need, cache decoded samples, move augmentation to the GPU");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	free(s);
}

const struct cause cause_preprocess = { LEAF_DATA_PREPROCESS, claim, open_seen, see, explain, close_seen };
