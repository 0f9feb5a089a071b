/* SPDX-License-Identifier: Apache-2.0
 *
 * From the text of a profiler trace to sorted records and what they refer to. Between kineto.c and kineto_load.c only.
 */
#ifndef WHYIDLE_ANALYZER_KINETO_LOAD_H
#define WHYIDLE_ANALYZER_KINETO_LOAD_H

#include "analyzer/kineto.h"
#include "analyzer/kineto_sort.h"

enum kineto_kind {
	KINETO_OP,			/* lane: stream, more: device */
	KINETO_CALLED,			/* lane: thread */
	KINETO_RANGE,			/* DataLoader; lane: thread */
	KINETO_STEP,			/* ProfilerStep#id */
	KINETO_UPDATE,			/* Optimizer.step */
	KINETO_COLLECTIVE,		/* "nccl:..."; more: process group */
	KINETO_COMMS,			/* record_param_comms that names a collective */
};

struct kineto_names { char **text; size_t n, cap; uint32_t *slots; size_t nslots; };
struct kineto_thread { int64_t tid; char *name; };
struct kineto_group { uint64_t key; uint32_t nranks; };

struct kineto_file {
	struct kineto_head head;
	struct kineto_sorter *sorter;
	const struct kineto_record *next;	/* while it is read */
	struct kineto_names names;
	struct kineto_thread *threads;
	size_t nthreads, threads_cap;
	struct kineto_group *groups;
	size_t ngroups, groups_cap;
	char **devices;			/* names, by number */
	size_t ndevices;
	char *command;
	bool has_steps, profiler_steps;
	int64_t base_ns;		/* to be added to the records' times */
	char *host, *trouble;

	/* kept for the next reader */
	char *path;
	uint64_t dev, ino, size;
	int64_t mtime_ns;
	bool in_use;
	struct kineto_file *kept;
};

struct kineto_file *kineto_load_path(const char *path, char *error, size_t len);
struct kineto_file *kineto_load_memory(const void *data, size_t n, char *error, size_t len);
void kineto_file_leave(struct kineto_file *f);
void kineto_load_forget(void);

#endif
