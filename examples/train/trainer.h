/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank's training loop. Returns the process's exit status.
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

struct plan;

int trainer_run(const struct plan *plan, int data_port);

#endif
