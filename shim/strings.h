/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's table of interned strings: bounded (2 MB of bytes), append-only, lock-free, any thread, async-signal-safe.
 * Numbers are those of the trace's interned tables; a number means the same bytes in every sequence of the file. The calls of
 * trace/calls.def have their enum value as number in PF_NAMES from the start.
 */
#ifndef WHYIDLE_SHIM_STRINGS_H
#define WHYIDLE_SHIM_STRINGS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/writer.h"

/* Annotation keys known from the start: KEY_x is the number of "x" in PF_KEYS. */
#define STRINGS_KEYS(K) \
	K(target) K(bytes) K(errno) K(comm) K(seq) K(nranks) K(rank) K(peer) K(root) K(dtype) K(op) K(n) \
	K(state) K(ca) K(rto) K(backoff) K(retrans) K(dsack) K(acked) K(received) K(unacked) K(notsent) \
	K(last_ack_ms) K(last_recv_ms) K(rtt_us) K(min_rtt_us) K(rwnd_ms) K(snd_wnd) K(role)

enum strings_key {
	KEY_NONE,
#define K(name) KEY_##name,
	STRINGS_KEYS(K)
#undef K
	KEY_COUNT
};

/* The number of these bytes (from 1), 0 when the table is full or the string longer than 4 KB. The bytes are copied. */
uint32_t strings_intern(enum pf_table table, const char *bytes, size_t len);

/* What pf_begin and its kin want. */
const struct pf_strings *strings_lookup(void);

/* Strings refused for want of room. */
uint64_t strings_refused(void);

#endif
