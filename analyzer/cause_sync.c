/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.bubble: the host had been ahead of the device and was made to fall behind by a wait for it; the gap is the time it needs to catch up. The wait
 * itself is innocent (the device works meanwhile), but its tail, after the device ran dry, belongs to the gap.
 * Locks, files and other processes are still what they are: only the host's own work after the sync is taken, on the CPU or waiting for one. (Had the
 * host stayed ahead, waiting for a CPU would have cost nothing either.)
 */
#include <stdlib.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"

struct seen {
	struct evidence e;
	struct tally syncs;		/* the calls that had waited */
	int64_t tail_ns;
	int64_t last_gap_ns;
	const struct device *last_device;
};

/* A copy to the host, which returns when it is done. */
static bool is_blocking_copy(const struct moment *m)
{
	return moment_class(m) == CLASS_GPU_COPY && op_is(op_launched_by(m->device, m->thread, m->call), "Memcpy DtoH");
}

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	if (!moment_idle(m) || m->loader)
		return false;
	if (moment_class(m) == CLASS_GPU_SYNC || moment_outer_class(m) == CLASS_GPU_SYNC)
		return true;
	if (!m->after_sync)
		return m->part == PART_HOST && is_blocking_copy(m);
	if (m->activity == ACT_CPU || m->activity == ACT_RUNNABLE || m->part == PART_LATENCY)
		return true;
	switch (moment_class(m)) {
	case CLASS_GPU_LAUNCH:
	case CLASS_GPU_COPY:
	case CLASS_GPU_ORDER:
	case CLASS_GPU_QUERY:
		return true;
	default:
		return false;
	}
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

/* The sync that ended last before the moment, or is running. */
static const char *sync_before(const struct moment *m)
{
	const struct thread *t = m->waiter ? m->waiter : m->thread;
	const struct slice *s;

	if (!t)
		return NULL;
	s = timeline_call_at(t, m->gap_start_ns);
	if (s && (s->name->class == CLASS_GPU_SYNC || s->name->class == CLASS_GPU_COPY))
		return s->name->text;
	for (s = timeline_call_after(t, m->gap_start_ns - 1000000); s && s < t->calls + t->ncalls && s->start_ns < m->end_ns; s++)
		if (s->name->class == CLASS_GPU_SYNC)
			return s->name->text;
	return NULL;
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	const char *name;

	evidence_see(&s->e, tl, m);
	if (moment_class(m) == CLASS_GPU_SYNC)
		s->tail_ns += m->end_ns - m->start_ns;
	if (m->device == s->last_device && m->gap_start_ns == s->last_gap_ns)
		return;
	s->last_device = m->device;
	s->last_gap_ns = m->gap_start_ns;
	name = sync_before(m);
	if (name)
		tally_add(&s->syncs, name, m->gap_end_ns - m->gap_start_ns, 0, 1);
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	const struct tally_row *row;
	int64_t steps = 0;

	for (unsigned i = 0; i < r->ndevices; i++)
		steps += r->devices[i].steps.count;
	finding_title(f, "Waiting for the GPU's results lets it run dry: %s in %s", words_ns(f->ns), words_count(f->gaps, "bubble", "bubbles"));
	for (unsigned k = 0; k < 3 && (row = tally_top(&s->syncs, k)); k++)
		finding_evidence(f, "after %s: %s, %s on average", row->name, words_count(row->count, "time", "times"), words_ns(row->ns / row->count));
	if (steps && f->gaps >= steps)
		finding_evidence(f, "%.1f times a step", (double)f->gaps / (double)steps);
	if (s->tail_ns * 10 > s->e.ns)
		finding_evidence(f, "%s of it is the wait's own tail: the device was done, the call had not returned", evidence_part(&s->e, f, s->tail_ns));
	if (s->e.runnable_ns * 5 > s->e.ns)
		finding_evidence(f, "%s of it the launching thread waited for a CPU", words_share(s->e.runnable_ns, s->e.ns));
	evidence_say_place(&s->e, f);
	evidence_say_ranks(&s->e, f);
	finding_advice(f, "no .item(), .cpu(), print(loss) or 'if tensor:' in every step: keep values on the device, read them every n-th step");
	finding_advice(f, "where a value is needed, copy it with non_blocking=True to pinned memory and look at it a step later");
	if (s->e.runnable_ns * 5 > s->e.ns)
		finding_advice(f, "give the launching thread a CPU of its own: fewer helper threads and workers, or more CPUs");
	finding_advice(f, "the length of the waits themselves is no loss, the GPU works meanwhile; only the catching up counts, and is counted here");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	tally_free(&s->syncs);
	free(s);
}

const struct cause cause_sync = { LEAF_SYNC_BUBBLE, claim, open_seen, see, explain, close_seen };
