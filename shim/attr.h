/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes on their way to the trace: set by any thread (drain_attr_int, drain_attr_str in drain.h), written by the drain.
 */
#ifndef WHYIDLE_SHIM_ATTR_H
#define WHYIDLE_SHIM_ATTR_H

#include "trace/writer.h"

/* Writes those that changed since the last call. Drain thread. */
void attr_write(struct pf_writer *w);

/* A new file: everything is to be written again. */
void attr_all_again(void);

/* In a fork's child: a lock that another thread held is void. */
void attr_fork_child(void);

#endif
