/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of trace/vocabulary.md for what a call touched. Any thread, no allocation; system calls only on first sight of a
 * descriptor.
 */
#ifndef WHYIDLE_SHIM_TARGET_H
#define WHYIDLE_SHIM_TARGET_H

#include <stdint.h>

struct span;

/* The target of a finished span as it travels in an event (enum event_target, value). A descriptor becomes a string number. */
void target_of_span(const struct span *s, uint8_t *kind, uint64_t *value);

/* The same for a call in flight, from the drain thread: never follows a pointer of the host. `kind` is an enum span_target. */
void target_of_inflight(uint32_t span_kind, uint64_t raw, uint8_t *kind, uint64_t *value);

/* The target (strings.h) of what `fd` is now; 0 when it cannot be told. */
uint64_t target_of_fd(int fd);
/* The same only if it has been made before. No system call. */
uint64_t target_known(int fd);

/* The number to give to the writer for an event's target, at once (see strings_target_iid); 0 for none. Drain thread. */
uint32_t target_iid(uint8_t kind, uint64_t value);

#endif
