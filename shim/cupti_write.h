/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects decoded records into a batch, and writes the batch sorted: GPU operations on their streams' tracks, API records on
 * the tracks of the threads that made the calls, joined by a flow. Drain thread only.
 */
#ifndef WHYIDLE_SHIM_CUPTI_WRITE_H
#define WHYIDLE_SHIM_CUPTI_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/cupti_record.h"
#include "trace/writer.h"

struct cupti_clock;

struct cupti_write_counts {
	uint64_t zero_time;		/* operations without times: not drawn */
	uint64_t unfinished;		/* operations that had no end yet at the process's; drawn when they have a start */
	uint64_t crowded;		/* operations dropped: no lane, stream or thread entry left */
	uint64_t overhead_ns;		/* CUPTI's own stalls, summed */
};

/* Maps the batch's memory. 0 or -ENOMEM. */
int cupti_write_init(void);

/* Takes a RECORD_OP, RECORD_API, RECORD_OVERHEAD or RECORD_DEVICE. Names are copied now, so that the buffer can go back. Writes the
 * batch when it is full. `forced`: it may come from a forced flush, where times that are missing mean "not finished". */
void cupti_write_add(struct pf_writer *w, const struct cupti_clock *clock, const struct cupti_record *r, uint64_t now_ns,
		     bool forced);

/* Writes what has been added. */
void cupti_write_flush(struct pf_writer *w, uint64_t now_ns);

const struct cupti_write_counts *cupti_write_counts(void);

/* The flow id of a correlation id in this process; 0 for 0. */
uint64_t cupti_write_flow(uint32_t correlation);

#endif
