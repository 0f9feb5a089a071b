/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples: files in a folder, or a server that hands them out over TCP.
 */
#ifndef TRAIN_DATASET_H
#define TRAIN_DATASET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct plan;

/* Writes the sample files into DIR/samples. They depend on the seed only. */
void dataset_make(const struct plan *p);
/* Removes DIR and what is in it. */
void dataset_remove(const char *dir);

/* Reads sample `index` (any number: the files repeat) into buf, plan->batch_bytes / plan->samples bytes. fd: connection to the server, or -1: from the file. */
void dataset_read(const struct plan *p, int fd, uint64_t index, uint8_t *buf);

/* Starts the server, a child process that ends with the caller; stores its port. */
pid_t dataset_serve(const struct plan *p, int *port);
int dataset_connect(int port);

#endif
