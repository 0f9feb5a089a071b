/* SPDX-License-Identifier: Apache-2.0
 *
 * What a cause collects about the moments booked to it, in bounded memory: who (tallies by name), how long (spreads), how often (rhythm).
 */
#ifndef WHYIDLE_ANALYZER_CAUSE_SEEN_H
#define WHYIDLE_ANALYZER_CAUSE_SEEN_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/cause.h"

/* Time, bytes and calls by name. At most TALLY_ROWS names are told apart; the smallest give way and go to `rest`. */
enum { TALLY_ROWS = 256 };
struct tally_row { char *name; int64_t ns, bytes, count; uint64_t hash; };
struct tally { struct tally_row *rows; unsigned nrows, hint; struct tally_row rest; uint64_t *marks; };

void tally_add(struct tally *t, const char *name, int64_t ns, int64_t bytes, int64_t count);
/* The k-th largest by ns (k from 0), NULL = none. Sorts; equal amounts by name. */
const struct tally_row *tally_top(struct tally *t, unsigned k);
int64_t tally_names(const struct tally *t);	/* distinct names ever added: exact to about 200, then to a few percent up to 50,000 */
void tally_free(struct tally *t);

/* Distribution of positive values to 9 %: 8 buckets per doubling. */
struct spread { int64_t n, sum, max; uint32_t buckets[512]; };
void spread_add(struct spread *s, int64_t v);
int64_t spread_at(const struct spread *s, double q);	/* quantile, 0 when empty */

/* Does it come regularly? Episodes less than `merge_ns` apart are one. One device only is looked at (the first seen). */
struct rhythm { const void *whose; int64_t last_start_ns, last_end_ns, episodes; struct spread *every; };
void rhythm_add(struct rhythm *r, const void *whose, int64_t start_ns, int64_t end_ns, int64_t merge_ns);
/* The period when there is one: at least 4 episodes and 80 % of the distances within 15 % of the median. 0 = none. */
int64_t rhythm_period(const struct rhythm *r);
void rhythm_free(struct rhythm *r);

/* The usual: what most causes collect and say. Zero is a valid start. */
struct evidence {
	int64_t ns, bytes, calls;		/* bytes: of the calls' share that lies in the moments */
	int64_t cpu_ns, runnable_ns, off_cpu_ns, call_ns;	/* by activity */
	struct tally targets, folders, names, ranks, threads, places;	/* paths or peers; their folders; call names; "rank 1"; "pid 4711 (pt_data_worker)"; "train.py:87 in __getitem__" */
	struct spread each;			/* durations of the calls */
	struct rhythm rhythm;
	struct spread needed;			/* workers needed, as estimated at each moment: unsure at first */
	int64_t workers_seen, cpus;		/* the largest seen */
	const struct thread *last_thread;	/* to count a call once */
	int64_t last_call_ns;
	/* the labels of the last moment: they mostly stay the same, and are costly to print */
	const struct process *label_process;
	const struct thread *label_thread;
	const char *label_name, *name_text;
	uint64_t rank_hash, thread_hash, name_hash;
	char rank_label[48], thread_label[96];
};
void *evidence_open(void);
void evidence_see(void *state, const struct timeline *tl, const struct moment *m);
void evidence_close(void *state);
void evidence_release(struct evidence *e);	/* for a struct evidence inside another state */

/* The estimate of the workers that are needed, 0 = none. */
int64_t evidence_needed(const struct evidence *e);
/* A part of the collected time in words, as a part of the finding: what was collected after the last full step is not in the finding's sum. */
const char *evidence_part(const struct evidence *e, const struct finding *f, int64_t ns);

/* "rank 1: 3.2 s, rank 0: 1.1 s" as an evidence line, when more than one rank has a part. */
void evidence_say_ranks(struct evidence *e, struct finding *f);
/* "1.9 s of it at train.py:87 in __getitem__", for the places with a large part. */
void evidence_say_place(struct evidence *e, struct finding *f);
/* "comes every 21.0 s" when it does. */
void evidence_say_rhythm(const struct evidence *e, struct finding *f);
/* "rank 1" ... of a device's or thread's process; "pid 12" when the rank is not known. Static buffer. */
const char *process_label(const struct process *p);

#endif
