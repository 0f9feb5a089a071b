/* SPDX-License-Identifier: Apache-2.0
 *
 * profiler: the walk ends at our own thread.
 */
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	return moment_idle(m) && m->thread && m->thread->name && !strcmp(m->thread->name, "whyidle");
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;

	finding_title(f, "whyidle itself held the job up for %s", words_ns(f->ns));
	finding_evidence(f, "%lld events were recorded, %s of trace written", (long long)r->events, words_bytes(r->trace_bytes));
	evidence_say_ranks(e, f);
	finding_advice(f, "record less: raise WHYIDLE_THRESHOLD_US (calls shorter than that are only counted), or leave out GPU records with WHYIDLE_GPU=off");
}

const struct cause cause_profiler = { LEAF_PROFILER, claim, evidence_open, evidence_see, explain, evidence_close };
