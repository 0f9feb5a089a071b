/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting, forking, ending.
 */
#ifndef WHYIDLE_SHIM_LIFE_H
#define WHYIDLE_SHIM_LIFE_H

#include <stdint.h>

/* What the constructor does; tests call it too. May run twice. */
void life_start(void);

/* The process is about to end with `status` (exit, _exit ...): the at-exit list, then everything is written, within
 * WHYIDLE_EXIT_MS. Only the first call counts. Keeps errno. Does nothing in a vfork child. */
void life_end(int status);

/* The process is about to become another program: everything is written; life_exec_failed takes it back. */
void life_exec(void);
void life_exec_failed(void);

#endif
