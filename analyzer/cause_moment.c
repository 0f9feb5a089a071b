/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about a moment that several causes ask.
 */
#include "analyzer/cause_moment.h"

#include <string.h>

#include "analyzer/retry.h"
#include "analyzer/timeline_build.h"
#include "analyzer/where.h"

/* An NCCL call of the ordinary kind only queues work: microseconds. One that lasts this long opens connections (NCCL connects lazily). */
#define LAZY_CONNECT_NS 1000000

bool starts_with(const char *text, const char *head)
{
	return !strncmp(text, head, strlen(head));
}

bool ends_with(const char *text, const char *tail)
{
	size_t n = strlen(text), k = strlen(tail);

	return n >= k && !memcmp(text + n - k, tail, k);
}

/* Paths that are no storage: kernel interfaces and memory. */
static bool is_memory_path(const char *path)
{
	return starts_with(path, "/dev/shm/") || starts_with(path, "/proc/") || starts_with(path, "/sys/") || starts_with(path, "/memfd:");
}

bool moment_reads_file(const struct moment *m)
{
	enum call_class c = moment_class(m);
	enum target_kind k = moment_target(m);

	if (c == CLASS_FILE_OPEN && k == TARGET_IS_NONE)
		return true;
	if (k != TARGET_IS_FILE || is_memory_path(moment_path(m)))
		return false;
	return c == CLASS_FD_READ || c == CLASS_FILE_OPEN || c == CLASS_FILE_MAP || c == CLASS_FD_CLOSE;
}

bool moment_writes(const struct moment *m)
{
	enum call_class c = moment_class(m);
	enum target_kind k = moment_target(m);

	if (c == CLASS_FD_SYNC)
		return true;
	if (c == CLASS_FD_WRITE || c == CLASS_NET_WRITE)
		return k != TARGET_IS_FILE || !is_memory_path(moment_path(m));
	return false;
}

bool moment_feeds_reader(const struct moment *m)
{
	enum call_class c = moment_class(m);
	enum target_kind k = moment_target(m);

	return (c == CLASS_FD_WRITE || c == CLASS_NET_WRITE) && (k == TARGET_IS_PIPE || k == TARGET_IS_UNIX || k == TARGET_IS_FD);
}

bool moment_looks_up(const struct moment *m)
{
	return moment_class(m) == CLASS_NET_CONNECT && m->call->name->call == CALL_getaddrinfo;
}

bool moment_on_socket(const struct moment *m)
{
	enum target_kind k = moment_target(m);

	return k == TARGET_IS_TCP || k == TARGET_IS_UDP;
}

static bool connects(const struct slice *s, int64_t at_ns)
{
	enum call_class c = s->name->class;

	if (c == CLASS_NCCL_SETUP || c == CLASS_NCCL_END)
		return true;
	if (c != CLASS_NCCL_COLL && c != CLASS_NCCL_P2P && c != CLASS_NCCL_GROUP)
		return false;
	return s->end_ns == NS_OPEN ? at_ns - s->start_ns >= LAZY_CONNECT_NS : s->end_ns - s->start_ns >= LAZY_CONNECT_NS;
}

bool moment_in_comm_setup(const struct timeline *tl, const struct moment *m)
{
	(void)tl;
	if (m->activity == ACT_CALL && m->outer && connects(m->outer, m->end_ns))
		return true;
	if (m->activity == ACT_CALL && m->call && connects(m->call, m->end_ns))
		return true;
	/* the walk went on to somebody else, or nothing was recorded there: look at the thread that waits */
	if (m->waiter) {
		for (const struct slice *s = timeline_call_at(m->waiter, m->start_ns); s; s = timeline_outer(m->waiter, s))
			if (connects(s, m->end_ns))
				return true;
	}
	return false;
}

bool op_is_pageable_h2d(const struct op *op)
{
	return op_is(op, "Memcpy HtoD (Pageable");
}

const struct op *op_launched_by(const struct device *device, const struct thread *thread, const struct slice *call)
{
	if (!device || !call)
		return NULL;
	/* it starts after its launch call began; within the next few operations, as streams run in order */
	for (size_t i = timeline_op_index(device, call->start_ns), n = 0; i < device->nops && n < 64; i++, n++) {
		const struct op *op = &device->ops[i];

		if (op->launcher == thread && op->launch_start_ns >= call->start_ns && op->launch_start_ns < call->end_ns)
			return op;
	}
	return NULL;
}

/* Most of the stretch went into file calls each too short to be recorded: many small reads, from the page cache. */
static bool short_file_calls(const struct moment *m)
{
	struct thread_use use;

	if (!m->loader || !m->thread || m->activity == ACT_CALL)
		return false;
	return timeline_use(m->thread, m->start_ns, m->end_ns, &use) && use.short_file_ns * 2 > m->end_ns - m->start_ns;
}

/* Off the CPU in no recorded call, after mapping a file for this batch: page faults. */
static bool faults_in_mapping(const struct moment *m)
{
	size_t i;

	if (!m->loader || !m->thread || m->activity != ACT_OFF_CPU || !m->batch || !m->batch->started_ns)
		return false;
	i = timeline_call_index(m->thread, m->start_ns);
	for (int n = 0; i-- > 0 && n < 64; n++) {
		const struct slice *s = &m->thread->calls[i];

		if (s->start_ns < m->batch->started_ns)
			return false;
		if (s->name->class == CLASS_FILE_MAP && s->target && s->target->target == TARGET_IS_FILE && !is_memory_path(s->target->text))
			return true;
	}
	return false;
}

bool moment_on_storage(const struct timeline *tl, const struct moment *m)
{
	(void)tl;
	return moment_reads_file(m) || short_file_calls(m) || faults_in_mapping(m);
}

bool moment_on_remote(const struct timeline *tl, const struct moment *m)
{
	/* by the training thread it is most likely the other ranks' */
	if (moment_looks_up(m))
		return m->loader || (m->call->at && where_loads(m->call->at->text));
	if (!moment_on_socket(m) || retry_is_comm(tl, m->thread ? m->thread->process : NULL, m->call->target))
		return false;
	/* sending is asking when a loader does it; from the training thread it is logging or uploading */
	return m->loader || !moment_writes(m);
}
