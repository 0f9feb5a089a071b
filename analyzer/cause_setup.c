/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.setup: inside the loop, communicators are created, connected or taken down.
 */
#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	*until_ns = m->end_ns;
	if (!moment_idle(m) || m->loader || moment_on_remote(tl, m) || !(moment_in_comm_setup(tl, m) || moment_looks_up(m)))
		return false;
	cut_at_retry(tl, m, until_ns);
	return true;
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;
	const struct tally_row *row;

	finding_title(f, "Setting up communicators takes %s while %s waits", words_ns(f->ns), words_waiter(r, false));
	for (unsigned k = 0; k < 3 && (row = tally_top(&e->names, k)); k++)
		if (row->ns * 20 > e->ns)
			finding_evidence(f, "%s: %s in %s", row->name, evidence_part(e, f, row->ns), words_count(row->count, "call", "calls"));
	row = tally_top(&e->targets, 0);
	if (row && row->ns * 5 > e->ns)
		finding_evidence(f, "most of it on %s", row->name);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	finding_advice(f, "create process groups once, before the loop, and keep them");
	finding_advice(f, "NCCL connects at the first collective of each kind: run one warm-up collective before timing anything");
	finding_advice(f, "if it is slow even so: NCCL_SOCKET_IFNAME names the interface to use; a wrong one costs timeouts");
}

const struct cause cause_setup = { LEAF_COMM_SETUP, claim, evidence_open, evidence_see, explain, evidence_close };
