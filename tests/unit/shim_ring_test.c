/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/ring.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct ring *make(uint32_t places)
{
	void *mem = aligned_alloc(64, ring_bytes(places));

	assert_non_null(mem);
	memset(mem, 0, ring_bytes(places));
	return ring_init(mem, places);
}

static bool put(struct ring *r, uint64_t serial)
{
	if (!ring_has_room(r, 1))
		return false;
	ring_place(r, 0)->call.serial = serial;
	ring_push(r, 1);
	return true;
}

static void ring_gives_back_what_was_pushed_in_order(void **state)
{
	struct ring *r = make(8);
	uint64_t i, taken = 0;

	for (i = 0; i < 100; i++) {
		assert_true(put(r, i));
		if (i % 3 == 2)
			for (; ring_used(r); taken++) {
				assert_int_equal(ring_peek(r, 0)->call.serial, taken);
				ring_take(r, 1);
			}
	}
	free(r);
}

static void ring_drops_when_full(void **state)
{
	struct ring *r = make(4);
	uint64_t i;

	for (i = 0; i < 4; i++)
		assert_true(put(r, i));
	assert_false(put(r, 4));
	assert_int_equal(ring_used(r), 4);
	ring_take(r, 1);
	assert_true(put(r, 5));
	assert_false(ring_has_room(r, 1));
	free(r);
}

static void ring_keeps_pairs_together_over_the_seam(void **state)
{
	struct ring *r = make(8);
	uint64_t i;

	for (i = 0; i < 50; i++) {
		assert_true(put(r, i));
		assert_true(ring_has_room(r, 2));
		ring_place(r, 0)->call.serial = 1000 + i;
		ring_place(r, 1)->nccl.seq = 2000 + i;
		ring_push(r, 2);
		assert_int_equal(ring_used(r), 3);
		assert_int_equal(ring_peek(r, 0)->call.serial, i);
		assert_int_equal(ring_peek(r, 1)->call.serial, 1000 + i);
		assert_int_equal(ring_peek(r, 2)->nccl.seq, 2000 + i);
		ring_take(r, 3);
	}
	assert_true(put(r, 0));
	for (i = 0; i < 6; i++)
		assert_true(put(r, i));
	assert_false(ring_has_room(r, 2));
	assert_true(ring_has_room(r, 1));
	free(r);
}

enum { MANY = 300000 };

static void *producer(void *arg)
{
	struct ring *r = arg;
	uint64_t i = 0;

	while (i < MANY)
		if (ring_has_room(r, 1)) {
			struct event *e = &ring_place(r, 0)->call;

			e->serial = i;
			e->start_ns = ~i;
			ring_push(r, 1);
			i++;
		}
	return NULL;
}

static void ring_between_two_threads_loses_and_tears_nothing(void **state)
{
	struct ring *r = make(64);
	uint64_t i = 0;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, producer, r), 0);
	while (i < MANY)
		if (ring_used(r)) {
			const struct event *e = &ring_peek(r, 0)->call;

			assert_int_equal(e->serial, i);
			assert_int_equal(e->start_ns, ~i);
			ring_take(r, 1);
			i++;
		}
	pthread_join(t, NULL);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_gives_back_what_was_pushed_in_order),
		cmocka_unit_test(ring_drops_when_full),
		cmocka_unit_test(ring_keeps_pairs_together_over_the_seam),
		cmocka_unit_test(ring_between_two_threads_loses_and_tears_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
