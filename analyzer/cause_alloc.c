/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu.alloc: inside an allocation or release of device or pinned memory. cudaFree also waits for the device.
 */
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	return moment_idle(m) && (moment_class(m) == CLASS_GPU_ALLOC || moment_outer_class(m) == CLASS_GPU_ALLOC);
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;
	const struct tally_row *row;
	bool pinned = false, frees = false;

	(void)r;
	finding_title(f, "The GPU waits for memory allocation: %s in %s", words_ns(f->ns), words_count(e->calls, "call", "calls"));
	for (unsigned k = 0; k < 4 && (row = tally_top(&e->names, k)); k++) {
		finding_evidence(f, "%s: %s, %s", row->name, words_count(row->count, "call", "calls"), evidence_part(e, f, row->ns));
		pinned |= strstr(row->name, "Host") != NULL;
		frees |= starts_with(row->name, "cudaFree");
	}
	finding_evidence(f, "a call takes %s (median), %s (longest)", words_ns(spread_at(&e->each, 0.5)), words_ns(e->each.max));
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	if (frees)
		finding_advice(f, "keep the memory between steps: no torch.cuda.empty_cache() in the loop, allocate buffers once; cudaFree also waits until the device is idle");
	finding_advice(f, "when sizes vary: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad to a few sizes, so that blocks are reused");
	if (pinned)
		finding_advice(f, "pinned host memory: allocate staging buffers once and reuse them; pinning costs a system call and page table work every time");
}

const struct cause cause_alloc = { LEAF_GPU_ALLOC, claim, evidence_open, evidence_see, explain, evidence_close };
