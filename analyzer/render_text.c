/* SPDX-License-Identifier: Apache-2.0
 *
 * The result as text for people: the verdict, what limits it, where the time went, the findings, the acquitted, where the timeline lies.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings.h"
#include "analyzer/mem.h"
#include "analyzer/out.h"
#include "analyzer/render.h"
#include "analyzer/render_detail.h"
#include "analyzer/util.h"

#define FINDINGS_SHOWN 5
#define RANKS_SHOWN 16

static double share_of(int64_t ns, int64_t total_ns)
{
	return total_ns > 0 ? (double)ns / (double)total_ns : 0;
}

static enum style style_of(enum severity s)
{
	return s == SEVERITY_CRITICAL ? STYLE_BAD : s == SEVERITY_WARN ? STYLE_WARN : STYLE_BOLD;
}

/* The trace's first event, which Perfetto calls 0. */
static int64_t session_start(const struct result *r)
{
	int64_t start = r->start_ns;

	for (unsigned i = 0; !r->start_ns && i < r->ndevices; i++)
		if (!i || r->devices[i].windows[WINDOW_RUN].start_ns < start)
			start = r->devices[i].windows[WINDOW_RUN].start_ns;
	return start;
}

/* ---- the verdict and what limits it */

/* What matters more than any idle time. */
static void print_ending(const struct out *o, const struct result *r)
{
	char *sentence;

	if (!r->ending)
		return;
	sentence = mem_format("%c%s.", toupper((unsigned char)r->ending[0]), r->ending + 1);
	out_wrap(o, STYLE_BAD, "", sentence);
	free(sentence);
}

static void print_verdict(const struct out *o, const struct result *r)
{
	char *verdict = result_verdict(r);

	verdict[0] = (char)toupper((unsigned char)verdict[0]);
	verdict = mem_resize(verdict, strlen(verdict) + 2, 1);
	strcat(verdict, ".");
	out_wrap(o, r->nfindings ? style_of(r->findings[0].severity) : STYLE_BOLD, "", verdict);
	free(verdict);
}

static void print_warnings(const struct out *o, const struct result *r)
{
	for (unsigned i = 0; i < r->nwarnings; i++)
		out_wrap(o, STYLE_WARN, i ? "  ! " : "\n  ! ", r->warnings[i]);
	if (r->gpu_note && !r->ndevices)
		out_wrapf(o, r->nwarnings ? "  ! " : "\n  ! ", "no GPU work was recorded: %s", r->gpu_note);
}

/* ---- where the time went */

static void print_row(const struct out *o, const char *name, int64_t ns, int64_t total_ns, enum style s)
{
	char time[AMOUNT_MAX], share[AMOUNT_MAX];

	out_print(o, ns ? s : STYLE_DIM, "  %-28s %10s %8s", name, amount_time(time, ns), amount_share(share, share_of(ns, total_ns)));
}

static enum style row_style(int64_t ns, int64_t total_ns)
{
	return share_of(ns, total_ns) >= thresholds.note ? STYLE_BOLD : STYLE_PLAIN;
}

static void print_group(const struct out *o, const char *name, int64_t ns, int64_t total_ns)
{
	print_row(o, name, ns, total_ns, row_style(ns, total_ns));
	fputc('\n', o->to);
}

static void print_scaler_row(const struct out *o, const struct result *r, int64_t total_ns)
{
	char time[AMOUNT_MAX], share[AMOUNT_MAX];
	int64_t wasted_ns = r->headline.scaler_wasted_ns;

	print_row(o, "loss-scaler overflow skips", r->headline.scaler_skip_ns, total_ns, row_style(r->headline.scaler_skip_ns, total_ns));
	if (wasted_ns)
		out_print(o, row_style(wasted_ns, total_ns), "   and %s (%s) of computing thrown away", amount_time(time, wasted_ns),
			amount_share(share, share_of(wasted_ns, total_ns)));
	fputc('\n', o->to);
}

static void print_headline(const struct out *o, const struct result *r)
{
	int64_t total_ns = result_window_ns(r), compute_ns = 0;
	bool steady = true;
	char time[AMOUNT_MAX], *whose;

	for (unsigned i = 0; i < r->ndevices; i++) {
		compute_ns += device_window(&r->devices[i])->compute_ns;
		steady &= r->devices[i].windows[WINDOW_STEADY].present;
	}
	whose = r->ndevices == 1 ? mem_copy("") : mem_format(", summed over %u GPUs", r->ndevices);
	fprintf(o->to, "\nWhere the time went (%s of %s%s):\n", amount_time(time, total_ns), steady ? "the steady window" : "the run", whose);
	free(whose);
	print_row(o, "GPU computing", compute_ns, total_ns, STYLE_PLAIN);
	fputc('\n', o->to);
	print_group(o, "data starvation", r->headline.data_starvation_ns, total_ns);
	print_group(o, "communication retries", r->headline.comm_retry_ns, total_ns);
	print_group(o, "other communication", r->headline.other_comm_ns, total_ns);
	print_scaler_row(o, r, total_ns);
	print_group(o, "everything else", r->headline.other_ns, total_ns);
	print_group(o, "unknown", r->headline.unknown_ns, total_ns);
}

/* ---- per rank */

static int64_t lost_ns(const struct device_result *d)
{
	const struct window_result *w = device_window(d);

	return w->exposed_comm_ns + w->exposed_copy_ns + w->idle_ns;
}

static void rank_text(char out[16], int rank)
{
	if (rank < 0)
		strcpy(out, "-");
	else
		snprintf(out, 16, "%d", rank);
}

static void print_device(const struct out *o, const struct device_result *d)
{
	const struct window_result *w = device_window(d);
	char busy[AMOUNT_MAX], comm[AMOUNT_MAX], copy[AMOUNT_MAX], idle[AMOUNT_MAX], median[AMOUNT_MAX] = "-", p95[AMOUNT_MAX] = "-", rank[16];
	char *host = clean_text(d->host);

	rank_text(rank, d->rank);
	if (d->steps.count) {
		amount_time(median, d->steps.median_ns);
		amount_time(p95, d->steps.p95_ns);
	}
	fprintf(o->to, "  %4s  %-18.18s %3d  %8s %8s %8s %8s  %6lld %9s %9s\n", rank, host, d->device, amount_share(busy, share_of(w->compute_ns, w->ns)),
		amount_share(comm, share_of(w->exposed_comm_ns, w->ns)), amount_share(copy, share_of(w->exposed_copy_ns, w->ns)),
		amount_share(idle, share_of(w->idle_ns, w->ns)), (long long)d->steps.count, median, p95);
	free(host);
}

/* Of very many devices those that lost most: the least loss that is still shown. */
static int64_t least_shown(const struct result *r)
{
	int64_t floor_ns = 0;

	if (r->ndevices <= RANKS_SHOWN)
		return 0;
	for (unsigned i = 0; i < r->ndevices; i++) {
		int64_t v = lost_ns(&r->devices[i]);
		unsigned above = 0;

		for (unsigned j = 0; j < r->ndevices; j++)
			above += lost_ns(&r->devices[j]) >= v;
		if (above <= RANKS_SHOWN && (!floor_ns || v < floor_ns))
			floor_ns = v;
	}
	return floor_ns;
}

static void print_devices(const struct out *o, const struct result *r, bool all)
{
	int64_t floor_ns = all ? 0 : least_shown(r);
	unsigned shown = 0;

	out_print(o, STYLE_DIM, "\n  %4s  %-18s %3s  %8s %8s %8s %8s  %6s %9s %9s\n", "rank", "host", "GPU", "busy", "comm", "copy", "idle", "steps",
		"median", "p95");
	for (unsigned i = 0; i < r->ndevices; i++) {
		if (lost_ns(&r->devices[i]) < floor_ns || (!all && shown == RANKS_SHOWN))
			continue;
		print_device(o, &r->devices[i]);
		shown++;
	}
	if (shown < r->ndevices)
		fprintf(o->to, "  the %u that lost most; -v or --json for all %u\n", shown, r->ndevices);
}

/* ---- processes without GPU work */

static void print_host(const struct out *o, const struct host_result *h)
{
	int64_t ns = host_window_ns(h);
	char rank[16], window[AMOUNT_MAX], data[AMOUNT_MAX], comm[AMOUNT_MAX], write[AMOUNT_MAX];
	char *host = clean_text(h->host);

	rank_text(rank, h->rank);
	fprintf(o->to, "  %4s  %-18.18s %7d %10s %8s %8s %8s  %7lld %7lld\n", rank, host, h->pid, amount_time(window, ns),
		amount_share(data, share_of(h->data_wait_ns, ns)), amount_share(comm, share_of(h->comm_wait_ns, ns)),
		amount_share(write, share_of(h->write_ns, ns)), (long long)h->batches, (long long)h->workers);
	free(host);
}

static void print_host_leaves(const struct out *o, const struct result *r, int64_t total_ns)
{
	for (int l = 0; l < LEAF_COUNT; l++) {
		int64_t ns = 0;

		for (unsigned i = 0; i < r->nhost_only; i++)
			ns += r->host_only[i].leaf[l];
		if (!ns || l == LEAF_HOST_COMPUTE)
			continue;
		print_row(o, leaf_name(l), ns, total_ns, row_style(ns, total_ns));
		out_print(o, STYLE_DIM, "   %s\n", leaf_meaning(l));
	}
}

static void print_hosts(const struct out *o, const struct result *r)
{
	int64_t total_ns = 0;
	unsigned n = r->nhost_only < RANKS_SHOWN ? r->nhost_only : RANKS_SHOWN, steady = 0;

	for (unsigned i = 0; i < r->nhost_only; i++)
		steady += r->host_only[i].steady;
	fprintf(o->to, "\nTraining thread%s without GPU work%s:\n", r->nhost_only == 1 ? "" : "s", !steady ? "" :
		steady < r->nhost_only ? ", from warm-up to the last batch where there are batches" : ", from the end of warm-up to the last batch");
	out_print(o, STYLE_DIM, "  %4s  %-18s %7s %10s %8s %8s %8s  %7s %7s\n", "rank", "host", "pid", "window", "for data", "for peers", "writes",
		"batches", "workers");
	for (unsigned i = 0; i < n; i++)
		print_host(o, &r->host_only[i]);
	if (n < r->nhost_only)
		fprintf(o->to, "  ... and %u more; --json has all\n", r->nhost_only - n);
	for (unsigned i = 0; i < r->nhost_only; i++)
		total_ns += host_window_ns(&r->host_only[i]);
	fprintf(o->to, "\nWhat %s waited for:\n", r->nhost_only == 1 ? "it" : "they");
	print_host_leaves(o, r, total_ns);
}

/* ---- findings */

static void print_worst(const struct out *o, const struct result *r, const struct finding *f)
{
	char long_[AMOUNT_MAX];
	int64_t at = f->worst_at_ns - session_start(r);

	if (!f->worst_ns)
		return;
	fprintf(o->to, "     worst %s, at %lld.%06lld s of the timeline\n", amount_time(long_, f->worst_ns), (long long)(at / 1000000000),
		(long long)(at / 1000 % 1000000));
}

static void print_finding(const struct out *o, const struct result *r, const struct finding *f, unsigned number)
{
	char time[AMOUNT_MAX], share[AMOUNT_MAX], *head;

	head = mem_format("%u. %s", number, f->title);
	fputc('\n', o->to);
	out_wrap(o, style_of(f->severity), "", head);
	free(head);
	fprintf(o->to, "     %s, %s: %s, %s", severity_name(f->severity), leaf_name(f->leaf), amount_share(share, f->share), amount_time(time, f->ns));
	if (f->gaps)
		fprintf(o->to, " in %lld gap%s", (long long)f->gaps, f->gaps == 1 ? "" : "s");
	fputc('\n', o->to);
	print_worst(o, r, f);
	for (unsigned i = 0; i < f->nevidence; i++)
		out_wrap(o, STYLE_PLAIN, "     ", f->evidence[i]);
	for (unsigned i = 0; i < f->nadvice; i++)
		out_wrap(o, STYLE_GOOD, "     -> ", f->advice[i]);
	if (f->gain_upper_bound > 0)
		fprintf(o->to, "     gain: at most %s of the time\n", amount_share(share, f->gain_upper_bound));
}

static void print_findings(const struct out *o, const struct result *r, bool all)
{
	unsigned n = all || r->nfindings < FINDINGS_SHOWN ? r->nfindings : FINDINGS_SHOWN;

	for (unsigned i = 0; i < n; i++)
		print_finding(o, r, &r->findings[i], i + 1);
	if (n < r->nfindings)
		fprintf(o->to, "\n%u more: -v or --json\n", r->nfindings - n);
}

static void print_acquittals(const struct out *o, const struct result *r)
{
	for (unsigned i = 0; i < r->nacquittals; i++)
		out_wrap(o, STYLE_PLAIN, i ? "  ok " : "\n  ok ", r->acquittals[i]);
}

/* ---- where to look */

static void print_timeline(const struct out *o, const struct result *r, const struct render_options *opt)
{
	const char *quote;
	char *shown;

	if (!opt->shown)
		return;
	shown = clean_text(opt->shown);		/* a path is never broken over lines: it is there to be copied */
	fprintf(o->to, "\nTimeline: %s\n", shown);
	quote = shown[strcspn(shown, " \t'\"$&;()")] ? "'" : "";
	if (opt->several && r->profiled)
		fprintf(o->to, "  open one of them at https://ui.perfetto.dev (Open trace file)\n");
	else if (opt->several)
		fprintf(o->to, "  one .pftrace per process, for https://ui.perfetto.dev; all in one, with causes as tracks:\n"
			"  whyidle annotate %s%s%s -o timeline.pftrace\n", quote, shown, quote);
	else
		fprintf(o->to, "  open it at https://ui.perfetto.dev (Open trace file)\n");
	free(shown);
}

/* Nothing to change, nothing to doubt: one line. */
static void print_healthy(const struct out *o, const struct result *r, const struct render_options *opt)
{
	char *verdict = result_verdict(r), *shown = clean_text(opt->shown);

	verdict[0] = (char)toupper((unsigned char)verdict[0]);
	out_print(o, STYLE_GOOD, "%s", verdict);
	fprintf(o->to, ".%s%s\n", *shown ? " Timeline: " : "", shown);
	free(shown);
	free(verdict);
}

int render_text(FILE *to, const struct result *r, const struct render_options *opt)
{
	const struct out o = { .to = to, .color = opt->color };

	if (result_is_healthy(r) && !r->nwarnings && !opt->verbose) {
		print_healthy(&o, r, opt);
	} else {
		print_ending(&o, r);
		print_verdict(&o, r);
		print_warnings(&o, r);
		if (r->ndevices) {
			print_headline(&o, r);
			print_devices(&o, r, opt->verbose);
		}
		if (r->nhost_only)
			print_hosts(&o, r);
		print_findings(&o, r, opt->verbose);
		print_acquittals(&o, r);
		if (opt->verbose)
			render_detail(&o, r);
		print_timeline(&o, r, opt);
	}
	return fflush(to) || ferror(to) ? -1 : 0;
}
