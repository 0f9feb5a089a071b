/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on their way, read off the pipes between a consumer and its worker processes, as PyTorch's DataLoader and others of that kind
 * use them: the consumer writes a request to a worker's pipe, the worker answers on one pipe shared by all. Requests are handed out in the order
 * of need, and a consumer that waits always waits for the oldest one that has not come. Pipes are byte streams: messages are matched by
 * counting bytes, so framing does not matter; where the count is lost, a reader that blocks says that the pipe is empty.
 * Remembers across advances, forgets with the window. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_BATCH_H
#define WHYIDLE_ANALYZER_BATCH_H

#include "analyzer/cause.h"
#include "analyzer/timeline.h"

struct batches;

struct loader_facts {
	int64_t taken, workers;		/* batches taken so far; distinct workers that ever answered */
	int64_t service_ns;		/* mean time from start to finish of a batch, 0 unknown */
	int64_t period_ns;		/* mean time between takes without the consumer's waits, 0 unknown */
	const struct thread *consumer;	/* reads the answers */
};

struct batches *batches_open(void);
/* Takes in the calls up to tl->complete_ns. */
void batches_advance(struct batches *b, const struct timeline *tl);
/* Forgets batches taken before before_ns. */
void batches_evict(struct batches *b, int64_t before_ns);
void batches_close(struct batches *b);

/* The batch that a reader of `pipe` lacks when it begins to wait at wait_ns; NULL = that pipe carries no batches, or nothing is outstanding.
 * Valid until the next advance or evict. *facts (may be NULL) of its loader. */
const struct batch *batches_awaited(const struct batches *b, const struct text *pipe, int64_t wait_ns, struct loader_facts *facts);

/* Does the pipe carry finished batches? Its consumer thread is *consumer (may be NULL). */
bool batches_is_result(const struct batches *b, const struct text *pipe);

/* Does this thread read finished batches (the training thread, or one that pins memory for it)? */
bool batches_is_consumer(const struct batches *b, const struct thread *t);

/* Is this process a worker of some loader? */
bool batches_is_worker(const struct batches *b, const struct process *p);

/* The take of a batch: called in batches_advance, in order of time. */
void batches_on_take(struct batches *b, void (*fn)(void *ctx, const struct thread *consumer, int64_t at_ns), void *ctx);

/* Facts of the loader that process `p` consumes most batches from; false = none. */
bool batches_facts(const struct batches *b, const struct process *p, struct loader_facts *facts);

#endif
