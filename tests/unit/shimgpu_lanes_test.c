/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: whatever comes in whatever order, two operations on one lane never overlap, and lanes are few where they can be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "shim/cupti_lanes.h"

static int reset(void **state)
{
	lanes_reset();
	return 0;
}

static void streams_are_told_apart_by_device_context_and_number(void **state)
{
	struct lanes_stream *a = lanes_stream(0, 1, 7), *b = lanes_stream(1, 1, 7), *c = lanes_stream(0, 2, 7), *d = lanes_stream(0, 1, 8);

	assert_true(a != b && a != c && a != d && b != c && b != d && c != d);
	assert_ptr_equal(lanes_stream(0, 1, 7), a);
	assert_ptr_equal(lanes_stream(0, 2, 7), c);
	assert_int_equal(a->index, 0);
	assert_int_equal(d->index, 3);
}

static void operations_one_after_another_share_a_lane(void **state)
{
	struct lanes_stream *s = lanes_stream(0, 1, 7);

	for (uint64_t t = 1000; t < 1000000; t += 100)
		assert_int_equal(lanes_book(s, t, t + (t % 200 ? 100 : 60)), 0);
	assert_int_equal(s->lanes, 1);
}

static void overlap_takes_a_second_lane(void **state)
{
	struct lanes_stream *s = lanes_stream(0, 1, 7);

	assert_int_equal(lanes_book(s, 100, 200), 0);
	assert_int_equal(lanes_book(s, 150, 250), 1);
	assert_int_equal(lanes_book(s, 200, 300), 0);
	assert_int_equal(lanes_book(s, 199, 301), 2);
	assert_int_equal(lanes_book(s, 250, 260), 1);
}

static void late_record_finds_the_hole_it_belongs_to(void **state)
{
	struct lanes_stream *s = lanes_stream(0, 1, 7);

	assert_int_equal(lanes_book(s, 100, 200), 0);
	assert_int_equal(lanes_book(s, 400, 500), 0);
	assert_int_equal(lanes_book(s, 250, 350), 0);
	assert_int_equal(lanes_book(s, 340, 390), 1);
	/* touching an operation that is in the file already would nest it */
	assert_int_equal(lanes_book(s, 350, 400), 2);
}

static void operation_without_end_keeps_its_lane(void **state)
{
	struct lanes_stream *s = lanes_stream(0, 1, 7);

	assert_int_equal(lanes_book(s, 100, UINT64_MAX), 0);
	assert_int_equal(lanes_book(s, 200, 300), 1);
	assert_int_equal(lanes_book(s, 50, 90), 0);
	assert_int_equal(lanes_book(s, 1000000, 1000001), 1);
}

static void full_stream_says_so(void **state)
{
	struct lanes_stream *s = lanes_stream(0, 1, 7);

	for (int i = 0; i < LANES_PER_STREAM; i++)
		assert_int_equal(lanes_book(s, 100, 200), i);
	assert_int_equal(lanes_book(s, 100, 200), -1);
	assert_int_equal(lanes_book(s, 200, 300), 0);
	for (unsigned int i = 1; i < LANES_STREAMS; i++)
		assert_non_null(lanes_stream(0, 1, 7 + i));
	assert_null(lanes_stream(9, 9, 9));
}

struct booked {
	uint64_t start, end;
	int lane;
};

static void random_operations_never_overlap_on_a_lane(void **state)
{
	enum { N = 3000 };
	static struct booked all[N];
	unsigned int seed = (unsigned int)time(NULL);
	struct lanes_stream *s = lanes_stream(2, 1, 3);

	print_message("seed %u\n", seed);
	srand(seed);
	for (int i = 0; i < N; i++) {
		struct booked *b = &all[i];

		b->start = 1000000 + (uint64_t)i * 50 - (rand() % 4 ? 0 : (uint64_t)(rand() % 3000));
		b->end = b->start + (uint64_t)(rand() % 120);
		b->lane = lanes_book(s, b->start, b->end);
		assert_true(b->lane >= 0);
		for (int j = i - 1; j >= 0 && j > i - 500; j--) {
			if (all[j].lane == b->lane)
				assert_true(all[j].end <= b->start || b->end <= all[j].start);
		}
	}
	assert_true(s->lanes <= 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(streams_are_told_apart_by_device_context_and_number, reset),
		cmocka_unit_test_setup(operations_one_after_another_share_a_lane, reset),
		cmocka_unit_test_setup(overlap_takes_a_second_lane, reset),
		cmocka_unit_test_setup(late_record_finds_the_hole_it_belongs_to, reset),
		cmocka_unit_test_setup(operation_without_end_keeps_its_lane, reset),
		cmocka_unit_test_setup(full_stream_says_so, reset),
		cmocka_unit_test_setup(random_operations_never_overlap_on_a_lane, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
