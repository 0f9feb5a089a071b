/* SPDX-License-Identifier: Apache-2.0
 *
 * data.workers: the awaited batch had to queue because every worker was busy, and more workers could run.
 *
 * A loader hands out batches in order, so the awaited batch is always the oldest outstanding one, and at the moment of the wait its
 * worker mostly has begun it: "not started yet" alone would hardly ever be true. But a batch that queued behind others for q ns (started - requested,
 * its worker busy meanwhile) would have been ready that much earlier with a worker free for it. So of the worker's time in the wait that is
 * neither storage nor a socket (those keep their own leaf: more workers would press on the same disk), the first q ns are
 * data.workers, if another worker could have run: this one is off the CPU, or as many workers as are needed fit on the CPUs. Else it is
 * data.preprocess: more workers would only share the same CPUs.
 */
#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/retry.h"
#include "analyzer/timeline_build.h"

static bool fetches(const struct timeline *tl, const struct thread *t, const struct slice *s)
{
	struct moment m = { .start_ns = s->start_ns, .end_ns = s->end_ns, .thread = t ? (struct thread *)t : NULL, .call = s, .outer = s,
		.activity = ACT_CALL, .loader = true };

	return moment_reads_file(&m) || moment_on_remote(tl, &m);
}

static int64_t overlap(int64_t a, int64_t b, int64_t c, int64_t d)
{
	int64_t from = a > c ? a : c, to = b < d ? b : d;

	return to > from ? to - from : 0;
}

/* Time in [wait start, upto) that the worker spent in storage or sockets; outermost calls only. */
static int64_t fetched_before(const struct timeline *tl, const struct thread *worker, int64_t wait_start_ns, int64_t upto_ns)
{
	struct causes_memory *memory = memory_of(tl);
	int64_t from = wait_start_ns, sum = 0;
	size_t i;

	if (memory && memory->wait.worker == worker && memory->wait.wait_start_ns == wait_start_ns && memory->wait.upto_ns <= upto_ns) {
		from = memory->wait.upto_ns;
		sum = memory->wait.fetch_ns;
	}
	i = timeline_call_index(worker, from);
	while (i > 0 && worker->calls[i - 1].depth > 0)
		i--;
	if (i > 0 && worker->calls[i - 1].end_ns > from)
		i--;
	for (; i < worker->ncalls && worker->calls[i].start_ns < upto_ns; i++) {
		const struct slice *s = &worker->calls[i];

		if (s->depth == 0 && s->end_ns > from && fetches(tl, worker, s))
			sum += overlap(s->start_ns, s->end_ns, from, upto_ns);
	}
	if (memory) {
		memory->wait.worker = worker;
		memory->wait.wait_start_ns = wait_start_ns;
		memory->wait.upto_ns = upto_ns;
		memory->wait.fetch_ns = sum;
	}
	return sum;
}

/* Could one more worker have run? */
static bool room_for_workers(const struct moment *m)
{
	if (m->activity == ACT_OFF_CPU || m->activity == ACT_CALL)
		return true;
	if (!m->cpus)
		return false;
	return m->workers_needed ? m->workers_needed <= m->cpus : m->workers_seen < m->cpus;
}

bool moment_wants_workers(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	const struct batch *b = m->batch;
	const struct thread *worker = b && b->worker ? b->worker : m->thread;
	int64_t queued, spent, left;

	if (!m->loader || !b || !b->queued_behind || !room_for_workers(m) || !worker)
		return false;
	if (!b->started_ns || m->start_ns < b->started_ns) {
		cut_at_batch(m, until_ns);
		return true;
	}
	if (!b->requested_ns || !b->wait_start_ns)
		return false;
	queued = b->started_ns - b->requested_ns;
	spent = m->start_ns - b->wait_start_ns;
	if (spent < 0)
		spent = 0;
	else
		spent -= fetched_before(tl, worker, b->wait_start_ns, m->start_ns);
	left = queued - spent;
	if (left <= 0)
		return false;
	if (left < *until_ns - m->start_ns)
		*until_ns = m->start_ns + left;
	cut_at_batch(m, until_ns);
	return true;
}

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	*until_ns = m->end_ns;
	return moment_idle(m) && moment_wants_workers(tl, m, until_ns);
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;
	int64_t more = evidence_needed(e) > e->workers_seen ? evidence_needed(e) : e->workers_seen + 1;

	finding_title(f, "Too few loader workers: %s waits %s for batches that queue behind others", words_waiter(r, false), words_ns(f->ns));
	finding_evidence(f, "%s seen, %s needed to keep up with the training step; %lld CPUs allowed",
		words_count(e->workers_seen, "worker", "workers"), evidence_needed(e) ? words_count(evidence_needed(e), "is", "are") : "more are", (long long)e->cpus);
	finding_evidence(f, "a batch waits in its worker's queue while that worker makes another one; a free worker would have had it ready earlier");
	if (e->off_cpu_ns + e->call_ns > e->cpu_ns)
		finding_evidence(f, "%s of this time the worker is not on a CPU: more workers cost little", words_share(e->off_cpu_ns + e->call_ns, e->ns));
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	finding_advice(f, "DataLoader(..., num_workers=%lld) (now %lld)", (long long)more, (long long)e->workers_seen);
	if (e->cpus && more > e->cpus && (e->cpu_ns + e->runnable_ns) * 5 > e->ns)
		finding_advice(f, "only %lld CPUs are allowed: raise the job's CPU request too, where workers also compute", (long long)e->cpus);
	finding_advice(f, "prefetch_factor smooths uneven batches, but does not make up for too few workers");
}

const struct cause cause_workers = { LEAF_DATA_WORKERS, claim, evidence_open, evidence_see, explain, evidence_close };
