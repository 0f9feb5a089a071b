/* SPDX-License-Identifier: Apache-2.0
 *
 * Packet loss on this process's established TCP connections, by a socket filter that discards what arrives. Needs no privilege; the
 * losses are real, and so are the retransmissions.
 */
#ifndef TRAIN_NETFAULT_H
#define TRAIN_NETFAULT_H

#include <stdint.h>

struct netfault;

/* Remembers which descriptors are open now: they are left alone. */
struct netfault *netfault_new(void);
/* Starts bursts of loss_percent, one every every_ns for burst_ns, on the connections opened since. A thread of its own, which makes bare system calls only. */
void netfault_start(struct netfault *f, int64_t every_ns, int64_t burst_ns, unsigned int seed);
/* Ends them, if they were started, and frees f. */
void netfault_stop(struct netfault *f);

#endif
