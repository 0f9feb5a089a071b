/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts the events of profiler traces in order of time. The profiler writes a file by kind of event and thread, not by time: the first kernel may stand behind
 * the last operator, so that no window over the file would do. What a report needs of an event is 48 bytes; these are sorted, and beyond a budget over all
 * files together they go to an unnamed file in the folder for temporary ones, sorted in runs that are merged while they are read back.
 */
#ifndef WHYIDLE_ANALYZER_KINETO_SORT_H
#define WHYIDLE_ANALYZER_KINETO_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kineto_record {
	int64_t start_ns, end_ns;
	uint64_t id;			/* correlation, or number of a collective; 0 none */
	int64_t bytes;			/* -1 none */
	uint32_t name;			/* number in the file's names */
	uint32_t lane;			/* number of the thread in the file's, or stream */
	uint32_t more;			/* device, or number of the process group in the file's */
	uint32_t kind;
};

struct kineto_sorter;

/* All that is in memory at one time, of all sorters, in records; for tests, 0 = the usual. */
void kineto_sort_budget(size_t records);

struct kineto_sorter *kineto_sorter_open(void);
void kineto_sorter_add(struct kineto_sorter *s, const struct kineto_record *r);
/* No more will come. */
void kineto_sorter_finish(struct kineto_sorter *s);
/* From the beginning (again). False = the temporary file cannot be read. */
void kineto_sorter_rewind(struct kineto_sorter *s);
/* The next in order of start, the longer first, then as they came. NULL at the end. Valid until the next call. */
const struct kineto_record *kineto_sorter_next(struct kineto_sorter *s);
/* Could not be written or read back: what is given out is not all. */
bool kineto_sorter_failed(const struct kineto_sorter *s);
void kineto_sorter_close(struct kineto_sorter *s);

#endif
