/* SPDX-License-Identifier: Apache-2.0
 *
 * Time of the simulated device. No libc sleep: see futex.h.
 */
#include "examples/simgpu/core.h"

enum { SPIN_NS = 60000 };	/* below this, a sleep would overshoot by more than it lasts */

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t sg_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t sg_realtime(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t sg_to_realtime(uint64_t monotonic_ns)
{
	static _Atomic int64_t offset;
	int64_t seen = atomic_load_explicit(&offset, memory_order_relaxed), now = seen;
	uint64_t narrowest = UINT64_MAX;

	/* a preemption between the reads would pass for a clock step: the narrowest of some brackets counts */
	for (int i = 0; i < 5 && narrowest > 1000; i++) {
		uint64_t before = sg_now(), real = sg_realtime(), after = sg_now();

		if (after - before >= narrowest)
			continue;
		narrowest = after - before;
		now = (int64_t)(real - (before + narrowest / 2));
	}
	if (narrowest < 1000)
		narrowest = 1000;
	if (now - seen > (int64_t)narrowest || seen - now > (int64_t)narrowest) {
		atomic_store_explicit(&offset, now, memory_order_relaxed);
		seen = now;
	}
	return monotonic_ns + (uint64_t)seen;
}

void sg_sleep_until(uint64_t monotonic_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(monotonic_ns / 1000000000), .tv_nsec = (long)(monotonic_ns % 1000000000)
	};
	int saved = errno;

	while (sg_now() < monotonic_ns)
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	errno = saved;
}

void sg_cost(uint64_t start_ns, uint64_t ns)
{
	uint64_t end = start_ns + ns;

	if (ns > 2 * SPIN_NS)
		sg_sleep_until(end - SPIN_NS);
	while (sg_now() < end)
		;
}
