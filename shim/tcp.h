/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of TCP connections over time, from the kernel (TCP_INFO).
 */
#ifndef WHYIDLE_SHIM_TCP_H
#define WHYIDLE_SHIM_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/fdtab.h"
#include "trace/writer.h"

/* The descriptor, of class FD_TCP, moved bytes or began to connect. Traced thread; a few loads when already known. */
void tcp_used(int fd, struct fd_entry *e);

/* Before close or shutdown of a used connection: its last counters, which are gone afterwards. Traced thread, one system call. */
void tcp_last_words(int fd);

/* Writes what changed. True while bytes are outstanding or a connect is pending (then it wants to be called again in 10 ms).
 * `*activity` is set when anything moved. Drain thread. */
bool tcp_sample(struct pf_writer *w, struct pf_seq *seq, bool *activity);

void tcp_fork_child(void);

#endif
