/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: nothing is launched before the outermost GroupEnd; then there is one kernel per communicator and stream, whatever
 * number of calls it stands for. A call outside a group is a group of one.
 */
#include "examples/simgpu/nccl_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CU_LAUNCH_KERNEL = 307 };

struct entry {
	struct entry *next;
	struct ncclComm *comm;
	cudaStream_t stream;
	struct nccl_task *task;		/* given away at launch */
};

struct init {
	struct init *next;
	void *(*fn)(void *arg);
	void *arg;
	pthread_t thread;
	bool threaded;
};

static __thread unsigned int depth;
static __thread struct entry *entries, *entries_tail;
static __thread struct init *inits;

int group_enter(void)
{
	depth++;
	return 0;
}

int group_add(struct ncclComm *comm, cudaStream_t stream, const struct nccl_task *task)
{
	struct entry *entry = calloc(1, sizeof(*entry));
	struct nccl_task *copy = malloc(sizeof(*copy));

	if (!entry || !copy) {
		free(entry);
		free(copy);
		return ncclSystemError;
	}
	*copy = *task;
	entry->comm = comm;
	entry->stream = stream;
	entry->task = copy;
	if (entries_tail)
		entries_tail->next = entry;
	else
		entries = entry;
	entries_tail = entry;
	return 0;
}

int group_add_init(void *(*fn)(void *arg), void *arg)
{
	struct init *init = calloc(1, sizeof(*init));

	if (!init)
		return ncclSystemError;
	init->fn = fn;
	init->arg = arg;
	init->next = inits;
	inits = init;
	return 0;
}

static int run_inits(void)
{
	struct init *list = inits;
	int rc = 0;

	inits = NULL;
	if (list && !list->next) {
		rc = (int)(intptr_t)list->fn(list->arg);
		free(list);
		return rc;
	}
	for (struct init *i = list; i; i = i->next)
		i->threaded = !pthread_create(&i->thread, NULL, i->fn, i->arg);
	while (list) {
		struct init *next = list->next;
		void *result = (void *)(intptr_t)ncclSystemError;

		if (list->threaded)
			pthread_join(list->thread, &result);
		if (!rc)
			rc = (int)(intptr_t)result;
		free(list);
		list = next;
	}
	return rc;
}

/* Names live for ever, since records point to them; there are few. */
static const char *intern(const char *name)
{
	static struct name {
		struct name *next;
		char text[];
	} *names;
	static struct sg_lock lock;
	struct name *n;

	sg_lock(&lock);
	for (n = names; n && strcmp(n->text, name); n = n->next)
		;
	if (!n && (n = malloc(sizeof(*n) + strlen(name) + 1))) {
		strcpy(n->text, name);
		n->next = names;
		names = n;
	}
	sg_unlock(&lock);
	return n ? n->text : "ncclDevKernel";
}

/* As the device code of 2.19 and later is named; a C++ function, so its name comes mangled. */
static const char *kernel_name(const struct nccl_task *task)
{
	static const char *const types[] = { "u8", "u8", "u32", "u32", "u64", "u64", "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2" };
	static const char *const ops[] = { "Sum", "Prod", "MinMax", "MinMax", "PreMulSum" };
	char plain[96], mangled[160];

	switch (task->func) {
	case FUNC_SEND:
	case FUNC_RECV:
		snprintf(plain, sizeof(plain), "ncclDevKernel_SendRecv");
		break;
	case FUNC_ALLGATHER:
		snprintf(plain, sizeof(plain), "ncclDevKernel_AllGather_RING_LL");
		break;
	case FUNC_BROADCAST:
		snprintf(plain, sizeof(plain), "ncclDevKernel_Broadcast_RING_LL");
		break;
	default:
		snprintf(plain, sizeof(plain), "ncclDevKernel_%s_%s_%s_RING_LL",
			 task->func == FUNC_ALLREDUCE ? "AllReduce" : task->func == FUNC_REDUCE ? "Reduce" : "ReduceScatter",
			 ops[task->op], types[task->type]);
	}
	snprintf(mangled, sizeof(mangled), "_Z%zu%s24ncclDevKernelArgsStorageILm4096EE", strlen(plain), plain);
	return intern(mangled);
}

/* Sends to oneself meet their receives here. */
static int pair_local(struct nccl_kernel *kernel, int rank)
{
	for (struct nccl_task *s = kernel->tasks; s; s = s->next) {
		struct nccl_task *r;

		if (s->func != FUNC_SEND || s->peer != rank)
			continue;
		for (r = kernel->tasks; r; r = r->next)
			if (r->func == FUNC_RECV && r->peer == rank && !r->local)
				break;
		if (!r || r->count != s->count || r->type != s->type)
			return ncclInvalidUsage;
		s->local = r->local = true;
		r->send = s->send;	/* the receive does the copy */
	}
	for (struct nccl_task *r = kernel->tasks; r; r = r->next)
		if (r->func == FUNC_RECV && r->peer == rank && !r->local)
			return ncclInvalidUsage;
	return 0;
}

static void kernel_free(struct nccl_kernel *kernel)
{
	for (struct nccl_task *t = kernel->tasks, *next; t; t = next) {
		next = t->next;
		free(t);
	}
	free(kernel);
}

/* What one communicator has on one stream, in order; taken out of the list. */
static struct nccl_kernel *take_kernel(struct entry **list)
{
	struct nccl_kernel *kernel = calloc(1, sizeof(*kernel));
	struct nccl_task **tail;
	cudaStream_t stream = (*list)->stream;

	if (!kernel)
		return NULL;
	kernel->comm = (*list)->comm;
	tail = &kernel->tasks;
	for (struct entry **at = list; *at;) {
		struct entry *entry = *at;

		if (entry->comm != kernel->comm || entry->stream != stream) {
			at = &entry->next;
			continue;
		}
		*at = entry->next;
		*tail = entry->task;
		tail = &entry->task->next;
		kernel->bytes += entry->task->count * type_bytes(entry->task->type);
		free(entry);
	}
	kernel->name = kernel_name(kernel->tasks);
	return kernel;
}

static int submit(struct nccl_kernel *kernel, cudaStream_t handle)
{
	struct ncclComm *comm = kernel->comm;
	struct sg_op *op = sg_op_new(SG_WORK), *before;
	struct sg_stream *stream;
	int device = sg_current_device(), rc = 0;

	sg_set_device(comm->device);
	stream = sg_stream_of(handle, false);
	sg_set_device(device);
	if (!op || !stream) {
		sg_op_put(op);
		return cudaErrorMemoryAllocation;
	}
	op->work.name = kernel->name;
	op->work.grid = (dim3){ 2, 1, 1 };
	op->work.block = (dim3){ 512, 1, 1 };
	op->work.fn = proxy_run_kernel;
	op->work.data = kernel;
	if (comm->last && !sg_op_done(comm->last))
		rc = sg_op_depend(op, comm->last);
	if (rc) {
		sg_op_put(op);
		return rc;
	}
	comm_get(comm);
	atomic_fetch_add(&comm->outstanding, 1);
	rc = sg_submit(stream, op, true);
	if (rc) {
		atomic_fetch_sub(&comm->outstanding, 1);
		comm_put(comm);
		return rc;
	}
	before = comm->last;
	comm->last = op;
	sg_op_put(before);
	return 0;
}

/* NCCL carries its own copy of the runtime: a profiler sees the driver's launch only. */
static int launch(struct nccl_kernel *kernel, cudaStream_t stream)
{
	struct sg_call call;
	int rc = 0;

	for (struct nccl_task *t = kernel->tasks; t && !rc; t = t->next)
		if (t->func == FUNC_SEND && !t->local)
			rc = comm_connect_peer(kernel->comm, t->peer);
	if (rc)
		return rc;
	rc = sg_call_begin(&call, SG_DRIVER, CU_LAUNCH_KERNEL);
	if (!rc) {
		sg_cost(call.start_ns, sg_config.launch_ns);
		rc = submit(kernel, stream);
	}
	sg_call_end(&call, rc);
	return rc ? ncclUnhandledCudaError : 0;
}

static int run_entries(void)
{
	struct entry *list = entries;
	int rc = 0;

	entries = entries_tail = NULL;
	while (list) {
		cudaStream_t stream = list->stream;
		struct nccl_kernel *kernel = take_kernel(&list);
		int one;

		if (!kernel)
			return ncclSystemError;
		one = rc ? rc : pair_local(kernel, kernel->comm->rank);
		if (!one)
			one = launch(kernel, stream);
		if (one)
			kernel_free(kernel);
		if (!rc)
			rc = one;
	}
	return rc;
}

int group_leave(void)
{
	int rc;

	if (!depth)
		return ncclInvalidUsage;
	if (--depth)
		return 0;
	rc = run_inits();
	return rc ? rc : run_entries();
}
