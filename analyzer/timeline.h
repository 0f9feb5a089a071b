/* SPDX-License-Identifier: Apache-2.0
 *
 * The window of events that the analysis looks at: processes, threads with their calls, devices with their operations, who woke whom,
 * connections. Filled by feed.c from trace files in rough time order, sorted, and evicted behind the analysis, so that its size does not depend on the
 * trace's length. All times int64 ns on one clock (each process's offset is already applied). Single-threaded. Pointers to slices and operations stay
 * valid until timeline_evict; processes, threads, devices, connections and texts live until timeline_free.
 */
#ifndef WHYIDLE_ANALYZER_TIMELINE_H
#define WHYIDLE_ANALYZER_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/calls.h"

#define NS_OPEN INT64_MAX		/* end of a slice that was still running at the end of its file */

enum target_kind { TARGET_IS_NONE, TARGET_IS_FILE, TARGET_IS_DEV, TARGET_IS_PIPE, TARGET_IS_UNIX, TARGET_IS_TCP, TARGET_IS_UDP,
	TARGET_IS_FD, TARGET_IS_SEM, TARGET_IS_COND, TARGET_IS_THREAD, TARGET_IS_PID };

/* A distinct text (slice name or target), one per timeline. Semaphores, conditions and threads are scoped by process family in `text`. */
struct text {
	const char *text;
	enum call call;			/* of calls.def, else CALL_NONE */
	enum call_class class;
	enum op_kind { OP_NONE, OP_COMPUTE, OP_COMM, OP_COPY } op;	/* what it is as a GPU operation's name */
	enum target_kind target;
	/* an annotated stretch of a thread's time that is no call but says what it was for: PyTorch's own of taking a batch, which the thread makes by
	 * itself or waits for workers to make */
	enum range_kind { RANGE_NONE, RANGE_LOADS, RANGE_WAITS_FOR_WORKERS } range;
	uint32_t id;
};

struct nccl_info { uint64_t comm, seq; uint32_t nranks, rank, peer, dtype, op; };

struct slice {				/* a call on a thread */
	int64_t start_ns, end_ns;
	const struct text *name, *target;	/* target NULL = none */
	int64_t bytes;			/* -1 none */
	int32_t err;
	uint16_t depth;			/* 0 = outermost */
	uint32_t up;			/* the enclosing call is that many slices before this one; 0 = none */
	uint64_t flow;			/* 0 = none */
	const struct text *at;		/* where the program was: "file:line in function < caller ..."; NULL = not told */
	const struct nccl_info *nccl;	/* NULL = none */
};

struct op {				/* a GPU operation */
	int64_t start_ns, end_ns;
	const struct text *name;
	int64_t bytes;
	uint32_t stream;
	uint64_t flow;
	struct thread *launcher;	/* NULL = no launch record */
	int64_t launch_start_ns, launch_end_ns;
};

struct thread {
	struct process *process;
	int64_t tid;
	const char *name;
	struct slice *calls; size_t ncalls;	/* sorted by start; outer before inner */
	void *priv;
};

struct device {
	struct process *process;
	int id;
	const char *name;
	struct op *ops; size_t nops;	/* sorted by start, all streams */
	void *priv;
};

struct process {
	int pid, ppid, rank, local_rank, world_size;	/* rank -1 unknown */
	const char *host, *command, *gpu, *end;		/* end NULL = cut */
	int cpus;					/* allowed CPUs, 0 unknown */
	int64_t start_ns, first_ns, last_ns;		/* process start (0 unknown); first and last event */
	struct process *parent;				/* recorded parent, or NULL */
	struct thread **threads; unsigned nthreads;
	struct device **devices; unsigned ndevices;
	int64_t dropped;
	bool loads;					/* takes batches from workers, now or later: learned beforehand */
	bool profiled;					/* a profiler's trace: an excerpt of a run, without files, sockets, waits, workers */
	bool marked;					/* ... in which steps are marked */
	void *priv;
};

struct tcp_sample {
	int64_t at_ns;
	int64_t retrans, dsack, acked, received, unacked, notsent, last_ack_ms, last_recv_ms, rtt_us, min_rtt_us, rwnd_ms, snd_wnd;
	uint8_t state, ca, rto, backoff;
};

struct connection {			/* one TCP socket of one process */
	struct process *process;
	const struct text *target;
	enum { ROLE_OTHER, ROLE_NCCL, ROLE_NCCL_BOOTSTRAP } role;
	struct tcp_sample *samples; size_t nsamples;	/* sorted by time */
	void *priv;
};

struct step_mark { const struct thread *thread; int64_t at_ns; };	/* what the thread does from here on belongs to the next step */

struct timeline {
	struct process **processes; unsigned nprocesses;
	struct connection **connections; unsigned nconnections;
	struct step_mark *marks; size_t nmarks;		/* sorted by time, never evicted */
	int64_t complete_ns;		/* everything before this time is in */
	int64_t evicted_ns;		/* nothing that ended before this time is left */
	bool finished;			/* all files read */
	void *causes;			/* what the causes remember (causes_open in cause.h), NULL = not opened */
	void *priv;
};

/* What the wrappers saw of a loss scaler at a copy or a launch of a thread; trace/vocabulary.md. */
struct scaler_note {
	int64_t start_ns, call_ns, end_ns;	/* the call; end of the synchronisation that followed a copy */
	bool update;			/* launch of the update kernel, else a read-back */
	bool known;			/* an update: its arguments are */
	uint64_t address, found, result;
	double growth, backoff;
	int64_t interval;
	uint32_t bits, bytes;
};

/* The note on the copy or launch that the thread made at launch_ns; NULL = none. */
const struct scaler_note *timeline_scaler_note(const struct thread *t, int64_t launch_ns, bool update);

/* Innermost call of `t` at `at_ns` (start <= at < end), NULL = none. O(log n + depth). */
const struct slice *timeline_call_at(const struct thread *t, int64_t at_ns);

/* First call of `t` that starts at or after `at_ns`, NULL = none in the window. */
const struct slice *timeline_call_after(const struct thread *t, int64_t at_ns);

/* Who ended a wait on `target` in (after_ns, until_ns]: the last write, post or signal on it by another thread that began before until_ns and ended after
 * after_ns. Fills *who and *call; false = nobody recorded. */
bool timeline_waker(const struct timeline *tl, const struct text *target, const struct thread *waiter, int64_t after_ns, int64_t until_ns,
	struct thread **who, const struct slice **call);

/* Time of `t` in [a, b) on a CPU / runnable but waiting for one / in recorded families too short to be written, by interpolation of its counters.
 * Returns false when the thread has no counters around there. */
struct thread_use { int64_t cpu_ns, runqueue_ns, short_file_ns, short_socket_ns, short_other_ns; };
bool timeline_use(const struct thread *t, int64_t a_ns, int64_t b_ns, struct thread_use *use);

#endif
