/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a device's time: every ns is compute, else exposed communication, else exposed copy, else idle. Fed with the device's
 * operations in order of start, it calls back with stretches in order of time that touch and do not overlap: together they are
 * exactly the time from states_open to states_finish. Memory: the operations that run at one time.
 */
#ifndef WHYIDLE_ANALYZER_STATES_H
#define WHYIDLE_ANALYZER_STATES_H

#include <stdint.h>

#include "analyzer/timeline.h"

struct states;

struct states_calls {
	void (*compute)(void *ctx, int64_t a_ns, int64_t b_ns);
	/* exposed communication or copy while `op` ran (the one of its kind that began first) */
	void (*exposed)(void *ctx, enum op_kind kind, int64_t a_ns, int64_t b_ns, const struct op *op);
	/* a gap; `op` ends it (of several the one whose launch began last), NULL = the window's end does */
	void (*gap)(void *ctx, int64_t a_ns, int64_t b_ns, const struct op *op);
};

struct states *states_open(const struct states_calls *calls, void *ctx, int64_t start_ns);
/* The operations [ops, ops + n), sorted by start, all that start before to_ns and were not given before. */
void states_advance(struct states *s, const struct op *ops, size_t n, int64_t to_ns);
/* Closes at end_ns; nothing may follow. */
void states_finish(struct states *s, int64_t end_ns);
void states_close(struct states *s);

/* Where the split has come to: all before was called back, apart from a gap that is still open. */
int64_t states_settled(const struct states *s);
int64_t states_last_end(const struct states *s);	/* of any operation so far, INT64_MIN = none */

#endif
