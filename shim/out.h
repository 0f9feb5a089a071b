/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace file of this process. Drain thread only (out_fork_child: the fork's only thread).
 */
#ifndef WHYIDLE_SHIM_OUT_H
#define WHYIDLE_SHIM_OUT_H

#include <stdbool.h>

#include "trace/writer.h"

/* The writer, its file created on first use; NULL once recording has been given up (no directory, no room). */
struct pf_writer *out_writer(void);

/* True while a file has been created by this process. */
bool out_is_open(void);

/* Hands what has been put together to the kernel, whole packets only. 0 or -errno (then recording is given up). */
int out_flush(void);

/* Bytes the file has taken so far. */
uint64_t out_bytes(void);

/* The parent's file is not ours: forget it, unwritten packets included. */
void out_fork_child(void);

#endif
