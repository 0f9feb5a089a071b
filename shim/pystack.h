/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in the Python program the calling thread is: its own frames, read without the interpreter's lock after a call into libc has returned. They
 * cannot move then, since the thread is inside that call. All reads go through process_vm_readv, so that a layout other than expected gives no
 * stack, never a fault. CPython 3.9 to 3.14; anything else, and free-threaded builds, gives none.
 */
#ifndef WHYIDLE_SHIM_PYSTACK_H
#define WHYIDLE_SHIM_PYSTACK_H

#include <stdint.h>

/* Looks for the interpreter among what is loaded. From the constructor, once; takes the loader's lock. */
void pystack_init(void);

/* The calling thread's stack as text, innermost frame first:
 *	train.py:87 in __getitem__ < torch/utils/data/_utils/fetch.py:54 in fetch < ...
 * Files of installed packages come with their path below site-packages, those of the standard library below "python/", the program's own
 * without any folder. The result is the number of a string (PF_STRINGS), 0 when there is no Python here. Keeps errno; no allocation, no lock; some ten
 * microseconds for a stack seen before, a hundred for a new one: only for calls that waited long. */
uint32_t pystack_here(void);

#endif
