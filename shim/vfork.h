/* SPDX-License-Identifier: Apache-2.0
 *
 * vfork returns twice into the same frame, so its wrapper keeps the return address elsewhere.
 */
#ifndef WHYIDLE_SHIM_VFORK_H
#define WHYIDLE_SHIM_VFORK_H

/* The real vfork (wrap_proc.c holds its row). */
void *vfork_real(void);

#endif
