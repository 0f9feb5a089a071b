/* SPDX-License-Identifier: Apache-2.0
 *
 * A cause: one file, one row in the table (cause.c). The walk (walk.c) cuts lost time into moments and asks the causes in the order of the table, which is
 * the order of precedence; the first that claims a moment books it. Afterwards each cause with enough time explains itself.
 */
#ifndef WHYIDLE_ANALYZER_CAUSE_H
#define WHYIDLE_ANALYZER_CAUSE_H

#include "analyzer/result.h"
#include "analyzer/timeline.h"

enum activity { ACT_CALL, ACT_CPU, ACT_RUNNABLE, ACT_OFF_CPU };	/* inside `call`; or none recorded and: on CPU, waiting for one, neither */

enum lost_state { LOST_IDLE, LOST_EXPOSED_COMM, LOST_EXPOSED_COPY };

/* A batch on its way, as seen from pipes and semaphores. Times 0 = not seen. */
struct batch {
	struct thread *consumer, *worker;	/* worker NULL = made by the consumer itself or unknown */
	int64_t requested_ns, started_ns, finished_ns, taken_ns;
	int64_t wait_start_ns;			/* the consumer began to wait */
	bool queued_behind;			/* its worker was busy with another batch between requested and started */
};

/* A stretch [start, end) of one device's lost time, and what the thread at the end of the walk was doing. */
struct moment {
	int64_t start_ns, end_ns;
	enum lost_state state;
	struct device *device;			/* NULL in host-only analysis */
	int64_t gap_start_ns, gap_end_ns;	/* the gap or exposed stretch it belongs to */
	struct thread *waiter;			/* the launching (or training) thread, where the walk began; NULL unknown */
	struct thread *thread;			/* where the walk ended; NULL unknown */
	const struct slice *call;		/* ACT_CALL: innermost call of `thread` */
	const struct slice *outer;		/* its outermost enclosing call (may be == call) */
	enum activity activity;
	int hops;				/* 0 = the waiter itself */
	bool loader;				/* the walk followed a batch: `thread` makes or delivers batches */
	const struct batch *batch;		/* the awaited batch, NULL unknown */
	const struct op *op;			/* idle: the operation that ends the gap; exposed: the operation that runs */
	enum part { PART_HOST, PART_CALL, PART_LATENCY, PART_DEVICE, PART_EXPOSED } part;	/* of analyzers' 4.2: before, inside, up to 20 us after, beyond */
	bool after_sync;			/* rule of the sync bubble holds for this gap (host was made to fall behind) */
	bool outside_steps;			/* before the first or after the last step */
	bool skipped_step;			/* between the overflow check and the next forward of a skipped step */
	int64_t workers_needed, workers_seen, cpus;	/* of the loader, 0 unknown: for data.workers */
};

struct cause {
	enum leaf leaf;
	/* Books m? May cut it: sets *until_ns (m->start < until <= m->end) to where its claim ends; the rest is asked again. Pure. */
	bool (*claim)(const struct timeline *tl, const struct moment *m, int64_t *until_ns);
	/* Collects evidence of a booked moment in the steady window (run window when there are no steps). State is allocated on first use; NULL = none collected. */
	void *(*open)(void);
	void (*see)(void *state, const struct timeline *tl, const struct moment *m);
	/* Fills title, evidence and advice of f (allocated strings). ns, share, gaps, worst are already there. */
	void (*explain)(void *state, const struct result *r, struct finding *f);
	void (*close)(void *state);
};

extern const struct cause *const causes[];	/* NULL-terminated, in order of precedence; the last one claims everything (unknown) */

/* Why a moment that nobody else claimed is unknown. */
enum unknown_reason cause_unknown_reason(const struct moment *m);

/* ---- what the causes remember about the window: collectives across ranks (collective.h), spans without progress (retry.h) ---- */

/* Opens tl->causes. 0 or -ENOMEM; once per timeline, before the first claim. Without it exposed communication is never split. */
int causes_open(struct timeline *tl);

/* Looks at what came in since the last call. To be called each time tl->complete_ns has advanced (or tl->finished was set), before moments that end
 * before complete_ns are put to the causes, and before timeline_evict. */
void causes_advance(struct timeline *tl);

void causes_close(struct timeline *tl);

/* finding_evidence / finding_advice append a printf'd line. */
void finding_title(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void finding_evidence(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void finding_advice(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
