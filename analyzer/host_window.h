/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a run without GPU activity counts: from the batch that ends the warm-up to the last one, as far as batches are taken. Imports, the first
 * start of workers and what comes after the loop are no part of it: shares of a short run would say little about the training otherwise.
 */
#ifndef WHYIDLE_ANALYZER_HOST_WINDOW_H
#define WHYIDLE_ANALYZER_HOST_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/timeline.h"

enum { HOST_FIRST_TAKES = 8 };

/* The first batches of each process, gathered in the learning pass. Zero-initialised is empty. */
struct host_takes {
	struct { const struct process *process; int64_t at_ns[HOST_FIRST_TAKES]; unsigned n; } *of;
	size_t n, cap;
};

void host_takes_add(struct host_takes *t, const struct process *p, int64_t at_ns);
/* Where the steady part of the process begins; INT64_MIN = it has none. */
int64_t host_takes_steady_ns(const struct host_takes *t, const struct process *p);
void host_takes_free(struct host_takes *t);

#endif
