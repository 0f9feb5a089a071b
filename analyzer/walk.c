/* SPDX-License-Identifier: Apache-2.0
 *
 * Following who was waited for, see walk.h.
 */
#include "analyzer/walk.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/timeline_build.h"

#define SYNC_WAITED_NS 20000
#define SYNC_JUST_BEFORE_NS 5000
/* Waits with a deadline are renewed: the next one begins within this after the former, or within a small part of it (seconds of
 * waiting, then a check whether the workers still live). */
#define RENEWED_WITHIN_NS 2000000
#define RENEWED_WITHIN_PART 20

/* What is known on the way: how far, and which batch is followed. */
struct trail {
	int hops;
	bool loader;
	const struct batch *batch;
	struct loader_facts facts;
};

static void follow_thread(struct walk *w, struct thread *t, int64_t a, int64_t b, struct trail *trail);

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

bool walk_is_wait(const struct slice *s)
{
	enum target_kind k = s->target ? s->target->target : TARGET_IS_NONE;

	switch (s->name->class) {
	case CLASS_SEM_WAIT:
	case CLASS_COND_WAIT:
	case CLASS_JOIN:
	case CLASS_CHILD_WAIT:
		return true;
	case CLASS_FD_WAIT:
	case CLASS_FD_READ:
	case CLASS_NET_READ:
		return k == TARGET_IS_PIPE || k == TARGET_IS_UNIX || k == TARGET_IS_FD;
	default:
		return false;
	}
}

/* ---- what goes out ---- */

static int64_t workers_needed(const struct walk *w, const struct loader_facts *f)
{
	int64_t period;

	if (f->service_ns <= 0)
		return 0;
	period = w->batches_taken > 0 ? w->batches_ns / w->batches_taken : 0;
	if (period <= 0)
		period = f->period_ns;
	return period > 0 ? (f->service_ns + period - 1) / period : 0;
}

static void emit(struct walk *w, struct thread *t, const struct slice *call, enum activity activity, int64_t a, int64_t b,
	const struct trail *trail)
{
	struct moment m = w->base;

	if (a >= b)
		return;
	m.start_ns = a;
	m.end_ns = b;
	m.thread = t;
	m.call = call;
	m.activity = activity;
	m.outer = call;
	while (m.outer && m.outer->up)
		m.outer -= m.outer->up;
	m.hops = trail->hops;
	m.loader = trail->loader;
	m.batch = trail->batch;
	m.workers_seen = trail->facts.workers;
	m.workers_needed = workers_needed(w, &trail->facts);
	m.cpus = t && t->process->cpus ? t->process->cpus : m.waiter ? m.waiter->process->cpus : 0;
	w->emit(w->ctx, &m);
}

static void emit_silence(struct walk *w, struct thread *t, int64_t a, int64_t b, const struct trail *trail)
{
	int64_t cpu, runqueue, born = t->process->first_ns;

	/* before the process could record anything it was being made */
	if (born > a && born != INT64_MAX) {
		emit(w, t, NULL, ACT_OFF_CPU, a, min64(b, born), trail);
		a = min64(b, born);
	}
	if (a >= b)
		return;
	if (!timeline_silence(t, a, b, &cpu, &runqueue)) {
		emit(w, t, NULL, ACT_CPU, a, b, trail);
		return;
	}
	/* the order inside the stretch is not known: on the CPU first */
	cpu = min64(cpu, b - a);
	runqueue = min64(runqueue, b - a - cpu);
	emit(w, t, NULL, ACT_CPU, a, a + cpu, trail);
	emit(w, t, NULL, ACT_RUNNABLE, a + cpu, a + cpu + runqueue, trail);
	emit(w, t, NULL, ACT_OFF_CPU, a + cpu + runqueue, b, trail);
}

/* ---- edges ---- */

static bool visited(const struct walk *w, const struct thread *t, int hops)
{
	for (int i = 0; i <= hops; i++)
		if (w->visited[i] == t)
			return true;
	return false;
}

static struct thread *thread_by_tid(struct process *p, int64_t tid)
{
	for (unsigned i = 0; i < p->nthreads; i++)
		if (p->threads[i]->tid == tid)
			return p->threads[i];
	return NULL;
}

static bool renews(const struct slice *former, const struct slice *s)
{
	int64_t between = s->start_ns - former->end_ns;

	return former->end_ns != NS_OPEN && s->name->class == former->name->class && s->target == former->target &&
		(between <= RENEWED_WITHIN_NS || between <= (former->end_ns - former->start_ns) / RENEWED_WITHIN_PART);
}

void walk_wait_span(const struct thread *t, const struct slice *c, int64_t *start_ns, int64_t *end_ns)
{
	const struct slice *first = c, *last = c;

	for (size_t i = (size_t)(c - t->calls) + 1, n = 0; i < t->ncalls && n < 256; i++, n++) {
		if (t->calls[i].depth > c->depth)
			continue;
		if (!renews(last, &t->calls[i]))
			break;
		last = &t->calls[i];
	}
	for (size_t i = (size_t)(c - t->calls), n = 0; i-- > 0 && n < 256; n++) {
		if (t->calls[i].depth > c->depth)
			continue;
		if (!renews(&t->calls[i], first))
			break;
		first = &t->calls[i];
	}
	*start_ns = first->start_ns;
	*end_ns = last->end_ns;
}

/* The stretch [a, b) of `c` on `t`, in which it waits for a batch from its workers. */
static void follow_batch(struct walk *w, struct thread *t, const struct slice *c, int64_t a, int64_t b, const struct batch *batch,
	struct trail *trail)
{
	struct trail next = *trail;
	int64_t finished = batch->finished_ns ? batch->finished_ns : INT64_MAX;
	struct thread *worker = batch->worker;

	if (!batch->wait_start_ns || c->start_ns < batch->wait_start_ns)
		((struct batch *)batch)->wait_start_ns = c->start_ns;
	next.loader = true;
	next.batch = batch;
	if (a < finished) {
		int64_t until = min64(b, finished);

		if (!worker || trail->hops + 1 > WALK_HOPS || visited(w, worker, trail->hops)) {
			emit(w, t, c, ACT_CALL, a, until, &next);
		} else {
			next.hops++;
			w->visited[next.hops] = worker;
			follow_thread(w, worker, a, until, &next);
			next.hops--;
		}
		a = until;
	}
	emit(w, t, c, ACT_CALL, a, b, &next);
	trail->loader = true;
	trail->batch = batch;
	trail->facts = next.facts;
}

/* What a wait for a thread or a process names: "thread:12", "pid:12". 0 = nothing of that kind, or no number. */
static int64_t number_in(const struct text *target, enum target_kind kind)
{
	return target && target->target == kind ? strtoll(strchr(target->text, ':') + 1, NULL, 10) : 0;
}

static void follow_wait(struct walk *w, struct thread *t, const struct slice *c, int64_t a, int64_t b, struct trail *trail)
{
	struct thread *who = NULL;
	const struct slice *call = NULL;
	struct trail next;
	int64_t until;

	if (c->target && c->target->target == TARGET_IS_PIPE && w->batches) {
		const struct batch *batch = batches_awaited(w->batches, c->target, c->start_ns, &trail->facts);

		if (batch) {
			follow_batch(w, t, c, a, b, batch, trail);
			return;
		}
	}
	if (trail->hops >= WALK_HOPS) {
		emit(w, t, c, ACT_CALL, a, b, trail);
		return;
	}
	if (c->name->class == CLASS_JOIN && c->target) {
		int64_t tid = number_in(c->target, TARGET_IS_THREAD);

		who = tid > 0 ? thread_by_tid(t->process, tid) : NULL;
	} else if (c->name->class == CLASS_CHILD_WAIT && c->target) {
		int64_t pid = number_in(c->target, TARGET_IS_PID);
		struct process *p = pid > 0 && pid <= INT_MAX ? timeline_process_of(w->tl, t->process->host, (int)pid, b) : NULL;

		who = p ? thread_by_tid(p, pid) : NULL;
	} else if (c->target) {
		int64_t from, to;

		walk_wait_span(t, c, &from, &to);
		timeline_waker(w->tl, c->target, t, max64(a, c->start_ns), to, &who, &call);
	}
	if (!who || visited(w, who, trail->hops)) {
		emit(w, t, c, ACT_CALL, a, b, trail);
		return;
	}
	next = *trail;
	next.hops++;
	w->visited[next.hops] = who;
	until = call ? max64(a, min64(b, call->start_ns)) : b;
	/* a thread of one's own that takes in batches (pin memory) hands them on */
	if (who->process == t->process && w->batches && batches_is_consumer(w->batches, who))
		next.loader = true;
	follow_thread(w, who, a, until, &next);
	if (call && until < b) {
		int64_t done = min64(b, call->end_ns);

		emit(w, who, call, ACT_CALL, until, done, &next);
		until = done;
	}
	trail->loader = next.loader;
	trail->batch = next.batch;
	trail->facts = next.facts;
	emit(w, t, c, ACT_CALL, until, b, trail);
}

/* The annotated range of taking a batch around `c`, NULL = none. */
static const struct slice *loader_range(const struct slice *c)
{
	while (c && c->name->range == RANGE_NONE)
		c = c->up ? c - c->up : NULL;
	return c;
}

static void follow_thread(struct walk *w, struct thread *t, int64_t a, int64_t b, struct trail *trail)
{
	while (a < b) {
		const struct slice *c = timeline_call_at(t, a), *next = timeline_call_after(t, a + 1);
		int64_t e = next ? min64(next->start_ns, b) : b;
		const struct slice *range = loader_range(c);
		struct trail here = *trail;

		if (c)
			e = min64(e, c->end_ns);
		if (range)
			here.loader = true;
		if (range == c && c)
			emit(w, t, c, c->name->range == RANGE_LOADS ? ACT_CPU : ACT_CALL, a, e, &here);
		else if (!c)
			emit_silence(w, t, a, e, &here);
		else if (walk_is_wait(c))
			follow_wait(w, t, c, a, e, &here);
		else
			emit(w, t, c, ACT_CALL, a, e, &here);
		/* what a wait learned about the loader holds for the caller, not for the thread's next call */
		if (here.loader && here.facts.workers)
			trail->facts = here.facts;
		a = e;
	}
}

void walk_thread(struct walk *w, struct thread *t, int64_t a_ns, int64_t b_ns)
{
	struct trail trail = {0};

	w->visited[0] = t;
	follow_thread(w, t, a_ns, b_ns, &trail);
}

/* ---- a gap ---- */

/* A copy for which the caller waits. Asynchronous ones do not, unless the host's side is pageable. What it copied is known when the operation is. */
static bool copy_blocks(const struct walk *w, const struct thread *t, const struct slice *s)
{
	const struct op *op;

	if (!strstr(s->name->text, "Async"))
		return true;
	op = op_launched_by(w->base.device, t, s);
	return !op || strstr(op->name->text, "Pageable") || !(strstr(op->name->text, "Pinned") || strstr(op->name->text, "Device -> Device") ||
		strstr(op->name->text, "Memset"));
}

/* Did the host fall behind because a sync made it wait for a busy device? The device was busy until `a`. */
static bool after_sync(const struct walk *w, const struct thread *t, int64_t a, int64_t b)
{
	const struct slice *s;
	size_t i;

	if (!t)
		return false;
	/* the wait began before the gap and ended in it, or just before it: so it encloses the instant just before */
	i = timeline_call_index(t, a);
	for (int n = 0; i && n < 64; n++) {
		s = &t->calls[--i];
		if (s->end_ns < a - SYNC_JUST_BEFORE_NS && s->depth == 0)
			return false;
		if (s->end_ns < a - SYNC_JUST_BEFORE_NS || s->end_ns > b || s->end_ns - s->start_ns < SYNC_WAITED_NS)
			continue;
		if (s->name->class == CLASS_GPU_SYNC || (s->name->class == CLASS_GPU_COPY && a - s->start_ns >= SYNC_WAITED_NS && copy_blocks(w, t, s)))
			return a - s->start_ns >= SYNC_WAITED_NS || s->end_ns < a;
	}
	return false;
}

void walk_gap(struct walk *w, int64_t a_ns, int64_t b_ns, const struct op *op, struct thread *fallback)
{
	struct thread *t = op && op->launcher ? op->launcher : fallback;
	struct trail trail = {0};
	int64_t at = a_ns;

	w->base.state = LOST_IDLE;
	w->base.gap_start_ns = a_ns;
	w->base.gap_end_ns = b_ns;
	w->base.op = op;
	w->base.waiter = t;
	w->base.part = PART_HOST;
	w->base.after_sync = after_sync(w, t, a_ns, b_ns);
	if (!t) {
		emit(w, NULL, NULL, ACT_OFF_CPU, a_ns, b_ns, &trail);
		return;
	}
	if (!op || !op->launcher) {
		walk_thread(w, t, a_ns, b_ns);
		return;
	}
	if (op->launch_start_ns > at) {
		int64_t until = min64(op->launch_start_ns, b_ns);

		walk_thread(w, t, at, until);
		at = until;
	}
	if (op->launch_end_ns > at && at < b_ns) {
		int64_t until = min64(op->launch_end_ns, b_ns);

		w->base.part = PART_CALL;
		emit(w, t, timeline_call_at(t, op->launch_start_ns), ACT_CALL, at, until, &trail);
		at = until;
	}
	if (at < b_ns) {
		int64_t until = min64(b_ns, at + WALK_LATENCY_NS);

		w->base.part = PART_LATENCY;
		emit(w, t, NULL, ACT_OFF_CPU, at, until, &trail);
		w->base.part = PART_DEVICE;
		emit(w, t, NULL, ACT_OFF_CPU, until, b_ns, &trail);
	}
}

void walk_exposed(struct walk *w, int64_t a_ns, int64_t b_ns, const struct op *op)
{
	struct trail trail = {0};
	const struct slice *call = op->launcher ? timeline_call_at(op->launcher, op->launch_start_ns) : NULL;

	w->base.state = op->name->op == OP_COMM ? LOST_EXPOSED_COMM : LOST_EXPOSED_COPY;
	w->base.gap_start_ns = a_ns;
	w->base.gap_end_ns = b_ns;
	w->base.op = op;
	w->base.waiter = op->launcher;
	w->base.part = PART_EXPOSED;
	w->base.after_sync = false;
	emit(w, op->launcher, call, call ? ACT_CALL : ACT_OFF_CPU, a_ns, b_ns, &trail);
}
