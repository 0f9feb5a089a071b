/* SPDX-License-Identifier: Apache-2.0
 *
 * One Perfetto file out of many: items of trace files written again with sequence ids, names and clocks of one file, and tracks of our own
 * beside them. Memory does not grow with the length of the files, only with the number of distinct names. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_MERGE_H
#define WHYIDLE_ANALYZER_MERGE_H

#include <stdint.h>

struct merge;

/* Begins `path` (by way of path.PID, renamed in merge_close). NULL with a sentence in `why`. */
struct merge *merge_open(const char *path, char why[512]);

/*
 * Appends one trace file, `offset_ns` added to its times. 0, 1 = cut or damaged: what came before is in, `why` tells; -1 = it could not be read
 * at all or `path` not written, `why` tells.
 */
int merge_file(struct merge *m, const char *path, int64_t offset_ns, char why[512]);

/* The process track of that pid on that host, as described by the files so far; 0 = none. */
uint64_t merge_process(const struct merge *m, const char *host, int pid);

/* A track without slices that holds others, in their order. Returns its uuid. */
uint64_t merge_group(struct merge *m, uint64_t parent_uuid, const char *name);

/* A track of our own under `parent_uuid` (0 = at the top), on a sequence of its own. Returns a handle. */
struct merge_track;
struct merge_track *merge_track(struct merge *m, uint64_t parent_uuid, const char *name, int32_t order);

/* A slice on it. Slices of a track come in order and do not overlap. `note` NULL = none. */
void merge_slice(struct merge *m, struct merge_track *t, const char *name, int64_t start_ns, int64_t end_ns, const char *note);

/* A counter of our own, and a value of it. Values come in order. */
struct merge_track *merge_counter_track(struct merge *m, uint64_t parent_uuid, const char *name);
void merge_counter(struct merge *m, struct merge_track *t, int64_t at_ns, int64_t value);

/* Ends and renames the file; frees m. 0, or -1 with `why`; then no file is left. `keep` false: throws it away. */
int merge_close(struct merge *m, int keep, char why[512]);

#endif
