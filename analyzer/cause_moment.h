/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about a moment that several causes ask. Pure.
 */
#ifndef WHYIDLE_ANALYZER_CAUSE_MOMENT_H
#define WHYIDLE_ANALYZER_CAUSE_MOMENT_H

#include "analyzer/cause.h"

/* Class of the innermost recorded call, CLASS_NONE outside calls. */
static inline enum call_class moment_class(const struct moment *m)
{
	return m->activity == ACT_CALL && m->call ? m->call->name->class : CLASS_NONE;
}

static inline enum call_class moment_outer_class(const struct moment *m)
{
	return m->activity == ACT_CALL && m->outer ? m->outer->name->class : CLASS_NONE;
}

static inline enum target_kind moment_target(const struct moment *m)
{
	return m->activity == ACT_CALL && m->call && m->call->target ? m->call->target->target : TARGET_IS_NONE;
}

static inline const char *moment_path(const struct moment *m)
{
	return m->call && m->call->target ? m->call->target->text : "";
}

static inline bool moment_idle(const struct moment *m)
{
	return m->state == LOST_IDLE;
}

/* The launching (or training) thread itself, not somebody it waits for. */
static inline bool moment_on_waiter(const struct moment *m)
{
	return m->thread && (m->hops == 0 || m->thread == m->waiter);
}

bool starts_with(const char *text, const char *head);
bool ends_with(const char *text, const char *tail);

/* In a call that touches a file's contents or name for reading (open, read, map, close). */
bool moment_reads_file(const struct moment *m);
/* In a call that writes to a file or flushes one. */
bool moment_writes(const struct moment *m);
/* Looking up a host's name. */
bool moment_looks_up(const struct moment *m);
/* In a call that writes into a pipe, a local socket or the like: what lasts there is its reader. */
bool moment_feeds_reader(const struct moment *m);
/* In any call on a TCP or UDP socket. */
bool moment_on_socket(const struct moment *m);
/* The waiting thread or the thread at the end of the walk is inside an NCCL call of setup, or one that connects lazily (long enough). */
bool moment_in_comm_setup(const struct timeline *tl, const struct moment *m);

/* How the worker's part of a wait is split (design in cause_workers.c): does [m->start, *until) go to "too few workers"? */
bool moment_wants_workers(const struct timeline *tl, const struct moment *m, int64_t *until_ns);
/* ... is the awaited batch not begun because its worker is still starting? */
bool moment_worker_starts(const struct moment *m);
/* Is `p` a compiler, or the like, by its command? */
bool process_compiles(const struct process *p);
/* Is `p` a worker by its command: one that runs its parent's program (fork), or Python's multiprocessing? */
bool is_worker_process(const struct process *p);
/* Has `p`, which takes batches from a loader, had child processes like that? */
bool has_workers(const struct timeline *tl, const struct process *p);
/* The training thread fetches what a finished batch refers to from the worker that made it: descriptors of shared memory, over a local socket. */
bool moment_fetches_batch(const struct timeline *tl, const struct moment *m);
/* ... the worker reads storage or a data socket, by calls, mapped files or many calls too short to be recorded. */
bool moment_on_storage(const struct timeline *tl, const struct moment *m);
bool moment_on_remote(const struct timeline *tl, const struct moment *m);

/* The name of a GPU operation begins so. */
static inline bool op_is(const struct op *op, const char *head)
{
	return op && op->name && starts_with(op->name->text, head);
}

struct collective;
struct retry_span;

/* The first stretch of the moment that comm.retry claims: only of exposed communication, of communicator set-up and of waits for a socket between
 * ranks. False = none. */
bool moment_retry_part(const struct timeline *tl, const struct moment *m, int64_t *start_ns, int64_t *end_ns, const struct retry_span **which);
/* Ends a claim where comm.retry's begins. */
void cut_at_retry(const struct timeline *tl, const struct moment *m, int64_t *until_ns);

/* Exposed communication: when the last of the ranks seen arrived, never after its own end; own start when this rank was the last, or alone, or the clocks
 * are not sure enough. *c (which may be NULL) is filled when true is returned: the collective is known. */
bool moment_last_arrival(const struct timeline *tl, const struct moment *m, struct collective *c, int64_t *arrival_ns);

/* From pageable host memory to the device. */
bool op_is_pageable_h2d(const struct op *op);

/* Ends a claim where the awaited batch changes hands: begun by its worker, finished by it. */
static inline void cut_at_batch(const struct moment *m, int64_t *until_ns)
{
	const struct batch *b = m->batch;

	if (!b)
		return;
	if (b->started_ns > m->start_ns && b->started_ns < *until_ns)
		*until_ns = b->started_ns;
	if (b->finished_ns > m->start_ns && b->finished_ns < *until_ns)
		*until_ns = b->finished_ns;
}

/* The operation that `call` on `thread` launched on `device`, NULL = not in the window. */
const struct op *op_launched_by(const struct device *device, const struct thread *thread, const struct slice *call);

/* The causes, in cause_*.c. */
extern const struct cause cause_profiler, cause_retry, cause_startup, cause_alloc, cause_checkpoint, cause_other_write, cause_setup, cause_late_peer,
	cause_transfer, cause_worker_start, cause_handoff, cause_pageable, cause_storage, cause_remote, cause_workers, cause_preprocess, cause_scaler,
	cause_sync, cause_lock, cause_descheduled, cause_compute, cause_launch, cause_copy, cause_unknown;

/* What tl->causes points to. `wait`: how much of a worker's part of the present wait lay in storage or sockets so far (cause_workers.c); saves
 * counting it anew for each moment, the answer does not depend on it. */
struct causes_memory {
	struct collectives *collectives;
	struct retries *retries;
	struct { const struct thread *worker; int64_t wait_start_ns, upto_ns, fetch_ns; } wait;
};
static inline struct causes_memory *memory_of(const struct timeline *tl)
{
	return tl->causes;
}

#endif
