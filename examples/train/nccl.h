/* SPDX-License-Identifier: Apache-2.0
 *
 * The few NCCL calls that the training loop makes, in our own words: no header of NVIDIA's is needed.
 */
#ifndef TRAIN_NCCL_H
#define TRAIN_NCCL_H

#include "examples/simgpu/cudart.h"

typedef struct ncclComm *ncclComm_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef int ncclResult_t;	/* 0 = success */

enum { ncclFloat32 = 7 };
enum { ncclSum = 0 };

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int op, ncclComm_t comm, cudaStream_t stream);

#endif
