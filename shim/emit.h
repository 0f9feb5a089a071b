/* SPDX-License-Identifier: Apache-2.0
 *
 * From rings and in-flight stacks to packets. Drain thread only.
 */
#ifndef WHYIDLE_SHIM_EMIT_H
#define WHYIDLE_SHIM_EMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/writer.h"

/* Writes what one pass over all threads finds. True when there was an event or a thread had run. */
bool emit_threads(struct pf_writer *w, uint64_t now);

/* Sums since the file began. */
struct emit_sums { uint64_t recorded, dropped, shorts; };
struct emit_sums emit_sums(void);

/* Names the sequences that lost events, if any did since the last call. */
void emit_loss(struct pf_writer *w);

void emit_fork_child(void);

#endif
