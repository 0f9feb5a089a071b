/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of NCCL's ABI that simgpu's libnccl.so.2 exports, in our own words. Each ncclX is weak and has a strong twin pncclX.
 */
#ifndef SIMGPU_NCCL_H
#define SIMGPU_NCCL_H

#include "examples/simgpu/cudart.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;
typedef struct ncclConfig_v22800 ncclConfig_t;		/* opaque: size, magic, version, then what `size` covers */
typedef struct ncclUniqueId {
	char internal[128];
} ncclUniqueId;

typedef enum ncclResult_t {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
} ncclResult_t;

typedef enum ncclRedOp_t {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
} ncclRedOp_t;

typedef enum ncclDataType_t {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
} ncclDataType_t;

#define NCCL_SPLIT_NOCOLOR (-1)

#define SIMGPU_NCCL_FUNCTIONS(F)                                                                                               \
	F(ncclResult_t, GetVersion, (int *version))                                                                            \
	F(const char *, GetErrorString, (ncclResult_t result))                                                                 \
	F(const char *, GetLastError, (ncclComm_t comm))                                                                       \
	F(void, ResetDebugInit, (void))                                                                                        \
	F(ncclResult_t, GetUniqueId, (ncclUniqueId *id))                                                                       \
	F(ncclResult_t, CommInitRank, (ncclComm_t *comm, int nranks, ncclUniqueId id, int rank))                               \
	F(ncclResult_t, CommInitRankConfig,                                                                                    \
	  (ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config))                                     \
	F(ncclResult_t, CommInitRankScalable,                                                                                  \
	  (ncclComm_t *comm, int nranks, int rank, int nids, ncclUniqueId *ids, ncclConfig_t *config))                         \
	F(ncclResult_t, CommInitAll, (ncclComm_t *comms, int ndev, const int *devices))                                        \
	F(ncclResult_t, CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config))               \
	F(ncclResult_t, CommFinalize, (ncclComm_t comm))                                                                       \
	F(ncclResult_t, CommDestroy, (ncclComm_t comm))                                                                        \
	F(ncclResult_t, CommAbort, (ncclComm_t comm))                                                                          \
	F(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t *error))                                             \
	F(ncclResult_t, CommCount, (const ncclComm_t comm, int *count))                                                        \
	F(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int *device))                                                    \
	F(ncclResult_t, CommUserRank, (const ncclComm_t comm, int *rank))                                                      \
	F(ncclResult_t, MemAlloc, (void **ptr, size_t bytes))                                                                  \
	F(ncclResult_t, MemFree, (void *ptr))                                                                                  \
	F(ncclResult_t, CommRegister, (const ncclComm_t comm, void *buffer, size_t bytes, void **handle))                      \
	F(ncclResult_t, CommDeregister, (const ncclComm_t comm, void *handle))                                                 \
	F(ncclResult_t, GroupStart, (void))                                                                                    \
	F(ncclResult_t, GroupEnd, (void))                                                                                      \
	F(ncclResult_t, AllReduce,                                                                                             \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,                   \
	   cudaStream_t stream))                                                                                               \
	F(ncclResult_t, Reduce,                                                                                                \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,         \
	   cudaStream_t stream))                                                                                               \
	F(ncclResult_t, ReduceScatter,                                                                                         \
	  (const void *send, void *recv, size_t recv_count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,              \
	   cudaStream_t stream))                                                                                               \
	F(ncclResult_t, AllGather,                                                                                             \
	  (const void *send, void *recv, size_t send_count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))        \
	F(ncclResult_t, Broadcast,                                                                                             \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))   \
	F(ncclResult_t, Bcast,                                                                                                 \
	  (void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))                   \
	F(ncclResult_t, Send,                                                                                                  \
	  (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))               \
	F(ncclResult_t, Recv,                                                                                                  \
	  (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))                     \
	F(ncclResult_t, AlltoAll,                                                                                              \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))             \
	F(ncclResult_t, Gather,                                                                                                \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))   \
	F(ncclResult_t, Scatter,                                                                                               \
	  (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))

#define SIMGPU_NCCL_DECLARE(ret, name, params) \
	ret nccl##name params;                 \
	ret pnccl##name params;
SIMGPU_NCCL_FUNCTIONS(SIMGPU_NCCL_DECLARE)
#undef SIMGPU_NCCL_DECLARE

#ifdef __cplusplus
}
#endif

#endif
