/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels tell of steps. For steps*.c.
 */
#ifndef WHYIDLE_ANALYZER_STEPS_KERNEL_H
#define WHYIDLE_ANALYZER_STEPS_KERNEL_H

#include <stdbool.h>

/* A kernel of a fused or foreach optimizer, by (mangled) name. */
bool steps_is_optimizer(const char *kernel);

#endif
