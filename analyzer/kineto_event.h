/* SPDX-License-Identifier: Apache-2.0
 *
 * One element of a profiler trace's "traceEvents", as far as a report wants it. Knows both vocabularies of categories and all that time in events may be.
 */
#ifndef WHYIDLE_ANALYZER_KINETO_EVENT_H
#define WHYIDLE_ANALYZER_KINETO_EVENT_H

#include <stdbool.h>
#include <stdint.h>

struct jtext;

enum kineto_cat {
	KINETO_OTHER,			/* flows, counters, drawings of the profiler itself */
	KINETO_KERNEL, KINETO_MEMCPY, KINETO_MEMSET,
	KINETO_CALL,			/* of the CUDA, HIP ... runtime or driver */
	KINETO_CPU,			/* operators, annotations, Python functions */
	KINETO_GPU_RANGE,		/* annotations drawn on the GPU: no work */
	KINETO_SPAN,			/* "Trace": the profiler's own */
};

enum { KINETO_NAME = 4096 };

struct kineto_event {
	char ph;
	enum kineto_cat cat;
	bool timed;			/* ts and dur are there and possible */
	bool impossible;		/* ... are there and make no sense */
	int64_t start_ns, end_ns;	/* without the file's base */
	int64_t pid, tid;		/* -1 = no number; a tid "stream 7" is 7 */
	/* of args, -1 = not there */
	int64_t correlation, device, stream, bytes;
	int64_t group_size, seq, nelems, elem_bytes;
	uint64_t group;			/* hash of the process group, 0 = not there */
	char collective[64];		/* "Collective name", "" = not there */
	char label[256];		/* args.name of metadata */
	char name[KINETO_NAME];
};

/* Reads the event that comes next. False = the JSON is wrong there. What is no object is passed by and has ph 0. */
bool kineto_event_read(struct jtext *j, struct kineto_event *e);

#endif
