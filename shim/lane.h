/* SPDX-License-Identifier: Apache-2.0
 *
 * What the drain knows of each traced thread: its sequence in the file, the BEGINs that still want an END, its counters.
 * Drain thread only.
 */
#ifndef WHYIDLE_SHIM_LANE_H
#define WHYIDLE_SHIM_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/highfd.h"
#include "shim/thread.h"
#include "trace/writer.h"

/* One cumulative counter. A change after a quiet stretch is preceded by the old value at the stretch's end, so that straight
 * lines between two values are right to one period. */
struct meter {
	uint64_t value, checked_ns, written_ns;
	bool described;
};

enum lane_meter { METER_CPU, METER_RUNQUEUE, METER_SHORT, LANE_METERS = METER_SHORT + SHORT_FAMILIES };

struct lane {
	int32_t tid;			/* 0 = no thread here yet */
	bool described;			/* descriptor written, sequence begun */
	char comm[16];
	uint64_t comm_ns, comm_every_ns;	/* when the name was last read; when it will be again, doubling */
	uint64_t uuid;
	uint64_t active_ns;		/* last event */
	uint64_t dropped_seen;
	uint64_t begun[THREAD_NEST];	/* serials with a BEGIN and no END yet, outermost first */
	unsigned nbegun;
	struct highfd schedstat;
	struct meter meter[LANE_METERS];
	struct pf_seq seq;
};

/* The lane of a slot; NULL when there is no memory. */
struct lane *lane_at(unsigned slot);

/* Writes descriptor and sequence start when they are missing; rewrites the descriptor when the name changed. */
void lane_open(struct pf_writer *w, struct lane *l, unsigned slot, int32_t tid, uint64_t now);

/* The track of a thread that has no slot (never made a wrapped call); its descriptor is written once. */
uint64_t lane_foreign(struct pf_writer *w, int32_t tid);

/* A new value; written when changed. True when it changed. */
bool meter_set(struct pf_writer *w, struct lane *l, enum lane_meter which, uint64_t value, uint64_t now);

/* Reads the thread's time on CPU and on the run queue. True when it has run. */
bool lane_sample(struct pf_writer *w, struct lane *l, uint64_t now);

/* The thread is gone. */
void lane_close(struct lane *l);

/* In a fork's child, and nowhere else. */
void lane_fork_child(void);

#endif
