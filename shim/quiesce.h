/* SPDX-License-Identifier: Apache-2.0
 *
 * The drain thread's beginning and end, for life.c and the wrappers of unshare and its kin. Not for hooks: see drain.h.
 */
#ifndef WHYIDLE_SHIM_QUIESCE_H
#define WHYIDLE_SHIM_QUIESCE_H

#include <stdint.h>

/* Stops and joins the drain thread, so that the process has only the host's threads. It comes back at the next event or
 * wait. Gives up after 100 ms (a slow disk): then it goes on running. Guard up inside; keeps errno. */
void drain_quiesce(void);

/* After drain_quiesce, in the process that goes on. */
void drain_unquiesce(void);

/* In a fork's only thread: no thread, no file, new identity. */
void drain_fork_child(void);

/* Has everything written that was pushed before, waiting at most `limit_ns` for the disk. `last`: loss and sums as well. */
void drain_flush(uint64_t limit_ns);

/* Runs the lists of drain_on_exit. */
void drain_run_exit_list(void);

#endif
