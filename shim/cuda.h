/* SPDX-License-Identifier: Apache-2.0
 *
 * What the wrappers of the CUDA runtime tell the rest: their names, for the documentation table and the export test.
 */
#ifndef WHYIDLE_SHIM_CUDA_H
#define WHYIDLE_SHIM_CUDA_H

/* The i-th exported name, NULL behind the last. Static storage, any thread. */
const char *cuda_wrapped(unsigned int i);

#endif
