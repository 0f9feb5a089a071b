/* SPDX-License-Identifier: Apache-2.0
 *
 * One collective as all its ranks saw it: NCCL calls are matched by (communicator, sequence number), each communication kernel belongs to the NCCL
 * call (or group end) in which it was launched. A rank arrives when its kernel starts. Reads and remembers the timeline; single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_COLLECTIVE_H
#define WHYIDLE_ANALYZER_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/timeline.h"

struct collectives;

struct arrival {
	const struct device *device;
	int rank;			/* of the process, -1 unknown */
	int64_t start_ns, end_ns;	/* of its kernel */
};

struct collective {
	const struct text *call;	/* ncclAllReduce, ... of the (last) call in it */
	uint64_t comm, seq;
	unsigned nranks;		/* of the communicator, 0 unknown */
	int64_t bytes;			/* count x size of all calls in it, 0 unknown */
	struct arrival own, last;	/* last = the latest of those seen; own when nobody else was seen */
	const struct arrival *arrivals;	/* all seen, own included; valid until the next collectives_advance */
	unsigned narrivals;
	int64_t clock_error_ns;		/* starts of different hosts are only this sure; 0 on one host */
};

struct collectives *collectives_open(void);
void collectives_advance(struct collectives *c, const struct timeline *tl);
void collectives_close(struct collectives *c);

/* The collective that communication kernel `op` of `device` ran. False = not known (no launch record, a replayed graph): not to be split. */
bool collective_of(const struct timeline *tl, const struct device *device, const struct op *op, struct collective *out);

#endif
