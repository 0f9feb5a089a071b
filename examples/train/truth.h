/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks observed, put together: how much time each injected cause really cost each device. Written as JSON for tests.
 */
#ifndef TRAIN_TRUTH_H
#define TRAIN_TRUTH_H

struct plan;

/* Waits up to 10 s for all ranks' logs in plan->dir, writes plan->truth. Ends the process when it cannot. */
void truth_write(const struct plan *plan);

#endif
