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

/* Ranks of a data-parallel job skip together: the device with most checks speaks for all. */
static const struct scaler_result *speaker(const struct result *r)
{
	const struct device_result *most = NULL;

	for (unsigned i = 0; i < r->ndevices; i++)
		if (r->devices[i].scaler_seen && (!most || r->devices[i].scaler_checks > most->scaler_checks))
			most = &r->devices[i];
	return most && most->scaler.checks ? &most->scaler : NULL;
}

static void say_how_known(const struct scaler_result *s, struct finding *f)
{
	enum scaler_evidence most = 0;

	for (int e = 1; e < SCALER_EVIDENCES; e++)
		if (s->evidence[e] > s->evidence[most])
			most = e;
	finding_evidence(f, "%s: %lld of %lld verdicts known by %s: %s; confidence %.2f", scaler_form_name(s->form), (long long)s->evidence[most],
		(long long)s->checks, scaler_evidence_name(most), scaler_evidence_meaning(most), s->confidence_sum / (double)s->checks);
	if (s->verdicts[SCALER_UNKNOWN])
		finding_evidence(f, "cannot tell for %s: nobody read the flag back and the kernels' times do not differ",
			words_count(s->verdicts[SCALER_UNKNOWN], "step", "steps"));
	if (s->verdicts[SCALER_PARTLY])
		finding_evidence(f, "%s more skipped by some of several optimizers", words_count(s->verdicts[SCALER_PARTLY], "step was", "steps were"));
}

static void say_course(const struct scaler_result *s, struct finding *f)
{
	int64_t all = s->verdicts[SCALER_SKIPPED] + s->verdicts[SCALER_PARTLY];

	if (s->warmup_skips)
		finding_evidence(f, "%s at the very start, while the scale came down: expected", words_count(s->warmup_skips, "skip", "skips"));
	if (all > s->warmup_skips && s->first_skip >= 0)
		finding_evidence(f, "%lld after that, the first at check %lld; %lld right after the scale had grown (a try that failed, as is its way)",
			(long long)(all - s->warmup_skips), (long long)s->first_skip, (long long)s->probe_skips);
	if (s->longest_run > 1)
		finding_evidence(f, "longest row: %lld skips from check %lld on", (long long)s->longest_run, (long long)s->longest_run_at);
}

static void say_scale(const struct scaler_result *s, struct finding *f)
{
	if (s->scale_last > 0)
		finding_evidence(f, "scale %g at the start, %g at the end, between %g and %g (%s%s)", s->scale_first, s->scale_last, s->scale_least, s->scale_most,
			scale_known_name(s->scale_known), s->scale_anchors ? "; it was read back on the way" : "");
	if (s->constants_known)
		finding_evidence(f, "growth_factor=%g%s, backoff_factor=%g%s, growth_interval=%lld%s", s->growth, s->growth == 2 ? " (default)" : " (default 2)",
			s->backoff, s->backoff == 0.5 ? " (default)" : " (default 0.5)", (long long)s->interval, s->interval == 2000 ? " (default)" : " (default 2000)");
}

static void advise_look_for_infinities(struct finding *f)
{
	finding_advice(f, "that is more than a scale that is too high: look for infinities and NaN in inputs, loss and gradients "
		"(torch.autograd.set_detect_anomaly), lower the learning rate, clip gradients, or use bfloat16 (no scaler at all)");
}

static void advise(const struct scaler_result *s, struct finding *f)
{
	int64_t all = s->verdicts[SCALER_SKIPPED] + s->verdicts[SCALER_PARTLY], late = all - s->warmup_skips;

	if (s->last_run >= 10 || (s->scale_last > 0 && s->scale_last < (s->scale_known == SCALE_ASSUMED ? 1e-3 : 1))) {
		finding_advice(f, "the scale falls without end (%lld skips in a row at the end): gradients are not too large but infinite or NaN, and no scale "
			"helps. First look at check %lld", (long long)s->last_run, (long long)(s->first_skip >= 0 ? s->first_skip : s->longest_run_at));
		advise_look_for_infinities(f);
	} else if (s->at_minimum) {
		finding_advice(f, "the scale is at its minimum and steps still overflow: a lower scale is not to be had");
		advise_look_for_infinities(f);
	} else if (s->warmup_skips * 2 > all) {
		finding_advice(f, "most skips are at the start: %s, and the scale settled lower. init_scale nearer to %g saves them", s->scale_first == 65536 ?
			"init_scale=65536 is the default" : "init_scale was too high", s->scale_last > 0 ? s->scale_last : 1024);
	} else if (s->probe_skips * 2 > late && s->constants_known) {
		finding_advice(f, "most skips follow a growth of the scale: growth_interval=%lld tries a higher scale that often, and each try that fails costs a "
			"step%s", (long long)s->interval, s->interval < 2000 ? "; 2000 is the default" : "; a larger one tries less often");
	} else {
		advise_look_for_infinities(f);
	}
	if (s->constants_known && s->backoff == 0.5)
		finding_advice(f, "backoff_factor=0.5 is the default: setting it to 0.5 changed nothing");
	else if (s->constants_known)
		finding_advice(f, "backoff_factor=%g (0.5 is the default): %s", s->backoff, s->backoff > 0.5 ?
			"nearer to 1, it takes more skipped steps until the scale fits" : "it falls further than it must, and climbs back for long");
	else
		finding_advice(f, "backoff_factor=0.5 is the default: setting it changes nothing");
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	const struct scaler_result *s = speaker(r);
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
	if (count > 1)
		finding_evidence(f, "%s over the whole run on %s: %s of all checks", words_count(skips, "skip", "skips"),
			words_count(count, "device", "devices"), words_share(skips, checks));
	if (s) {
		say_how_known(s, f);
		say_course(s, f);
		say_scale(s, f);
	}
	if (e) {
		evidence_say_ranks(e, f);
		evidence_say_rhythm(e, f);
	}
	if (s) {
		advise(s, f);
		return;
	}
	advise_look_for_infinities(f);
	finding_advice(f, "backoff_factor=0.5 is the default: setting it changes nothing");
}

const struct cause cause_scaler = { LEAF_SCALER_SKIP, claim, evidence_open, evidence_see, explain, evidence_close };
