/* SPDX-License-Identifier: Apache-2.0
 *
 * A profiler trace as a file of a report: what of it goes into the timeline, and as what. Reading the text is kineto_load.c's.
 *
 *   GPU operations   are joined to their calls by the correlation
 *   runtime calls    those of a kind that the walk knows; the others are the host's computing, as they take its CPU
 *   DataLoader       "enumerate(DataLoader)#..." stays a range: the walk takes the time in it for waiting for a batch
 *   ProfilerStep#N   marks steps; without, the ends of Optimizer.step do
 *   collectives      "nccl:..." annotations, or record_param_comms where it says which: as calls of NCCL, numbered so that ranks can be compared
 */
#include "analyzer/kineto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/kineto_load.h"
#include "analyzer/mem.h"
#include "analyzer/timeline_build.h"

/* The device's and the host's clock are brought together by the profiler to some microseconds: an operation may seem to start before its call. */
#define SLACK_NS 10000000
#define STRETCH_NS 500000000
enum { STEP_SHIFT = 20 };

struct kineto {
	struct kineto_file *file;
	struct process *process;
	const struct text **texts;
	struct thread **threads;
	int64_t *covered_ns;		/* per thread: collectives up to here were told by record_param_comms */
	uint64_t *counts;		/* per process group: collectives of the present step */
	uint64_t step;
	uint64_t flow;			/* high bits of this file's flow ids */
};

static uint64_t files_read;

static struct kineto *open_file(struct kineto_file *file)
{
	struct kineto *k;

	if (!file)
		return NULL;
	k = mem_new(1, sizeof(*k));
	k->file = file;
	/* distinct over all files of a timeline; the low bits stay the correlation's, which the table of launches likes */
	k->flow = ++files_read << 40;
	kineto_sorter_rewind(file->sorter);
	return k;
}

struct kineto *kineto_open(const char *path, char *error, size_t len)
{
	return open_file(kineto_load_path(path, error, len));
}

struct kineto *kineto_open_memory(const void *data, size_t n, char *error, size_t len)
{
	return open_file(kineto_load_memory(data, n, error, len));
}

const struct kineto_head *kineto_head(const struct kineto *k)
{
	return &k->file->head;
}

static void begin(struct kineto *k, struct timeline *tl, int64_t offset_ns)
{
	struct kineto_file *f = k->file;
	struct process *p = timeline_process(tl, f->head.host, f->head.pid, files_read);

	p->rank = f->head.rank;
	p->world_size = f->head.world_size;
	p->command = mem_copy(f->command);
	p->profiled = true;
	p->marked = f->has_steps;
	p->first_ns = f->head.first_ns + offset_ns;
	p->last_ns = f->head.last_ns + offset_ns;
	p->end = mem_copy("profile");
	p->gpu = mem_copy("the profiler trace holds no GPU activity: it was made without ProfilerActivity.CUDA, or nothing ran on a GPU meanwhile");
	k->process = p;
	k->texts = mem_new(f->names.n, sizeof(*k->texts));
	k->threads = mem_new(f->nthreads, sizeof(*k->threads));
	k->covered_ns = mem_new(f->nthreads, sizeof(*k->covered_ns));
	k->counts = mem_new(f->ngroups, sizeof(*k->counts));
}

static const struct text *text_of(struct kineto *k, struct timeline *tl, uint32_t name)
{
	if (!k->texts[name])
		k->texts[name] = timeline_name(tl, k->file->names.text[name]);
	return k->texts[name];
}

static struct thread *thread_of(struct kineto *k, struct timeline *tl, uint32_t lane)
{
	const struct kineto_thread *t = &k->file->threads[lane];

	if (!k->threads[lane]) {
		k->threads[lane] = timeline_thread(tl, k->process, t->tid);
		if (t->name && !k->threads[lane]->name)
			timeline_thread_name(k->threads[lane], t->name);
	}
	return k->threads[lane];
}

static void put_op(struct kineto *k, struct timeline *tl, const struct kineto_record *r, int64_t offset)
{
	struct device *d = timeline_device(tl, k->process, (int)r->more);
	struct op op = {.start_ns = r->start_ns + offset, .end_ns = r->end_ns + offset, .name = text_of(k, tl, r->name), .bytes = r->bytes,
		.stream = r->lane, .flow = r->id ? k->flow ^ r->id : 0};

	if (!d->name && r->more < k->file->ndevices && k->file->devices[r->more])
		d->name = mem_copy(k->file->devices[r->more]);
	timeline_op(tl, d, &op);
}

static void put_call(struct kineto *k, struct timeline *tl, const struct kineto_record *r, int64_t offset)
{
	struct slice s = {.start_ns = r->start_ns + offset, .end_ns = r->end_ns + offset, .name = text_of(k, tl, r->name), .bytes = -1,
		.flow = r->id ? k->flow ^ r->id : 0};

	timeline_call(tl, thread_of(k, tl, r->lane), &s);
}

/*
 * Collectives are numbered per process group: by the number that PyTorch gives them, where the trace has it; else by the step and the place in it, which agree
 * between ranks as long as all of them do the same collectives in the same order.
 */
static void put_collective(struct kineto *k, struct timeline *tl, const struct kineto_record *r, int64_t offset)
{
	const struct kineto_group *g = &k->file->groups[r->more];
	struct nccl_info info = {.comm = g->key, .nranks = g->nranks, .rank = k->file->head.rank < 0 ? 0 : (uint32_t)k->file->head.rank};
	struct slice s = {.start_ns = r->start_ns + offset, .end_ns = r->end_ns + offset, .name = text_of(k, tl, r->name), .bytes = r->bytes, .nccl = &info};

	if (r->kind == KINETO_COMMS)
		k->covered_ns[r->lane] = r->end_ns;
	else if (r->end_ns <= k->covered_ns[r->lane])
		return;
	k->counts[r->more]++;
	info.seq = r->id ? r->id : k->step << STEP_SHIFT | (k->counts[r->more] & ((1u << STEP_SHIFT) - 1));
	timeline_call(tl, thread_of(k, tl, r->lane), &s);
}

static void put(struct kineto *k, struct timeline *tl, const struct kineto_record *r, int64_t offset)
{
	switch ((enum kineto_kind)r->kind) {
	case KINETO_OP:
		put_op(k, tl, r, offset);
		break;
	case KINETO_CALLED:
	case KINETO_RANGE:
		put_call(k, tl, r, offset);
		break;
	case KINETO_STEP:
		k->step = r->id;
		memset(k->counts, 0, k->file->ngroups * sizeof(*k->counts));
		timeline_mark(tl, thread_of(k, tl, r->lane), r->start_ns + offset);
		break;
	case KINETO_UPDATE:
		if (!k->file->profiler_steps)
			timeline_mark(tl, thread_of(k, tl, r->lane), r->end_ns + offset);
		break;
	case KINETO_COLLECTIVE:
	case KINETO_COMMS:
		put_collective(k, tl, r, offset);
		break;
	}
}

bool kineto_read(struct kineto *k, struct timeline *tl, int64_t offset_ns, int64_t *watermark_ns)
{
	const struct kineto_record *r;
	int64_t until, base = k->file->base_ns + offset_ns;

	if (!k->process) {
		begin(k, tl, offset_ns);
		k->file->next = kineto_sorter_next(k->file->sorter);
	}
	r = k->file->next;
	until = r ? r->start_ns + STRETCH_NS : 0;
	for (; r && r->start_ns <= until; r = kineto_sorter_next(k->file->sorter))
		put(k, tl, r, base);
	k->file->next = r;
	if (!r)
		return false;
	*watermark_ns = r->start_ns + base - SLACK_NS;
	return true;
}

bool kineto_failed(const struct kineto *k)
{
	return kineto_sorter_failed(k->file->sorter);
}

void kineto_close(struct kineto *k)
{
	if (!k)
		return;
	kineto_file_leave(k->file);
	free(k->texts);
	free(k->threads);
	free(k->covered_ns);
	free(k->counts);
	free(k);
}

void kineto_forget(void)
{
	kineto_load_forget();
}
