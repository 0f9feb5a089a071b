// SPDX-License-Identifier: Apache-2.0

#include "examples/train/dist.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/train/observe.h"
#include "examples/train/plan.h"
#include "examples/train/util.h"

/* Rank 0 leaves the id in a file, under its final name only when it is whole. */
static ncclUniqueId share_id(const struct plan *p, int number)
{
	char *path = text("%s/communicator-%d", p->dir, number), *part = text("%s.part", path);
	ncclUniqueId id;
	int fd;

	if (p->rank == 0) {
		CHECK(ncclGetUniqueId(&id));
		fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0 || write_all(fd, &id, sizeof(id)) < 0 || rename(part, path))
			die("cannot write %s: %s", path, strerror(errno));
	} else {
		while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
			usleep(2000);
		if (read_all(fd, &id, sizeof(id)) <= 0)
			die("cannot read %s", path);
	}
	close(fd);
	free(path);
	free(part);
	return id;
}

ncclComm_t dist_communicator(struct dist *d)
{
	ncclUniqueId id = share_id(d->plan, d->communicators++);
	ncclComm_t comm;

	CHECK(ncclCommInitRank(&comm, d->plan->world, id, d->plan->rank));
	return comm;
}

void dist_open(struct dist *d, const struct plan *plan)
{
	memset(d, 0, sizeof(*d));
	d->plan = plan;
	CHECK(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking));
	for (int i = 0; i < BUCKETS; i++)
		CHECK(cudaEventCreateWithFlags(&d->ready[i], cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&d->reduced, cudaEventDisableTiming));
	if (plan->world > 1)
		d->comm = dist_communicator(d);
}

void dist_bucket(struct dist *d, int bucket, float *grad, size_t count, cudaStream_t compute)
{
	if (!d->comm)
		return;
	CHECK(cudaEventRecord(d->ready[bucket], compute));
	CHECK(cudaStreamWaitEvent(d->stream, d->ready[bucket], 0));
	observe_begin(d->stream);
	CHECK(ncclAllReduce(grad, grad, count, ncclFloat32, ncclSum, d->comm, d->stream));
	observe_end(d->stream, RECORD_COMM, d->sequence++);
}

void dist_join(struct dist *d, cudaStream_t compute)
{
	ncclResult_t error = 0;

	if (!d->comm)
		return;
	CHECK(cudaEventRecord(d->reduced, d->stream));
	CHECK(cudaStreamWaitEvent(compute, d->reduced, 0));
	CHECK(ncclCommGetAsyncError(d->comm, &error));
	if (error)
		die("the other ranks are gone (NCCL error %d)", error);
}

void dist_evaluate(struct dist *d, float *value)
{
	ncclComm_t comm = dist_communicator(d);

	CHECK(ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, comm, d->stream));
	CHECK(cudaStreamSynchronize(d->stream));
	CHECK(ncclCommDestroy(comm));
}

void dist_close(struct dist *d)
{
	if (d->comm)
		CHECK(ncclCommDestroy(d->comm));
	for (int i = 0; i < BUCKETS; i++)
		CHECK(cudaEventDestroy(d->ready[i]));
	CHECK(cudaEventDestroy(d->reduced));
	CHECK(cudaStreamDestroy(d->stream));
}
