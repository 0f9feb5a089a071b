/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that CUPTI writes its records into: a fixed pool, handed out on whatever thread CUPTI asks on (often the host's,
 * inside a CUDA call), handed back on another, read by the drain thread. No lock: each buffer has a state word.
 * CUPTI always gets a buffer, since API versions below 27 crash on none: when the pool is empty, small spare ones whose records
 * are only counted.
 */
#ifndef WHYIDLE_SHIM_CUPTI_BUFFERS_H
#define WHYIDLE_SHIM_CUPTI_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUPTI_BUFFER_BYTES (256u << 10)
#define CUPTI_BUFFERS_DEFAULT 32
#define CUPTI_BUFFERS_MAX 1024

/* Maps `count` buffers (clamped to 4..CUPTI_BUFFERS_MAX), once per process. 0 or -ENOMEM. */
int cupti_buffers_init(unsigned int count);

/* CUPTI's request callback. Any thread. */
void cupti_buffers_request(uint8_t **buffer, size_t *size, size_t *max_records);

/* Gives back a buffer with `valid` bytes of records, for cupti_buffers_next; `*urgent` is set when a quarter of the pool waits. false = it was a spare one, which the caller walks and
 * counts now and then frees with cupti_buffers_free. Any thread. */
bool cupti_buffers_complete(uint8_t *buffer, size_t valid, bool *urgent);

/* The next completed buffer, NULL when there is none. Drain thread; give it back with cupti_buffers_free. */
uint8_t *cupti_buffers_next(size_t *valid);

/* Zeroes it (CUPTI_ATTR_ZEROED_BUFFERS saves CUPTI doing so on the host's thread) and makes it free. */
void cupti_buffers_free(uint8_t *buffer);

/* When the oldest buffer that CUPTI still holds was requested (MONOTONIC), UINT64_MAX when it holds none: what ended before
 * that has been handed back. Any thread. */
uint64_t cupti_buffers_oldest_ns(void);

/* True while completed buffers wait for the drain thread or are read by it. Any thread. */
bool cupti_buffers_unread(void);

/* How often a spare buffer was given. Any thread. */
uint64_t cupti_buffers_exhausted(void);

/* After fork: nothing is held by anybody. The memory stays. */
void cupti_buffers_forget(void);

#endif
