/* SPDX-License-Identifier: Apache-2.0
 *
 * scaler.skip: idle time between the overflow check and the next forward of a step that the loss scaler skipped. The larger loss, the compute of
 * that step, is ledger C (the engine's and the scaler's, scaler.h).
 */
#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	return moment_idle(m) && m->skipped_step;
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;
	int64_t checks = 0, skips = 0, wasted = 0, count = 0;

	for (unsigned i = 0; i < r->ndevices; i++) {
		const struct device_result *d = &r->devices[i];

		checks += d->scaler_checks;
		skips += d->scaler_skips;
		wasted += d->windows[d->windows[WINDOW_STEADY].present ? WINDOW_STEADY : WINDOW_RUN].skipped_compute_ns;
		count += d->scaler_seen;
	}
	finding_title(f, "The loss scaler skipped %lld of %lld steps: %s of GPU work thrown away, %s idle beside it",
		(long long)(count ? skips / count : skips), (long long)(count ? checks / count : checks), words_ns(wasted), words_ns(r->headline.scaler_skip_ns));
	finding_evidence(f, "a skipped step is one whose gradients overflowed: the optimizer's kernels are missing between the check and the update of the scale");
	finding_evidence(f, "%s over the whole run on %s: %s of all checks", words_count(skips, "skip", "skips"), words_count(count, "device", "devices"),
		words_share(skips, checks));
	if (e) {
		evidence_say_ranks(e, f);
		evidence_say_rhythm(e, f);
	}
	if (checks && skips * 20 > checks)
		finding_advice(f, "one step in %lld overflows: that is more than a scale that is too high. Look for infinities in the loss or gradients, lower the learning rate, clip gradients, or use bfloat16 (no scaler at all)",
			(long long)(skips ? checks / skips : 0));
	else
		finding_advice(f, "a few skips after the start are normal; init_scale nearer to the final scale saves them");
	finding_advice(f, "growth_interval larger than 2000 (its default) makes the scaler try a higher scale less often; each try that fails costs one step");
	finding_advice(f, "backoff_factor=0.5 is the default: setting it changes nothing");
}

const struct cause cause_scaler = { LEAF_SCALER_SKIP, claim, evidence_open, evidence_see, explain, evidence_close };
