/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of libnccl. Results are ncclResult_t as int.
 *
 * Calls into libc for sockets go through the PLT, as the real library's do: a preloaded profiler sees them. Waiting that
 * the real one does not do by libc (the device, pauses that spare a small test machine) is done by raw system calls.
 */
#ifndef SIMGPU_NCCL_INTERNAL_H
#define SIMGPU_NCCL_INTERNAL_H

#include <netinet/in.h>
#include <pthread.h>

#include "examples/simgpu/core.h"
#include "examples/simgpu/nccl.h"

enum { TYPE_BOOTSTRAP = 1, TYPE_NET = 3, SOCKET_BACKLOG = 16384 };
#define NET_MAGIC 0x564ab9f2fc4b9d6cull

/* The function in its two names: pncclX is the code, ncclX a weak alias of it. */
#define NCCL_API(ret, name, params)                                      \
	ret nccl##name params __attribute__((weak, alias("pnccl" #name))); \
	ret pnccl##name params

/* --- nccl_socket.c --- */
/* Address of the interface that NCCL_SOCKET_IFNAME chooses (port 0). */
int socket_local_address(struct sockaddr_in *out);
int socket_listen(const struct sockaddr_in *at, int *fd, struct sockaddr_in *bound);
/* Connects with the retry policy of the version, then says magic and type. Blocks. */
int socket_connect(const struct sockaddr_in *to, uint64_t magic, int type, const _Atomic bool *abort, int *fd);
/* Accepts the next connection that says this magic and type; others are closed. Blocks. */
int socket_accept(int listener, uint64_t magic, int type, const _Atomic bool *abort, int *fd);
int socket_send_all(int fd, const void *data, size_t bytes, const _Atomic bool *abort);
int socket_recv_all(int fd, void *data, size_t bytes, const _Atomic bool *abort);
/* A whole number >= 0 from the environment. */
long nccl_env(const char *name, long fallback);
void nccl_pause(unsigned int *idle);	/* one more turn of a busy loop that found nothing */
void nccl_log(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *nccl_last_log(void);

/* --- nccl_fault.c --- */
void socket_drop_syns(int listener);	/* SIMGPU_NCCL_SYN_DROP_MS */
void socket_pace(int fd);		/* SIMGPU_NCCL_PACING_MBS */

/* --- nccl_bootstrap.c --- */
struct bootstrap {
	int rank, nranks;
	uint64_t magic;
	int prev_fd, next_fd;
};

int bootstrap_unique_id(ncclUniqueId *id);
uint64_t bootstrap_magic(const ncclUniqueId *id);
int bootstrap_open(struct bootstrap *b, const ncclUniqueId *id, int rank, int nranks, const _Atomic bool *abort);
/* A ring among some ranks of another; `members` are ranks of the parent, which all take part in the call. */
int bootstrap_split(struct bootstrap *b, struct bootstrap *parent, const int *members, int nmembers, uint64_t magic,
		    const _Atomic bool *abort);
/* `all` has nranks slots of `bytes`; the own one is filled. */
int bootstrap_allgather(struct bootstrap *b, void *all, size_t bytes, const _Atomic bool *abort);
void bootstrap_close(struct bootstrap *b);

/* --- tasks and kernels --- */
enum nccl_func { FUNC_ALLREDUCE, FUNC_REDUCE, FUNC_REDUCESCATTER, FUNC_ALLGATHER, FUNC_BROADCAST, FUNC_SEND, FUNC_RECV };

struct nccl_task {
	struct nccl_task *next;
	enum nccl_func func;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	int peer;			/* root or peer */
	/* progress, of the proxy thread */
	bool begun, done;
	char *work, *scratch, *staging;
	size_t chunk, loops, steps;	/* elements, loops over the data, steps in each */
	size_t nsend, nrecv;		/* transfers in all */
	size_t sent, received;		/* transfers finished */
	size_t send_at, recv_at;	/* bytes of the current one, its 4-byte header included */
	uint32_t recv_header;
	bool local;			/* to oneself: done by a copy */
};

struct nccl_kernel {
	struct nccl_kernel *next;
	struct ncclComm *comm;
	struct nccl_task *tasks;	/* in order */
	_Atomic uint32_t finished;	/* futex */
	uint64_t end_ns;
	size_t bytes;
	const char *name;		/* for ever */
};

struct ncclComm {
	uint64_t magic;
	int rank, nranks, device;
	struct bootstrap boot;
	int listener;			/* of data connections */
	struct sockaddr_in *addresses;	/* data listeners of all ranks */
	int ring_send, ring_recv;
	int *p2p_send, *p2p_recv;	/* by peer, -1: none yet */
	uint64_t id;			/* equal on all ranks */
	uint32_t splits;
	_Atomic bool abort;
	_Atomic int error;		/* of the asynchronous part */
	_Atomic int state;		/* ncclSuccess, ncclInProgress while initialising, or why that failed */
	/* proxy thread */
	pthread_t proxy;
	bool proxy_started;
	struct sg_lock lock;
	struct nccl_kernel *queue, *queue_tail;
	_Atomic uint32_t posted;	/* futex */
	_Atomic uint32_t asleep, stop;
	_Atomic uint32_t outstanding;	/* kernels launched and not finished; futex */
	_Atomic uint32_t refs;		/* the user's and one for each kernel in flight */
	struct sg_op *last;		/* kernels of a communicator run in order, whatever their streams */
};

/* --- nccl_comm.c --- */
bool comm_valid(const struct ncclComm *comm);
int nccl_version(void);
int comm_connect_peer(struct ncclComm *comm, int peer);	/* for sends, when there is no connection yet */
/* Takes what connects to the data listener: wait, or only what is there. */
int comm_accept(struct ncclComm *comm, bool wait);
void comm_get(struct ncclComm *comm);
void comm_put(struct ncclComm *comm);

/* --- nccl_proxy.c --- */
int proxy_start(struct ncclComm *comm);
void proxy_stop(struct ncclComm *comm);
/* As work of a stream: hands the kernel to the proxy thread and waits for it. */
uint64_t proxy_run_kernel(void *kernel, uint64_t start_ns);

/* --- nccl_ring.c --- */
int task_begin(struct ncclComm *comm, struct nccl_task *task);
/* Moves what can be moved now. *moved: something was. */
int task_progress(struct ncclComm *comm, struct nccl_task *task, bool *moved);
void task_end(struct nccl_task *task);

/* --- nccl_reduce.c --- */
size_t type_bytes(ncclDataType_t type);	/* 0: unknown */
bool type_reduces(ncclDataType_t type);
void reduce_into(void *into, const void *from, size_t count, ncclDataType_t type, ncclRedOp_t op);
void reduce_divide(void *data, size_t count, ncclDataType_t type, int by);

/* --- nccl_group.c --- */
int group_enter(void);
int group_leave(void);		/* the outermost one does the work */
int group_add(struct ncclComm *comm, cudaStream_t stream, const struct nccl_task *task);
/* An initialisation: runs at the end of the group, each on a thread of its own, since they wait for each other. */
int group_add_init(void *(*fn)(void *arg), void *arg);

#endif
