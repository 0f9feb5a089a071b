/* SPDX-License-Identifier: Apache-2.0
 *
 * The long form of the numbers. Times are whole ns here: this is where sums can be checked by hand.
 */
#include "analyzer/render_detail.h"

#include <stdlib.h>

#include "analyzer/findings.h"
#include "analyzer/out.h"
#include "analyzer/util.h"

static const char *const window_names[] = { [WINDOW_RUN] = "run", [WINDOW_STEADY] = "steady", [WINDOW_GPU_SPAN] = "gpu_span" };

static void print_ledgers(const struct out *o, const struct window_result *w)
{
	int64_t a = 0, b = 0;

	fprintf(o->to, "      %-22s %18s %18s\n", "leaf", "A (idle) ns", "B (lost) ns");
	for (int l = 0; l < LEAF_COUNT; l++) {
		a += w->ledger_a[l];
		b += w->ledger_b[l];
		if (w->ledger_a[l] || w->ledger_b[l])
			fprintf(o->to, "      %-22s %18lld %18lld\n", leaf_name(l), (long long)w->ledger_a[l], (long long)w->ledger_b[l]);
	}
	fprintf(o->to, "      %-22s %18lld %18lld\n", "sum", (long long)a, (long long)b);
	for (int u = 0; u < UNKNOWN_REASONS; u++)
		if (w->unknown[u])
			fprintf(o->to, "      unknown, %-13s %18s %18lld\n", unknown_reason_name(u), "", (long long)w->unknown[u]);
	if (w->skipped_compute_ns)
		fprintf(o->to, "      C: computing of skipped steps %30lld\n", (long long)w->skipped_compute_ns);
}

static void print_window(const struct out *o, const char *name, const struct window_result *w)
{
	if (!w->present)
		return;
	out_wrapf(o, "    ", "%s: %lld ns = compute %lld + exposed_comm %lld + exposed_copy %lld + idle %lld; %lld gaps, longest %lld ns", name,
		(long long)w->ns, (long long)w->compute_ns, (long long)w->exposed_comm_ns, (long long)w->exposed_copy_ns, (long long)w->idle_ns,
		(long long)w->gap_count, (long long)w->longest_gap_ns);
	print_ledgers(o, w);
}

static void print_device(const struct out *o, const struct device_result *d)
{
	char *host = clean_text(d->host), *name = clean_text(d->name);

	fprintf(o->to, "\n  rank %d, %s, GPU %d%s%s, pid %d\n", d->rank, host, d->device, *name ? " " : "", name, d->pid);
	free(host);
	free(name);
	if (d->steps.count)
		fprintf(o->to, "    steps: %lld, found by %s (confidence %.2f), %lld skipped\n", (long long)d->steps.count,
			d->steps.rule ? d->steps.rule : "?", d->steps.confidence, (long long)d->steps.skipped);
	else
		fprintf(o->to, "    no steps were found: the run window counts\n");
	if (d->scaler_seen)
		fprintf(o->to, "    loss scaler: %lld checks, %lld skips\n", (long long)d->scaler_checks, (long long)d->scaler_skips);
	for (int i = 0; i < WINDOW_COUNT; i++)
		print_window(o, window_names[i], &d->windows[i]);
}

static void print_run(const struct out *o, const struct result *r)
{
	char wall[AMOUNT_MAX], bytes[AMOUNT_MAX];
	char *command = clean_text(r->command);

	fprintf(o->to, "\n  command: %s\n  %s; %d host%s, %d processes, %d rank%s; GPU: %s; %lld events in %s, %lld lost\n", command,
		amount_time(wall, r->wall_ns), r->hosts, r->hosts == 1 ? "" : "s", r->processes, r->ranks, r->ranks == 1 ? "" : "s",
		r->gpu ? r->gpu : "none", (long long)r->events, amount_bytes(bytes, r->trace_bytes), (long long)r->dropped_events);
	free(command);
}

static void print_thresholds(const struct out *o)
{
	fprintf(o->to, "\n  thresholds (shares of the window that counts):\n");
#define THRESHOLD(id, value, meaning) fprintf(o->to, "    %-9s %5g  %s\n", #id, thresholds.id, meaning);
#include "analyzer/threshold.def"
#undef THRESHOLD
}

void render_detail(const struct out *o, const struct result *r)
{
	out_print(o, STYLE_BOLD, "\nIn detail\n");
	print_run(o, r);
	for (unsigned i = 0; i < r->ndevices; i++)
		print_device(o, &r->devices[i]);
	print_thresholds(o);
}
