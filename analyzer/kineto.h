/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of PyTorch's profiler (Kineto's JSON, plain or gzip'd, of CUDA and of HIP, old and new words) as files of a report. Such a trace is of one process; it holds GPU
 * operations, runtime calls with the correlation between the two, and annotations; no files, sockets, waits or other processes. What it holds is walked
 * like our own. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_KINETO_H
#define WHYIDLE_ANALYZER_KINETO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kineto;
struct timeline;

struct kineto_head {
	const char *host;		/* "" when the trace does not say */
	int pid, rank, world_size;	/* -1 unknown */
	int64_t first_ns, last_ns;	/* of all events, on the real-time clock as far as the trace has it */
	int64_t events;			/* slices and GPU operations in the file */
	uint64_t text_bytes;		/* unpacked */
	const char *trouble;		/* a sentence on what could not be used, NULL = nothing */
};

/* Does the file begin as JSON? (Only then it is one for kineto_open.) */
bool kineto_is_json(const char *path);

/* Reads and sorts the whole file, or takes what the last kineto_open of it left. NULL with a sentence without the file's name. */
struct kineto *kineto_open(const char *path, char *error, size_t len);
/* The same from memory; never kept. */
struct kineto *kineto_open_memory(const void *data, size_t n, char *error, size_t len);
const struct kineto_head *kineto_head(const struct kineto *k);

/* Puts the next stretch of time (half a second, at least one event) into the timeline, where the process is made at first. All that ends
 * before *watermark_ns is in then. False = all is in. */
bool kineto_read(struct kineto *k, struct timeline *tl, int64_t offset_ns, int64_t *watermark_ns);

/* The sorted events could not be read back: what was put into the timeline is not all. */
bool kineto_failed(const struct kineto *k);

/* Ends the reading. What was sorted stays for the next kineto_open: a report goes over its files twice. */
void kineto_close(struct kineto *k);
/* Frees what stayed. */
void kineto_forget(void);

#endif
