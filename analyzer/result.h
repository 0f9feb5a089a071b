/* SPDX-License-Identifier: Apache-2.0
 *
 * What an analysis ends in: integers and sentences, no events. The renderers (text, JSON ...) see only this.
 * All times int64 ns. Owned by the caller of analysis_run; freed by result_free. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_RESULT_H
#define WHYIDLE_ANALYZER_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/scaler_result.h"

enum leaf {
#define LEAF(id, name, group, meaning) LEAF_##id,
#include "analyzer/leaf.def"
#undef LEAF
	LEAF_COUNT
};

enum leaf_group { GROUP_DATA, GROUP_RETRY, GROUP_OTHER_COMM, GROUP_SCALER, GROUP_OTHER, GROUP_UNKNOWN, GROUP_COUNT };

enum unknown_reason { UNKNOWN_DEVICE, UNKNOWN_NO_LAUNCH_RECORD, UNKNOWN_EVENTS_LOST, UNKNOWN_HOP_LIMIT, UNKNOWN_OFF_CPU, UNKNOWN_REASONS };

const char *leaf_name(enum leaf leaf);			/* "data.storage" */
const char *leaf_meaning(enum leaf leaf);
enum leaf_group leaf_group(enum leaf leaf);
int leaf_by_name(const char *name);			/* -1 when there is none */
const char *unknown_reason_name(enum unknown_reason r);	/* "device", "no_launch_record", ... */

enum window_kind { WINDOW_RUN, WINDOW_STEADY, WINDOW_GPU_SPAN, WINDOW_COUNT };

struct window_result {
	bool present;					/* steady is absent when no steps were found */
	int64_t start_ns, ns;
	int64_t steps;					/* full steps in it; the steady window only */
	int64_t compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns;	/* sum == ns */
	int64_t ledger_a[LEAF_COUNT];			/* sum == idle_ns */
	int64_t ledger_b[LEAF_COUNT];			/* sum == exposed_comm + exposed_copy + idle */
	int64_t skipped_compute_ns;			/* ledger C */
	int64_t unknown[UNKNOWN_REASONS];		/* parts of ledger_b[UNKNOWN] */
	int64_t gap_count, longest_gap_ns, longest_gap_at_ns;
};

struct step_result {
	int64_t count, skipped, median_ns, p95_ns;
	const char *rule;				/* "batch wait", "scaler update", ... how steps were found; "" none */
	double confidence;				/* 0..1 */
};

struct device_result {
	int rank;					/* -1 unknown */
	char *host, *name;
	int device, pid;
	struct window_result windows[WINDOW_COUNT];
	struct step_result steps;
	bool scaler_seen;
	int64_t scaler_checks, scaler_skips;		/* over the run */
	struct scaler_result scaler;
};

/* One rank's process without GPU activity (CPU training, or no CUPTI). */
struct host_result {
	int rank, pid;
	char *host, *command;
	int64_t wall_ns;				/* its whole life */
	int64_t window_ns;				/* the part that counts, of which all that follows is told; 0 = the whole life */
	bool steady;					/* that part is from the end of warm-up to the last batch */
	int64_t data_wait_ns;				/* its training thread waited for batches */
	int64_t comm_wait_ns;				/* ... for other ranks (sockets) */
	int64_t write_ns;				/* ... wrote files */
	int64_t leaf[LEAF_COUNT];			/* where data_wait went (data.*, unknown), comm, io */
	struct scaler_result scaler;
	int64_t batches, workers;			/* taken; distinct workers seen, 0 = loads by itself */
	struct step_result steps;
};

enum severity { SEVERITY_INFO, SEVERITY_NOTE, SEVERITY_WARN, SEVERITY_CRITICAL };

struct finding {
	enum leaf leaf;
	enum severity severity;
	int64_t ns;					/* summed over devices, steady window (run when there is none) */
	double share;					/* ns / sum of the devices' windows */
	int64_t gaps, worst_at_ns, worst_ns;
	char *title;
	char **evidence, **advice;
	unsigned nevidence, nadvice;
	double gain_upper_bound;			/* share of the window that would be saved at most */
};

struct result {
	char *command;
	int64_t start_ns;				/* first event of the session: the text gives moments from here, as Perfetto does */
	int64_t wall_ns, events, dropped_events, trace_bytes;
	int hosts, processes, ranks;
	char *ending;					/* "the job ended with status 2 after 3 ms"; NULL = well, or it is not known */
	const char *gpu;				/* "cupti" | "sim" | "none" */
	char *gpu_note;					/* why none, or NULL */
	bool profiled;					/* some of it is a profiler's trace: no sockets, files or loader workers */
	bool cut;					/* some process ended without saying so */
	unsigned cut_processes;
	struct device_result *devices; unsigned ndevices;
	struct host_result *host_only; unsigned nhost_only;
	struct finding *findings; unsigned nfindings;	/* best first */
	char **acquittals; unsigned nacquittals;	/* "loss scaler: 0 of 412 steps skipped, not your problem" */
	char **warnings; unsigned nwarnings;		/* said first: lost events, cut files, unreadable files */
	struct { int64_t data_starvation_ns, comm_retry_ns, other_comm_ns, scaler_skip_ns, scaler_wasted_ns, other_ns, unknown_ns; } headline;
};

void result_free(struct result *r);

#endif
