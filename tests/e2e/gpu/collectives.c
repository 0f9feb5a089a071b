/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks in processes of their own that talk through NCCL, each with a device. Prints what the traces must hold:
 * `nccl PID COMM NAME SEQ BYTES`, where COMM is a name of ours for a communicator, alike on all its ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/simgpu/nccl.h"

#define RANKS 4
#define COUNT 4096

static cudaStream_t stream;
static float *in, *out;

static void check(int e, int line)
{
	if (e) {
		fprintf(stderr, "line %d: error %d\n", line, e);
		exit(1);
	}
}
#define OK(call) check((int)(call), __LINE__)

static void expect(const char *comm, const char *name, int seq, long bytes)
{
	printf("nccl|%d|%s|%s|%d|%ld\n", (int)getpid(), comm, name, seq, bytes);
}

static void ring(ncclComm_t comm, int rank)
{
	OK(ncclGroupStart());
	OK(ncclSend(in, COUNT, ncclFloat16, (rank + 1) % RANKS, comm, stream));
	OK(ncclRecv(out, COUNT, ncclFloat16, (rank + RANKS - 1) % RANKS, comm, stream));
	OK(ncclGroupEnd());
	expect("world", "ncclSend", 0, 2 * COUNT);
	expect("world", "ncclRecv", 0, 2 * COUNT);
}

static void work(ncclComm_t world, int rank)
{
	const char *half_name = rank % 2 ? "odd" : "even";
	ncclComm_t half;

	for (int i = 1; i <= 10; i++) {
		OK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, world, stream));
		expect("world", "ncclAllReduce", i, 4 * COUNT);
	}
	OK(ncclBcast(in, COUNT, ncclFloat64, 1, world, stream));
	expect("world", "ncclBcast", 11, 8 * COUNT);
	ring(world, rank);
	OK(ncclCommSplit(world, rank % 2, rank, &half, NULL));
	OK(ncclReduceScatter(in, out, COUNT / RANKS, ncclFloat32, ncclSum, half, stream));
	expect(half_name, "ncclReduceScatter", 1, 4 * COUNT / RANKS);
	OK(ncclGroupStart());
	OK(ncclAllReduce(in, out, 16, ncclInt32, ncclMax, half, stream));
	OK(ncclAllReduce(in, out, 32, ncclInt64, ncclMin, world, stream));
	OK(ncclGroupEnd());
	expect(half_name, "ncclAllReduce", 2, 4 * 16);
	expect("world", "ncclAllReduce", 12, 8 * 32);
	OK(cudaStreamSynchronize(stream));
	OK(ncclCommDestroy(half));
}

static int rank_main(int rank, int id_pipe)
{
	ncclUniqueId id;
	ncclComm_t world;

	if (read(id_pipe, &id, sizeof(id)) != sizeof(id))
		return 1;
	OK(cudaSetDevice(rank));
	OK(cudaStreamCreate(&stream));
	OK(cudaMalloc((void **)&in, 8 * COUNT * RANKS));
	OK(cudaMalloc((void **)&out, 8 * COUNT * RANKS));
	OK(ncclCommInitRank(&world, RANKS, id, rank));
	work(world, rank);
	OK(ncclCommDestroy(world));
	printf("rank|%d|%d\n", (int)getpid(), rank);
	fflush(stdout);
	return 0;
}

/* Rank 0 makes the id and listens for the others, as with torchrun: it must be one of the ranks. */
int main(void)
{
	int pipes[RANKS][2], failed = 0, status;
	ncclUniqueId id;

	setvbuf(stdout, NULL, _IOFBF, 1 << 16);	/* the ranks share a file: each writes its lines at once */
	for (int r = 1; r < RANKS; r++) {
		OK(pipe(pipes[r]));
		if (!fork())
			exit(rank_main(r, pipes[r][0]));
	}
	OK(pipe(pipes[0]));
	OK(ncclGetUniqueId(&id));
	for (int r = 0; r < RANKS; r++)
		if (write(pipes[r][1], &id, sizeof(id)) != sizeof(id))
			return 1;
	failed = rank_main(0, pipes[0][0]);
	while (wait(&status) > 0)
		failed |= status;
	return failed != 0;
}
