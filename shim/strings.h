/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's table of interned strings: bounded (2 MB of bytes), append-only, lock-free, any thread, async-signal-safe.
 * Numbers are those of the trace's interned tables; a number means the same bytes in every sequence of the file. The calls of
 * trace/calls.def have their enum value as number in PF_NAMES from the start.
 */
#ifndef WHYIDLE_SHIM_STRINGS_H
#define WHYIDLE_SHIM_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/writer.h"

/* Annotation keys known from the start: KEY_x is the number of "x" in PF_KEYS. */
#define STRINGS_KEYS(K) \
	K(target) K(bytes) K(errno) K(comm) K(seq) K(nranks) K(rank) K(peer) K(root) K(dtype) K(op) K(n) \
	K(state) K(ca) K(rto) K(backoff) K(retrans) K(dsack) K(acked) K(received) K(unacked) K(notsent) \
	K(last_ack_ms) K(last_recv_ms) K(rtt_us) K(min_rtt_us) K(rwnd_ms) K(snd_wnd) K(role) K(at) \
	K(address) K(value) K(bits) K(since_ns) K(call_ns) K(found) K(result) K(growth) K(interval)

enum strings_key {
	KEY_NONE,
#define K(name) KEY_##name,
	STRINGS_KEYS(K)
#undef K
	KEY_COUNT
};

/* The number of these bytes (from 1), 0 when the table is full or the string longer than 4 KB. The bytes are copied. */
uint32_t strings_intern(enum pf_table table, const char *bytes, size_t len);

/* Strings that come without end (paths of a data set of a million files, inodes of short-lived pipes) go through a ring of 1 MB
 * instead once PF_STRINGS has had its STRINGS_FEW: each has a position that stays readable until as much again has been written.
 * They are written inline, which costs such strings nothing, since each is used a few times only. */
#define STRINGS_FEW 4000
#define STRINGS_LOOSE ((uint64_t)1 << 63)

/* The number of a string for a target: of PF_STRINGS, or STRINGS_LOOSE | position; 0 when it is too long. Any thread. */
uint64_t strings_target(const char *bytes, size_t len);

/* Is it still readable, and will be for a while? Any thread. */
bool strings_target_fresh(uint64_t target);

/* The number to give to the writer for a target, at once: a loose string's number means the one asked for last. 0 when the string is
 * gone. Drain thread. */
uint32_t strings_target_iid(uint64_t target);

/* What pf_begin and its kin want. */
const struct pf_strings *strings_lookup(void);

/* Strings refused for want of room. */
uint64_t strings_refused(void);

#endif
