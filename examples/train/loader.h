/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader: worker processes that make batches ahead of time, as PyTorch's DataLoader has them. Each worker has a pipe with indices,
 * all share one pipe with results; batches lie in shared memory and are delivered in order. Single-threaded.
 */
#ifndef TRAIN_LOADER_H
#define TRAIN_LOADER_H

#include <stdint.h>
#include <sys/types.h>

struct plan;

struct loader {
	const struct plan *plan;
	int port;			/* of the data server, 0 = files */
	int workers, slots;
	pid_t *pids;
	int *index_fds, result_read, result_write;
	uint8_t *memory;		/* slots of plan->batch_bytes, shared */
	int *slot_of;			/* of the outstanding batches, by batch % slots; -1 = not finished */
	int spare;			/* the slot that the consumer may still read */
	uint64_t next, asked;		/* batch to take next; batches asked for */
	uint64_t end;			/* batches of this epoch end here */
};

void loader_open(struct loader *l, const struct plan *plan, int port);
/* Starts workers that make the batches [next, end). */
void loader_start(struct loader *l, uint64_t end);
/* Ends the workers and waits for them. */
void loader_stop(struct loader *l);
void loader_close(struct loader *l);

/* The next batch, valid until the next call. *waited_ns = {begin, end} of the wait for it (equal when it was there). */
const uint8_t *loader_next(struct loader *l, int64_t waited_ns[2]);

#endif
