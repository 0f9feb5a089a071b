/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation for the engine: never NULL. The analyzer runs alone and holds a bounded window; when even that does not fit, it says so and ends.
 */
#ifndef WHYIDLE_ANALYZER_MEM_H
#define WHYIDLE_ANALYZER_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory for n objects. Ends the program (exit 3, a sentence on stderr) when there is none. */
void *mem_new(size_t n, size_t size);
void *mem_resize(void *p, size_t n, size_t size);
/* A copy of the string; NULL stays NULL. */
char *mem_copy(const char *s);
/* Makes room for at least one more than n objects: *cap grows by half. Returns the (moved) array. */
void *mem_more(void *p, size_t n, size_t *cap, size_t size);
char *mem_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static inline uint64_t mem_hash(const void *bytes, size_t len, uint64_t seed)
{
	const unsigned char *p = bytes;
	uint64_t h = seed ^ 0x9e3779b97f4a7c15u;

	while (len--)
		h = (h ^ *p++) * 0x100000001b3u;
	h ^= h >> 32;
	return h * 0xd6e8feb86659fd93u;
}

static inline uint64_t mem_mix(uint64_t v)
{
	v ^= v >> 32;
	v *= 0xd6e8feb86659fd93u;
	return v ^ v >> 29;
}

#endif
