/* SPDX-License-Identifier: Apache-2.0
 *
 * What the launching thread itself, or the thread that it waits for, was doing when nothing outside explains the gap:
 * host.lock, host.descheduled, host.compute, host.launch.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"
#include "analyzer/timeline_build.h"

#define FEED_SLOW_NS 100000
#define LOOKS 4096	/* for readers of pipes: enough to tell who */

struct lock { struct evidence e; int64_t feed_ns, child_ns; unsigned looked; struct tally readers; };

static bool claim_lock(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	enum target_kind k = moment_target(m);

	(void)tl;
	*until_ns = m->end_ns;
	if (!moment_idle(m))
		return false;
	if (moment_feeds_reader(m))
		return true;
	switch (moment_class(m)) {
	case CLASS_PROC:
	case CLASS_SEM_WAIT:
	case CLASS_COND_WAIT:
	case CLASS_JOIN:
	case CLASS_CHILD_WAIT:
	case CLASS_SLEEP:
		return true;
	case CLASS_FD_WAIT:
	case CLASS_FD_READ:
	case CLASS_NET_READ:
		return k == TARGET_IS_PIPE || k == TARGET_IS_UNIX || k == TARGET_IS_FD || k == TARGET_IS_NONE || k == TARGET_IS_DEV;
	default:
		return false;
	}
}

/* Who reads what `m` writes, as far as recorded: a pipe has one name for both its ends. */
static const struct process *reader_of(const struct timeline *tl, const struct moment *m)
{
	for (unsigned i = 0; i < tl->nprocesses; i++)
		for (unsigned j = 0; j < tl->processes[i]->nthreads; j++) {
			const struct thread *t = tl->processes[i]->threads[j];
			size_t at = t == m->thread ? 0 : timeline_call_index(t, m->end_ns);

			for (int n = 0; at-- > 0 && n < 16; n++)
				if (t->calls[at].target == m->call->target && t->calls[at].name->class == CLASS_FD_READ)
					return t->process;
		}
	return NULL;
}

static void *open_lock(void)
{
	return mem_new(1, sizeof(struct lock));
}

static void see_lock(void *state, const struct timeline *tl, const struct moment *m)
{
	struct lock *s = state;
	int64_t ns = m->end_ns - m->start_ns;
	const struct process *reader;
	char text[160];

	evidence_see(&s->e, tl, m);
	if (moment_class(m) == CLASS_CHILD_WAIT || moment_class(m) == CLASS_PROC)
		s->child_ns += ns;
	if (!moment_feeds_reader(m))
		return;
	s->feed_ns += ns;
	/* short ones are copies of bytes into the pipe's buffer */
	if (ns < FEED_SLOW_NS || s->looked++ > LOOKS)
		return;
	reader = reader_of(tl, m);
	if (reader)
		snprintf(text, sizeof(text), "pid %d (%.100s)", reader->pid, reader->command ? reader->command : "?");
	tally_add(&s->readers, reader ? text : "a process that was not recorded", ns, 0, 1);
}

static void close_lock(void *state)
{
	struct lock *s = state;

	evidence_release(&s->e);
	tally_free(&s->readers);
	free(s);
}

static void title_lock(const struct lock *s, const struct result *r, struct finding *f)
{
	if (s->feed_ns * 2 > s->e.ns)
		finding_title(f, "%s writes into a pipe whose reader does not keep up: %s", words_waiter(r, true), words_ns(f->ns));
	else if (s->child_ns * 2 > s->e.ns)
		finding_title(f, "%s starts other processes and waits for them: %s", words_waiter(r, true), words_ns(f->ns));
	else
		finding_title(f, r->ndevices ? "The launching thread sleeps or waits for a lock: %s" : "The training thread sleeps or waits for a lock: %s",
			words_ns(f->ns));
}

static void say_reader(struct lock *s, struct finding *f)
{
	const struct tally_row *row = tally_top(&s->readers, 0);

	if (s->feed_ns * 20 <= s->e.ns)
		return;
	finding_evidence(f, "%s of it writing into pipes or local sockets%s%s", evidence_part(&s->e, f, s->feed_ns), row ? "; at the other end: " : "",
		row ? row->name : "");
	finding_advice(f, "a pipe's writer waits for its reader: look at what the process at the other end does (a filter, a logger, `| tee`, a helper of your own), or write less");
}

static void explain_lock(void *state, const struct result *r, struct finding *f)
{
	struct lock *s = state;
	struct evidence *e = &s->e;
	const struct tally_row *row;

	title_lock(s, r, f);
	for (unsigned k = 0; k < 3 && (row = tally_top(&e->names, k)); k++)
		if (row->ns * 20 > e->ns)
			finding_evidence(f, "%s: %s in %s", row->name, evidence_part(e, f, row->ns), words_count(row->count, "call", "calls"));
	row = tally_top(&e->targets, 0);
	if (row && row->ns * 5 > e->ns)
		finding_evidence(f, "most on one of them: %s, %s", row->name, evidence_part(e, f, row->ns));
	row = tally_top(&e->threads, 0);
	if (row)
		finding_evidence(f, "most in %s", row->name);
	say_reader(s, f);
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	if (s->child_ns * 2 > e->ns)
		finding_advice(f, "start other programs once, outside of the loop, or let a thread wait for them");
	if ((s->feed_ns + s->child_ns) * 5 > e->ns * 4)
		return;
	finding_advice(f, "if another thread of the process computes in Python meanwhile (data, logging, metrics), it holds the interpreter lock: move it to a process of its own");
	finding_advice(f, "if it is a sleep or a wait for a helper process in the loop: take it out of the step");
}

static bool claim_descheduled(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	return moment_idle(m) && m->activity == ACT_RUNNABLE;
}

static void explain_descheduled(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;

	(void)r;
	finding_title(f, "The launching thread wants to run but gets no CPU: %s", words_ns(f->ns));
	if (e->cpus)
		finding_evidence(f, "%lld CPUs are allowed%s", (long long)e->cpus, e->workers_seen ? "" : " to the process");
	if (e->workers_seen)
		finding_evidence(f, "%s share them", words_count(e->workers_seen, "loader worker", "loader workers"));
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	finding_advice(f, "ask for more CPUs (container limits throttle, too), or use fewer: workers + threads per worker + one per rank should fit");
	finding_advice(f, "limit helper threads: OMP_NUM_THREADS, torch.set_num_threads, cv2.setNumThreads(0); bind each rank to its own CPUs");
}

static bool claim_compute(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	return moment_idle(m) && m->activity == ACT_CPU;
}

static void explain_compute(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;
	const struct tally_row *row = tally_top(&e->threads, 0);

	(void)r;
	finding_title(f, "The host computes while the GPU has nothing to do: %s", words_ns(f->ns));
	finding_evidence(f, "%s, %s each on average", words_count(f->gaps, "gap", "gaps"), words_ns(f->gaps ? f->ns / f->gaps : 0));
	if (row)
		finding_evidence(f, "the thread: %s", row->name);
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	finding_advice(f, "if the gaps are many and short, the framework's dispatch is the limit: torch.compile, CUDA graphs, larger batches");
	finding_advice(f, "if they are few and long, look at the Python code there (metrics, logging, data preparation, garbage collection): open the worst one in the timeline");
}

static bool claim_launch(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	(void)tl;
	*until_ns = m->end_ns;
	if (!moment_idle(m))
		return false;
	if (m->part == PART_LATENCY)
		return true;
	switch (moment_class(m)) {
	case CLASS_GPU_LAUNCH:
	case CLASS_GPU_COPY:
	case CLASS_GPU_ORDER:
	case CLASS_GPU_QUERY:
	case CLASS_NCCL_COLL:
	case CLASS_NCCL_P2P:
	case CLASS_NCCL_GROUP:
		return true;
	default:
		return m->part == PART_CALL && m->activity != ACT_OFF_CPU;
	}
}

static void explain_launch(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;
	const struct tally_row *row;

	(void)r;
	finding_title(f, "Kernels are launched one by one slower than the GPU runs them: %s of launch latency", words_ns(f->ns));
	finding_evidence(f, "%s, %s each on average", words_count(f->gaps, "gap", "gaps"), words_ns(f->gaps ? f->ns / f->gaps : 0));
	for (unsigned k = 0; k < 2 && (row = tally_top(&e->names, k)); k++)
		if (row->ns * 10 > e->ns)
			finding_evidence(f, "%s: %s in %s", row->name, evidence_part(e, f, row->ns), words_count(row->count, "call", "calls"));
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	finding_advice(f, "fewer, larger kernels: torch.compile (fuses), fused or foreach optimizers, a larger batch");
	finding_advice(f, "or one launch for many kernels: CUDA graphs (torch.cuda.make_graphed_callables, mode=\"reduce-overhead\")");
}

const struct cause cause_lock = { LEAF_HOST_LOCK, claim_lock, open_lock, see_lock, explain_lock, close_lock };
const struct cause cause_descheduled = { LEAF_HOST_DESCHEDULED, claim_descheduled, evidence_open, evidence_see, explain_descheduled, evidence_close };
const struct cause cause_compute = { LEAF_HOST_COMPUTE, claim_compute, evidence_open, evidence_see, explain_compute, evidence_close };
const struct cause cause_launch = { LEAF_HOST_LAUNCH, claim_launch, evidence_open, evidence_see, explain_launch, evidence_close };
