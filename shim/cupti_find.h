/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the process's CUPTI. A process must have only one: a second copy would be a second subscriber.
 */
#ifndef WHYIDLE_SHIM_CUPTI_FIND_H
#define WHYIDLE_SHIM_CUPTI_FIND_H

#include <stddef.h>

#include "shim/cupti_abi.h"

/* Fills `f` from, in this order: a libcupti that is mapped already; WHYIDLE_CUPTI (a path); beside the mapped libcudart (the
 * layouts of the toolkit and of the wheels); the bare soname of the cudart's major, or of the driver's when the runtime is linked
 * statically. 0; -ENOENT with a sentence in `why`; -EAGAIN when neither runtime nor driver is loaded yet. Loads a library: guard up, not in a signal handler. Never unloads it. */
int cupti_find(struct cupti_functions *f, char *why, size_t why_len);

/* The major version in a library's file name ("libcudart.so.12", "libcudart-d0da41ae.so.11.0"), 0 when there is none. */
int cupti_find_major(const char *path);

#endif
