/* SPDX-License-Identifier: Apache-2.0
 *
 * From a communication kernel to the NCCL call or group that launched it. For collective.c. Pure.
 */
#ifndef WHYIDLE_ANALYZER_COLLECTIVE_CALL_H
#define WHYIDLE_ANALYZER_COLLECTIVE_CALL_H

#include "analyzer/collective.h"

enum { NCCL_MEMBERS = 128 };	/* calls of a group that are looked at */

struct nccl_key {
	uint64_t comm, seq;
	unsigned extra;		/* further kernels of one call or group on the same communicator */
};

/* What one NCCL call or group adds up to, as far as one of its kernels is concerned. */
struct nccl_work { struct nccl_key key; const struct text *call; unsigned nranks; int64_t bytes; };

/* The collective that `op` carries out. False: no launch record, or none of collectives. */
bool nccl_describe(const struct op *op, struct nccl_work *d);

/* Sends and receives that `op` carries out, and the kernels on the other side: out[0] is op itself, then its partners as far as they were
 * recorded. Returns how many (at most NCCL_MEMBERS); 0 = it carries out none. */
unsigned nccl_partners(const struct timeline *tl, const struct device *device, const struct op *op, struct arrival *out, const struct text **call);

#endif
