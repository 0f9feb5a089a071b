// SPDX-License-Identifier: Apache-2.0

#include "examples/train/decoder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "examples/train/plan.h"
#include "examples/train/util.h"

/* One word per batch: its number in the upper bits, when it will be ready (us, CLOCK_MONOTONIC, wraps after 12 days) in the lower. */
enum { JOBS = 1024, TIME_BITS = 40 };
#define TIME_MASK ((1ull << TIME_BITS) - 1)

struct decoder {
	uint64_t service_us;
	_Atomic uint64_t *jobs;
};

struct decoder *decoder_open(const struct plan *plan)
{
	struct decoder *d = malloc(sizeof(*d));
	char *path = text("%s/decoder", plan->dir);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *map;

	if (!d || fd < 0 || ftruncate(fd, JOBS * sizeof(*d->jobs)))
		die("cannot make %s: %s", path, strerror(errno));
	map = mmap(NULL, JOBS * sizeof(*d->jobs), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("cannot map %s: %s", path, strerror(errno));
	close(fd);
	free(path);
	d->jobs = map;
	d->service_us = (uint64_t)plan->decode_sleep_ns / 1000;
	return d;
}

void decoder_wait(struct decoder *d, uint64_t batch)
{
	_Atomic uint64_t *job = &d->jobs[batch % JOBS];
	uint64_t number = (batch + 1) << TIME_BITS;	/* never that of a word that was not used yet */
	uint64_t now = (uint64_t)now_ns() / 1000, seen = atomic_load_explicit(job, memory_order_relaxed), left;

	/* The word is all there is to agree on: no other memory is ordered by it. */
	while ((seen & ~TIME_MASK) != number) {
		uint64_t mine = number | ((now + d->service_us) & TIME_MASK);

		if (atomic_compare_exchange_weak_explicit(job, &seen, mine, memory_order_relaxed, memory_order_relaxed))
			seen = mine;
	}
	left = (seen - now) & TIME_MASK;
	if (left <= d->service_us)	/* else it is over */
		sleep_ns((int64_t)left * 1000);
}
