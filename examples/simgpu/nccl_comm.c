/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators: how they come to be, what they can be asked, how they end.
 */
#include "examples/simgpu/nccl_internal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { COMM_MAGIC = 0x6e63636c, RING = 1, PEER = 2 };

/* First words on a data connection, after magic and type. */
struct introduction {
	uint64_t comm;
	int32_t from, purpose;
};

bool comm_valid(const struct ncclComm *comm)
{
	return comm && comm->magic == COMM_MAGIC;
}

static struct ncclComm *comm_new(int rank, int nranks)
{
	struct ncclComm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->magic = COMM_MAGIC;
	comm->rank = rank;
	comm->nranks = nranks;
	comm->device = sg_current_device();
	comm->listener = comm->ring_send = comm->ring_recv = -1;
	comm->boot.prev_fd = comm->boot.next_fd = -1;
	atomic_init(&comm->refs, 1);
	atomic_init(&comm->state, ncclInProgress);
	return comm;
}

void comm_get(struct ncclComm *comm)
{
	atomic_fetch_add_explicit(&comm->refs, 1, memory_order_relaxed);
}

static void close_if(int fd)
{
	if (fd >= 0)
		close(fd);
}

void comm_put(struct ncclComm *comm)
{
	/* acq_rel: the last owner frees what the others used */
	if (atomic_fetch_sub_explicit(&comm->refs, 1, memory_order_acq_rel) != 1)
		return;
	comm->magic = 0;
	free(comm->addresses);
	free(comm->p2p_send);
	free(comm->p2p_recv);
	free(comm);
}

static int introduce(struct ncclComm *comm, int peer, int purpose, int *fd)
{
	struct introduction intro = { comm->id, comm->rank, purpose };
	int rc = socket_connect(&comm->addresses[peer], NET_MAGIC, TYPE_NET, &comm->abort, fd);

	if (rc)
		return rc;
	socket_pace(*fd);
	rc = socket_send_all(*fd, &intro, sizeof(intro), &comm->abort);
	if (rc)
		close(*fd);
	return rc;
}

int comm_connect_peer(struct ncclComm *comm, int peer)
{
	int fd, rc;

	if (comm->p2p_send[peer] >= 0)
		return 0;
	rc = introduce(comm, peer, PEER, &fd);
	if (!rc)
		comm->p2p_send[peer] = fd;
	return rc;
}

int comm_accept(struct ncclComm *comm, bool wait)
{
	struct pollfd pfd = { .fd = comm->listener, .events = POLLIN };
	struct introduction intro;
	int fd, rc;

	if (!wait && poll(&pfd, 1, 0) <= 0)
		return 0;
	rc = socket_accept(comm->listener, NET_MAGIC, TYPE_NET, &comm->abort, &fd);
	if (rc)
		return rc;
	rc = socket_recv_all(fd, &intro, sizeof(intro), &comm->abort);
	if (rc || intro.comm != comm->id || intro.from < 0 || intro.from >= comm->nranks) {
		close(fd);
		return rc == ncclRemoteError ? 0 : rc;
	}
	socket_pace(fd);
	if (intro.purpose == RING)
		comm->ring_recv = fd;
	else
		comm->p2p_recv[intro.from] = fd;
	return 0;
}

static int connect_data(struct ncclComm *comm)
{
	size_t n = (size_t)comm->nranks;
	struct sockaddr_in local;
	int rc;

	comm->addresses = calloc(n, sizeof(*comm->addresses));
	comm->p2p_send = malloc(n * sizeof(int));
	comm->p2p_recv = malloc(n * sizeof(int));
	if (!comm->addresses || !comm->p2p_send || !comm->p2p_recv)
		return ncclSystemError;
	memset(comm->p2p_send, 0xff, n * sizeof(int));
	memset(comm->p2p_recv, 0xff, n * sizeof(int));
	rc = socket_local_address(&local);
	if (!rc)
		rc = socket_listen(&local, &comm->listener, &comm->addresses[comm->rank]);
	if (rc)
		return rc;
	socket_drop_syns(comm->listener);
	rc = bootstrap_allgather(&comm->boot, comm->addresses, sizeof(*comm->addresses), &comm->abort);
	if (rc || n == 1)
		return rc;
	rc = introduce(comm, (comm->rank + 1) % comm->nranks, RING, &comm->ring_send);
	while (!rc && comm->ring_recv < 0)
		rc = comm_accept(comm, true);
	return rc;
}

static void comm_close(struct ncclComm *comm)
{
	proxy_stop(comm);
	close_if(comm->ring_send);
	close_if(comm->ring_recv);
	close_if(comm->listener);
	for (int i = 0; comm->p2p_recv && i < comm->nranks; i++) {
		close_if(comm->p2p_send[i]);
		close_if(comm->p2p_recv[i]);
	}
	comm->ring_send = comm->ring_recv = comm->listener = -1;
	bootstrap_close(&comm->boot);
	sg_op_put(comm->last);
	comm->last = NULL;
}

/* Sets the state last: a non-blocking communicator may be used from then on. */
static int comm_open(struct ncclComm *comm)
{
	int rc = connect_data(comm);

	if (!rc)
		rc = proxy_start(comm);
	return rc;
}

struct init_args {
	struct ncclComm *comm, *parent;
	ncclUniqueId id;
	int color, key;
	ncclComm_t *out;
};

static void *init_main(void *arg)
{
	struct init_args *args = arg;
	struct ncclComm *comm = args->comm;
	int rc;

	comm->id = bootstrap_magic(&args->id);
	rc = bootstrap_open(&comm->boot, &args->id, comm->rank, comm->nranks, &comm->abort);
	if (!rc)
		rc = comm_open(comm);
	if (rc)
		nccl_log("WARN", "communicator of rank %d of %d failed: %d", comm->rank, comm->nranks, rc);
	atomic_store(&comm->state, rc);
	free(args);
	return (void *)(intptr_t)rc;
}

/* config->blocking, when the struct is long enough to have it: 0 asks for a non-blocking communicator. */
static bool config_blocking(const ncclConfig_t *config)
{
	int blocking;
	size_t size;

	if (!config)
		return true;
	memcpy(&size, config, sizeof(size));
	if (size < 20)
		return true;
	memcpy(&blocking, (const char *)config + 16, sizeof(blocking));
	return blocking != 0;
}

static void *init_detached(void *arg)
{
	struct ncclComm *comm = ((struct init_args *)arg)->comm;

	init_main(arg);
	comm_put(comm);
	return NULL;
}

static int init_in_background(struct init_args *args)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	comm_get(args->comm);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, init_detached, args);
	pthread_attr_destroy(&attr);
	if (rc) {
		comm_put(args->comm);
		free(args);
	}
	return rc ? ncclSystemError : ncclInProgress;
}

static int init_rank(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank, const ncclConfig_t *config)
{
	struct init_args *args;
	int rc, ended;

	if (!out || nranks < 1 || rank < 0 || rank >= nranks)
		return ncclInvalidArgument;
	if (sg_init())
		return ncclUnhandledCudaError;
	sg_context(sg_current_device());
	args = calloc(1, sizeof(*args));
	if (!args)
		return ncclSystemError;
	args->id = *id;
	args->comm = *out = comm_new(rank, nranks);
	if (!args->comm) {
		free(args);
		return ncclSystemError;
	}
	if (!config_blocking(config))
		return init_in_background(args);
	group_enter();
	rc = group_add_init(init_main, args);
	if (rc)
		free(args);
	ended = group_leave();
	return rc ? rc : ended;
}

NCCL_API(ncclResult_t, GetUniqueId, (ncclUniqueId *id))
{
	return id ? (ncclResult_t)bootstrap_unique_id(id) : ncclInvalidArgument;
}

NCCL_API(ncclResult_t, CommInitRank, (ncclComm_t *comm, int nranks, ncclUniqueId id, int rank))
{
	return (ncclResult_t)init_rank(comm, nranks, &id, rank, NULL);
}

NCCL_API(ncclResult_t, CommInitRankConfig,
	 (ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config))
{
	return (ncclResult_t)init_rank(comm, nranks, &id, rank, config);
}

NCCL_API(ncclResult_t, CommInitRankScalable,
	 (ncclComm_t *comm, int nranks, int rank, int nids, ncclUniqueId *ids, ncclConfig_t *config))
{
	if (!ids || nids < 1)
		return ncclInvalidArgument;
	return (ncclResult_t)init_rank(comm, nranks, &ids[0], rank, config);
}

struct split_slot {
	int32_t color, key, rank;
};

static int compare_slots(const void *a, const void *b)
{
	const struct split_slot *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	a ^= b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2);
	a ^= a >> 31;
	return a * 0xbf58476d1ce4e5b9ull;
}

/* Ranks of the parent that share the colour, in the order of their keys. */
static int split_members(struct ncclComm *parent, int color, int key, int *members, int *n)
{
	struct split_slot *slots = calloc((size_t)parent->nranks, sizeof(*slots));
	int rc;

	if (!slots)
		return ncclSystemError;
	slots[parent->rank] = (struct split_slot){ color, key, parent->rank };
	rc = bootstrap_allgather(&parent->boot, slots, sizeof(*slots), &parent->abort);
	qsort(slots, (size_t)parent->nranks, sizeof(*slots), compare_slots);
	*n = 0;
	for (int i = 0; i < parent->nranks; i++)
		if (color != NCCL_SPLIT_NOCOLOR && slots[i].color == color)
			members[(*n)++] = slots[i].rank;
	free(slots);
	return rc;
}

static void *split_main(void *arg)
{
	struct init_args *args = arg;
	struct ncclComm *parent = args->parent, *comm = args->comm;
	int *members = calloc((size_t)parent->nranks, sizeof(*members)), n = 0;
	uint64_t id = mix(mix(parent->id, ++parent->splits), (uint64_t)args->color);
	struct bootstrap boot;
	int rc = members ? split_members(parent, args->color, args->key, members, &n) : ncclSystemError;

	if (!rc)
		rc = bootstrap_split(&boot, &parent->boot, members, n, id, &parent->abort);
	if (!rc && comm) {
		comm->id = id;
		comm->boot = boot;
		comm->rank = boot.rank;
		comm->nranks = n;
		comm->device = parent->device;
		rc = comm_open(comm);
	}
	if (comm)
		atomic_store(&comm->state, rc);
	free(members);
	free(args);
	return (void *)(intptr_t)rc;
}

NCCL_API(ncclResult_t, CommSplit, (ncclComm_t parent, int color, int key, ncclComm_t *out, ncclConfig_t *config))
{
	struct init_args *args;
	int rc, ended;

	(void)config;
	if (!comm_valid(parent) || !out || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
		return ncclInvalidArgument;
	args = calloc(1, sizeof(*args));
	if (!args)
		return ncclSystemError;
	args->parent = parent;
	args->color = color;
	args->key = key;
	args->comm = *out = color == NCCL_SPLIT_NOCOLOR ? NULL : comm_new(0, 1);
	group_enter();
	rc = group_add_init(split_main, args);
	if (rc)
		free(args);
	ended = group_leave();
	return (ncclResult_t)(rc ? rc : ended);
}

static void await_init(struct ncclComm *comm)
{
	while (atomic_load(&comm->state) == ncclInProgress)
		sg_sleep_until(sg_now() + 1000000);
}

/* Waits for the kernels in flight, as the real one does when it destroys. */
static void drain(struct ncclComm *comm)
{
	uint32_t n;

	await_init(comm);
	while ((n = atomic_load(&comm->outstanding)) && !atomic_load(&comm->abort) && !atomic_load(&comm->error))
		futex_wait_for(&comm->outstanding, n, 10000000);
}

NCCL_API(ncclResult_t, CommFinalize, (ncclComm_t comm))
{
	if (!comm_valid(comm))
		return ncclInvalidArgument;
	drain(comm);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, CommDestroy, (ncclComm_t comm))
{
	if (!comm)
		return ncclSuccess;
	if (!comm_valid(comm))
		return ncclInvalidArgument;
	drain(comm);
	if (atomic_load(&comm->error))	/* nothing will end by itself any more */
		atomic_store_explicit(&comm->abort, true, memory_order_release);
	comm_close(comm);
	comm_put(comm);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, CommAbort, (ncclComm_t comm))
{
	if (!comm)
		return ncclSuccess;
	if (!comm_valid(comm))
		return ncclInvalidArgument;
	/* release: pairs with the loads of the proxy and of what initialises */
	atomic_store_explicit(&comm->abort, true, memory_order_release);
	await_init(comm);
	comm_close(comm);
	comm_put(comm);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t *error))
{
	int state;

	if (!comm_valid(comm) || !error)
		return ncclInvalidArgument;
	state = atomic_load(&comm->state);
	*error = (ncclResult_t)(state ? state : atomic_load(&comm->error));
	return ncclSuccess;
}

NCCL_API(ncclResult_t, CommCount, (const ncclComm_t comm, int *count))
{
	if (!comm_valid(comm) || !count)
		return ncclInvalidArgument;
	*count = comm->nranks;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int *device))
{
	if (!comm_valid(comm) || !device)
		return ncclInvalidArgument;
	*device = comm->device;
	return ncclSuccess;
}

NCCL_API(ncclResult_t, CommUserRank, (const ncclComm_t comm, int *rank))
{
	if (!comm_valid(comm) || !rank)
		return ncclInvalidArgument;
	*rank = comm->rank;
	return ncclSuccess;
}
