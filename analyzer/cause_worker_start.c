/* SPDX-License-Identifier: Apache-2.0
 *
 * data.worker_start: the training thread makes or reaps loader processes, or waits for a batch whose worker is still starting: it was asked and did not
 * begin although no other batch kept it busy, and it is young.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"

/* A loader asks new workers at once: one that was asked later than this after its birth is not starting. */
#define YOUNG_NS 5000000000

struct seen {
	struct evidence e;
	int64_t fork_ns, reap_ns;
	struct tally workers;
	unsigned processes;	/* looked at so far */
	bool replaced, spawned;	/* new workers began when old ones had ended; workers are new interpreters */
};

bool moment_worker_starts(const struct moment *m)
{
	const struct batch *b = m->batch;
	int64_t born;

	if (!m->loader || !b || !b->worker || b->queued_behind || !b->started_ns || m->start_ns >= b->started_ns)
		return false;
	born = b->worker->process->start_ns ? b->worker->process->start_ns : b->worker->process->first_ns;
	if (!born)
		return false;
	return b->requested_ns - born < YOUNG_NS;
}

bool is_worker_process(const struct process *p)
{
	if (!p || !p->command || strstr(p->command, "resource_tracker"))
		return false;
	if (strstr(p->command, "multiprocessing"))
		return true;
	return p->parent && p->parent->command && !strcmp(p->command, p->parent->command);
}

bool has_workers(const struct timeline *tl, const struct process *p)
{
	for (unsigned i = tl->nprocesses; p && p->loads && i-- > 0;)
		if (tl->processes[i]->parent == p && is_worker_process(tl->processes[i]))
			return true;
	return false;
}

/* Python joins a child by polling a pipe that the child holds open until it ends: nothing is ever read from it. */
static bool polls_sentinel(const struct timeline *tl, const struct moment *m)
{
	const struct slice *s = m->call;

	if (m->loader || moment_class(m) != CLASS_FD_WAIT || moment_target(m) != TARGET_IS_PIPE || !moment_on_waiter(m))
		return false;
	for (int n = 0; n < 8 && ++s < m->thread->calls + m->thread->ncalls; n++)
		if (s->name->class == CLASS_FD_READ && s->target == m->call->target)
			return false;
	return has_workers(tl, m->thread->process);
}

static bool reaps_worker(const struct timeline *tl, const struct moment *m)
{
	const struct slice *s = m->waiter ? timeline_call_at(m->waiter, m->start_ns) : NULL;
	int pid;

	if (moment_class(m) == CLASS_CHILD_WAIT && moment_on_waiter(m))
		s = m->call;
	if (!m->waiter || !m->waiter->process->loads || !s || s->name->class != CLASS_CHILD_WAIT || !s->target || !starts_with(s->target->text, "pid:"))
		return false;
	pid = atoi(s->target->text + 4);
	for (unsigned i = 0; i < tl->nprocesses; i++)
		if (tl->processes[i]->pid == pid && m->waiter && tl->processes[i]->parent == m->waiter->process)
			return is_worker_process(tl->processes[i]);
	return false;
}

/* Not any program that is started: only a process that has a loader starts workers. */
static bool makes_worker(const struct moment *m)
{
	return moment_class(m) == CLASS_PROC && (m->loader || (m->waiter && m->waiter->process->loads));
}

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	*until_ns = m->end_ns;
	if (!moment_idle(m))
		return false;
	if (moment_worker_starts(m)) {
		if (*until_ns > m->batch->started_ns)
			*until_ns = m->batch->started_ns;
		return true;
	}
	return makes_worker(m) || reaps_worker(tl, m) || polls_sentinel(tl, m);
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static bool is_below(const struct process *p, const struct process *top)
{
	for (int n = 0; p && n < 4; n++, p = p->parent)
		if (p->parent == top)
			return true;
	return false;
}

/* Did one of the loader's workers begin when another had ended? Asked anew when there are more processes. */
static void see_workers(struct seen *s, const struct timeline *tl, const struct moment *m)
{
	const struct process *top = m->waiter ? m->waiter->process : NULL;
	int64_t first_end = INT64_MAX;

	if (!top || s->processes == tl->nprocesses)
		return;
	s->processes = tl->nprocesses;
	for (unsigned i = 0; i < tl->nprocesses; i++) {
		const struct process *p = tl->processes[i];

		if (!is_worker_process(p) || !is_below(p, top))
			continue;
		s->spawned |= strstr(p->command, "spawn_main") != NULL;
		if (p->end && p->last_ns < first_end)
			first_end = p->last_ns;
	}
	for (unsigned i = 0; i < tl->nprocesses && first_end != INT64_MAX; i++)
		if (is_worker_process(tl->processes[i]) && is_below(tl->processes[i], top) && tl->processes[i]->first_ns > first_end)
			s->replaced = true;
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	int64_t ns = m->end_ns - m->start_ns;
	char text[32];

	evidence_see(&s->e, tl, m);
	see_workers(s, tl, m);
	if (moment_class(m) == CLASS_PROC) {
		s->fork_ns += ns;
	} else if (moment_worker_starts(m)) {
		snprintf(text, sizeof(text), "pid %d", m->batch->worker->process->pid);
		tally_add(&s->workers, text, ns, 0, 1);
	} else {
		s->reap_ns += ns;
	}
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	const struct tally_row *row = tally_top(&s->workers, 0);

	finding_title(f, "%s waits for loader workers to start: %s", words_waiter(r, true), words_ns(f->ns));
	if (s->replaced)
		finding_evidence(f, "%s: old workers end and new ones are started, as a loader does at each epoch",
			words_count(s->e.rhythm.episodes, "stretch of waiting", "stretches of waiting"));
	else
		finding_evidence(f, "the workers were started once, none took the place of another: a longer run pays this once");
	evidence_say_rhythm(&s->e, f);
	if (row)
		finding_evidence(f, "%s were waited for; the longest, %s, for %s", words_count(tally_names(&s->workers), "new worker", "new workers"),
			row->name, evidence_part(&s->e, f, row->ns));
	if (s->fork_ns * 20 > s->e.ns)
		finding_evidence(f, "creating processes took %s of it", evidence_part(&s->e, f, s->fork_ns));
	if (s->reap_ns * 20 > s->e.ns)
		finding_evidence(f, "waiting for old workers to end took %s of it", evidence_part(&s->e, f, s->reap_ns));
	evidence_say_place(&s->e, f);
	evidence_say_ranks(&s->e, f);
	if (s->replaced)
		finding_advice(f, "DataLoader(..., persistent_workers=True): workers then live through all epochs");
	finding_advice(f, "make workers start faster: no heavy imports or index building in the dataset's constructor or worker_init_fn%s",
		s->spawned ? "; start method fork or forkserver instead of spawn" : "");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	tally_free(&s->workers);
	free(s);
}

const struct cause cause_worker_start = { LEAF_DATA_WORKER_START, claim, open_seen, see, explain, close_seen };
