/* SPDX-License-Identifier: Apache-2.0
 *
 * What one CUPTI record costs the drain thread, from CUPTI's buffer to the packet, in ns: launches and their kernels in equal numbers, in
 * the order in which CUPTI gives them, 64 kernel names of 200 characters. Prints "name ns" lines. Budget: 150 a record.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/cupti_abi.h"
#include "shim/cupti_clock.h"
#include "shim/cupti_record.h"
#include "shim/cupti_write.h"
#include "shim/drain.h"

enum { PAIRS = 30000, ROUNDS = 20, KERNEL_BYTES = 208, API_BYTES = 40, NAMES = 64 };

/* The drain's side, as small as can be. */
uint64_t drain_process_uuid(void)
{
	return 123;
}

uint64_t drain_uuid(const char *kind, uint64_t a, uint64_t b)
{
	return a * 31 + b * 7 + (unsigned char)kind[0];
}

uint64_t drain_thread_track(struct pf_writer *w, int64_t tid)
{
	return (uint64_t)tid + 1000;
}

void drain_count_dropped(uint64_t n)
{
}

void drain_count_recorded(uint64_t n)
{
}

void drain_attr_str(const char *key, const char *value)
{
}

static int full(struct pf_writer *w)
{
	w->len = 0;
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void put(uint8_t *b, size_t at, uint64_t v, size_t bytes)
{
	memcpy(b + at, &v, bytes);
}

static void fill(uint8_t *b, uint64_t n, const char *name)
{
	uint64_t start = 1700000000000000000u + n * 5000;

	put(b, 0, CUPTI_KERNEL, 4);
	put(b, KERNEL_START, start, 8);
	put(b, KERNEL_END, start + 4000, 8);
	put(b, KERNEL_STREAM, 13 + n % 3, 4);
	put(b, KERNEL_CORRELATION, n + 1, 4);
	put(b, KERNEL_NAME, (uintptr_t)name, 8);
	b += KERNEL_BYTES;
	put(b, 0, CUPTI_RUNTIME, 4);
	put(b, API_CBID, 211, 4);
	put(b, API_START, start - 2000, 8);
	put(b, API_END, start - 1000, 8);
	put(b, API_TID, 77, 4);
	put(b, API_CORRELATION, n + 1, 4);
}

int main(void)
{
	static uint8_t block[256 << 10];
	static char names[NAMES][256];
	struct pf_writer w = {.buf = block, .cap = sizeof(block), .full = full};
	uint8_t *records = calloc(PAIRS, KERNEL_BYTES + API_BYTES);
	struct cupti_clock clock;
	double best = 1e9;

	cupti_clock_init(&clock, NULL);
	cupti_clock_sample(&clock);
	if (!records || cupti_write_init())
		return 99;
	for (int i = 0; i < NAMES; i++)
		memset(names[i], 'a' + i % 26, 200 + (size_t)(i % 50));
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t before;

		for (uint64_t i = 0; i < PAIRS; i++)
			fill(records + i * (KERNEL_BYTES + API_BYTES), round * PAIRS + i, names[i * 7 % NAMES]);
		before = now_ns();
		for (const uint8_t *b = records; b < records + PAIRS * (KERNEL_BYTES + API_BYTES); b += API_BYTES) {
			struct cupti_record r;

			cupti_record_read(b, 22, &r);
			cupti_write_add(&w, &clock, &r, 1, false);
			b += KERNEL_BYTES;
			cupti_record_read(b, 22, &r);
			cupti_write_add(&w, &clock, &r, 1, false);
		}
		cupti_write_flush(&w, 1);
		if ((double)(now_ns() - before) / PAIRS / 2 < best)
			best = (double)(now_ns() - before) / PAIRS / 2;
	}
	printf("gpu_record %.1f\n", best);
	return 0;
}
