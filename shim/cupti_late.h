/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA that is used behind the wrappers' backs: a program that dlopens libcudart and calls it by dlsym (ctypes, plugins), a static runtime, the driver
 * itself. The first wrapped call, which starts CUPTI otherwise, never comes there.
 */
#ifndef WHYIDLE_SHIM_CUPTI_LATE_H
#define WHYIDLE_SHIM_CUPTI_LATE_H

/* Has the drain thread look for a driver in use and start CUPTI then; and has the end of the process look once more, and say in attribute
 * `whyidle.gpu` that calls were missed. Once, at the process's start. */
void cupti_late_init(void);

#endif
