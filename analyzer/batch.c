/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches from pipe traffic, see batch.h.
 */
#include "analyzer/batch.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"
#include "analyzer/timeline_build.h"

/* A header of this size may be written by itself before a long payload (Python's multiprocessing does so above 16 KB). */
enum { HEADER_BYTES = 4 };
#define HEADER_GAP_NS 10000000
#define BLOCKED_NS 20000
/* MAX_OPEN: no loader asks one worker for so many batches ahead; a process that reads so much and answers nothing is the next of a pipeline. */
enum { MAX_QUEUED = 65536, PERIOD_TAKES = 4, MAX_OPEN = 1024 };

struct message {
	int64_t end_offset, start_ns, end_ns;
	struct thread *writer;
	struct task *task;		/* on index pipes once the worker is known */
	bool header_only, asks;		/* asks: `task` is what it requests, not what it answers */
};

struct pipe {
	const struct text *text;
	int64_t written, read;
	struct message *queue;		/* not read yet, oldest first */
	size_t first, n, cap;
	struct process *reader, *writer;	/* the last ones */
	struct worker *index_of;	/* the worker that reads its requests here */
	struct loader *result_of;
};

struct task {
	struct batch b;
	struct worker *worker;
	bool done;			/* the answer was written */
	bool taken;
	bool queued;			/* the message that requests it is still in its pipe's queue */
	bool forgotten;			/* in no list any more, to be freed with that message */
};

/* Oldest first; the first nread of them have been read by their worker. */
struct tasks { struct task **at; size_t first, n, cap, nread; };

struct worker {
	struct process *process;
	struct process *consumer;	/* who sends the requests */
	struct loader *loader;		/* NULL until it first answered */
	struct pipe *index;
	struct tasks open;		/* requested, no answer written yet */
	int64_t last_finish_ns;
};

struct loader {
	struct pipe *result;
	struct process *process;
	struct thread *consumer;
	struct task **tasks;		/* in order of request */
	size_t ntasks, cap;
	int64_t taken, workers, served, service_ns, waits_ns, first_take_ns, last_take_ns;
};

struct event {
	int64_t key_ns;
	struct thread *thread;
	const struct slice *call;
	enum { EV_WRITE, EV_READ, EV_BLOCK } kind;
	unsigned order;
};

struct batches {
	struct pipe **pipes;		/* by text id, may hold NULL */
	size_t npipes;
	struct worker **workers;
	size_t nworkers, workers_cap;
	struct loader **loaders;
	size_t nloaders, loaders_cap;
	struct event *events;
	size_t nevents, events_cap;
	int64_t done_ns;
	void (*on_take)(void *ctx, const struct thread *consumer, int64_t at_ns);
	void *take_ctx;
};

struct batches *batches_open(void)
{
	struct batches *b = mem_new(1, sizeof(*b));

	b->done_ns = INT64_MIN;
	return b;
}

static struct pipe *pipe_of(struct batches *b, const struct text *t, bool make)
{
	if (t->id >= b->npipes) {
		size_t n = t->id + t->id / 2 + 64;

		if (!make)
			return NULL;
		b->pipes = mem_resize(b->pipes, n, sizeof(*b->pipes));
		memset(b->pipes + b->npipes, 0, (n - b->npipes) * sizeof(*b->pipes));
		b->npipes = n;
	}
	if (!b->pipes[t->id] && make) {
		b->pipes[t->id] = mem_new(1, sizeof(struct pipe));
		b->pipes[t->id]->text = t;
	}
	return b->pipes[t->id];
}

static bool is_ancestor(const struct process *a, const struct process *p)
{
	for (int i = 0; p && i < 64; i++, p = p->parent)
		if (p->parent == a)
			return true;
	return false;
}

/* Does `c` give work to `w`? Their parentage says; where that is not recorded, the one with the GPU, then the older one. */
static bool is_upstream(const struct process *c, const struct process *w)
{
	if (c == w || strcmp(c->host, w->host))
		return false;
	if (is_ancestor(c, w))
		return true;
	if (is_ancestor(w, c))
		return false;
	if (!c->ndevices != !w->ndevices)
		return c->ndevices;
	return c->first_ns < w->first_ns;
}

static struct worker *worker_of(struct batches *b, struct process *p, bool make)
{
	struct worker *w;

	for (size_t i = b->nworkers; i--;)
		if (b->workers[i]->process == p)
			return b->workers[i];
	if (!make)
		return NULL;
	w = mem_new(1, sizeof(*w));
	w->process = p;
	b->workers = mem_more(b->workers, b->nworkers, &b->workers_cap, sizeof(*b->workers));
	return b->workers[b->nworkers++] = w;
}

static void tasks_add(struct tasks *q, struct task *t)
{
	if (q->first + q->n == q->cap && q->first > q->cap / 2) {
		memmove(q->at, q->at + q->first, q->n * sizeof(*q->at));
		q->first = 0;
	}
	q->at = mem_more(q->at, q->first + q->n, &q->cap, sizeof(*q->at));
	q->at[q->first + q->n++] = t;
}

static struct task *tasks_take(struct tasks *q)
{
	if (!q->n)
		return NULL;
	q->n--;
	q->nread -= q->nread > 0;
	return q->at[q->first++];
}

static void task_forget(struct task *t)
{
	t->forgotten = true;
	if (!t->queued)
		free(t);
}

/* The message leaves its queue, or no longer stands for the task. */
static void message_done(struct message *m)
{
	struct task *t = m->asks ? m->task : NULL;

	m->task = NULL;
	if (!t)
		return;
	t->queued = false;
	if (t->forgotten)
		free(t);
}

/* Of requests without end the older ones that were read. */
static void forget_unanswered(struct worker *w)
{
	size_t drop = w->open.nread < MAX_OPEN / 2 ? w->open.nread : MAX_OPEN / 2, n = 0;
	struct loader *l = w->loader;

	for (size_t i = 0; i < drop; i++)
		w->open.at[w->open.first + i]->forgotten = true;
	for (size_t i = 0; l && i < l->ntasks; i++)
		if (!l->tasks[i]->forgotten)
			l->tasks[n++] = l->tasks[i];
	if (l)
		l->ntasks = n;
	while (drop--)
		task_forget(tasks_take(&w->open));
}

/* Requests reach the loader's list in order of time, but those of a worker that just became known come late. */
static void loader_add(struct loader *l, struct task *t)
{
	size_t at = l->ntasks;

	l->tasks = mem_more(l->tasks, l->ntasks, &l->cap, sizeof(*l->tasks));
	while (at && l->tasks[at - 1]->b.requested_ns > t->b.requested_ns) {
		l->tasks[at] = l->tasks[at - 1];
		at--;
	}
	l->tasks[at] = t;
	l->ntasks++;
}

static struct task *request(struct worker *w, struct message *m)
{
	struct task *t = mem_new(1, sizeof(*t));

	t->worker = w;
	t->b.requested_ns = m->start_ns;
	/* until a thread of it reads the request, its main thread stands for it */
	for (unsigned i = 0; i < w->process->nthreads; i++)
		if (w->process->threads[i]->tid == w->process->pid)
			t->b.worker = w->process->threads[i];
	if (w->open.n >= MAX_OPEN)
		forget_unanswered(w);
	tasks_add(&w->open, t);
	if (w->loader) {
		t->b.consumer = w->loader->consumer;
		loader_add(w->loader, t);
	}
	t->queued = m->asks = true;
	return m->task = t;
}

static void on_write(struct batches *b, struct thread *th, const struct slice *s);
static void on_read(struct batches *b, struct thread *th, const struct slice *s);

/* The worker's first answer tells which pipe the answers go to, and so whose worker it is. */
static void join_loader(struct batches *b, struct worker *w, struct pipe *p)
{
	struct loader *l = p->result_of;

	if (!l) {
		l = p->result_of = mem_new(1, sizeof(*l));
		l->result = p;
		l->process = w->consumer;
		b->loaders = mem_more(b->loaders, b->nloaders, &b->loaders_cap, sizeof(*b->loaders));
		b->loaders[b->nloaders++] = l;
	}
	w->loader = l;
	l->workers++;
	for (size_t i = 0; i < w->open.n; i++)
		loader_add(l, w->open.at[w->open.first + i]);
}

static void answer(struct batches *b, struct worker *w, struct pipe *p, struct message *m)
{
	struct task *t;
	struct loader *l;

	if (!w->loader)
		join_loader(b, w, p);
	l = w->loader;
	if (l->result != p)
		return;
	t = tasks_take(&w->open);
	if (!t)
		return;
	/* that it read the request was not recorded */
	if (!t->b.started_ns)
		t->b.started_ns = t->b.requested_ns;
	t->done = true;
	t->b.finished_ns = m->start_ns;
	w->last_finish_ns = m->start_ns;
	if (t->b.finished_ns > t->b.started_ns) {
		l->served++;
		l->service_ns += t->b.finished_ns - t->b.started_ns;
	}
	m->task = t;
}

static void on_write(struct batches *b, struct thread *th, const struct slice *s)
{
	struct pipe *p = pipe_of(b, s->target, true);
	struct message *m = p->n ? &p->queue[p->first + p->n - 1] : NULL;
	struct worker *w;

	p->written += s->bytes;
	p->writer = th->process;
	if (m && m->writer == th && m->header_only && s->bytes != HEADER_BYTES && s->start_ns - m->end_ns < HEADER_GAP_NS) {
		m->end_offset = p->written;
		m->end_ns = s->end_ns;
		m->header_only = false;
		return;
	}
	if (p->first + p->n == p->cap) {
		if (p->first > p->cap / 2) {
			memmove(p->queue, p->queue + p->first, p->n * sizeof(*p->queue));
			p->first = 0;
		} else {
			p->queue = mem_more(p->queue, p->first + p->n, &p->cap, sizeof(*p->queue));
		}
	}
	if (p->n == MAX_QUEUED) {	/* nobody whom we record reads it */
		while (p->n)
			message_done(&p->queue[p->first + --p->n]);
		p->first = p->n = 0;
		p->read = p->written - s->bytes;
	}
	m = &p->queue[p->first + p->n++];
	*m = (struct message){.end_offset = p->written, .start_ns = s->start_ns, .end_ns = s->end_ns, .writer = th,
		.header_only = s->bytes == HEADER_BYTES};
	if (p->index_of && p->index_of->consumer == th->process) {
		request(p->index_of, m);
		return;
	}
	w = worker_of(b, th->process, false);
	/* its own request pipe it does not write; any other pipe that its consumer reads is the one for answers, known at the read */
	if (w && w->loader && w->loader->result == p)
		answer(b, w, p, m);
}

/* Until a worker has answered, the pipe it read last is the one for requests: by another one it may have been sent what to run (the
 * spawn and forkserver start methods do that). */
static void requests_come_by(struct worker *w, struct pipe *p, struct process *consumer)
{
	struct pipe *old = w->index;

	if (old) {
		for (size_t i = 0; i < old->n; i++)
			message_done(&old->queue[old->first + i]);
		while (w->open.n)
			task_forget(tasks_take(&w->open));
		old->index_of = NULL;
	}
	w->index = p;
	w->consumer = consumer;
	p->index_of = w;
}

static void started(struct worker *w, struct task *t, struct thread *th, int64_t at_ns)
{
	struct task **open = w->open.at + w->open.first;
	bool news = !t->b.started_ns;

	t->b.worker = th;
	t->b.started_ns = at_ns;
	t->b.queued_behind = w->last_finish_ns > t->b.requested_ns || (w->open.n && open[0] != t && open[0]->b.started_ns);
	/* earlier requests must have been read earlier */
	while (news && w->open.nread < w->open.n) {
		struct task *other = open[w->open.nread++];

		if (other == t)
			break;
		other->b.started_ns = at_ns;
		other->b.worker = th;
	}
}

static void receive(struct batches *b, struct pipe *p, struct message *m, struct thread *th, int64_t at_ns)
{
	struct process *from = m->writer->process, *to = th->process;
	struct worker *w;

	if (from == to)
		return;
	if (is_upstream(from, to)) {
		w = worker_of(b, to, true);
		if (w->index != p && !w->loader)
			requests_come_by(w, p, from);
		if (w->index != p)
			return;
		if (!m->task)
			request(w, m);
		if (m->task->done)
			return;
		started(w, m->task, th, at_ns);
		return;
	}
	w = worker_of(b, from, false);
	if (!w || w->consumer != to || !w->index)
		return;
	if (!m->task)
		answer(b, w, p, m);
	if (m->task && !m->task->taken && w->loader && w->loader->result == p) {
		struct loader *l = w->loader;

		m->task->taken = true;
		m->task->b.taken_ns = at_ns;
		m->task->b.consumer = th;
		l->consumer = th;
		l->taken++;
		if (!l->first_take_ns)
			l->first_take_ns = at_ns;
		l->last_take_ns = at_ns;
		if (b->on_take)
			b->on_take(b->take_ctx, th, at_ns);
	}
}

static void receive_up_to(struct batches *b, struct pipe *p, struct thread *th, int64_t offset, int64_t written_by_ns, int64_t at_ns)
{
	while (p->n) {
		struct message *m = &p->queue[p->first];

		if (m->end_offset > offset || m->end_ns > written_by_ns)
			break;
		p->first++;
		p->n--;
		receive(b, p, m, th, at_ns);
		message_done(m);
	}
	if (!p->n)
		p->first = 0;
}

static void on_read(struct batches *b, struct thread *th, const struct slice *s)
{
	struct pipe *p = pipe_of(b, s->target, true);

	p->read += s->bytes;
	p->reader = th->process;
	if (p->read > p->written)	/* a write that was not recorded */
		p->read = p->written;
	receive_up_to(b, p, th, p->read, INT64_MAX, s->end_ns);
}

/* A reader that blocks has emptied the pipe. */
static void on_block(struct batches *b, struct thread *th, const struct slice *s)
{
	struct pipe *p = pipe_of(b, s->target, false);

	if (!p || p->reader != th->process)
		return;
	if (p->n && p->queue[p->first].end_ns < s->start_ns) {
		receive_up_to(b, p, th, INT64_MAX, s->start_ns - 1, s->start_ns);
		p->read = p->n ? p->queue[p->first].end_offset - 1 : p->written;
	}
	if (p->result_of && p->result_of->consumer == th)
		p->result_of->waits_ns += s->end_ns - s->start_ns;
}

static int by_key(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->key_ns != y->key_ns)
		return x->key_ns < y->key_ns ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static void collect_call(struct batches *b, struct thread *t, const struct slice *s, int64_t from_ns, int64_t to_ns)
{
	struct event e = {.thread = t, .call = s};

	if (!s->target || s->target->target != TARGET_IS_PIPE || s->end_ns == NS_OPEN)
		return;
	if (s->name->class == CLASS_FD_READ && s->bytes > 0) {
		e.kind = EV_READ;
		e.key_ns = s->end_ns;
	} else if (s->name->class == CLASS_FD_WRITE && s->bytes > 0) {
		e.kind = EV_WRITE;
		e.key_ns = s->start_ns;
	} else if (s->name->class == CLASS_FD_WAIT && s->end_ns - s->start_ns >= BLOCKED_NS) {
		e.kind = EV_BLOCK;
		e.key_ns = s->end_ns;
	} else {
		return;
	}
	if (e.key_ns < from_ns || e.key_ns >= to_ns)
		return;
	e.order = (unsigned)b->nevents;
	b->events = mem_more(b->events, b->nevents, &b->events_cap, sizeof(*b->events));
	b->events[b->nevents++] = e;
}

/* Reads count at their end: those that began before the stretch and end in it enclose its first instant. */
static void collect(struct batches *b, struct thread *t, int64_t from_ns, int64_t to_ns)
{
	const struct slice *s;

	if (!timeline_has_class(t, 1ull << CLASS_FD_READ | 1ull << CLASS_FD_WRITE | 1ull << CLASS_FD_WAIT))
		return;
	s = from_ns == INT64_MIN ? NULL : timeline_call_at(t, from_ns - 1);
	for (; s; s = timeline_outer(t, s))
		if (s->start_ns < from_ns)
			collect_call(b, t, s, from_ns, to_ns);
	for (size_t i = timeline_call_index(t, from_ns); i < t->ncalls && t->calls[i].start_ns < to_ns; i++)
		collect_call(b, t, &t->calls[i], from_ns, to_ns);
}

void batches_advance(struct batches *b, const struct timeline *tl)
{
	if (tl->complete_ns <= b->done_ns)
		return;
	b->nevents = 0;
	for (unsigned i = 0; i < tl->nprocesses; i++)
		for (unsigned j = 0; j < tl->processes[i]->nthreads; j++)
			collect(b, tl->processes[i]->threads[j], b->done_ns, tl->complete_ns);
	if (b->nevents)
		qsort(b->events, b->nevents, sizeof(*b->events), by_key);
	for (size_t i = 0; i < b->nevents; i++) {
		struct event *e = &b->events[i];

		if (e->kind == EV_WRITE)
			on_write(b, e->thread, e->call);
		else if (e->kind == EV_READ)
			on_read(b, e->thread, e->call);
		else
			on_block(b, e->thread, e->call);
	}
	b->done_ns = tl->complete_ns;
}

void batches_evict(struct batches *b, int64_t before_ns)
{
	for (size_t i = 0; i < b->nloaders; i++) {
		struct loader *l = b->loaders[i];
		size_t n = 0;

		for (size_t j = 0; j < l->ntasks; j++) {
			struct task *t = l->tasks[j];

			if (t->taken && t->b.taken_ns < before_ns)
				task_forget(t);
			else
				l->tasks[n++] = t;
		}
		l->ntasks = n;
	}
}

void batches_close(struct batches *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->npipes; i++)
		for (struct pipe *p = b->pipes[i]; p && p->n; p->n--)
			message_done(&p->queue[p->first + p->n - 1]);
	for (size_t i = 0; i < b->nloaders; i++) {
		for (size_t j = 0; j < b->loaders[i]->ntasks; j++)
			free(b->loaders[i]->tasks[j]);
		free(b->loaders[i]->tasks);
		free(b->loaders[i]);
	}
	for (size_t i = 0; i < b->nworkers; i++) {
		struct worker *w = b->workers[i];

		while (!w->loader && w->open.n)
			free(tasks_take(&w->open));
		free(w->open.at);
		free(w);
	}
	for (size_t i = 0; i < b->npipes; i++) {
		if (b->pipes[i])
			free(b->pipes[i]->queue);
		free(b->pipes[i]);
	}
	free(b->pipes);
	free(b->workers);
	free(b->loaders);
	free(b->events);
	free(b);
}

static void fill_facts(const struct loader *l, struct loader_facts *f)
{
	int64_t span = l->last_take_ns - l->first_take_ns - l->waits_ns;

	*f = (struct loader_facts){.taken = l->taken, .workers = l->workers, .consumer = l->consumer};
	if (l->served)
		f->service_ns = l->service_ns / l->served;
	/* the first batches lie ready while the workers start, and tell nothing */
	if (l->taken > PERIOD_TAKES && span > 0)
		f->period_ns = span / (l->taken - 1);
}

const struct batch *batches_awaited(const struct batches *b, const struct text *pipe, int64_t wait_ns, struct loader_facts *facts)
{
	const struct pipe *p = pipe->id < b->npipes ? b->pipes[pipe->id] : NULL;
	const struct loader *l = p ? p->result_of : NULL;

	if (!l)
		return NULL;
	if (facts)
		fill_facts(l, facts);
	for (size_t i = 0; i < l->ntasks; i++) {
		const struct task *t = l->tasks[i];

		if (t->b.finished_ns && t->b.finished_ns <= wait_ns)
			continue;
		/* a request that its worker never answered before it ended */
		if (!t->done && t->worker->process->end && t->worker->process->last_ns < wait_ns)
			continue;
		return &t->b;
	}
	return NULL;
}

bool batches_is_result(const struct batches *b, const struct text *pipe)
{
	return pipe->id < b->npipes && b->pipes[pipe->id] && b->pipes[pipe->id]->result_of;
}

bool batches_is_consumer(const struct batches *b, const struct thread *t)
{
	for (size_t i = b->nloaders; i--;)
		if (b->loaders[i]->consumer == t)
			return true;
	return false;
}

bool batches_is_worker(const struct batches *b, const struct process *p)
{
	for (size_t i = 0; i < b->nworkers; i++)
		if (b->workers[i]->process == p && b->workers[i]->loader)
			return true;
	return false;
}

void batches_on_take(struct batches *b, void (*fn)(void *ctx, const struct thread *consumer, int64_t at_ns), void *ctx)
{
	b->on_take = fn;
	b->take_ctx = ctx;
}

bool batches_facts(const struct batches *b, const struct process *p, struct loader_facts *facts)
{
	const struct loader *best = NULL;

	for (size_t i = 0; i < b->nloaders; i++) {
		const struct loader *l = b->loaders[i];

		if (l->process != p)
			continue;
		if (!best || l->taken > best->taken)
			best = l;
	}
	if (!best)
		return false;
	fill_facts(best, facts);
	return true;
}
