/* SPDX-License-Identifier: Apache-2.0
 *
 * A decoding service outside the process, as a chip or another host would be: whoever asks is off the CPU until it has answered. It serves
 * any number of batches at a time, each in the same time, and a batch number for all ranks in one go: who asks later has it as soon as the first. So
 * ranks keep abreast, and more workers get more batches.
 */
#ifndef TRAIN_DECODER_H
#define TRAIN_DECODER_H

#include <stdint.h>

struct plan;
struct decoder;

/* The decoder that all processes of the run share (through a file in plan->dir). */
struct decoder *decoder_open(const struct plan *plan);
void decoder_wait(struct decoder *d, uint64_t batch);

#endif
