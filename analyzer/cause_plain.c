/* SPDX-License-Identifier: Apache-2.0
 *
 * The claims of all causes, reduced to what is left of them for a plain moment. A cause that comes to claim more must be looked at here, too: the test
 * holds this against the causes themselves.
 */
#include "analyzer/cause_plain.h"

#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/timeline_build.h"

/* What the waiting thread is in at the moment says nothing: no call, or a launch. Set-up, collectives and waits for children would be asked about. */
static bool waiter_is_plain(const struct moment *m)
{
	for (const struct slice *s = timeline_call_at(m->waiter, m->start_ns); s; s = timeline_outer(m->waiter, s))
		if (s->name->class != CLASS_GPU_LAUNCH)
			return false;
	return true;
}

static bool is_plain(const struct moment *m)
{
	if (m->state != LOST_IDLE || m->outside_steps || m->loader || !m->thread || m->thread != m->waiter)
		return false;
	if (m->activity == ACT_CALL) {
		if (!m->call || m->outer != m->call || m->call->up || m->call->name->class != CLASS_GPU_LAUNCH || m->call->target)
			return false;
	} else if (m->call) {
		return false;
	}
	return waiter_is_plain(m);
}

static bool compiles(const struct process *p, struct plain_memory *memory)
{
	if (p != memory->process || p->command != memory->command)
		*memory = (struct plain_memory){p, p->command, process_compiles(p)};
	return memory->compiles;
}

static int row_of(const struct cause *cause)
{
	for (int i = 0; causes[i]; i++)
		if (causes[i] == cause)
			return i;
	return -1;
}

enum plain { PLAIN_SCALER, PLAIN_SYNC, PLAIN_DESCHEDULED, PLAIN_COMPUTE, PLAIN_LAUNCH, PLAIN_UNKNOWN, PLAIN_KINDS };

int cause_plain(const struct timeline *tl, const struct moment *m, struct plain_memory *memory)
{
	static int rows[PLAIN_KINDS] = {-1};
	enum plain kind;

	(void)tl;
	if (!is_plain(m) || compiles(m->thread->process, memory))
		return -1;
	if (m->thread->name && m->thread->name[0] == 'w' && !strcmp(m->thread->name, "whyidle"))
		return -1;
	if (rows[0] < 0) {
		const struct cause *const of[PLAIN_KINDS] = {&cause_scaler, &cause_sync, &cause_descheduled, &cause_compute, &cause_launch, &cause_unknown};

		for (int i = PLAIN_KINDS; i--;)
			rows[i] = row_of(of[i]);
	}
	if (m->skipped_step)
		kind = PLAIN_SCALER;
	else if (m->after_sync && (m->activity != ACT_OFF_CPU || m->part == PART_LATENCY))
		kind = PLAIN_SYNC;
	else if (m->activity == ACT_RUNNABLE)
		kind = PLAIN_DESCHEDULED;
	else if (m->activity == ACT_CPU)
		kind = PLAIN_COMPUTE;
	else if (m->activity == ACT_CALL || m->part == PART_LATENCY)
		kind = PLAIN_LAUNCH;
	else
		kind = PLAIN_UNKNOWN;
	return rows[kind];
}
