/* SPDX-License-Identifier: Apache-2.0
 *
 * Results made by hand, for the tests of what stands behind the engine. Sums hold, as the engine promises.
 */
#ifndef WHYIDLE_TESTS_RESULT_SAMPLE_H
#define WHYIDLE_TESTS_RESULT_SAMPLE_H

#include <string.h>

#include "analyzer/cause.h"
#include "analyzer/findings.h"
#include "analyzer/mem.h"
#include "analyzer/result.h"

#define MS 1000000LL

/* A window of `ns` with nothing lost. */
static inline void sample_window(struct window_result *w, int64_t start_ns, int64_t ns)
{
	memset(w, 0, sizeof(*w));
	w->present = true;
	w->start_ns = start_ns;
	w->ns = ns;
	w->compute_ns = ns;
}

/* Takes `ns` of computing away and books it to a leaf: of idle, or of exposed communication for comm leaves. */
static inline void sample_lose(struct window_result *w, enum leaf leaf, int64_t ns)
{
	w->compute_ns -= ns;
	w->ledger_b[leaf] += ns;
	if (leaf == LEAF_COMM_RETRY || leaf == LEAF_COMM_LATE_PEER || leaf == LEAF_COMM_TRANSFER) {
		w->exposed_comm_ns += ns;
		return;
	}
	w->idle_ns += ns;
	w->ledger_a[leaf] += ns;
	if (leaf == LEAF_UNKNOWN)
		w->unknown[UNKNOWN_DEVICE] += ns;
}

static inline void sample_say(char ***lines, unsigned *n, const char *line)
{
	*lines = mem_resize(*lines, *n + 1, sizeof(**lines));
	(*lines)[(*n)++] = mem_copy(line);
}

/* Two ranks of 50 steps of 100 ms on one host; nothing lost. */
static inline struct result sample_result(void)
{
	struct result r = { 0 };

	r.command = mem_copy("python train.py");
	r.start_ns = 1000 * MS;
	r.wall_ns = 6000 * MS;
	r.hosts = 1;
	r.processes = 10;
	r.ranks = 2;
	r.gpu = "sim";
	r.events = 12345;
	r.trace_bytes = 345678;
	r.ndevices = 2;
	r.devices = mem_new(2, sizeof(*r.devices));
	for (int i = 0; i < 2; i++) {
		struct device_result *d = &r.devices[i];

		d->rank = d->device = i;
		d->pid = 100 + i;
		d->host = mem_copy("node1");
		d->name = mem_copy("Simulated GPU");
		sample_window(&d->windows[WINDOW_RUN], 1000 * MS, 6000 * MS);
		sample_window(&d->windows[WINDOW_STEADY], 1500 * MS, 5000 * MS);
		sample_window(&d->windows[WINDOW_GPU_SPAN], 1200 * MS, 5600 * MS);
		d->steps = (struct step_result){ .count = 50, .median_ns = 100 * MS, .p95_ns = 104 * MS, .rule = "scaler update", .confidence = 1 };
		d->scaler_seen = true;
		d->scaler_checks = 52;
	}
	return r;
}

#endif
