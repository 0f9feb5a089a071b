/* SPDX-License-Identifier: Apache-2.0
 *
 * The writing side of the timeline: feed.c fills it from files, tests by hand. Events may come in any order as long as they start
 * no more than the window behind; timeline_settle puts them in order. Pointers to slices and operations die with the next
 * timeline_call, timeline_op, timeline_settle or timeline_evict.
 *
 *	struct timeline *tl = timeline_new();
 *	struct process *p = timeline_process(tl, "host", 100, 0);
 *	struct thread *t = timeline_thread(tl, p, 100);
 *	timeline_call(tl, t, &(struct slice){.start_ns = 10, .end_ns = 20, .bytes = -1, .name = timeline_name(tl, "pread"),
 *		.target = timeline_target(tl, p, "/data/a")});
 *	timeline_settle(tl, NS_OPEN);
 */
#ifndef WHYIDLE_ANALYZER_TIMELINE_BUILD_H
#define WHYIDLE_ANALYZER_TIMELINE_BUILD_H

#include "analyzer/timeline.h"

struct timeline *timeline_new(void);
void timeline_free(struct timeline *tl);

/* Calls that launch operations are not to be kept: who launched is all that is asked. To be said first. */
void timeline_without_launches(struct timeline *tl);

/* The text of that slice or operation name. */
const struct text *timeline_name(struct timeline *tl, const char *name);
/* The text of a call's target as process `p` sees it: pipes and sockets are one per host, semaphores and conditions one per family of
 * processes (p->priv family), files and TCP pairs the same everywhere. */
const struct text *timeline_target(struct timeline *tl, const struct process *p, const char *target);

/* Is the other end of this TCP connection ("tcp:A->B") a connection of any recorded process too? */
bool timeline_peer_recorded(const struct timeline *tl, const struct text *tcp);

/* A new process; its strings and numbers are then set by the caller (strings: allocated with malloc, freed by timeline_free). */
struct process *timeline_process(struct timeline *tl, const char *host, int pid, uint64_t family);
/* The thread, device or connection of that number in `p`; made when it is not there. */
struct thread *timeline_thread(struct timeline *tl, struct process *p, int64_t tid);
void timeline_thread_name(struct thread *t, const char *name);
struct device *timeline_device(struct timeline *tl, struct process *p, int id);
struct connection *timeline_connection(struct timeline *tl, struct process *p, const struct text *target);
/* The process of that pid on that host which began last before `at_ns`, NULL = none recorded. */
struct process *timeline_process_of(const struct timeline *tl, const char *host, int pid, int64_t at_ns);

/* A call; end_ns NS_OPEN = still running. depth is ignored, nccl is copied. */
void timeline_call(struct timeline *tl, struct thread *t, const struct slice *s);
/* Ends a call that was added as NS_OPEN and has been settled since. */
void timeline_call_end(struct timeline *tl, struct thread *t, const struct slice *s, int64_t end_ns);
/* An operation; launcher and launch times are found through `flow`, or taken as given when flow is 0. */
void timeline_op(struct timeline *tl, struct device *d, const struct op *op);

/* A step begins, as the trace itself says. */
void timeline_mark(struct timeline *tl, const struct thread *t, int64_t at_ns);

void timeline_add_note(struct thread *t, const struct scaler_note *note);
/* All that are in the window, *n of them, by start. */
const struct scaler_note *timeline_notes(const struct thread *t, size_t *n);

enum use_counter { USE_CPU, USE_RUNQUEUE, USE_SHORT_FILE, USE_SHORT_SOCKET, USE_SHORT_OTHER, USE_FOLDED, USE_COUNTERS };
void timeline_use_sample(struct thread *t, enum use_counter which, int64_t at_ns, int64_t value);
void timeline_tcp(struct timeline *tl, struct connection *c, const struct tcp_sample *s);

/* Puts all in order; everything that ended before `complete_ns` is in. */
void timeline_settle(struct timeline *tl, int64_t complete_ns);
/* Forgets what ended before `before_ns` (in whole chunks: some may stay longer). */
void timeline_evict(struct timeline *tl, int64_t before_ns);
/* The same; of threads and devices with very many events only the last tens of thousands before `busy_ns` are kept, too. */
void timeline_evict_busy(struct timeline *tl, int64_t before_ns, int64_t busy_ns);

/* How a stretch [a, b) in which `t` had no recorded call was spent, from the counters around it: cpu + runqueue + rest = b - a. Takes
 * out the time that the thread spent in recorded calls near by, which the counters cannot tell apart. False = no counters there. */
bool timeline_silence(const struct thread *t, int64_t a_ns, int64_t b_ns, int64_t *cpu_ns, int64_t *runqueue_ns);

/* `cpu ns` of the thread as last counted, 0 = not counted. */
int64_t timeline_cpu_total(const struct thread *t);

/* Index of the first call (operation) that starts at or after at_ns; ncalls (nops) = none. */
size_t timeline_call_index(const struct thread *t, int64_t at_ns);
size_t timeline_op_index(const struct device *d, int64_t at_ns);
/* Has the thread ever made a call of one of these classes (1 << class)? */
bool timeline_has_class(const struct thread *t, uint64_t classes);
bool timeline_has_comm(const struct device *d);
/* At least as many bytes as all recorded calls ever wrote to the target; INT64_MAX when one of them flushed it. */
int64_t timeline_written(const struct text *target);
/* The call that encloses `s`, NULL = none. */
const struct slice *timeline_outer(const struct thread *t, const struct slice *s);
/* The family that timeline_process was given. */
uint64_t timeline_family(const struct process *p);

#endif
