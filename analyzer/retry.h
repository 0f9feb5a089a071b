/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans in which a communication socket made no progress because something was lost or refused. Built from samples of TCP_INFO
 * of both ends and from failed connects; never from the mere number of retransmissions, which says nothing about time.
 *
 *   timeout    R1: a retransmission timeout fired: from the last progress before it to the next progress
 *   probe      R2: genuine retransmissions (retrans - dsack) and no progress for max(10 ms, 2 rtt): the same
 *   recovery   R3: in recovery and no progress: the same
 *   connect    R4: from the first attempt to success, when an attempt failed or a SYN was retransmitted
 *
 * Not evidence: raw retransmissions, backoff alone (also grows while the peer does not read), rtt, a closed window.
 */
#ifndef WHYIDLE_ANALYZER_RETRY_H
#define WHYIDLE_ANALYZER_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/timeline.h"

struct collective;
struct retries;

enum { RETRY_TIMEOUT = 1, RETRY_PROBE = 2, RETRY_RECOVERY = 4, RETRY_CONNECT = 8 };

struct retry_span {
	int64_t start_ns, end_ns;	/* end NS_OPEN = no progress seen yet */
	const struct process *process;	/* whose socket (the sender: it has the evidence) */
	const struct text *target;	/* the connection, NULL unknown */
	unsigned kinds;			/* RETRY_* */
	int64_t retrans;		/* genuine retransmissions in it */
	int64_t failed;			/* failed connects in it */
	int32_t err;			/* errno of the last of them */
};

struct retries *retries_open(void);
void retries_advance(struct retries *r, const struct timeline *tl);
void retries_close(struct retries *r);

/* The first stretch [*start_ns, *end_ns) inside [a_ns, b_ns) that retry spans cover, their union. `among`: only of the processes of this
 * collective; NULL = of all. `kinds`: which ones. False = none. *which (may be NULL): one of the spans in it. */
bool retry_find(const struct timeline *tl, const struct collective *among, unsigned kinds, int64_t a_ns, int64_t b_ns,
	int64_t *start_ns, int64_t *end_ns, const struct retry_span **which);

/* Is `target` a connection between ranks (NCCL's by content, or its two ends belong to two recorded ranks)? */
bool retry_is_comm(const struct timeline *tl, const struct process *process, const struct text *target);

#endif
