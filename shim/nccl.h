/* SPDX-License-Identifier: Apache-2.0
 *
 * What the wrappers of NCCL tell the rest: their names, for the documentation table and the export test.
 */
#ifndef WHYIDLE_SHIM_NCCL_H
#define WHYIDLE_SHIM_NCCL_H

/* The i-th exported name, NULL behind the last. Static storage, any thread. */
const char *nccl_wrapped(unsigned int i);

#endif
