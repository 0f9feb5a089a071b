/* SPDX-License-Identifier: Apache-2.0
 *
 * The books of one device, see ledger.h.
 *
 * All is first booked to the part since the last step boundary (`cur`). Each boundary carries it over to the windows it belongs to; what is
 * left after the last boundary, and what came before the first, was outside the steps: its causes are start-up then, whatever they
 * looked like. So no future needs to be known, and nothing is kept.
 */
#include "analyzer/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analysis.h"
#include "analyzer/cause_plain.h"
#include "analyzer/mem.h"

enum { COMPUTE, EXPOSED_COMM, EXPOSED_COPY, IDLE };

struct cut { int64_t at_ns; enum ledger_cut kind; };
struct span { int64_t a_ns, b_ns; };

struct ledger {
	const struct timeline *tl;
	struct ledger_evidence *evidence;
	struct plain_memory plain;
	int64_t start_ns, pos_ns, see_from_ns;
	unsigned warm_steps;
	bool has_steps, span_begun, excerpt;
	int64_t span_start_ns, steady_start_ns, steady_end_ns;
	int64_t steps;			/* step cuts passed */
	bool tail_counts;		/* what came after the last cut is a step, too */
	int64_t since_scaler_ns;	/* compute since the last scaler cut */
	int64_t compute_ns;
	int64_t cause_gap[LEDGER_CAUSES], cause_ns[LEDGER_CAUSES], cause_at_ns[LEDGER_CAUSES];	/* each cause's present gap, its part of it */
	int64_t gap_a_ns, gap_b_ns;
	bool gap_counted;
	struct ledger_sums cur, run, gpu_span, steady;
	struct cut *cuts;
	size_t ncuts, cuts_cap, cut_at;
	struct span *skips;
	size_t nskips, skips_cap, skip_at;
};

unsigned ledger_ncauses(void)
{
	static unsigned n;

	while (!n || causes[n])
		n++;
	return n < LEDGER_CAUSES ? n : LEDGER_CAUSES;
}

enum leaf ledger_leaf(unsigned cause)
{
	return causes[cause]->leaf;
}

struct ledger *ledger_open(const struct timeline *tl, struct ledger_evidence *evidence, int64_t start_ns, unsigned warm_steps, int64_t see_from_ns,
	bool has_steps)
{
	struct ledger *l = mem_new(1, sizeof(*l));

	l->tl = tl;
	l->evidence = evidence;
	l->start_ns = l->pos_ns = start_ns;
	l->warm_steps = warm_steps;
	l->see_from_ns = see_from_ns;
	l->has_steps = has_steps;
	return l;
}

void ledger_excerpt(struct ledger *l)
{
	l->excerpt = true;
}

void ledger_cut(struct ledger *l, enum ledger_cut kind, int64_t at_ns)
{
	size_t at = l->ncuts;

	if (l->cut_at > 64 && l->cut_at * 2 > l->ncuts) {
		memmove(l->cuts, l->cuts + l->cut_at, (l->ncuts - l->cut_at) * sizeof(*l->cuts));
		l->ncuts -= l->cut_at;
		l->cut_at = 0;
		at = l->ncuts;
	}
	if (at_ns < l->pos_ns)
		at_ns = l->pos_ns;
	l->cuts = mem_more(l->cuts, l->ncuts, &l->cuts_cap, sizeof(*l->cuts));
	while (at > l->cut_at && (l->cuts[at - 1].at_ns > at_ns || (l->cuts[at - 1].at_ns == at_ns && l->cuts[at - 1].kind > kind))) {
		l->cuts[at] = l->cuts[at - 1];
		at--;
	}
	l->cuts[at] = (struct cut){at_ns, kind};
	l->ncuts++;
}

void ledger_skipped(struct ledger *l, int64_t a_ns, int64_t b_ns)
{
	if (l->skip_at > 64 && l->skip_at * 2 > l->nskips) {
		memmove(l->skips, l->skips + l->skip_at, (l->nskips - l->skip_at) * sizeof(*l->skips));
		l->nskips -= l->skip_at;
		l->skip_at = 0;
	}
	if (l->nskips > l->skip_at && l->skips[l->nskips - 1].b_ns > a_ns)
		a_ns = l->skips[l->nskips - 1].b_ns;
	if (a_ns >= b_ns)
		return;
	l->skips = mem_more(l->skips, l->nskips, &l->skips_cap, sizeof(*l->skips));
	l->skips[l->nskips++] = (struct span){a_ns, b_ns};
}

/* ---- carrying over ---- */

/* What outside of the steps is still named by its own cause. */
static bool pierces_startup(enum leaf leaf)
{
	return leaf == LEAF_STARTUP || leaf == LEAF_PROFILER || leaf == LEAF_COMM_RETRY;
}

static unsigned startup_row(void)
{
	unsigned n = ledger_ncauses();

	for (unsigned i = 0; i < n; i++)
		if (causes[i]->leaf == LEAF_STARTUP)
			return i;
	return n - 1;
}

static void to_startup(struct ledger_sums *s)
{
	unsigned n = ledger_ncauses(), to = startup_row();

	for (unsigned i = 0; i < n; i++) {
		if (pierces_startup(causes[i]->leaf) || !s->lost[i])
			continue;
		s->idle[to] += s->idle[i];
		s->lost[to] += s->lost[i];
		s->gaps[to] += s->gaps[i];
		if (s->worst_ns[i] > s->worst_ns[to]) {
			s->worst_ns[to] = s->worst_ns[i];
			s->worst_at_ns[to] = s->worst_at_ns[i];
		}
		s->idle[i] = s->lost[i] = s->gaps[i] = s->worst_ns[i] = 0;
	}
	memset(s->unknown, 0, sizeof(s->unknown));
}

static void add(struct ledger_sums *to, const struct ledger_sums *s)
{
	unsigned n = ledger_ncauses();

	for (int i = 0; i < 4; i++)
		to->state[i] += s->state[i];
	for (int i = 0; i < UNKNOWN_REASONS; i++)
		to->unknown[i] += s->unknown[i];
	to->skipped_compute_ns += s->skipped_compute_ns;
	to->gap_count += s->gap_count;
	if (s->longest_ns > to->longest_ns) {
		to->longest_ns = s->longest_ns;
		to->longest_at_ns = s->longest_at_ns;
	}
	for (unsigned i = 0; i < n; i++) {
		if (!s->lost[i])
			continue;
		to->idle[i] += s->idle[i];
		to->lost[i] += s->lost[i];
		to->gaps[i] += s->gaps[i];
		if (s->worst_ns[i] > to->worst_ns[i]) {
			to->worst_ns[i] = s->worst_ns[i];
			to->worst_at_ns[i] = s->worst_at_ns[i];
		}
	}
}

static void carry(struct ledger *l, bool outside, bool steady)
{
	if (outside)
		to_startup(&l->cur);
	add(&l->run, &l->cur);
	if (l->span_begun)
		add(&l->gpu_span, &l->cur);
	if (steady)
		add(&l->steady, &l->cur);
	memset(&l->cur, 0, sizeof(l->cur));
}

/* Without steps the time between the first and the last operation counts as inside. */
static bool outside_now(const struct ledger *l)
{
	return l->has_steps && !l->excerpt ? l->steps == 0 : !l->span_begun;
}

static bool steady_now(const struct ledger *l)
{
	return l->has_steps && l->steps > l->warm_steps;
}

static void pass_cut(struct ledger *l, const struct cut *c)
{
	switch (c->kind) {
	case CUT_SCALER_SKIPPED:
		l->cur.skipped_compute_ns += l->since_scaler_ns;
		l->since_scaler_ns = 0;
		break;
	case CUT_SCALER_APPLIED:
		l->since_scaler_ns = 0;
		break;
	case CUT_FIRST_OP:
		carry(l, outside_now(l), false);
		l->span_begun = true;
		l->span_start_ns = c->at_ns;
		break;
	case CUT_STEP:
		carry(l, outside_now(l), steady_now(l));
		l->steps++;
		if (l->steps == (int64_t)l->warm_steps + 1)
			l->steady_start_ns = c->at_ns;
		l->steady_end_ns = c->at_ns;
		break;
	}
	/* waste counts only in the window in which it was computed */
	if (c->kind == CUT_STEP && l->steps == (int64_t)l->warm_steps + 1)
		l->since_scaler_ns = 0;
}

static int64_t next_cut(struct ledger *l)
{
	while (l->cut_at < l->ncuts && l->cuts[l->cut_at].at_ns <= l->pos_ns)
		pass_cut(l, &l->cuts[l->cut_at++]);
	return l->cut_at < l->ncuts ? l->cuts[l->cut_at].at_ns : INT64_MAX;
}

void ledger_compute(struct ledger *l, int64_t a_ns, int64_t b_ns)
{
	while (a_ns < b_ns) {
		int64_t cut = next_cut(l), e = b_ns < cut ? b_ns : cut;

		l->cur.state[COMPUTE] += e - a_ns;
		l->since_scaler_ns += e - a_ns;
		l->compute_ns += e - a_ns;
		l->pos_ns = a_ns = e;
	}
}

/* ---- booking ---- */

void ledger_gap(struct ledger *l, int64_t a_ns, int64_t b_ns)
{
	l->gap_a_ns = a_ns;
	l->gap_b_ns = b_ns;
	l->gap_counted = false;
}

static void count_gap(struct ledger *l)
{
	l->gap_counted = true;
	l->cur.gap_count++;
	if (l->gap_b_ns - l->gap_a_ns > l->cur.longest_ns) {
		l->cur.longest_ns = l->gap_b_ns - l->gap_a_ns;
		l->cur.longest_at_ns = l->gap_a_ns;
	}
}

static void book(struct ledger *l, unsigned row, struct moment *m)
{
	int64_t ns = m->end_ns - m->start_ns;
	struct ledger_sums *s = &l->cur;
	const struct cause *c = causes[row];

	s->lost[row] += ns;
	if (m->state == LOST_IDLE)
		s->idle[row] += ns;
	if (l->evidence->watch && l->evidence->watch->lost)
		l->evidence->watch->lost(l->evidence->watch->ctx, m, c->leaf);
	if (c->leaf == LEAF_UNKNOWN)
		s->unknown[cause_unknown_reason(m)] += ns;
	if (l->cause_gap[row] != m->gap_start_ns || !s->gaps[row]) {
		l->cause_gap[row] = m->gap_start_ns;
		l->cause_ns[row] = 0;
		l->cause_at_ns[row] = m->start_ns;
		s->gaps[row]++;
	}
	/* a gap is cut into many moments: its parts for one cause count together */
	l->cause_ns[row] += ns;
	if (l->cause_ns[row] > s->worst_ns[row]) {
		s->worst_ns[row] = l->cause_ns[row];
		s->worst_at_ns[row] = l->cause_at_ns[row];
	}
	if (!c->see || m->outside_steps || m->start_ns < l->see_from_ns)
		return;
	if (!l->evidence->state[row] && c->open)
		l->evidence->state[row] = c->open();
	c->see(l->evidence->state[row], l->tl, m);
}

/* One stretch without any cut in it: the causes may still divide it. */
static void ask(struct ledger *l, const struct moment *part)
{
	unsigned n = ledger_ncauses();
	struct moment m = *part;
	int64_t end = m.end_ns;

	while (m.start_ns < end) {
		int64_t until = end;
		unsigned row = 0;

		m.end_ns = end;
		while (row + 1 < n && !causes[row]->claim(l->tl, &m, &until)) {
			until = end;
			row++;
		}
		if (row + 1 == n)
			until = end;
		if (until <= m.start_ns || until > end)
			until = end;
		m.end_ns = until;
		book(l, row, &m);
		m.start_ns = until;
	}
}

void ledger_book(struct ledger *l, struct moment *m)
{
	const int64_t start = m->start_ns, end = m->end_ns;
	int row, state = m->state == LOST_IDLE ? IDLE : m->state == LOST_EXPOSED_COMM ? EXPOSED_COMM : EXPOSED_COPY;

	while (m->start_ns < end) {
		int64_t cut = next_cut(l);

		m->end_ns = end < cut ? end : cut;
		m->outside_steps = outside_now(l);
		m->skipped_step = false;
		while (l->skip_at < l->nskips && l->skips[l->skip_at].b_ns <= m->start_ns)
			l->skip_at++;
		if (l->skip_at < l->nskips) {
			const struct span *s = &l->skips[l->skip_at];

			m->skipped_step = s->a_ns <= m->start_ns;
			if (!m->skipped_step && s->a_ns < m->end_ns)
				m->end_ns = s->a_ns;
			if (m->skipped_step && s->b_ns < m->end_ns)
				m->end_ns = s->b_ns;
		}
		if (state == IDLE && !l->gap_counted)
			count_gap(l);
		l->cur.state[state] += m->end_ns - m->start_ns;
		row = cause_plain(l->tl, m, &l->plain);
		if (row >= 0)
			book(l, (unsigned)row, m);
		else
			ask(l, m);
		l->pos_ns = m->start_ns = m->end_ns;
	}
	m->start_ns = start;
	m->end_ns = end;
}

/* ---- the end ---- */

static int fill(struct window_result *w, const struct ledger_sums *s, int64_t start_ns, int64_t ns, const char *name, char *error, size_t len)
{
	int64_t a = 0, b = 0, states = 0;
	unsigned n = ledger_ncauses();

	memset(w, 0, sizeof(*w));
	w->present = true;
	w->start_ns = start_ns;
	w->ns = ns;
	w->compute_ns = s->state[COMPUTE];
	w->exposed_comm_ns = s->state[EXPOSED_COMM];
	w->exposed_copy_ns = s->state[EXPOSED_COPY];
	w->idle_ns = s->state[IDLE];
	for (int i = 0; i < 4; i++)
		states += s->state[i];
	for (unsigned i = 0; i < n; i++) {
		w->ledger_a[causes[i]->leaf] += s->idle[i];
		w->ledger_b[causes[i]->leaf] += s->lost[i];
		a += s->idle[i];
		b += s->lost[i];
	}
	w->skipped_compute_ns = s->skipped_compute_ns;
	memcpy(w->unknown, s->unknown, sizeof(w->unknown));
	w->gap_count = s->gap_count;
	w->longest_gap_ns = s->longest_ns;
	w->longest_gap_at_ns = s->longest_at_ns;
	if (states == ns && a == w->idle_ns && b == w->idle_ns + w->exposed_comm_ns + w->exposed_copy_ns)
		return 0;
	snprintf(error, len, "the sums of the %s window do not hold (%lld of %lld ns split, ledger A %lld of %lld, ledger B %lld of %lld); "
		"this is a defect of whyidle, please report it with the trace", name, (long long)states, (long long)ns, (long long)a,
		(long long)w->idle_ns, (long long)b, (long long)(w->idle_ns + w->exposed_comm_ns + w->exposed_copy_ns));
	return -1;
}

/* Steps that stopped being recognised in the middle are not "after the last step": then the rest belongs to them. */
static bool tail_is_training(const struct ledger *l)
{
	int64_t per_step = l->steps > 1 ? l->run.state[COMPUTE] / l->steps : 0;

	return l->steps > 1 && l->cur.state[COMPUTE] > 8 * per_step && l->cur.state[COMPUTE] * 4 > l->run.state[COMPUTE];
}

int ledger_close(struct ledger *l, int64_t end_ns, int64_t last_op_ns, struct window_result windows[WINDOW_COUNT], char *error, size_t error_len)
{
	next_cut(l);
	if (l->pos_ns != end_ns) {
		snprintf(error, error_len, "the books of a device end at %lld, its window at %lld; this is a defect of whyidle, please report it with the "
			"trace", (long long)l->pos_ns, (long long)end_ns);
		return -1;
	}
	/* the part after the last operation, if any, was carried by ledger_last_op; what is left is the tail of the run */
	carry(l, true, false);
	if (fill(&windows[WINDOW_RUN], &l->run, l->start_ns, end_ns - l->start_ns, "run", error, error_len) < 0)
		return -1;
	memset(&windows[WINDOW_STEADY], 0, sizeof(windows[0]));
	memset(&windows[WINDOW_GPU_SPAN], 0, sizeof(windows[0]));
	if (l->span_start_ns || l->gpu_span.state[COMPUTE] || last_op_ns > l->span_start_ns)
		if (fill(&windows[WINDOW_GPU_SPAN], &l->gpu_span, l->span_start_ns, last_op_ns - l->span_start_ns, "gpu_span", error, error_len) < 0)
			return -1;
	if (steady_now(l) && l->steady_end_ns > l->steady_start_ns &&
	    fill(&windows[WINDOW_STEADY], &l->steady, l->steady_start_ns, l->steady_end_ns - l->steady_start_ns, "steady", error, error_len) < 0)
		return -1;
	windows[WINDOW_STEADY].steps = windows[WINDOW_STEADY].present ? l->steps - l->warm_steps - 1 + l->tail_counts : 0;
	return 0;
}

void ledger_last_op(struct ledger *l, int64_t at_ns)
{
	bool training;

	next_cut(l);
	training = l->has_steps && (l->excerpt || tail_is_training(l));
	if (training)
		l->steady_end_ns = at_ns;
	l->tail_counts = training;
	carry(l, l->has_steps && !training, training && steady_now(l));
	l->span_begun = false;
}

const struct ledger_sums *ledger_counted(const struct ledger *l)
{
	return steady_now(l) && l->steady_end_ns > l->steady_start_ns ? &l->steady : &l->run;
}

void ledger_free(struct ledger *l)
{
	if (!l)
		return;
	free(l->cuts);
	free(l->skips);
	free(l);
}

int64_t ledger_compute_ns(const struct ledger *l)
{
	return l->compute_ns;
}

int64_t ledger_steps(const struct ledger *l)
{
	return l->steps;
}
