/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole analysis. First the beginning of the run is read to learn where its steps are; then all of it, once: feed -> timeline ->
 * batches and causes' memory -> devices' books, and behind them the window is emptied.
 */
#include "analyzer/analysis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/analysis_device.h"
#include "analyzer/feed.h"
#include "analyzer/findings.h"
#include "analyzer/host.h"
#include "analyzer/host_window.h"
#include "analyzer/kineto.h"
#include "analyzer/mem.h"
#include "analyzer/timeline_build.h"

/* Kept behind the oldest moment that is still to be explained: a wait may have begun earlier than the gap. */
#define KEEP_NS 3000000000
/* ... of what is busy, somewhat less: what still runs is kept in any case, and who ended its wait did so in it. */
#define KEEP_BUSY_NS 500000000
/* An open gap holds the window back no longer than this. */
#define LONGEST_GAP_NS 120000000000
/* Learning ends here even if nothing was found. */
#define LEARN_NS 600000000000

/* ---- what both passes do ---- */

static void link_parents(struct timeline *tl)
{
	for (unsigned i = 0; i < tl->nprocesses; i++) {
		struct process *p = tl->processes[i], *up;

		if (p->parent || p->ppid <= 1)
			continue;
		up = timeline_process_of(tl, p->host, p->ppid, INT64_MAX);
		if (up && up != p && up->first_ns > p->first_ns && up->start_ns > p->first_ns)
			up = NULL;	/* the pid was used again */
		for (const struct process *q = up; q; q = q->parent)
			if (q == p)
				up = NULL;
		if (up && up != p)
			p->parent = up;
	}
}

/* ---- learning ---- */

struct learned {
	unsigned process;		/* number in the timeline: the same in both passes */
	int device;
	struct steps_learner *learner;
	struct device *at;
	int64_t seen_ns;
	struct steps_rule rule;
};

struct learning {
	struct learned *devices;
	size_t n, cap;
	unsigned *hosts;		/* numbers of the processes that train, should there be no GPU activity */
	int64_t *steady_ns;		/* ... and where the steady part of each begins */
	unsigned nhosts;
	bool *loads;			/* by number of the process: has a loader */
	unsigned nloads;
	struct host_takes takes;
};

static void learn_take(void *ctx, const struct thread *consumer, int64_t at_ns)
{
	struct learning *l = ctx;

	host_takes_add(&l->takes, consumer->process, at_ns);
	for (size_t i = 0; i < l->n; i++)
		if (l->devices[i].at->process == consumer->process)
			steps_learn_take(l->devices[i].learner, consumer, at_ns);
}

static bool learn_ops(struct learning *l, struct timeline *tl)
{
	bool all = l->n > 0;

	for (unsigned i = 0; i < tl->nprocesses; i++)
		for (unsigned j = 0; j < tl->processes[i]->ndevices; j++) {
			struct device *d = tl->processes[i]->devices[j];
			size_t k = 0;

			while (k < l->n && l->devices[k].at != d)
				k++;
			if (k == l->n) {
				l->devices = mem_more(l->devices, l->n, &l->cap, sizeof(*l->devices));
				l->devices[l->n++] = (struct learned){.process = i, .device = d->id, .at = d, .seen_ns = INT64_MIN,
					.learner = steps_learner_open()};
			}
			for (size_t o = l->devices[k].seen_ns == INT64_MIN ? 0 : timeline_op_index(d, l->devices[k].seen_ns);
			     o < d->nops && d->ops[o].start_ns < tl->complete_ns; o++)
				steps_learn_op(l->devices[k].learner, &d->ops[o]);
			l->devices[k].seen_ns = tl->complete_ns;
			all = all && (steps_learned(l->devices[k].learner) || !d->nops || tl->processes[i]->profiled);
		}
	return all;
}

/* Who makes processes is starting workers, if batches come from there later. */
static void learn_loaders(struct learning *l, const struct timeline *tl, const struct batches *b)
{
	struct loader_facts facts;

	l->nloads = tl->nprocesses;
	l->loads = mem_new(tl->nprocesses, sizeof(*l->loads));
	for (unsigned i = 0; i < tl->nprocesses; i++)
		l->loads[i] = batches_facts(b, tl->processes[i], &facts) && facts.workers > 0;
}

static int learn(const char *const *paths, unsigned npaths, struct learning *l, char *error, size_t len)
{
	struct timeline *tl = timeline_new();
	struct feed *f = feed_open(paths, npaths, tl, error, len);
	struct batches *b;
	int64_t first = INT64_MIN;

	if (!f) {
		timeline_free(tl);
		return -1;
	}
	timeline_without_launches(tl);
	b = batches_open();
	batches_on_take(b, learn_take, l);
	while (feed_step(f)) {
		link_parents(tl);
		batches_advance(b, tl);
		if (learn_ops(l, tl))
			break;
		if (first == INT64_MIN && tl->complete_ns != INT64_MAX)
			first = tl->complete_ns;
		if (tl->complete_ns != INT64_MAX && tl->complete_ns - first > LEARN_NS)
			break;
		timeline_evict_busy(tl, tl->complete_ns - KEEP_NS, tl->complete_ns - KEEP_BUSY_NS);
		batches_evict(b, tl->complete_ns - KEEP_NS);
	}
	for (size_t i = 0; i < l->n; i++) {
		steps_decide(l->devices[i].learner, &l->devices[i].rule);
		steps_learner_close(l->devices[i].learner);
	}
	l->hosts = mem_new(tl->nprocesses, sizeof(*l->hosts));
	l->nhosts = host_choose(tl, b, l->hosts);
	learn_loaders(l, tl, b);
	l->steady_ns = mem_new(l->nhosts, sizeof(*l->steady_ns));
	for (unsigned i = 0; i < l->nhosts; i++)
		l->steady_ns[i] = host_takes_steady_ns(&l->takes, tl->processes[l->hosts[i]]);
	batches_close(b);
	feed_close(f);
	timeline_free(tl);
	return 0;
}

/* A device that appears later is taken to work like the others. */
static struct steps_rule rule_for(const struct learning *l, const struct timeline *tl, unsigned process, int device)
{
	struct steps_rule rule = {.steady_ns = INT64_MIN};

	/* a profiler's trace is a few steps, often of inference: marked, or not to be guessed at */
	if (tl->processes[process]->profiled) {
		rule.kind = tl->processes[process]->marked ? STEPS_MARK : STEPS_NONE;
		rule.confidence = rule.kind == STEPS_NONE ? 0 : 1;
		return rule;
	}

	for (size_t i = 0; i < l->n; i++)
		if (l->devices[i].process == process && l->devices[i].device == device)
			return l->devices[i].rule;
	for (size_t i = 0; i < l->n && rule.kind == STEPS_NONE; i++)
		if (l->devices[i].rule.kind != STEPS_NONE)
			rule = l->devices[i].rule;
	return rule;
}

/* ---- the pass ---- */

struct engine {
	struct timeline *tl;
	struct feed *feed;
	struct batches *batches;
	struct host_runs *hosts;
	struct device_run **devices;
	size_t ndevices, cap;
	unsigned devices_seen;
	struct ledger_evidence evidence;
	const struct learning *learned;
};

static void on_take(void *ctx, const struct thread *consumer, int64_t at_ns)
{
	struct engine *e = ctx;

	for (size_t i = 0; i < e->ndevices; i++)
		if (device_run_device(e->devices[i])->process == consumer->process)
			device_run_take(e->devices[i], consumer, at_ns);
	host_runs_take(e->hosts, consumer, at_ns);
}

static void find_devices(struct engine *e)
{
	for (unsigned i = 0; i < e->tl->nprocesses; i++)
		for (unsigned j = 0; j < e->tl->processes[i]->ndevices; j++) {
			struct device *d = e->tl->processes[i]->devices[j];
			struct steps_rule rule;

			if (d->priv || !d->nops)
				continue;
			rule = rule_for(e->learned, e->tl, i, d->id);
			d->priv = device_run_open(e->tl, e->batches, &e->evidence, d, &rule);
			e->devices = mem_more(e->devices, e->ndevices, &e->cap, sizeof(*e->devices));
			e->devices[e->ndevices++] = d->priv;
		}
}

static void mark_loaders(struct engine *e)
{
	for (unsigned i = 0; i < e->tl->nprocesses && i < e->learned->nloads; i++)
		e->tl->processes[i]->loads |= e->learned->loads[i];
}

static int64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void read_all(struct engine *e, const struct analysis_options *opt)
{
	int64_t said = 0;

	while (feed_step(e->feed)) {
		int64_t keep = e->tl->complete_ns;

		link_parents(e->tl);
		find_devices(e);
		mark_loaders(e);
		/* hosts and devices are told of takes in here, so both know of their processes by now */
		if (!e->ndevices)
			host_runs_watch(e->hosts);
		batches_advance(e->batches, e->tl);
		causes_advance(e->tl);
		for (size_t i = 0; i < e->ndevices; i++) {
			device_run_advance(e->devices[i]);
			if (device_run_needs(e->devices[i]) < keep)
				keep = device_run_needs(e->devices[i]);
		}
		if (!e->ndevices)
			host_runs_advance(e->hosts);
		if (!e->ndevices && host_runs_need(e->hosts) < keep)
			keep = host_runs_need(e->hosts);
		if (e->tl->finished)
			break;
		if (keep < e->tl->complete_ns - LONGEST_GAP_NS)
			keep = e->tl->complete_ns - LONGEST_GAP_NS;
		timeline_evict_busy(e->tl, keep - KEEP_NS, keep - KEEP_BUSY_NS);
		batches_evict(e->batches, keep - KEEP_NS);
		if (opt && opt->progress && monotonic_ns() - said > 100000000) {
			said = monotonic_ns();
			opt->progress(opt->progress_ctx, feed_totals(e->feed)->bytes_done, feed_totals(e->feed)->bytes_total);
		}
	}
}

/* ---- the result ---- */

static bool is_outer(const struct process *p)
{
	return !p->parent || p->parent->rank != p->rank;
}

static void add_warning(struct result *r, char *text)
{
	r->warnings = mem_resize(r->warnings, r->nwarnings + 1, sizeof(char *));
	r->warnings[r->nwarnings++] = text;
}

static int compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

static void count_hosts_and_ranks(const struct timeline *tl, struct result *r)
{
	int *ranks = mem_new(tl->nprocesses, sizeof(*ranks));
	int n = 0;

	for (unsigned i = 0; i < tl->nprocesses; i++) {
		unsigned j = 0;

		while (j < i && strcmp(tl->processes[j]->host, tl->processes[i]->host))
			j++;
		r->hosts += j == i;
		if (tl->processes[i]->rank >= 0)
			ranks[n++] = tl->processes[i]->rank;
	}
	qsort(ranks, (size_t)n, sizeof(*ranks), compare_ints);
	for (int i = 0; i < n; i++)
		r->ranks += i == 0 || ranks[i] != ranks[i - 1];
	if (!r->ranks && tl->nprocesses)
		r->ranks = 1;
	free(ranks);
}

/* "cupti", "sim" or "none", and why none. */
static void say_gpu(const struct engine *e, struct result *r)
{
	const char *why = NULL;

	r->gpu = "none";
	for (size_t i = 0; i < e->ndevices; i++) {
		const struct device *d = device_run_device(e->devices[i]);

		r->gpu = d->name && !strncmp(d->name, "Simulated", 9) ? "sim" : "cupti";
	}
	if (e->ndevices)
		return;
	for (unsigned i = 0; i < e->tl->nprocesses; i++) {
		const char *gpu = e->tl->processes[i]->gpu;

		if (gpu && strcmp(gpu, "none") && (!why || !strcmp(why, "cupti")))
			why = gpu;
	}
	if (why)
		r->gpu_note = mem_copy(strcmp(why, "cupti") ? why : "CUPTI was active, but no GPU operation was recorded");
}

static void fill_run(const struct engine *e, struct result *r)
{
	const struct timeline *tl = e->tl;
	const struct feed_totals *t = feed_totals(e->feed);
	int64_t first = INT64_MAX, last = INT64_MIN;
	const struct process *root = NULL;

	for (unsigned i = 0; i < tl->nprocesses; i++) {
		const struct process *p = tl->processes[i];

		if (p->first_ns > p->last_ns)
			continue;
		if (p->first_ns < first)
			first = p->first_ns;
		if (p->last_ns > last)
			last = p->last_ns;
		if (p->command && !p->parent && (!root || p->first_ns < root->first_ns))
			root = p;
		r->dropped_events += p->dropped;
		r->profiled |= p->profiled;
		if (is_outer(p) && !p->end && p->cpus) {	/* cpus: only our recorder says it, and only it says how it ended */
			r->cut = true;
			r->cut_processes++;
		}
	}
	r->start_ns = first == INT64_MAX ? 0 : first;
	r->wall_ns = last > first ? last - first : 0;
	r->events = t->events;
	r->dropped_events += t->dropped;
	r->trace_bytes = (int64_t)t->bytes_total;
	r->processes = (int)tl->nprocesses;
	r->command = mem_copy(root ? root->command : "");
	count_hosts_and_ranks(tl, r);
	say_gpu(e, r);
	for (unsigned i = 0; i < t->nwarnings; i++)
		add_warning(r, mem_copy(t->warnings[i]));
}

static int by_device(const void *a, const void *b)
{
	const struct device *x = device_run_device(*(struct device_run *const *)a), *y = device_run_device(*(struct device_run *const *)b);

	if (x->process->rank != y->process->rank)
		return x->process->rank < y->process->rank ? -1 : 1;
	if (x->process->pid != y->process->pid)
		return x->process->pid < y->process->pid ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void add_sums(struct ledger_sums *to, const struct ledger_sums *s)
{
	unsigned n = ledger_ncauses();

	for (unsigned i = 0; i < n; i++) {
		to->lost[i] += s->lost[i];
		to->gaps[i] += s->gaps[i];
		if (s->worst_ns[i] > to->worst_ns[i]) {
			to->worst_ns[i] = s->worst_ns[i];
			to->worst_at_ns[i] = s->worst_at_ns[i];
		}
	}
}

static int finish(struct engine *e, struct result *r, struct analysis_error *err)
{
	struct ledger_sums sums = {0};
	struct seen_cause rows[LEDGER_CAUSES];
	struct seen seen = {rows, 0};
	unsigned n = ledger_ncauses();

	if (e->ndevices)
		qsort(e->devices, e->ndevices, sizeof(*e->devices), by_device);
	r->devices = mem_new(e->ndevices, sizeof(*r->devices));
	for (size_t i = 0; i < e->ndevices; i++) {
		r->ndevices = (unsigned)i + 1;
		if (device_run_finish(e->devices[i], &r->devices[i], err->text, sizeof(err->text)) < 0) {
			err->code = ANALYSIS_ESUM;
			return -1;
		}
		add_sums(&sums, device_run_sums(e->devices[i]));
	}
	if (!e->ndevices)
		host_runs_finish(e->hosts, &r->host_only, &r->nhost_only, &sums);
	fill_run(e, r);
	/* ranks that nobody numbered: each training process is one */
	if (r->nhost_only > (unsigned)r->ranks)
		r->ranks = (int)r->nhost_only;
	for (unsigned i = 0; i < n; i++)
		rows[seen.ncauses++] = (struct seen_cause){.cause = causes[i], .state = e->evidence.state[i], .ns = sums.lost[i], .gaps = sums.gaps[i],
			.worst_at_ns = sums.worst_at_ns[i], .worst_ns = sums.worst_ns[i]};
	if (findings_make(r, &seen) < 0) {
		err->code = ANALYSIS_ENOMEM;
		snprintf(err->text, sizeof(err->text), "out of memory");
		return -1;
	}
	return 0;
}

int analysis_run(const char *const *paths, unsigned npaths, const struct analysis_options *opt, struct result *out, struct analysis_error *err)
{
	struct learning learning = {0};
	struct engine e = {.learned = &learning, .evidence.watch = opt ? opt->watch : NULL};
	int rc = -1;

	memset(out, 0, sizeof(*out));
	memset(err, 0, sizeof(*err));
	err->code = ANALYSIS_EINPUT;
	if (learn(paths, npaths, &learning, err->text, sizeof(err->text)) < 0) {
		kineto_forget();
		return -1;
	}
	e.tl = timeline_new();
	e.feed = feed_open(paths, npaths, e.tl, err->text, sizeof(err->text));
	if (e.feed) {
		e.batches = batches_open();
		e.hosts = host_runs_open(e.tl, e.batches, &e.evidence, learning.hosts, learning.steady_ns, learning.nhosts);
		batches_on_take(e.batches, on_take, &e);
		causes_open(e.tl);
		read_all(&e, opt);
		rc = finish(&e, out, err);
		for (unsigned i = 0; i < ledger_ncauses(); i++)
			if (e.evidence.state[i] && causes[i]->close)
				causes[i]->close(e.evidence.state[i]);
		for (size_t i = 0; i < e.ndevices; i++)
			device_run_close(e.devices[i]);
		causes_close(e.tl);
		host_runs_close(e.hosts);
		batches_close(e.batches);
		free(e.devices);
	}
	feed_close(e.feed);
	kineto_forget();
	timeline_free(e.tl);
	free(learning.devices);
	free(learning.hosts);
	free(learning.loads);
	free(learning.steady_ns);
	host_takes_free(&learning.takes);
	if (rc == 0)
		err->code = ANALYSIS_OK;
	else
		result_free(out);
	return rc;
}
