/* SPDX-License-Identifier: Apache-2.0
 *
 * The result as JSON, schema whyidle.report/1. Integers are ns unless their name says otherwise; a rank of -1 is unknown. Keys are only ever
 * added within a schema version.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings.h"
#include "analyzer/render.h"
#include "analyzer/util.h"

static json_t *text(const char *s)
{
	char *clean;
	json_t *j;

	if (!s)
		return json_null();
	clean = clean_text(s);
	j = json_string(clean);
	free(clean);
	return j;
}

static json_t *texts(char *const *strings, unsigned n)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, text(strings[i]));
	return list;
}

static void put_int(json_t *o, const char *key, int64_t v)
{
	json_object_set_new(o, key, json_integer(v));
}

static void put(json_t *o, const char *key, json_t *v)
{
	json_object_set_new(o, key, v);
}

/* All leaves, zero or not, so that a reader needs no default. `copy` exists in ledger B only. */
static json_t *ledger(const int64_t *leaves, bool with_copy)
{
	json_t *o = json_object();

	for (int l = 0; l < LEAF_COUNT; l++)
		if (with_copy || l != LEAF_COPY)
			put_int(o, leaf_name(l), leaves[l]);
	return o;
}

static json_t *window(const struct window_result *w)
{
	json_t *o, *state, *gaps, *waste, *unknown;

	if (!w->present)
		return json_null();
	o = json_object();
	put_int(o, "start_ns", w->start_ns);
	put_int(o, "ns", w->ns);
	put(o, "state", state = json_object());
	put_int(state, "compute", w->compute_ns);
	put_int(state, "exposed_comm", w->exposed_comm_ns);
	put_int(state, "exposed_copy", w->exposed_copy_ns);
	put_int(state, "idle", w->idle_ns);
	put(o, "ledger_a", ledger(w->ledger_a, false));
	put(o, "ledger_b", ledger(w->ledger_b, true));
	put(o, "ledger_c", waste = json_object());
	put_int(waste, "skipped_compute", w->skipped_compute_ns);
	put(o, "unknown", unknown = json_object());
	for (int u = 0; u < UNKNOWN_REASONS; u++)
		put_int(unknown, unknown_reason_name(u), w->unknown[u]);
	put(o, "gaps", gaps = json_object());
	put_int(gaps, "count", w->gap_count);
	put_int(gaps, "longest_ns", w->longest_gap_ns);
	put_int(gaps, "longest_at_ns", w->longest_gap_at_ns);
	return o;
}

static json_t *steps(const struct step_result *s)
{
	json_t *o = json_object();

	put_int(o, "count", s->count);
	put_int(o, "skipped", s->skipped);
	put_int(o, "median_ns", s->median_ns);
	put_int(o, "p95_ns", s->p95_ns);
	put(o, "rule", text(s->rule ? s->rule : ""));
	put(o, "confidence", json_real(s->confidence));
	return o;
}

static json_t *scale(const struct scaler_result *s)
{
	json_t *o = json_object();

	put(o, "known", text(s->scale_known == SCALE_ASSUMED ? "assumed" : scale_known_name(s->scale_known)));
	put(o, "first", json_real(s->scale_first));
	put(o, "last", json_real(s->scale_last));
	put(o, "least", json_real(s->scale_least));
	put(o, "most", json_real(s->scale_most));
	put_int(o, "read_back", s->scale_anchors);
	put(o, "at_minimum", json_boolean(s->at_minimum));
	if (s->constants_known) {
		put(o, "growth_factor", json_real(s->growth));
		put(o, "backoff_factor", json_real(s->backoff));
		put_int(o, "growth_interval", s->interval);
	}
	return o;
}

/* What a scaler's steps are known by. */
static json_t *scaler(bool seen, int64_t checks, int64_t skips, const struct scaler_result *s)
{
	json_t *o = json_object(), *by;

	put(o, "seen", json_boolean(seen));
	put_int(o, "checks", checks);
	put_int(o, "skips", skips);
	if (!s->checks)
		return o;
	put(o, "form", text(scaler_form_name(s->form)));
	put_int(o, "partly", s->verdicts[SCALER_PARTLY]);
	put_int(o, "unknown", s->verdicts[SCALER_UNKNOWN]);
	put(o, "evidence", by = json_object());
	for (int e = 0; e < SCALER_EVIDENCES; e++)
		if (s->evidence[e])
			put_int(by, scaler_evidence_name(e), s->evidence[e]);
	put(o, "confidence", json_real(s->confidence_sum / (double)s->checks));
	put(o, "least_confidence", json_real(s->least_confidence));
	put_int(o, "warmup_skips", s->warmup_skips);
	put_int(o, "probe_skips", s->probe_skips);
	put_int(o, "longest_run", s->longest_run);
	put_int(o, "longest_run_at", s->longest_run_at);
	put_int(o, "first_skip", s->first_skip);
	put(o, "scale", scale(s));
	return o;
}

static json_t *device(const struct device_result *d)
{
	json_t *o = json_object(), *windows;

	put_int(o, "rank", d->rank);
	put(o, "host", text(d->host));
	put_int(o, "device", d->device);
	put(o, "name", text(d->name));
	put_int(o, "pid", d->pid);
	put(o, "windows", windows = json_object());
	put(windows, "run", window(&d->windows[WINDOW_RUN]));
	put(windows, "steady", window(&d->windows[WINDOW_STEADY]));
	put(windows, "gpu_span", window(&d->windows[WINDOW_GPU_SPAN]));
	put(o, "steps", steps(&d->steps));
	put(o, "scaler", scaler(d->scaler_seen, d->scaler_checks, d->scaler_skips, &d->scaler));
	return o;
}

static json_t *devices(const struct result *r)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < r->ndevices; i++)
		json_array_append_new(list, device(&r->devices[i]));
	return list;
}

static json_t *host_rank(const struct host_result *h)
{
	json_t *o = json_object();

	put_int(o, "rank", h->rank);
	put_int(o, "pid", h->pid);
	put(o, "host", text(h->host));
	put(o, "command", text(h->command));
	put_int(o, "wall_ns", h->wall_ns);
	put(o, "window", text(h->steady ? "steady" : "run"));
	put_int(o, "window_ns", host_window_ns(h));
	put_int(o, "data_wait_ns", h->data_wait_ns);
	put_int(o, "comm_wait_ns", h->comm_wait_ns);
	put_int(o, "write_ns", h->write_ns);
	put_int(o, "batches", h->batches);
	put_int(o, "workers", h->workers);
	put(o, "leaf", ledger(h->leaf, true));
	put(o, "steps", steps(&h->steps));
	put(o, "scaler", scaler(h->scaler.checks > 0, h->scaler.checks, h->scaler.verdicts[SCALER_SKIPPED], &h->scaler));
	return o;
}

/* Sums over the ranks without GPU work, then each of them. */
static json_t *host_only(const struct result *r)
{
	json_t *o = json_object(), *ranks = json_array();
	struct host_result sum = { 0 };

	for (unsigned i = 0; i < r->nhost_only; i++) {
		const struct host_result *h = &r->host_only[i];

		sum.wall_ns += h->wall_ns;
		sum.window_ns += host_window_ns(h);
		sum.data_wait_ns += h->data_wait_ns;
		sum.comm_wait_ns += h->comm_wait_ns;
		sum.write_ns += h->write_ns;
		sum.batches += h->batches;
		sum.workers += h->workers;
		for (int l = 0; l < LEAF_COUNT; l++)
			sum.leaf[l] += h->leaf[l];
		json_array_append_new(ranks, host_rank(h));
	}
	put_int(o, "wall_ns", sum.wall_ns);
	put_int(o, "window_ns", sum.window_ns);
	put_int(o, "data_wait_ns", sum.data_wait_ns);
	put_int(o, "comm_wait_ns", sum.comm_wait_ns);
	put_int(o, "write_ns", sum.write_ns);
	put_int(o, "batches", sum.batches);
	put_int(o, "workers", sum.workers);
	put(o, "leaf", ledger(sum.leaf, true));
	put(o, "ranks", ranks);
	return o;
}

static json_t *headline(const struct result *r)
{
	json_t *o = json_object();

	put_int(o, "data_starvation_ns", r->headline.data_starvation_ns);
	put_int(o, "comm_retry_ns", r->headline.comm_retry_ns);
	put_int(o, "other_comm_ns", r->headline.other_comm_ns);
	put_int(o, "scaler_skip_ns", r->headline.scaler_skip_ns);
	put_int(o, "scaler_wasted_ns", r->headline.scaler_wasted_ns);
	put_int(o, "other_ns", r->headline.other_ns);
	put_int(o, "unknown_ns", r->headline.unknown_ns);
	return o;
}

static json_t *finding(const struct finding *f)
{
	json_t *o = json_object(), *worst;

	put(o, "leaf", json_string(leaf_name(f->leaf)));
	put(o, "severity", json_string(severity_name(f->severity)));
	put_int(o, "ns", f->ns);
	put(o, "share", json_real(f->share));
	put_int(o, "gaps", f->gaps);
	put(o, "worst", worst = json_object());
	put_int(worst, "at_ns", f->worst_at_ns);
	put_int(worst, "ns", f->worst_ns);
	put(o, "title", text(f->title));
	put(o, "evidence", texts(f->evidence, f->nevidence));
	put(o, "advice", texts(f->advice, f->nadvice));
	put(o, "gain_upper_bound", json_real(f->gain_upper_bound));
	return o;
}

static json_t *findings(const struct result *r)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < r->nfindings; i++)
		json_array_append_new(list, finding(&r->findings[i]));
	return list;
}

static json_t *run(const struct result *r)
{
	json_t *o = json_object();

	put(o, "command", text(r->command));
	put(o, "ending", text(r->ending));
	put_int(o, "start_ns", r->start_ns);
	put_int(o, "wall_ns", r->wall_ns);
	put_int(o, "hosts", r->hosts);
	put_int(o, "processes", r->processes);
	put_int(o, "ranks", r->ranks);
	put(o, "gpu", text(r->gpu ? r->gpu : "none"));
	put(o, "gpu_note", text(r->gpu_note));
	put_int(o, "events", r->events);
	put_int(o, "dropped_events", r->dropped_events);
	put_int(o, "trace_bytes", r->trace_bytes);
	put(o, "cut", json_boolean(r->cut));
	put_int(o, "cut_processes", r->cut_processes);
	return o;
}

static json_t *threshold_table(void)
{
	json_t *o = json_object();

#define THRESHOLD(id, value, meaning) put(o, #id, json_real(value));
#include "analyzer/threshold.def"
#undef THRESHOLD
	return o;
}

int render_json(FILE *to, const struct result *r)
{
	char *verdict = result_verdict(r);
	json_t *o = json_object();
	int rc;

	put(o, "schema", json_string("whyidle.report/1"));
	put(o, "verdict", text(verdict));
	put(o, "run", run(r));
	put(o, "warnings", texts(r->warnings, r->nwarnings));
	put(o, "devices", devices(r));
	put(o, "headline", headline(r));
	if (r->nhost_only)
		put(o, "host_only", host_only(r));
	put(o, "findings", findings(r));
	put(o, "acquittals", texts(r->acquittals, r->nacquittals));
	put(o, "thresholds", threshold_table());
	rc = json_dumpf(o, to, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	if (!rc)
		rc = fputc('\n', to) == EOF || fflush(to) ? -1 : 0;
	json_decref(o);
	free(verdict);
	return rc;
}
