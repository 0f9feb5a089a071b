/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of each NCCL communicator: a key that all its ranks derive alike without talking to each other (so that traces of
 * several ranks can be joined), rank and size, and the order in which collectives are issued. Lock-free, any thread; one
 * communicator is used by one thread at a time, as NCCL demands.
 */
#ifndef WHYIDLE_SHIM_NCCL_COMM_H
#define WHYIDLE_SHIM_NCCL_COMM_H

#include <stdint.h>

struct nccl_unique_id;

#define NCCL_COMMS 4096			/* alive at once; more are recorded without a key */

struct nccl_comm_info {
	uint64_t key;			/* 0 = unknown (made where we could not see it) */
	uint32_t rank, nranks;		/* UINT32_MAX = not known yet */
};

/* Keys, never 0. `_id`: of a communicator made from a unique id; `_child`: of the next split (its color) or shrink (0) of a
 * communicator, and counts it; `_local`: of the next ncclCommInitAll of this process. */
uint64_t nccl_comm_key_id(const struct nccl_unique_id *id);
uint64_t nccl_comm_key_child(const void *comm, int color);
uint64_t nccl_comm_key_local(void);

/* Remembers a communicator. */
void nccl_comm_add(const void *comm, const struct nccl_comm_info *info);
/* Fills `info`; an unknown communicator is added with key 0. */
void nccl_comm_get(const void *comm, struct nccl_comm_info *info);
/* Sets rank and size that were not known when it was added. */
void nccl_comm_learn(const void *comm, const struct nccl_comm_info *info);
/* Number of the next collective on it, from 1. 0 when it could not be remembered. */
uint64_t nccl_comm_next(const void *comm);
void nccl_comm_forget(const void *comm);

/* Bytes of one element of an ncclDataType_t, 0 unknown. */
unsigned int nccl_dtype_bytes(int dtype);

#endif
