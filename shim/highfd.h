/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim's own descriptors live at high numbers, so that the host's numbering is what it would be without us, and survive a
 * host that closes everything it can.
 */
#ifndef WHYIDLE_SHIM_HIGHFD_H
#define WHYIDLE_SHIM_HIGHFD_H

#include <stdint.h>

/* A descriptor of ours and what it should be. Zero is "none". */
struct highfd {
	int fd;			/* 0 = none (ours are never 0) */
	uint64_t dev, ino;
};

/* Opens with O_CLOEXEC and moves it up. 0 or -errno. The lowest free number is taken for a moment only. */
int highfd_open(struct highfd *h, const char *path, int flags, unsigned mode);

/* Is the number still our file? The host may have closed it and been given it again. */
int highfd_holds(const struct highfd *h);

/* Closes it if it is still ours. */
void highfd_close(struct highfd *h);

/* The number is not ours any more (highfd_holds said so): nothing is closed. `dev` and `ino` stay. */
void highfd_forget(struct highfd *h);

/* Is this number one of ours? For the wrappers of close and its kin. */
int highfd_is_ours(int fd);

/* In a fork's child: close the parent's. */
void highfd_fork_child(void);

#endif
