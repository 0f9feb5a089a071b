/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated device itself (libsimgpu.so): modelled time, streams, memory and kernels. libcudart, libcupti and libnccl
 * are faces put on it, as the real ones are on the driver.
 *
 * Times are CLOCK_MONOTONIC ns. Every function that can fail returns a cudaError_t. Any thread, unless said otherwise.
 */
#ifndef SIMGPU_CORE_H
#define SIMGPU_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/simgpu/cudart.h"
#include "examples/simgpu/futex.h"
#include "examples/simgpu/simgpu.h"

enum { SG_MAX_DEVICES = 64, SG_NULL_STREAM_ID = 7 };

enum sg_domain { SG_DRIVER = 1, SG_RUNTIME = 2 };

struct sg_config {
	int devices;
	uint64_t launch_ns, latency_ns, alloc_ns, free_ns;
	double pcie_bytes_ns, pageable_bytes_ns;
	uint32_t queue_depth;
};

extern struct sg_config sg_config;

/* --- clock.c --- */
uint64_t sg_now(void);
uint64_t sg_realtime(void);
/* CLOCK_REALTIME of a CLOCK_MONOTONIC time, by an offset that is renewed when the two have moved apart by more than 1 us. */
uint64_t sg_to_realtime(uint64_t monotonic_ns);
void sg_sleep_until(uint64_t monotonic_ns);
/* Host cost of a call that began at start_ns: busy for what is short (a CPU is busy in a driver), asleep for the rest. */
void sg_cost(uint64_t start_ns, uint64_t ns);

/* --- ops: what a stream does, in order --- */
enum sg_op_kind { SG_KERNEL, SG_COPY, SG_SET, SG_MARK, SG_HOST, SG_WORK, SG_STOP };

struct sg_op {
	struct sg_op *next;
	_Atomic uint32_t refs;
	_Atomic uint32_t done;		/* 0 no, 1 no and somebody waits, 2 yes */
	enum sg_op_kind kind;
	struct sg_stream *stream;	/* its worker's only: a stream may be gone when its ops are still referred to */
	int device;
	uint32_t stream_id, correlation;
	uint64_t ready_ns;		/* earliest start: when it was submitted, plus latency */
	uint64_t start_ns, end_ns;	/* valid once done (end 0: never ran) */
	uint64_t duration_ns;
	unsigned int ndeps, deps_cap;
	struct sg_op **deps;
	void *record;			/* of the listener */
	union {
		struct {
			const char *name;
			dim3 grid, block;
			uint32_t shared_bytes;
			simgpu_duration_fn *duration;
			simgpu_body_fn *body;
			void **args;
		} kernel;
		struct {
			void *dst;
			const void *src;
			void *staging;	/* freed with the op */
			size_t bytes;
			uint8_t kind, src_memory, dst_memory;	/* CUPTI's numbers */
			bool async;
			int src_device, dst_device;
		} copy;
		struct {
			void *ptr;
			size_t bytes;
			int value;
			uint8_t memory;
			bool async;
		} set;
		struct {
			cudaHostFn_t fn;
			void *data;
		} host;
		/* Runs from its start until the function returns the end time. Recorded as a kernel of that name. */
		struct {
			const char *name;
			dim3 grid, block;
			uint64_t (*fn)(void *data, uint64_t start_ns);
			void *data;
		} work;
	};
};

struct sg_op *sg_op_new(enum sg_op_kind kind);
struct sg_op *sg_op_get(struct sg_op *op);
void sg_op_put(struct sg_op *op);
bool sg_op_done(struct sg_op *op);
void sg_op_wait(struct sg_op *op);
int sg_op_depend(struct sg_op *op, struct sg_op *on);	/* takes its own reference */

/* --- stream.c --- */
struct sg_stream {
	struct sg_stream *next;		/* of the device */
	int device;
	uint32_t id;
	unsigned int flags;
	int priority;
	bool legacy, started;
	struct sg_op *last;		/* last op queued, referenced */
	struct sg_lock lock;		/* of head, tail */
	struct sg_op *head, *tail;
	_Atomic uint32_t queued;	/* counts ops ever queued: the worker's futex */
	_Atomic uint32_t asleep;
	_Atomic uint32_t outstanding;	/* the futex of launches that wait for room */
	_Atomic uint32_t blocked;
	uint64_t last_end_ns;		/* worker's */
};

/* The stream behind a handle as the runtime's entry points understand it; per_thread: what 0 means in a _ptsz twin. */
struct sg_stream *sg_stream_of(cudaStream_t handle, bool per_thread);
int sg_stream_new(unsigned int flags, int priority, struct sg_stream **out);
void sg_stream_delete(struct sg_stream *stream);
/* Queues the op (the caller's reference goes with it, unless `keep`). Blocks while the queue is full (not for marks). */
int sg_submit(struct sg_stream *stream, struct sg_op *op, bool keep);
/* A reference to the op after which the stream (device) is idle, NULL when it is idle now. */
struct sg_op *sg_stream_last(struct sg_stream *stream);
void sg_stream_sync(struct sg_stream *stream);
void sg_device_sync(int device);

/* --- device.c --- */
int sg_init(void);			/* idempotent; 3 in the child of a fork, 100 when there are no devices */
bool sg_forked(void);
/* Has anything been called that needs the device? */
bool sg_initialised(void);
int sg_current_device(void);
int sg_set_device(int device);		/* of the calling thread; only checks nothing */
void sg_context(int device);		/* makes the device's context if there is none */
bool sg_context_exists(int device);
struct sg_stream *sg_legacy_stream(int device);
void sg_each_stream(void (*fn)(const struct sg_stream *stream));

/* --- memory.c --- */
struct sg_range {
	uintptr_t start;
	size_t bytes, mapped;
	uint8_t memory;			/* SG_PINNED, SG_DEVICE */
	bool owned;			/* false: registered */
	int device;
};
enum { SG_PAGEABLE = 1, SG_PINNED = 2, SG_DEVICE = 3 };

void *sg_memory_new(size_t bytes, uint8_t memory, int device);
int sg_memory_register(void *ptr, size_t bytes);
int sg_memory_delete(void *ptr, uint8_t memory, bool owned);
bool sg_memory_find(const void *ptr, struct sg_range *out);
size_t sg_memory_used(int device);

/* --- kernel.c --- */
struct sg_kernel *sg_kernel_find(const void *host_stub);
void sg_kernel_add(void *module, const void *host_stub, const char *name);
void sg_module_delete(void *module);
/* simgpu_kernel_model of simgpu.h. */
int sg_kernel_model(const char *name, simgpu_duration_fn *duration, simgpu_body_fn *body, unsigned int args,
		    const size_t *arg_bytes);
/* An op for one launch, with a copy of the arguments. */
struct sg_op *sg_kernel_op(struct sg_kernel *kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes);

/* --- call.c: what a profiler can see of a call --- */
struct sg_call {
	enum sg_domain domain;
	uint32_t cbid, correlation;
	uint64_t start_ns;
};

int sg_call_begin(struct sg_call *call, enum sg_domain domain, uint32_t cbid);
int sg_call_end(struct sg_call *call, int result);
uint32_t sg_correlation(void);		/* of the call this thread is in */

enum { SG_SYNC_EVENT = 1, SG_SYNC_STREAM_WAIT = 2, SG_SYNC_STREAM = 3, SG_SYNC_CONTEXT = 4 };
enum { SG_OVERHEAD_FUNCTION_LOAD = 5 << 16, SG_OVERHEAD_QUEUE_FULL = 6 << 16 };

/* A listener (libcupti). All members set. Called with no lock of the core held. */
struct sg_listener {
	void (*call)(const struct sg_call *call, uint64_t end_ns, int result);
	void *(*op_queued)(const struct sg_op *op);	/* calling thread of the launch; NULL: not wanted */
	void (*op_done)(void *record, const struct sg_op *op);	/* stream's thread, before the op counts as done */
	void (*sync)(int type, uint64_t start_ns, uint64_t end_ns, int device, uint32_t stream_id, uint32_t event_id);
	void (*overhead)(uint32_t kind, uint64_t start_ns, uint64_t end_ns);
	void (*context)(int device);
	void (*stream)(const struct sg_stream *stream);
};

void sg_listen(const struct sg_listener *listener);
const struct sg_listener *sg_listener(void);

#endif
