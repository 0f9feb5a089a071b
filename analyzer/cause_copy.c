/* SPDX-License-Identifier: Apache-2.0
 *
 * copy: exposed copies and sets that are none of the above (ledger B only).
 */
#include <stdlib.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"

struct seen { struct evidence e; struct tally kinds; int64_t last_start_ns; };

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	return m->state == LOST_EXPOSED_COPY;
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	int64_t whole, ns = m->end_ns - m->start_ns;
	bool fresh;

	evidence_see(&s->e, tl, m);
	if (!m->op)
		return;
	whole = m->op->end_ns - m->op->start_ns;
	fresh = m->op->start_ns != s->last_start_ns;
	s->last_start_ns = m->op->start_ns;
	tally_add(&s->kinds, m->op->name->text, ns,
		m->op->bytes > 0 && whole > 0 ? (int64_t)((double)m->op->bytes * (double)ns / (double)whole) : 0, fresh);
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	const struct tally_row *row;

	(void)r;
	finding_title(f, "Copies run alone on the device for %s", words_ns(f->ns));
	for (unsigned k = 0; k < 4 && (row = tally_top(&s->kinds, k)); k++)
		finding_evidence(f, "%s: %lld, %s at %s", row->name, (long long)row->count, evidence_part(&s->e, f, row->ns), words_rate(row->bytes, row->ns));
	evidence_say_ranks(&s->e, f);
	finding_advice(f, "put copies of the next batch on a stream of their own, so that they run beside the kernels of this one");
	finding_advice(f, "copy less: send uint8 images and normalise on the device; keep metrics on the device and read them every n-th step");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	tally_free(&s->kinds);
	free(s);
}

const struct cause cause_copy = { LEAF_COPY, claim, open_seen, see, explain, close_seen };
