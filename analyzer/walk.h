/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts a stretch of a thread's time into moments, following who was waited for. A gap is cut by its end: the operation that ends
 * it, its launch, the launching thread before that. Every ns comes out exactly once, in order of time. Reads the timeline, keeps nothing.
 */
#ifndef WHYIDLE_ANALYZER_WALK_H
#define WHYIDLE_ANALYZER_WALK_H

#include "analyzer/batch.h"
#include "analyzer/cause.h"

enum { WALK_HOPS = 8 };
#define WALK_LATENCY_NS 20000

struct walk {
	const struct timeline *tl;
	const struct batches *batches;
	/* What every moment of this stretch has in common; start, end and who are filled in by the walk. */
	struct moment base;
	/* What the device computed in how many batches: that is the time between batches that it needs. 0 = take the loader's own period. */
	int64_t batches_ns, batches_taken;
	void (*emit)(void *ctx, struct moment *m);
	void *ctx;

	/* the walk's own */
	const struct thread *visited[WALK_HOPS + 1];
};

/* The gap [a, b) that `op` ends (NULL: the run's end does); `fallback` = the thread to look at when the launch is not known, may be NULL. */
void walk_gap(struct walk *w, int64_t a_ns, int64_t b_ns, const struct op *op, struct thread *fallback);

/* Exposed communication or copy [a, b). */
void walk_exposed(struct walk *w, int64_t a_ns, int64_t b_ns, const struct op *op);

/* A thread's stretch [a, b), as in a gap's host part. */
void walk_thread(struct walk *w, struct thread *t, int64_t a_ns, int64_t b_ns);

/* Is it a call in which one waits for another thread or process (by class and target)? */
bool walk_is_wait(const struct slice *s);

/* From when to when the wait lasts that `c` is a part of: waits with a deadline are renewed. NS_OPEN = it goes on. */
void walk_wait_span(const struct thread *t, const struct slice *c, int64_t *start_ns, int64_t *end_ns);

#endif
