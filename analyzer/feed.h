/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any number of trace files in step, each only as far as the slowest of them, and fills a timeline. All times leave here on one
 * clock: files of other hosts are shifted by what their REALTIME snapshots say. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_FEED_H
#define WHYIDLE_ANALYZER_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/timeline.h"

struct feed;

struct feed_totals {
	int64_t events;			/* slices, instants and operations read */
	int64_t dropped;		/* that the recorders say they lost */
	uint64_t bytes_done, bytes_total;
	char **warnings; unsigned nwarnings;	/* owned by the feed */
};

/* Finds the files behind `paths` and looks at the head of each. NULL with a sentence in `error` when there is nothing to read or a file
 * that was named cannot be read. */
struct feed *feed_open(const char *const *paths, unsigned npaths, struct timeline *tl, char *error, size_t error_len);

/* Reads on until the window has moved (about a second of trace) and settles the timeline. False when all is read (tl->finished). */
bool feed_step(struct feed *f);

/* The files, in order; *offset_ns is what is added to the times of file i to put it on the common clock. */
size_t feed_nfiles(const struct feed *f);
const char *feed_path(const struct feed *f, size_t i, int64_t *offset_ns);

const struct feed_totals *feed_totals(struct feed *f);
void feed_close(struct feed *f);

#endif
