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
	int64_t seen = atomic_load_explicit(&offset, memory_order_relaxed), now;
	uint64_t before, real, after;

	do {	/* a preemption between the reads would pass for a clock step */
		before = sg_now();
		real = sg_realtime();
		after = sg_now();
	} while (after - before > 2000);
	now = (int64_t)(real - (before + after) / 2);
	if (now - seen > 1000 || seen - now > 1000) {
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
