/* SPDX-License-Identifier: Apache-2.0
 *
 * One device's books: what its time was (state), what idle and lost time is owed to (ledgers A and B), what skipped steps wasted (C), in the three
 * windows at once. Time is booked strictly in order; step boundaries, skipped steps and the first operation are announced ahead as
 * cuts. Nothing is ever booked twice or left out: ledger_close checks that to the ns.
 */
#ifndef WHYIDLE_ANALYZER_LEDGER_H
#define WHYIDLE_ANALYZER_LEDGER_H

#include "analyzer/cause.h"

enum { LEDGER_CAUSES = 48 };

struct ledger_sums {
	int64_t state[4];		/* compute, exposed_comm, exposed_copy, idle */
	int64_t idle[LEDGER_CAUSES];	/* ledger A, by row of causes[] */
	int64_t lost[LEDGER_CAUSES];	/* ledger B */
	int64_t unknown[UNKNOWN_REASONS];
	int64_t skipped_compute_ns;
	int64_t gap_count, longest_ns, longest_at_ns;
	int64_t gaps[LEDGER_CAUSES], worst_ns[LEDGER_CAUSES], worst_at_ns[LEDGER_CAUSES];
};

enum ledger_cut { CUT_SCALER_APPLIED, CUT_SCALER_SKIPPED, CUT_STEP, CUT_FIRST_OP };

struct analysis_watch;
struct ledger;

/* States the causes collect, shared by all ledgers of an analysis: one per row of causes[], opened on first use. */
struct ledger_evidence {
	void *state[LEDGER_CAUSES];
	const struct analysis_watch *watch;	/* told of what is booked; NULL = nobody */
};

/* warm_steps: so many full steps at the start do not count as steady. see_from_ns: evidence is collected from there on. */
struct ledger *ledger_open(const struct timeline *tl, struct ledger_evidence *evidence, int64_t start_ns, unsigned warm_steps, int64_t see_from_ns,
	bool has_steps);

/* What is recorded is an excerpt of a run (a profiler's trace): no part of it between its first and last operation is before or after the steps. To be said
 * before anything is booked. */
void ledger_excerpt(struct ledger *l);

/* Announces a cut; in order of time among cuts of all kinds up to a few, before time past it is booked. */
void ledger_cut(struct ledger *l, enum ledger_cut kind, int64_t at_ns);
/* Idle time in [a, b) belongs to a skipped step. In order of time. */
void ledger_skipped(struct ledger *l, int64_t a_ns, int64_t b_ns);

void ledger_compute(struct ledger *l, int64_t a_ns, int64_t b_ns);
/* Announces a gap before its moments are booked (for counting). */
void ledger_gap(struct ledger *l, int64_t a_ns, int64_t b_ns);
/* Asks the causes and books. m->start_ns must be where the books stand. Sets m's fields outside_steps and skipped_step itself. */
void ledger_book(struct ledger *l, struct moment *m);

/* The last operation ended here: called once, when all before is booked and nothing after. What follows is outside of everything but the run. */
void ledger_last_op(struct ledger *l, int64_t at_ns);
/* Ends the books at end_ns; last_op_ns = end of the last operation. Fills the windows. 0, or -1 with a sentence when a sum does not hold. */
int ledger_close(struct ledger *l, int64_t end_ns, int64_t last_op_ns, struct window_result windows[WINDOW_COUNT], char *error, size_t error_len);
/* After ledger_close: the sums of the window that counts (steady, or run). */
const struct ledger_sums *ledger_counted(const struct ledger *l);
void ledger_free(struct ledger *l);

int64_t ledger_compute_ns(const struct ledger *l);	/* so far */
int64_t ledger_steps(const struct ledger *l);		/* step cuts passed so far */
unsigned ledger_ncauses(void);
enum leaf ledger_leaf(unsigned cause);

#endif
