/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim's one thread, and what other parts hang onto it. It is started at the first event that must be recorded, named
 * `whyidle`, has all signals blocked and the guard up for life, and is the only thread that writes to the disk. Every 50 ms
 * (10 ms while TCP bytes are outstanding) it empties the rings, calls the hooks, and writes whole packets.
 *
 * It is stopped over fork and unshare and comes back by itself: a hook keeps its state outside the thread.
 */
#ifndef WHYIDLE_SHIM_DRAIN_H
#define WHYIDLE_SHIM_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/writer.h"

/* True when this process is to be recorded (session directory given, not disabled, not given up). Any thread, two loads. */
bool drain_enabled(void);

/* Starts the drain thread if it does not run, and makes it run a period soon. Not from a signal handler. Never blocks on the
 * disk. Keeps errno. */
void drain_kick(void);

/* --- registered once per process image (not again after fork), from any thread; 0 or -ENOSPC (8 of each) --- */

/* Called in the drain thread each period, and once more in the final flush: after the rings, before the watermark snapshot, so
 * what `fn` writes belongs before it. Sequence 1 has been begun. `now_ns` is MONOTONIC. */
int drain_hook(void (*fn)(struct pf_writer *w, uint64_t now_ns));
/* Called in the child of a fork, in its only thread, guard up: forget inherited state, call no one. */
int drain_on_fork_child(void (*fn)(void));
/* Called once in the thread that ends the process (exit, _exit, quick_exit; not exec, not vfork children), guard up, before
 * the final flush. Must be bounded in time. */
int drain_on_exit(void (*fn)(void));

/* Called in the drain thread about every 100 ms, about every second while it is parked, until it returns false. One only, NULL = none. */
void drain_watch(bool (*fn)(void));

/* --- drain thread only (that is: inside hooks) --- */

/* The uuid of the thread's track; writes its descriptor when that has not been done in this file. */
uint64_t drain_thread_track(struct pf_writer *w, int64_t tid);
/* Sequence ids: 1 the process, 2..0x7ff threads' calls (ours), 0x800..0xfff free for hooks' per-thread sequences,
 * 0x1000..0x3fff device streams. All below 16384: the id stands in every packet, and takes two bytes there, or one. */
enum { DRAIN_SEQ_PROCESS = 1, DRAIN_SEQ_THREAD = 2, DRAIN_SEQ_HOOK = 0x800, DRAIN_SEQ_DEVICE = 0x1000 };
/* The hook has written everything that ended before `ns` (MONOTONIC; UINT64_MAX = all): the watermark waits when that is more
 * than 2 s ago. One hook may use it. */
void drain_settled(uint64_t ns);
/* Events that a hook had to drop, for `whyidle.dropped`; and events that it wrote, for `whyidle.recorded`. */
void drain_count_dropped(uint64_t n);
void drain_count_recorded(uint64_t n);

/* --- any thread --- */

/* uuid of this process's track, and of anything under it: a 64-bit hash of process identity, kind and the two numbers.
 * Changes in the child of a fork. Never 0. */
uint64_t drain_process_uuid(void);
uint64_t drain_uuid(const char *kind, uint64_t a, uint64_t b);

/* Sets an attribute; written in the next period when it changed (the last value counts, 64 keys). Bytes are copied, values cut
 * at 160 bytes. Lock-free for readers, short spin among writers; not from a signal handler. */
void drain_attr_int(const char *key, int64_t value);
void drain_attr_str(const char *key, const char *value);

#endif
