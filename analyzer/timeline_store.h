/* SPDX-License-Identifier: Apache-2.0
 *
 * What the timeline keeps behind its public structs. For timeline*.c and text.c only.
 */
#ifndef WHYIDLE_ANALYZER_TIMELINE_STORE_H
#define WHYIDLE_ANALYZER_TIMELINE_STORE_H

#include "analyzer/timeline_build.h"

/* A write, post or signal on a target: what may end a wait on it. */
struct wake {
	int64_t start_ns, end_ns;
	struct thread *thread;
};

struct text_node {
	struct text t;			/* first: a struct text * of ours is a node */
	uint64_t scope, hash;
	struct wake *wakes;
	size_t nwakes, wakes_cap;
	bool unsorted;
	int64_t written;		/* bytes, ever; INT64_MAX when it was flushed, too */
};

struct text_table {
	struct text_node **slots;	/* open addressing, power of two */
	size_t nslots, used;
	struct text_node **all;
	size_t nall, all_cap;
	struct text_node **woken;	/* those that have wakes */
	size_t nwoken, woken_cap;
};

struct use_series {
	struct use_point { int64_t at_ns, value; } *p;
	size_t n, cap;
};

struct thread_node {
	struct thread t;		/* first */
	struct slice *base;		/* t.calls lies in here */
	size_t cap, settled;		/* settled: so many of t.calls are in order and know their depth */
	size_t dirty;			/* depths are to be found again from here on */
	uint64_t classes;		/* a bit for each class of the calls that were ever added */
	size_t hint;			/* where timeline_call_index found the last one */
	bool tail_unsorted;
	struct use_series use[USE_COUNTERS];
	struct scaler_note *notes;	/* sorted by start */
	size_t nnotes, notes_cap;
	/* the last stretch between two points of `cpu ns` that was asked for, see timeline_silence */
	int64_t quiet_from_ns, quiet_ns, busy_calls_ns;
};

struct device_node {
	struct device d;		/* first */
	struct op *base;
	size_t cap, settled, joined;	/* joined: launchers of so many have been looked up */
	bool tail_unsorted;
	bool communicates;		/* has ever had a communication kernel */
};

struct process_node {
	struct process p;		/* first */
	uint64_t family;
	uint64_t host;			/* hash */
	size_t threads_cap, devices_cap;
	struct process_node *same_pid;	/* earlier image or earlier use of the pid */
};

struct connection_node {
	struct connection c;		/* first */
	struct tcp_sample *base;
	size_t cap;
	bool unsorted;
};

/* Which launch a flow id names; the old half goes when the young one is full. */
struct launch { uint64_t flow; struct thread *thread; int64_t start_ns; uint64_t ns : 63, joined : 1; };
struct launch_table { struct launch *slots; size_t nslots, used; };

struct store {
	struct text_table texts;
	struct launch_table young, old, spare;
	bool without_launches;		/* calls that launch are not kept, operations learn of them all the same */
	size_t launches_full;		/* `young` becomes the old one when it has so many; 0 = not set yet */
	struct { uint64_t key; void *value; } *ids;	/* (kind, process, number) -> object */
	size_t nids, ids_used;
	size_t processes_cap, connections_cap, marks_cap;
	struct slice *tmp_calls;	/* merge room */
	size_t tmp_calls_cap;
	struct op *tmp_ops;
	size_t tmp_ops_cap;
};

static inline struct store *store_of(const struct timeline *tl)
{
	return tl->priv;
}

void timeline_evict_notes(struct thread *t, int64_t before_ns);

const struct text *text_intern(struct text_table *tt, const char *s, uint64_t scope);
/* NULL when there is none. */
struct text_node *text_find(const struct text_table *tt, const char *s, uint64_t scope);
void text_wake(struct text_table *tt, const struct text *target, const struct wake *w);
void text_settle(struct text_table *tt);
void text_evict(struct text_table *tt, int64_t before_ns);
void text_free(struct text_table *tt);

void launch_add(struct store *s, const struct launch *l);
const struct launch *launch_find(struct store *s, uint64_t flow);
void launch_free(struct store *s);

#endif
