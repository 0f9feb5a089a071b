/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that may appear on a thread track, and the class of each. Derived from calls.def; never extended here.
 */
#ifndef WHYIDLE_TRACE_CALLS_H
#define WHYIDLE_TRACE_CALLS_H

#include <stddef.h>

enum call_class {
	CLASS_NONE,		/* not a call of calls.def (a user's range, a foreign trace) */
	CLASS_FILE_OPEN,
	CLASS_FD_READ,		/* file, pipe or socket: see the target */
	CLASS_FD_WRITE,
	CLASS_FD_SYNC,
	CLASS_FD_CLOSE,
	CLASS_FILE_MAP,
	CLASS_NET_CONNECT,
	CLASS_NET_ACCEPT,
	CLASS_NET_READ,
	CLASS_NET_WRITE,
	CLASS_FD_WAIT,		/* poll family; target = the descriptor that became ready, else the first asked for */
	CLASS_SEM_WAIT,
	CLASS_SEM_POST,		/* recorded when it releases a waiter */
	CLASS_COND_WAIT,
	CLASS_COND_SIGNAL,	/* recorded when it releases a waiter */
	CLASS_JOIN,
	CLASS_CHILD_WAIT,
	CLASS_SLEEP,
	CLASS_PROC,
	CLASS_GPU_LAUNCH,
	CLASS_GPU_COPY,
	CLASS_GPU_SYNC,
	CLASS_GPU_ORDER,
	CLASS_GPU_QUERY,
	CLASS_GPU_ALLOC,
	CLASS_GPU_SETUP,
	CLASS_NCCL_COLL,
	CLASS_NCCL_P2P,
	CLASS_NCCL_GROUP,
	CLASS_NCCL_SETUP,
	CLASS_NCCL_END,
};

enum call {
	CALL_NONE,
#define CALL(name, class) CALL_##name,
#include "trace/calls.def"
#undef CALL
	CALL_COUNT
};

/* Name of a call, "?" for CALL_NONE and out of range. Static storage, any thread, async-signal-safe. */
const char *call_name(enum call call);

/* Class of a call, CLASS_NONE when out of range. Any thread, async-signal-safe. */
enum call_class call_class(enum call call);

/* The call of that name, CALL_NONE when there is none. `len` bytes, need not be terminated. Any thread. */
enum call call_by_name(const char *name, size_t len);

#endif
