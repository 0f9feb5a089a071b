/* SPDX-License-Identifier: Apache-2.0
 *
 * The training thread's waits in a job without GPU activity, see host.h.
 *
 * The training thread is the main thread of a training process. Of the processes of one rank the uppermost is meant: the others
 * are its workers and helpers.
 */
#include "analyzer/host.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"
#include "analyzer/scaler_host.h"
#include "analyzer/retry.h"
#include "analyzer/timeline_build.h"
#include "analyzer/walk.h"

struct host_sums {
	struct ledger_sums of;
	int64_t data_ns, comm_ns, write_ns;
};

struct host_run {
	struct process *process;
	struct thread *thread;
	int64_t pos_ns;
	struct scaler_host *scaler;
	int64_t steady_ns, start_ns, end_ns;	/* the window: from where, or INT64_MIN; its first and last batch so far */
	bool steady;			/* its first batch has been passed */
	struct host_sums counted, since;	/* up to the last batch passed; since then */
	int64_t *takes;			/* batches not passed yet */
	size_t take_at, ntakes, takes_cap;
	int64_t batches, last_take_ns;
	int64_t *lengths;		/* between takes */
	size_t nlengths, cap;
	int64_t calls;
	int64_t last_gap_ns[LEDGER_CAUSES], gap_ns[LEDGER_CAUSES], gap_at_ns[LEDGER_CAUSES];	/* of a cause's present gap */
};

struct host_runs {
	const struct timeline *tl;
	const struct batches *batches;
	struct ledger_evidence *evidence;
	struct host_run **runs;
	size_t n, cap;
	const unsigned *chosen;
	const int64_t *steady_ns;
	unsigned nchosen, processes_seen;
	const struct thread **servers;	/* threads that serve sockets between ranks */
	size_t nservers, servers_cap;
	struct host_run *now;		/* whose stretch is walked */
};

enum { MAX_LENGTHS = 1 << 16 };
#define LONGEST_WAIT_NS 100000000000

struct host_runs *host_runs_open(const struct timeline *tl, const struct batches *batches, struct ledger_evidence *evidence,
	const unsigned *chosen, const int64_t *steady_ns, unsigned nchosen)
{
	struct host_runs *h = mem_new(1, sizeof(*h));

	h->tl = tl;
	h->batches = batches;
	h->evidence = evidence;
	h->chosen = chosen;
	h->steady_ns = steady_ns;
	h->nchosen = nchosen;
	return h;
}

static struct host_run *run_of(const struct host_runs *h, const struct process *p)
{
	for (size_t i = h->n; i--;)
		if (h->runs[i]->process == p)
			return h->runs[i];
	return NULL;
}

void host_runs_take(struct host_runs *h, const struct thread *consumer, int64_t at_ns)
{
	struct host_run *r = run_of(h, consumer->process);

	if (!r)
		return;
	if (r->batches++ && r->nlengths < MAX_LENGTHS) {
		r->lengths = mem_more(r->lengths, r->nlengths, &r->cap, sizeof(*r->lengths));
		r->lengths[r->nlengths++] = at_ns - r->last_take_ns;
	}
	r->last_take_ns = at_ns;
	if (r->steady_ns == INT64_MIN)
		return;
	if (r->take_at > 64 && r->take_at * 2 > r->ntakes) {
		r->ntakes -= r->take_at;
		memmove(r->takes, r->takes + r->take_at, r->ntakes * sizeof(*r->takes));
		r->take_at = 0;
	}
	r->takes = mem_more(r->takes, r->ntakes, &r->takes_cap, sizeof(*r->takes));
	r->takes[r->ntakes++] = at_ns;
}

static void add_sums(struct ledger_sums *to, const struct ledger_sums *s)
{
	unsigned rows = ledger_ncauses();

	for (int i = 0; i < UNKNOWN_REASONS; i++)
		to->unknown[i] += s->unknown[i];
	for (unsigned i = 0; i < rows; i++) {
		to->lost[i] += s->lost[i];
		to->idle[i] += s->idle[i];
		to->gaps[i] += s->gaps[i];
		if (s->worst_ns[i] > to->worst_ns[i]) {
			to->worst_ns[i] = s->worst_ns[i];
			to->worst_at_ns[i] = s->worst_at_ns[i];
		}
	}
}

static void count_since(struct host_run *r)
{
	add_sums(&r->counted.of, &r->since.of);
	r->counted.data_ns += r->since.data_ns;
	r->counted.comm_ns += r->since.comm_ns;
	r->counted.write_ns += r->since.write_ns;
	memset(&r->since, 0, sizeof(r->since));
}

/* The batches taken up to at_ns: the first steady one begins the window, each later one takes in what came before it. */
static void pass_takes(struct host_run *r, int64_t at_ns)
{
	for (; r->take_at < r->ntakes && r->takes[r->take_at] <= at_ns; r->take_at++) {
		int64_t take_ns = r->takes[r->take_at];

		if (take_ns < r->steady_ns)
			continue;
		if (r->steady) {
			count_since(r);
			r->end_ns = take_ns > r->end_ns ? take_ns : r->end_ns;
			continue;
		}
		r->steady = true;
		r->start_ns = r->end_ns = take_ns;
		memset(&r->since, 0, sizeof(r->since));
		for (unsigned i = 0; i < LEDGER_CAUSES; i++)
			r->last_gap_ns[i] = INT64_MIN;
	}
}

static bool is_peer_socket(const struct timeline *tl, const struct process *p, const struct text *target)
{
	return target && target->target == TARGET_IS_TCP && (retry_is_comm(tl, p, target) || timeline_peer_recorded(tl, target));
}

/* A thread of the training process that serves sockets between ranks. Most of what it does there is too short to be recorded: one such call near by
 * tells, and tells for good. */
static bool serves_peers(struct host_runs *h, const struct thread *t, int64_t at_ns)
{
	size_t i, to;

	for (size_t k = 0; k < h->nservers; k++)
		if (h->servers[k] == t)
			return true;
	i = timeline_call_index(t, at_ns);
	to = i + 512 < t->ncalls ? i + 512 : t->ncalls;
	for (i = i > 512 ? i - 512 : 0; i < to; i++) {
		if (!is_peer_socket(h->tl, t->process, t->calls[i].target))
			continue;
		h->servers = mem_more(h->servers, h->nservers, &h->servers_cap, sizeof(*h->servers));
		h->servers[h->nservers++] = t;
		return true;
	}
	return false;
}

/* Waits that end by another rank's bytes: the walk came to a socket between ranks, or to a thread that serves such sockets and waits for any of
 * them. */
static bool between_ranks(struct host_runs *h, const struct moment *m)
{
	if (m->loader || !m->thread || m->activity != ACT_CALL || !m->call)
		return false;
	if (m->call->target && m->call->target->target == TARGET_IS_TCP)
		return is_peer_socket(h->tl, m->thread->process, m->call->target);
	return m->hops > 0 && m->call->name->class == CLASS_FD_WAIT && m->thread->process == m->waiter->process &&
		serves_peers(h, m->thread, m->start_ns);
}

static unsigned row_of(enum leaf leaf)
{
	unsigned n = ledger_ncauses();

	for (unsigned i = 0; i < n; i++)
		if (causes[i]->leaf == leaf)
			return i;
	return n - 1;
}

static void book(struct host_runs *h, unsigned row, struct moment *m)
{
	struct host_run *r = h->now;
	const struct cause *c = causes[row];
	struct ledger_sums *sums = &r->since.of;
	int64_t ns = m->end_ns - m->start_ns;

	sums->lost[row] += ns;
	sums->idle[row] += ns;
	if (c->leaf == LEAF_UNKNOWN)
		sums->unknown[cause_unknown_reason(m)] += ns;
	if (r->last_gap_ns[row] != m->gap_start_ns) {
		r->last_gap_ns[row] = m->gap_start_ns;
		r->gap_ns[row] = 0;
		r->gap_at_ns[row] = m->start_ns;
		sums->gaps[row]++;
	}
	/* a wait is cut into many moments: its parts for one cause count together */
	r->gap_ns[row] += ns;
	if (r->gap_ns[row] > sums->worst_ns[row]) {
		sums->worst_ns[row] = r->gap_ns[row];
		sums->worst_at_ns[row] = r->gap_at_ns[row];
	}
	switch (leaf_group(c->leaf)) {
	case GROUP_DATA: r->since.data_ns += ns; break;
	case GROUP_RETRY:
	case GROUP_OTHER_COMM: r->since.comm_ns += ns; break;
	default:
		if (c->leaf == LEAF_IO_CHECKPOINT || c->leaf == LEAF_IO_OTHER_WRITE)
			r->since.write_ns += ns;
		break;
	}
	if (!c->see || m->start_ns < r->steady_ns)
		return;
	if (!h->evidence->state[row] && c->open)
		h->evidence->state[row] = c->open();
	c->see(h->evidence->state[row], h->tl, m);
}

static void on_moment(void *ctx, struct moment *moment)
{
	struct host_runs *h = ctx;
	unsigned n = ledger_ncauses();
	int64_t end = moment->end_ns;
	struct moment m = *moment;

	while (m.start_ns < end) {
		int64_t until = end;
		unsigned row = 0;

		m.end_ns = end;
		if (between_ranks(h, &m)) {
			row = row_of(LEAF_COMM_TRANSFER);
		} else {
			while (row + 1 < n && !causes[row]->claim(h->tl, &m, &until)) {
				until = end;
				row++;
			}
		}
		if (until <= m.start_ns || until > end || row + 1 == n)
			until = end;
		m.end_ns = until;
		book(h, row, &m);
		m.start_ns = until;
	}
}

/* Is time in this call lost to the training thread? What is neither a wait, nor a file, nor a socket is its work. */
static bool is_lost(const struct host_runs *h, const struct host_run *r, const struct slice *s)
{
	enum target_kind k = s->target ? s->target->target : TARGET_IS_NONE;

	(void)h;
	(void)r;
	if (s->name->range != RANGE_NONE)
		return true;
	switch (s->name->class) {
	case CLASS_FD_WAIT:
	case CLASS_SEM_WAIT:
	case CLASS_COND_WAIT:
	case CLASS_JOIN:
	case CLASS_CHILD_WAIT:
	case CLASS_SLEEP:
	case CLASS_FD_SYNC:
	case CLASS_PROC:
	case CLASS_NET_CONNECT:
	case CLASS_NET_READ:
	case CLASS_NET_WRITE:
		return true;
	case CLASS_FD_READ:
	case CLASS_FD_WRITE:
		return k != TARGET_IS_DEV;
	case CLASS_FILE_OPEN:
	case CLASS_FILE_MAP:
		return k == TARGET_IS_FILE;
	default:
		return false;
	}
}

/* A wait is looked at when it is over: only then it is known for whom it was. Waits for other processes to end may take as long as the
 * job; those are not held back. */
static int64_t before_open_wait(const struct host_run *r, int64_t to_ns)
{
	const struct slice *s = timeline_call_at(r->thread, to_ns);
	int64_t start, end;

	if (!s || !walk_is_wait(s) || s->name->class == CLASS_CHILD_WAIT || s->name->class == CLASS_JOIN)
		return to_ns;
	walk_wait_span(r->thread, s, &start, &end);
	return end > to_ns && to_ns - start < LONGEST_WAIT_NS && start > r->pos_ns ? start : end > to_ns && start <= r->pos_ns &&
		to_ns - r->pos_ns < LONGEST_WAIT_NS ? r->pos_ns : to_ns;
}

static void advance(struct host_runs *h, struct host_run *r, int64_t to_ns)
{
	struct walk w = {.tl = h->tl, .batches = h->batches, .emit = on_moment, .ctx = h};
	int64_t from = r->pos_ns;
	const struct slice *s;

	h->now = r;
	if (r->process->last_ns < to_ns)
		to_ns = r->process->last_ns;
	while (from < to_ns) {
		const struct slice *next = timeline_call_after(r->thread, from + 1);
		int64_t e = next && next->start_ns < to_ns ? next->start_ns : to_ns;

		pass_takes(r, from);
		s = timeline_call_at(r->thread, from);
		if (s && s->end_ns < e)
			e = s->end_ns;
		if (r->take_at < r->ntakes && r->takes[r->take_at] < e)
			e = r->takes[r->take_at];
		if (s && is_lost(h, r, s)) {
			w.base = (struct moment){.state = LOST_IDLE, .waiter = r->thread, .part = PART_HOST, .gap_start_ns = s->start_ns,
				.gap_end_ns = s->end_ns};
			r->calls++;
			walk_thread(&w, r->thread, from, e);
		}
		from = e;
	}
	if (to_ns > r->pos_ns)
		r->pos_ns = to_ns;
}

static struct thread *main_thread(const struct process *p)
{
	for (unsigned i = 0; i < p->nthreads; i++)
		if (p->threads[i]->tid == p->pid)
			return p->threads[i];
	return NULL;
}

static bool ends_at_top(const struct process *p)
{
	/* another process of the same rank above it: then it is one of its workers or helpers */
	for (const struct process *up = p->parent; up; up = up->parent)
		if (up->rank == p->rank)
			return false;
	return true;
}

void host_runs_watch(struct host_runs *h)
{
	const struct timeline *tl = h->tl;

	for (unsigned i = h->processes_seen; i < tl->nprocesses; i++) {
		struct host_run *r;
		unsigned c = 0;

		while (c < h->nchosen && h->chosen[c] != i)
			c++;
		if (c == h->nchosen)
			continue;
		r = mem_new(1, sizeof(*r));
		r->process = tl->processes[i];
		r->pos_ns = INT64_MIN;
		r->steady_ns = h->steady_ns[c];
		for (unsigned j = 0; j < LEDGER_CAUSES; j++)
			r->last_gap_ns[j] = INT64_MIN;
		r->scaler = scaler_host_open();
		h->runs = mem_more(h->runs, h->n, &h->cap, sizeof(*h->runs));
		h->runs[h->n++] = r;
	}
	h->processes_seen = tl->nprocesses;
}

void host_runs_advance(struct host_runs *h)
{
	const struct timeline *tl = h->tl;
	int64_t to = tl->finished ? INT64_MAX : tl->complete_ns - 1000000000;

	host_runs_watch(h);
	for (size_t i = 0; i < h->n; i++) {
		struct host_run *r = h->runs[i];

		scaler_host_advance(r->scaler, r->process, tl->complete_ns);
		if (!r->thread)
			r->thread = main_thread(r->process);
		if (!r->thread)
			continue;
		if (r->pos_ns == INT64_MIN)
			r->pos_ns = r->process->first_ns;
		if (r->pos_ns < tl->evicted_ns)
			r->pos_ns = tl->evicted_ns;
		advance(h, r, tl->finished ? to : before_open_wait(r, to));
	}
}

int64_t host_runs_need(const struct host_runs *h)
{
	int64_t at = INT64_MAX;

	for (size_t i = 0; i < h->n; i++)
		if (h->runs[i]->pos_ns != INT64_MIN && h->runs[i]->pos_ns < h->runs[i]->process->last_ns && h->runs[i]->pos_ns < at)
			at = h->runs[i]->pos_ns;
	return at;
}

static int by_rank(const void *a, const void *b)
{
	const struct host_run *x = *(struct host_run *const *)a, *y = *(struct host_run *const *)b;

	if (x->process->rank != y->process->rank)
		return x->process->rank < y->process->rank ? -1 : 1;
	if (x->process->first_ns != y->process->first_ns)
		return x->process->first_ns < y->process->first_ns ? -1 : 1;
	return x->process->pid < y->process->pid ? -1 : x->process->pid > y->process->pid;
}

static int64_t computed(const struct process *p)
{
	const struct thread *t = main_thread(p);

	return t ? timeline_cpu_total(t) : -1;
}

unsigned host_choose(const struct timeline *tl, const struct batches *batches, unsigned *chosen)
{
	const struct process *most = NULL;
	struct loader_facts facts;
	unsigned n = 0;

	for (int what = 0; what < 2 && !n; what++)
		for (unsigned i = 0; i < tl->nprocesses; i++) {
			const struct process *p = tl->processes[i];

			if (!main_thread(p) || batches_is_worker(batches, p))
				continue;
			if (what == 0 ? p->rank >= 0 && ends_at_top(p) : batches_facts(batches, p, &facts) && facts.taken > 0)
				chosen[n++] = i;
		}
	if (n)
		return n;
	for (unsigned i = 0; i < tl->nprocesses; i++)
		if (computed(tl->processes[i]) >= 0 && (!most || computed(tl->processes[i]) > computed(most)))
			most = tl->processes[i];
	for (unsigned i = 0; most && i < tl->nprocesses; i++) {
		const struct process *p = tl->processes[i];

		if (p == most || (p->ppid == most->ppid && !strcmp(p->host, most->host) && computed(p) * 2 > computed(most)))
			chosen[n++] = i;
	}
	return n;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void fill(const struct host_runs *h, struct host_run *r, struct host_result *out)
{
	struct loader_facts facts;
	unsigned rows = ledger_ncauses();

	out->rank = r->process->rank;
	out->pid = r->process->pid;
	out->host = mem_copy(r->process->host);
	out->command = mem_copy(r->process->command ? r->process->command : "");
	/* the other way round: nothing is known of it but that it was */
	out->wall_ns = r->process->last_ns > r->process->first_ns ? r->process->last_ns - r->process->first_ns : 0;
	out->steady = r->steady;
	out->window_ns = r->steady ? r->end_ns - r->start_ns : out->wall_ns;
	out->data_wait_ns = r->counted.data_ns;
	out->comm_wait_ns = r->counted.comm_ns;
	out->write_ns = r->counted.write_ns;
	for (unsigned i = 0; i < rows; i++)
		out->leaf[causes[i]->leaf] += r->counted.of.lost[i];
	out->scaler = *scaler_host_so_far(r->scaler);
	out->batches = r->batches;
	if (batches_facts(h->batches, r->process, &facts))
		out->workers = facts.workers;
	out->steps.rule = "";
	if (!r->nlengths)
		return;
	qsort(r->lengths, r->nlengths, sizeof(*r->lengths), by_size);
	out->steps.count = r->batches;
	out->steps.median_ns = r->lengths[r->nlengths / 2];
	out->steps.p95_ns = r->lengths[(r->nlengths - 1) * 95 / 100];
	out->steps.rule = "batch wait";
	out->steps.confidence = 0.9;
}

void host_runs_finish(struct host_runs *h, struct host_result **list, unsigned *n, struct ledger_sums *sums)
{
	size_t count = h->n;

	if (count)
		qsort(h->runs, count, sizeof(*h->runs), by_rank);
	*list = mem_new(count, sizeof(**list));
	*n = (unsigned)count;
	for (size_t i = 0; i < count; i++) {
		struct host_run *r = h->runs[i];

		pass_takes(r, INT64_MAX);
		if (!r->steady)
			count_since(r);
		fill(h, r, &(*list)[i]);
		add_sums(sums, &r->counted.of);
	}
}

void host_runs_close(struct host_runs *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n; i++) {
		free(h->runs[i]->lengths);
		free(h->runs[i]->takes);
		scaler_host_close(h->runs[i]->scaler);
		free(h->runs[i]);
	}
	free(h->servers);
	free(h->runs);
	free(h);
}
