/* SPDX-License-Identifier: Apache-2.0
 *
 * Collecting evidence in bounded memory.
 */
#include "analyzer/cause_seen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_words.h"
#include "analyzer/mem.h"
#include "analyzer/where.h"

static int larger_first(const void *a, const void *b)
{
	const struct tally_row *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void add_to(struct tally_row *row, int64_t ns, int64_t bytes, int64_t count)
{
	row->ns += ns;
	row->bytes += bytes;
	row->count += count;
}

/* The smaller half gives way. What is dropped here was small until now; a name that matters comes back and stays. */
static void make_room(struct tally *t)
{
	qsort(t->rows, t->nrows, sizeof(*t->rows), larger_first);
	while (t->nrows > TALLY_ROWS / 2) {
		struct tally_row *row = &t->rows[--t->nrows];

		add_to(&t->rest, row->ns, row->bytes, row->count);
		free(row->name);
	}
}

/* Linear counting: a name marks one of MARKS bits; the share of unmarked bits tells how many distinct names there were. */
enum { MARKS = 16384 };

static uint64_t hash_of(const char *name)
{
	return mem_hash(name, strlen(name), 0);
}

static void tally_add_hashed(struct tally *t, const char *name, uint64_t hash, int64_t ns, int64_t bytes, int64_t count)
{
	if (t->nrows && t->rows[t->hint].hash == hash) {
		add_to(&t->rows[t->hint], ns, bytes, count);
		return;
	}
	if (!t->rows) {
		t->rows = mem_new(TALLY_ROWS, sizeof(*t->rows));
		t->marks = mem_new(MARKS / 64, sizeof(*t->marks));
	}
	t->marks[hash % MARKS / 64] |= 1ull << hash % 64;
	/* the same name mostly comes many times in a row */
	for (unsigned n = 0, i = t->hint; n < t->nrows; n++, i = i + 1 < t->nrows ? i + 1 : 0) {
		if (t->rows[i].hash != hash)
			continue;
		t->hint = i;
		add_to(&t->rows[i], ns, bytes, count);
		return;
	}
	if (t->nrows == TALLY_ROWS)
		make_room(t);
	t->hint = t->nrows++;
	t->rows[t->hint] = (struct tally_row){ mem_copy(name), ns, bytes, count, hash };
}

void tally_add(struct tally *t, const char *name, int64_t ns, int64_t bytes, int64_t count)
{
	tally_add_hashed(t, name, hash_of(name), ns, bytes, count);
}

const struct tally_row *tally_top(struct tally *t, unsigned k)
{
	if (k >= t->nrows)
		return NULL;
	qsort(t->rows, t->nrows, sizeof(*t->rows), larger_first);
	t->hint = 0;
	return &t->rows[k];
}

int64_t tally_names(const struct tally *t)
{
	unsigned marked = 0;

	for (unsigned i = 0; t->marks && i < MARKS / 64; i++)
		marked += (unsigned)__builtin_popcountll(t->marks[i]);
	if (marked == MARKS)
		marked--;
	if (marked < 200)
		return t->nrows > marked ? t->nrows : marked;
	return (int64_t)(-MARKS * log1p(-(double)marked / MARKS) + 0.5);
}

void tally_free(struct tally *t)
{
	for (unsigned i = 0; i < t->nrows; i++)
		free(t->rows[i].name);
	free(t->rows);
	free(t->marks);
	memset(t, 0, sizeof(*t));
}

/* Bucket = 8 x log2, the fraction from the three bits below the leading one. */
static unsigned bucket_of(int64_t v)
{
	unsigned top;

	if (v < 8)
		return (unsigned)v;
	top = 63 - (unsigned)__builtin_clzll((unsigned long long)v);
	return (top - 2) * 8 + (unsigned)(v >> (top - 3) & 7);
}

static int64_t bucket_middle(unsigned b)
{
	unsigned top = b / 8 + 2;
	int64_t low;

	if (b < 8)
		return b;
	low = (int64_t)(8 + b % 8) << (top - 3);
	return low + ((int64_t)1 << (top - 3)) / 2;
}

void spread_add(struct spread *s, int64_t v)
{
	if (v < 0)
		v = 0;
	s->n++;
	if (__builtin_add_overflow(s->sum, v, &s->sum))
		s->sum = INT64_MAX;
	if (v > s->max)
		s->max = v;
	s->buckets[bucket_of(v)]++;
}

int64_t spread_at(const struct spread *s, double q)
{
	int64_t want = (int64_t)(q * (double)(s->n - 1)), seen = 0;

	for (unsigned b = 0; b < 512 && s->n; b++) {
		seen += s->buckets[b];
		if (seen > want) {
			int64_t v = bucket_middle(b);

			return v < s->max ? v : s->max;
		}
	}
	return s->max;
}

void rhythm_add(struct rhythm *r, const void *whose, int64_t start_ns, int64_t end_ns, int64_t merge_ns)
{
	if (r->episodes && whose != r->whose)
		return;
	if (!r->every)
		r->every = mem_new(1, sizeof(*r->every));
	r->whose = whose;
	if (r->episodes && start_ns < r->last_end_ns + merge_ns) {
		if (end_ns > r->last_end_ns)
			r->last_end_ns = end_ns;
		return;
	}
	if (r->episodes)
		spread_add(r->every, start_ns - r->last_start_ns);
	r->episodes++;
	r->last_start_ns = start_ns;
	r->last_end_ns = end_ns;
}

int64_t rhythm_period(const struct rhythm *r)
{
	int64_t median, low, high;

	if (r->episodes < 4)
		return 0;
	median = spread_at(r->every, 0.5);
	low = spread_at(r->every, 0.1);
	high = spread_at(r->every, 0.9);
	if (low * 100 < median * 85 || high * 100 > median * 115)
		return 0;
	return median;
}

void rhythm_free(struct rhythm *r)
{
	free(r->every);
	memset(r, 0, sizeof(*r));
}

const char *process_label(const struct process *p)
{
	static char text[48];

	if (p && p->rank >= 0)
		snprintf(text, sizeof(text), "rank %d", p->rank);
	else
		snprintf(text, sizeof(text), "pid %d", p ? p->pid : 0);
	return text;
}

void *evidence_open(void)
{
	return mem_new(1, sizeof(struct evidence));
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void see_thread(struct evidence *e, const struct moment *m, int64_t ns)
{
	const struct process *whose = m->device ? m->device->process : m->waiter ? m->waiter->process : NULL;

	if (whose) {
		if (whose != e->label_process) {
			snprintf(e->rank_label, sizeof(e->rank_label), "%s", process_label(whose));
			e->label_process = whose;
			e->rank_hash = hash_of(e->rank_label);
		}
		tally_add_hashed(&e->ranks, e->rank_label, e->rank_hash, ns, 0, 0);
	}
	if (!m->thread)
		return;
	if (m->thread != e->label_thread || m->thread->name != e->label_name) {
		const char *name = m->thread->name && *m->thread->name ? m->thread->name : NULL;

		snprintf(e->thread_label, sizeof(e->thread_label), "pid %d%s%s%s", m->thread->process->pid, name ? " (" : "", name ? name : "",
			name ? ")" : "");
		e->label_thread = m->thread;
		e->label_name = m->thread->name;
		e->thread_hash = hash_of(e->thread_label);
	}
	tally_add_hashed(&e->threads, e->thread_label, e->thread_hash, ns, 0, 0);
}

static void see_folder(struct evidence *e, const char *path, int64_t ns, int64_t bytes, int64_t count)
{
	char folder[256];
	const char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	tally_add(&e->folders, folder, ns, bytes, count);
}

static void see_call(struct evidence *e, const struct moment *m, int64_t ns)
{
	const struct slice *c = m->call;
	bool fresh = m->thread != e->last_thread || c->start_ns != e->last_call_ns;
	int64_t whole = c->end_ns == NS_OPEN ? 0 : c->end_ns - c->start_ns;
	int64_t bytes = c->bytes > 0 && whole > 0 ? (int64_t)((double)c->bytes * (double)ns / (double)whole) : 0;

	e->last_thread = m->thread;
	e->last_call_ns = c->start_ns;
	e->bytes += bytes;
	e->calls += fresh;
	e->call_ns += ns;
	if (fresh && whole)
		spread_add(&e->each, whole);
	if (c->name->text != e->name_text) {
		e->name_text = c->name->text;
		e->name_hash = hash_of(c->name->text);
	}
	tally_add_hashed(&e->names, c->name->text, e->name_hash, ns, bytes, fresh);
	if (c->at) {
		char place[256];

		where_own(c->at->text, place, sizeof(place));
		tally_add(&e->places, place, ns, bytes, fresh);
	}
	if (c->target) {
		tally_add(&e->targets, c->target->text, ns, bytes, fresh);
		if (c->target->target == TARGET_IS_FILE)
			see_folder(e, c->target->text, ns, bytes, fresh);
	}
}

void evidence_see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct evidence *e = state;
	int64_t ns = m->end_ns - m->start_ns;

	(void)tl;
	e->ns += ns;
	if (m->workers_needed > 0)
		spread_add(&e->needed, m->workers_needed);
	e->workers_seen = larger(e->workers_seen, m->workers_seen);
	e->cpus = larger(e->cpus, m->cpus);
	see_thread(e, m, ns);
	rhythm_add(&e->rhythm, m->device ? (const void *)m->device : (const void *)m->waiter, m->start_ns, m->end_ns, 100000000);
	if (m->activity == ACT_CALL && m->call)
		see_call(e, m, ns);
	else if (m->activity == ACT_CPU)
		e->cpu_ns += ns;
	else if (m->activity == ACT_RUNNABLE)
		e->runnable_ns += ns;
	else
		e->off_cpu_ns += ns;
}

int64_t evidence_needed(const struct evidence *e)
{
	return spread_at(&e->needed, 0.5);
}

const char *evidence_part(const struct evidence *e, const struct finding *f, int64_t ns)
{
	return words_ns(e->ns > f->ns && f->ns > 0 ? (int64_t)((double)ns * (double)f->ns / (double)e->ns) : ns);
}

void evidence_release(struct evidence *e)
{
	tally_free(&e->targets);
	tally_free(&e->folders);
	tally_free(&e->names);
	tally_free(&e->ranks);
	tally_free(&e->threads);
	tally_free(&e->places);
	rhythm_free(&e->rhythm);
}

void evidence_close(void *state)
{
	evidence_release(state);
	free(state);
}

void evidence_say_ranks(struct evidence *e, struct finding *f)
{
	const struct tally_row *row;
	char line[256];
	size_t len = 0;

	if (e->ranks.nrows < 2)
		return;
	for (unsigned k = 0; k < 4 && (row = tally_top(&e->ranks, k)) && len < sizeof(line); k++)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "%s%s %s", k ? ", " : "", row->name, evidence_part(e, f, row->ns));
	finding_evidence(f, "by rank: %s%s", line, e->ranks.nrows > 4 ? ", ..." : "");
}

void evidence_say_place(struct evidence *e, struct finding *f)
{
	const struct tally_row *row;

	for (unsigned k = 0; k < 3 && (row = tally_top(&e->places, k)); k++)
		if (row->ns * 10 > e->ns)
			finding_evidence(f, "%s of it at %s", evidence_part(e, f, row->ns), row->name);
}

void evidence_say_rhythm(const struct evidence *e, struct finding *f)
{
	int64_t period = rhythm_period(&e->rhythm);

	if (period)
		finding_evidence(f, "comes regularly, every %s", words_ns(period));
}
