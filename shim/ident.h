/* SPDX-License-Identifier: Apache-2.0
 *
 * Who this process is: the hash that its track ids come from, its descriptor, and the attributes known at the start.
 */
#ifndef WHYIDLE_SHIM_IDENT_H
#define WHYIDLE_SHIM_IDENT_H

#include <stdint.h>

#include "trace/writer.h"

struct ident {
	char host[128];		/* WHYIDLE_HOST or the machine's name, fit for a file name */
	char boot[40];		/* boot id, "" unknown */
	int32_t pid, ppid;
	uint64_t start_ns;	/* MONOTONIC, 0 unknown */
	uint64_t uuid;		/* of the process track */
	int32_t rank, local_rank, world_size;	/* -1 unknown */
};

/* The present process's; made anew after fork and exec. Any thread after the first ident_refresh. */
extern struct ident ident;

/* From the constructor and in a fork's child. No allocation. Keeps errno. */
void ident_refresh(void);

/* Writes the process descriptor (drain thread). */
int ident_write(struct pf_writer *w);

/* Queues the attributes of identity and machine (attr.h). */
void ident_attributes(void);

#endif
