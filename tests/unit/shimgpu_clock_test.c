/* SPDX-License-Identifier: Apache-2.0
 *
 * The map from CUPTI's real time to the trace's monotonic time, with the clock set while we look.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "shim/cupti_clock.h"

#define EPOCH 1700000000000000000u
#define MS 1000000ull

static struct cupti_clock fresh(void)
{
	struct cupti_clock c;

	cupti_clock_init(&c, NULL);
	return c;
}

/* A reading whose bracket is `width` wide and lies unevenly around the true instant. */
static void sample(struct cupti_clock *c, uint64_t mono, int64_t offset, uint64_t width, uint64_t early)
{
	cupti_clock_add(c, mono - early, mono + (uint64_t)offset, mono - early + width);
}

static void constant_offset_is_found_within_the_narrowest_bracket(void **state)
{
	struct cupti_clock c = fresh();

	sample(&c, 1000 * MS, EPOCH, 4000, 3900);
	sample(&c, 2000 * MS, EPOCH, 40, 10);
	sample(&c, 3000 * MS, EPOCH, 900000, 100);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.steps, 0);
	for (uint64_t t = 0; t < 5000 * MS; t += 777 * MS)
		assert_in_range(cupti_clock_map(&c, EPOCH + t + 1000), t + 980, t + 1020);
}

static void forward_step_maps_both_sides(void **state)
{
	struct cupti_clock c = fresh();
	uint64_t step = 5000 * MS;

	for (uint64_t t = 1000; t <= 2000; t += 50)
		sample(&c, t * MS, EPOCH, 50, 25);
	for (uint64_t t = 2050; t <= 3000; t += 50)
		sample(&c, t * MS, (int64_t)(EPOCH + step), 50, 25);
	assert_int_equal(c.steps, 1);
	assert_in_range(cupti_clock_map(&c, EPOCH + 1500 * MS), 1500 * MS - 30, 1500 * MS + 30);
	assert_in_range(cupti_clock_map(&c, EPOCH + step + 2500 * MS), 2500 * MS - 30, 2500 * MS + 30);
	/* inside the hole between the last sample before and the first after */
	assert_in_range(cupti_clock_map(&c, EPOCH + 2010 * MS), 2010 * MS - 30, 2010 * MS + 30);
	assert_in_range(cupti_clock_map(&c, EPOCH + step + 2040 * MS), 2040 * MS - 30, 2040 * MS + 30);
	assert_in_range(cupti_clock_map(&c, EPOCH + step + 9000 * MS), 9000 * MS - 30, 9000 * MS + 30);
}

static void backward_step_maps_what_is_not_ambiguous(void **state)
{
	struct cupti_clock c = fresh();
	uint64_t step = 300 * MS;

	for (uint64_t t = 1000; t <= 2000; t += 50)
		sample(&c, t * MS, EPOCH, 50, 25);
	for (uint64_t t = 2050; t <= 3000; t += 50)
		sample(&c, t * MS, (int64_t)(EPOCH - step), 50, 25);
	assert_int_equal(c.steps, 1);
	assert_in_range(cupti_clock_map(&c, EPOCH + 1200 * MS), 1200 * MS - 30, 1200 * MS + 30);
	assert_in_range(cupti_clock_map(&c, EPOCH - step + 2900 * MS), 2900 * MS - 30, 2900 * MS + 30);
}

static void many_steps_keep_the_newest(void **state)
{
	struct cupti_clock c = fresh();

	for (uint64_t i = 0; i < 100; i++)
		sample(&c, (1000 + i * 10) * MS, (int64_t)(EPOCH + i * 1000 * MS), 50, 25);
	assert_int_equal(c.steps, 99);
	assert_in_range(cupti_clock_map(&c, EPOCH + 99 * 1000 * MS + 1990 * MS), 1990 * MS - 30, 1990 * MS + 30);
}

static void drift_of_an_odd_clock_is_followed_and_not_called_a_step(void **state)
{
	struct cupti_clock c = fresh();

	/* 50 ppm against MONOTONIC, as MONOTONIC_RAW has it */
	for (uint64_t t = 1000; t <= 60000; t += 50) {
		sample(&c, t * MS, (int64_t)(EPOCH + t * MS / 20000), 60, 30);
		assert_in_range(cupti_clock_map(&c, EPOCH + t * MS / 20000 + t * MS), t * MS - 3000, t * MS + 3000);
	}
	assert_int_equal(c.steps, 0);
}

static int fake_realtime(uint64_t *ns)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	*ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return 0;
}

static int fake_raw(uint64_t *ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	*ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return 0;
}

static int fake_own(uint64_t *ns)
{
	fake_raw(ns);
	*ns += 12345678901234;
	return 0;
}

static int fake_dead(uint64_t *ns)
{
	return 15;
}

static void source_is_recognised(void **state)
{
	struct cupti_clock c;
	struct timespec t;
	uint64_t now, source;

	cupti_clock_init(&c, fake_realtime);
	assert_int_equal(c.source, CLOCK_REALTIME);
	cupti_clock_init(&c, fake_dead);
	assert_int_equal(c.source, CLOCK_REALTIME);
	cupti_clock_init(&c, NULL);
	assert_int_equal(c.source, CLOCK_REALTIME);
	cupti_clock_init(&c, fake_own);
	assert_int_equal(c.source, CUPTI_CLOCK_CALL);
	cupti_clock_sample(&c);
	fake_own(&source);
	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	assert_in_range(cupti_clock_map(&c, source), now - 50 * MS, now + MS);
}

static void empty_map_changes_nothing(void **state)
{
	struct cupti_clock c = fresh();

	assert_int_equal(cupti_clock_map(&c, 42), 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constant_offset_is_found_within_the_narrowest_bracket),
		cmocka_unit_test(forward_step_maps_both_sides),
		cmocka_unit_test(backward_step_maps_what_is_not_ambiguous),
		cmocka_unit_test(many_steps_keep_the_newest),
		cmocka_unit_test(drift_of_an_odd_clock_is_followed_and_not_called_a_step),
		cmocka_unit_test(source_is_recognised),
		cmocka_unit_test(empty_map_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
