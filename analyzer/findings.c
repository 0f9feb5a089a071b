/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums become findings, headline, acquittals and a verdict. Knows the thresholds, no trace and no event.
 */
#include "analyzer/findings.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/cause.h"
#include "analyzer/mem.h"
#include "analyzer/util.h"

const struct thresholds thresholds = {
#define THRESHOLD(id, value, meaning) .id = value,
#include "analyzer/threshold.def"
#undef THRESHOLD
};

/* ---- sums that the renderers ask for too */

const struct window_result *device_window(const struct device_result *d)
{
	return &d->windows[d->windows[WINDOW_STEADY].present ? WINDOW_STEADY : WINDOW_RUN];
}

int64_t host_window_ns(const struct host_result *h)
{
	return h->window_ns ? h->window_ns : h->wall_ns;
}

int64_t result_window_ns(const struct result *r)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < r->ndevices; i++)
		sum += device_window(&r->devices[i])->ns;
	for (unsigned i = 0; !r->ndevices && i < r->nhost_only; i++)
		sum += host_window_ns(&r->host_only[i]);
	return sum;
}

int64_t result_leaf_ns(const struct result *r, enum leaf leaf)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < r->ndevices; i++)
		sum += device_window(&r->devices[i])->ledger_b[leaf];
	for (unsigned i = 0; !r->ndevices && i < r->nhost_only; i++)
		sum += r->host_only[i].leaf[leaf];
	return sum;
}

/* Where the host is what trains, its computing is no loss. */
static bool is_loss(const struct result *r, enum leaf leaf)
{
	return r->ndevices || leaf != LEAF_HOST_COMPUTE;
}

int64_t result_group_ns(const struct result *r, enum leaf_group group)
{
	int64_t sum = 0;

	for (int l = 0; l < LEAF_COUNT; l++)
		if (leaf_group(l) == group && is_loss(r, l))
			sum += result_leaf_ns(r, l);
	return sum;
}

int64_t result_wasted_ns(const struct result *r)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < r->ndevices; i++)
		sum += device_window(&r->devices[i])->skipped_compute_ns;
	return sum;
}

int64_t result_steps(const struct result *r)
{
	int64_t least = 0;

	for (unsigned i = 0; i < r->ndevices; i++)
		if (r->devices[i].steps.count && (!least || r->devices[i].steps.count < least))
			least = r->devices[i].steps.count;
	for (unsigned i = 0; !r->ndevices && i < r->nhost_only; i++)
		if (r->host_only[i].steps.count && (!least || r->host_only[i].steps.count < least))
			least = r->host_only[i].steps.count;
	return least;
}

const char *severity_name(enum severity s)
{
	static const char *const names[] = { "info", "note", "warn", "critical" };

	return names[s];
}

enum severity severity_of(double share, int64_t steps)
{
	if (share >= thresholds.critical && (double)steps >= thresholds.steps)
		return SEVERITY_CRITICAL;
	if (share >= thresholds.warn)
		return SEVERITY_WARN;
	return share >= thresholds.note ? SEVERITY_NOTE : SEVERITY_INFO;
}

static double share_of(int64_t ns, int64_t window_ns)
{
	return window_ns > 0 ? (double)ns / (double)window_ns : 0;
}

/* ---- findings */

/* The rows of one leaf, added up; the state is that of the row with most time, which knows most. */
static struct seen_cause seen_leaf(const struct seen *seen, enum leaf leaf)
{
	struct seen_cause sum = { 0 };
	int64_t most = -1;

	for (unsigned i = 0; i < seen->ncauses; i++) {
		const struct seen_cause *c = &seen->causes[i];

		if (!c->cause || c->cause->leaf != leaf)
			continue;
		if (c->ns > most) {
			most = c->ns;
			sum.cause = c->cause;
			sum.state = c->state;
		}
		sum.gaps += c->gaps;
		if (c->worst_ns > sum.worst_ns) {
			sum.worst_ns = c->worst_ns;
			sum.worst_at_ns = c->worst_at_ns;
		}
	}
	return sum;
}

static enum severity judge(const struct result *r, enum leaf leaf, double share)
{
	enum severity s = severity_of(share, result_steps(r));

	/* Outside the steps nothing is lost that more steps would not dilute. */
	return leaf == LEAF_STARTUP && s > SEVERITY_NOTE ? SEVERITY_NOTE : s;
}

static void add_finding(struct result *r, const struct seen *seen, enum leaf leaf, int64_t ns, double share)
{
	struct seen_cause sum = seen_leaf(seen, leaf);
	struct finding *f;

	r->findings = mem_resize(r->findings, r->nfindings + 1, sizeof(*r->findings));
	f = &r->findings[r->nfindings++];
	memset(f, 0, sizeof(*f));
	f->leaf = leaf;
	f->ns = ns;
	f->share = share;
	f->severity = judge(r, leaf, share);
	f->gaps = sum.gaps;
	f->worst_at_ns = sum.worst_at_ns;
	f->worst_ns = sum.worst_ns;
	f->gain_upper_bound = share;
	/* nothing is collected outside of the steps: then there may be nothing to say but the amount */
	if (sum.cause && sum.cause->explain && (sum.state || !sum.cause->open))
		sum.cause->explain(sum.state, r, f);
	if (!f->title)
		f->title = mem_copy(leaf_meaning(leaf));
}

static int by_time(const void *a, const void *b)
{
	const struct finding *fa = a, *fb = b;

	if (fa->ns != fb->ns)
		return fa->ns < fb->ns ? 1 : -1;
	return (int)fa->leaf - (int)fb->leaf;
}

static void make_findings(struct result *r, const struct seen *seen)
{
	int64_t window_ns = result_window_ns(r);

	for (int leaf = 0; leaf < LEAF_COUNT; leaf++) {
		int64_t ns = result_leaf_ns(r, leaf);
		double share;

		if (leaf == LEAF_SCALER_SKIP)
			ns += result_wasted_ns(r);	/* what a skip costs: its idle and the computing that was thrown away */
		share = share_of(ns, window_ns);
		if (ns > 0 && is_loss(r, leaf) && share >= (leaf == LEAF_UNKNOWN ? thresholds.unknown : thresholds.note))
			add_finding(r, seen, leaf, ns, share);
	}
	if (r->nfindings)
		qsort(r->findings, r->nfindings, sizeof(*r->findings), by_time);
}

static void make_headline(struct result *r)
{
	r->headline.data_starvation_ns = result_group_ns(r, GROUP_DATA);
	r->headline.comm_retry_ns = result_group_ns(r, GROUP_RETRY);
	r->headline.other_comm_ns = result_group_ns(r, GROUP_OTHER_COMM);
	r->headline.scaler_skip_ns = result_group_ns(r, GROUP_SCALER);
	r->headline.scaler_wasted_ns = result_wasted_ns(r);
	r->headline.other_ns = result_group_ns(r, GROUP_OTHER);
	r->headline.unknown_ns = result_group_ns(r, GROUP_UNKNOWN);
}

/* ---- acquittals: the usual suspects that did not do it */

static bool accused(const struct result *r, enum leaf_group group)
{
	for (unsigned i = 0; i < r->nfindings; i++)
		if (leaf_group(r->findings[i].leaf) == group)
			return true;
	return false;
}

static void acquit(struct result *r, char *sentence)
{
	r->acquittals = mem_resize(r->acquittals, r->nacquittals + 1, sizeof(*r->acquittals));
	r->acquittals[r->nacquittals++] = sentence;
}

/* Ranks of a data-parallel job skip together: the device with most checks speaks for all. */
static void acquit_scaler(struct result *r, int64_t window_ns)
{
	const struct device_result *most = NULL;
	char amount[AMOUNT_MAX];

	for (unsigned i = 0; i < r->ndevices; i++)
		if (r->devices[i].scaler_seen && (!most || r->devices[i].scaler_checks > most->scaler_checks))
			most = &r->devices[i];
	if (accused(r, GROUP_SCALER) || !r->ndevices)
		return;
	if (!most) {
		acquit(r, mem_copy("loss scaler: no scaler seen in this job"));
		return;
	}
	if (most->scaler.verdicts[SCALER_UNKNOWN] * 10 > most->scaler_checks) {
		acquit(r, mem_format("loss scaler: cannot tell for %lld of %lld steps whether the optimizer was skipped (a fused optimizer whose flag nobody reads "
			"back); scaler.get_scale() once a step would tell", (long long)most->scaler.verdicts[SCALER_UNKNOWN], (long long)most->scaler_checks));
		return;
	}
	if (most->scaler_skips)
		acquit(r, mem_format("loss scaler: %lld of %lld steps skipped, %s of the time, not your problem", (long long)most->scaler_skips,
			(long long)most->scaler_checks,
			amount_share(amount, share_of(result_group_ns(r, GROUP_SCALER) + result_wasted_ns(r), window_ns))));
	else
		acquit(r, mem_format("loss scaler: 0 of %lld steps skipped, not your problem", (long long)most->scaler_checks));
}

static void warn_first(struct result *r, unsigned at, char *sentence)
{
	r->warnings = mem_resize(r->warnings, r->nwarnings + 1, sizeof(*r->warnings));
	memmove(r->warnings + at + 1, r->warnings + at, (r->nwarnings - at) * sizeof(*r->warnings));
	r->warnings[at] = sentence;
	r->nwarnings++;
}

/* CPU training: no ledger knows what a skip cost, but which part of the steps was thrown away is known. */
static void say_host_scaler(struct result *r)
{
	const struct scaler_result *most = NULL;
	int64_t skips;

	for (unsigned i = 0; i < r->nhost_only; i++)
		if (r->host_only[i].scaler.checks && (!most || r->host_only[i].scaler.checks > most->checks))
			most = &r->host_only[i].scaler;
	if (!most)
		return;
	skips = most->verdicts[SCALER_SKIPPED];
	if ((double)skips < thresholds.note * (double)most->checks)
		acquit(r, mem_format("loss scaler: %lld of %lld steps skipped, not your problem", (long long)skips, (long long)most->checks));
	else
		warn_first(r, r->nwarnings, mem_format("the loss scaler skipped %lld of %lld steps, whose computing was thrown away: the first %lld at the start, the "
			"longest row %lld; scale %g at the end, backoff_factor=%g, growth_interval=%lld. Look for infinities in loss and gradients",
			(long long)skips, (long long)most->checks, (long long)most->warmup_skips, (long long)most->longest_run, most->scale_last,
			most->backoff, (long long)most->interval));
}

static void acquit_data(struct result *r, int64_t window_ns)
{
	char amount[AMOUNT_MAX];

	if (!accused(r, GROUP_DATA))
		acquit(r, mem_format("data loading: %s of the time was spent waiting for it, not your problem",
			amount_share(amount, share_of(result_group_ns(r, GROUP_DATA), window_ns))));
}

static void acquit_communication(struct result *r, int64_t window_ns)
{
	int64_t retry_ns = result_group_ns(r, GROUP_RETRY), other_ns = result_group_ns(r, GROUP_OTHER_COMM);
	bool retries = accused(r, GROUP_RETRY), others = accused(r, GROUP_OTHER_COMM);
	char amount[AMOUNT_MAX];

	if (r->ranks < 2 && !retry_ns && !other_ns)
		return;
	/* who has not looked does not acquit */
	if (r->profiled) {
		if (!others)
			acquit(r, mem_format("communication: %s of the time exposed, not your problem", amount_share(amount, share_of(other_ns, window_ns))));
		return;
	}
	if (!retries && !others)
		acquit(r, mem_format("communication: %s of the time exposed, %s retries, not your problem",
			amount_share(amount, share_of(retry_ns + other_ns, window_ns)), retry_ns ? "hardly any" : "no"));
	else if (!retries)
		acquit(r, mem_format("communication retries: %s of the time, not your problem", amount_share(amount, share_of(retry_ns, window_ns))));
}

static void make_acquittals(struct result *r)
{
	int64_t window_ns = result_window_ns(r);

	if (!window_ns)
		return;
	acquit_scaler(r, window_ns);
	if (!r->ndevices)
		say_host_scaler(r);
	acquit_data(r, window_ns);
	acquit_communication(r, window_ns);
}

/* ---- what limits the verdict, said before it */

static void make_warnings(struct result *r)
{
	double unknown = share_of(result_leaf_ns(r, LEAF_UNKNOWN), result_window_ns(r));
	char amount[AMOUNT_MAX];
	unsigned n = 0;

	if (r->dropped_events)
		warn_first(r, n++, mem_format("%lld events were lost while recording: what is said below may be wrong where they are missing "
			"(a larger WHYIDLE_RING_KB loses fewer)", (long long)r->dropped_events));
	if (r->cut)
		warn_first(r, n++, mem_format("the run was cut: %u process%s ended without saying so (killed, or still running); up to their last "
			"100 ms are missing", r->cut_processes, r->cut_processes == 1 ? "" : "es"));
	/* what a healthy run does not have cannot have been missed */
	if (r->profiled && r->ndevices && share_of(result_group_ns(r, GROUP_OTHER_COMM) + result_group_ns(r, GROUP_DATA), result_window_ns(r)) >= thresholds.note)
		warn_first(r, n++, mem_format("a profiler's trace has no sockets, files or loader workers: communication retries were not looked for, and waiting "
			"for data is not divided further (`whyidle run` records them)"));
	if (unknown >= thresholds.unknown)
		warn_first(r, n++, mem_format("%s of the time could not be explained", amount_share(amount, unknown)));
}

int findings_make(struct result *r, const struct seen *seen)
{
	make_headline(r);
	make_warnings(r);
	make_findings(r, seen);
	make_acquittals(r);
	return 0;
}

/* ---- the verdict */

static const char *window_name(const struct result *r)
{
	for (unsigned i = 0; i < r->ndevices; i++)
		if (!r->devices[i].windows[WINDOW_STEADY].present)
			return "the run";
	for (unsigned i = 0; !r->ndevices && i < r->nhost_only; i++)
		if (!r->host_only[i].steady)
			return "the time";
	return "the steady window";
}

static char *steps_text(const struct result *r)
{
	int64_t n = result_steps(r);

	return n ? mem_format(" (%lld steps)", (long long)n) : mem_copy("");
}

static char *verdict_of_devices(const struct result *r)
{
	int64_t window_ns = result_window_ns(r), wasted_ns = result_wasted_ns(r), lost_ns = 0;
	char lost[AMOUNT_MAX], most[AMOUNT_MAX], *steps = steps_text(r), *gpus, *out;

	for (int g = 0; g < GROUP_COUNT; g++)
		lost_ns += result_group_ns(r, g);
	gpus = r->ndevices == 1 ? mem_copy("the GPU") : mem_format("%u GPUs", r->ndevices);
	amount_share(lost, share_of(lost_ns + wasted_ns, window_ns));
	if (r->nfindings)
		out = mem_format("%s lost %s of %s%s; largest cause: %s, %s", gpus, lost, window_name(r), steps, leaf_name(r->findings[0].leaf),
			amount_share(most, r->findings[0].share));
	else if (share_of(lost_ns, window_ns) >= thresholds.unknown)
		out = mem_format("%s lost %s of %s%s, but no single cause reaches %s", gpus, lost, window_name(r), steps,
			amount_share(most, thresholds.note));
	else
		out = mem_format("%s%s %s busy %s of %s%s%s", r->ending ? "" : "healthy: ", gpus, r->ndevices == 1 ? "was" : "were",
			amount_share(most, 1 - share_of(lost_ns, window_ns)),
			window_name(r), steps, r->ending ? "" : ", nothing to change");
	free(steps);
	free(gpus);
	return out;
}

/* A loop over batches, or steps, in any process; without one nothing can be called healthy. */
static bool trains(const struct result *r)
{
	for (unsigned i = 0; i < r->nhost_only; i++)
		if (r->host_only[i].batches || r->host_only[i].steps.count)
			return true;
	return false;
}

bool result_is_healthy(const struct result *r)
{
	return result_window_ns(r) > 0 && !r->nfindings && !r->ending && (r->ndevices ? true : !r->profiled && trains(r));
}

static char *verdict_of_hosts(const struct result *r)
{
	int64_t wall_ns = result_window_ns(r), data_ns = 0, comm_ns = 0;
	char data[AMOUNT_MAX], comm[AMOUNT_MAX], most[AMOUNT_MAX], *because, *steps, *out;

	for (unsigned i = 0; i < r->nhost_only; i++) {
		data_ns += r->host_only[i].data_wait_ns;
		comm_ns += r->host_only[i].comm_wait_ns;
	}
	if (r->profiled)
		return mem_format("no GPU work is in this profiler's trace, so nothing can be said of a GPU's idle time; the training %s waited %s of the time "
			"for data", r->nhost_only == 1 ? "thread" : "threads", amount_share(data, share_of(data_ns, wall_ns)));
	steps = strcmp(window_name(r), "the steady window") ? mem_copy("") : steps_text(r);
	because = r->nfindings ? mem_format("; largest cause: %s, %s", leaf_name(r->findings[0].leaf), amount_share(most, r->findings[0].share))
			       : mem_copy(result_is_healthy(r) ? ", nothing to change" : "");
	out = mem_format("%sno GPU work was recorded%s; the %s %s waited %s of %s%s for data%s%s%s", result_is_healthy(r) ? "healthy: " : "",
		trains(r) ? "" : " and no training loop was recognised", trains(r) ? "training" : "main", r->nhost_only == 1 ? "thread" : "threads", amount_share(data, share_of(data_ns, wall_ns)),
		window_name(r), steps, comm_ns ? " and " : "",
		comm_ns ? amount_share(comm, share_of(comm_ns, wall_ns)) : "", comm_ns ? " for other ranks" : "");
	out = mem_resize(out, strlen(out) + strlen(because) + 1, 1);
	strcat(out, because);
	free(because);
	free(steps);
	return out;
}

char *result_verdict(const struct result *r)
{
	if (r->ndevices && result_window_ns(r))
		return verdict_of_devices(r);
	if (r->nhost_only && result_window_ns(r))
		return verdict_of_hosts(r);
	if (r->profiled)
		return mem_copy("no GPU work is in this profiler's trace, so nothing can be said of a GPU's idle time");
	return mem_copy("neither GPU work nor a training loop was found in what was recorded");
}
