/* SPDX-License-Identifier: Apache-2.0
 *
 * unknown: what nobody claimed, with the reason.
 */
#include <stdlib.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"

#define MAX_HOPS 8

struct seen { struct evidence e; int64_t reasons[UNKNOWN_REASONS]; };

enum unknown_reason cause_unknown_reason(const struct moment *m)
{
	bool lost = (m->device && m->device->process->dropped > 0) || (m->thread && m->thread->process->dropped > 0);

	if (m->part == PART_DEVICE)
		return UNKNOWN_DEVICE;
	if (lost)
		return UNKNOWN_EVENTS_LOST;
	if (m->hops >= MAX_HOPS)
		return UNKNOWN_HOP_LIMIT;
	if (!m->thread || (m->device && m->state == LOST_IDLE && m->op && !m->op->launcher))
		return UNKNOWN_NO_LAUNCH_RECORD;
	return UNKNOWN_OFF_CPU;
}

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
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
	s->reasons[cause_unknown_reason(m)] += m->end_ns - m->start_ns;
}

static const char *const sentences[UNKNOWN_REASONS] = {
	[UNKNOWN_DEVICE] = "work was queued on the device, which was idle all the same (it waits for another stream, or for an event that is not recorded)",
	[UNKNOWN_NO_LAUNCH_RECORD] = "the operation that ends the gap has no launch record: what the host did is not known",
	[UNKNOWN_EVENTS_LOST] = "events were dropped around there",
	[UNKNOWN_HOP_LIMIT] = "the chain of who waits for whom is longer than is followed",
	[UNKNOWN_OFF_CPU] = "the thread was off the CPU in nothing that was recorded (raw system calls, page faults, locks inside libraries)",
};

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;

	(void)r;
	finding_title(f, "%s could not be explained", words_ns(f->ns));
	for (unsigned i = 0; i < UNKNOWN_REASONS; i++)
		if (s->reasons[i])
			finding_evidence(f, "%s: %s", words_ns(s->reasons[i]), sentences[i]);
	evidence_say_ranks(&s->e, f);
	if (s->reasons[UNKNOWN_EVENTS_LOST])
		finding_advice(f, "events were lost: enlarge the rings with WHYIDLE_RING_KB, or raise WHYIDLE_THRESHOLD_US");
	if (s->reasons[UNKNOWN_NO_LAUNCH_RECORD])
		finding_advice(f, "launches are matched through CUPTI or the preloaded calls: `whyidle doctor` tells what is missing here");
	finding_advice(f, "open the worst of these gaps in the timeline and look at the threads there");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	free(s);
}

const struct cause cause_unknown = { LEAF_UNKNOWN, claim, open_seen, see, explain, close_seen };
