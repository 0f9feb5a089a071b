/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole analysis: session directories and trace files in, a filled struct result out. Memory does not grow with the
 * length of the traces. Same traces, same result, whatever the order of the paths or of a directory's entries. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_ANALYSIS_H
#define WHYIDLE_ANALYZER_ANALYSIS_H

#include <stdint.h>

#include "analyzer/result.h"

struct device;
struct moment;
struct scaler_step;

/* Follows the analysis while it goes on, for whoever draws it. Any function may be NULL. In order of time per device. */
struct analysis_watch {
	/* The stretch [m->start_ns, m->end_ns) of m->device's time (NULL: of m->waiter's, host-only) was booked to `leaf`. What turns out to lie outside of
	 * the steps is booked to startup in the end, whatever was said here. */
	void (*lost)(void *ctx, const struct moment *m, enum leaf leaf);
	/* A step of the device ends and the next one begins. */
	void (*step)(void *ctx, const struct device *d, int64_t at_ns);
	/* The overflow check of a step ended at `at_ns` and made it be skipped. */
	void (*skip)(void *ctx, const struct device *d, int64_t at_ns);
	/* A check of the loss scaler was decided; a little late where it takes others to compare with. */
	void (*check)(void *ctx, const struct device *d, const struct scaler_step *step);
	void *ctx;
};

struct analysis_options {
	const struct analysis_watch *watch;	/* NULL = nobody */
	/* Called about ten times a second while reading, NULL = never. total 0 = unknown. */
	void (*progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_ctx;
};

enum analysis_code {
	ANALYSIS_OK,
	ANALYSIS_EINPUT,		/* a path is missing, unreadable, not a trace; a directory without one */
	ANALYSIS_ENOMEM,
	ANALYSIS_ESUM,			/* a sum that must hold did not: a defect of ours, never to be reported as a result */
};

struct analysis_error {
	enum analysis_code code;
	char text[640];			/* one sentence with file, and offset where there is one; no newline at the end */
};

/*
 * Reads `paths` (session directories, .pftrace files, .gz of them) and fills `out` (which need not be initialised), findings
 * included; free it with result_free. Files of a directory that cannot be read become out->warnings; a file that was named itself
 * and cannot be read at all is an error. Returns 0, or -1 with *err filled and nothing in *out to be freed.
 */
int analysis_run(const char *const *paths, unsigned npaths, const struct analysis_options *opt, struct result *out,
	struct analysis_error *err);

#endif
