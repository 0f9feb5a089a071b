/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool that CUPTI writes into: handed out on many threads, completed on others, read by one; never refused.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shim/cupti_buffers.h"

static bool urgent;

static int prepare(void **state)
{
	assert_int_equal(cupti_buffers_init(8), 0);
	cupti_buffers_forget();
	return 0;
}

static uint8_t *request(size_t *size)
{
	uint8_t *buffer = NULL;
	size_t max = 1;

	cupti_buffers_request(&buffer, size, &max);
	assert_non_null(buffer);
	assert_int_equal((uintptr_t)buffer % 8, 0);
	assert_int_equal(max, 0);
	return buffer;
}

static void buffer_comes_back_once_with_its_records(void **state)
{
	size_t size, valid = 0;
	uint8_t *buffer = request(&size);

	assert_int_equal(size, CUPTI_BUFFER_BYTES);
	assert_null(cupti_buffers_next(&valid));
	assert_true(cupti_buffers_complete(buffer, 1234, &urgent));
	assert_true(cupti_buffers_unread());
	assert_ptr_equal(cupti_buffers_next(&valid), buffer);
	assert_int_equal(valid, 1234);
	assert_true(cupti_buffers_unread());
	assert_null(cupti_buffers_next(&valid));
	cupti_buffers_free(buffer);
	assert_false(cupti_buffers_unread());
}

static void buffers_are_zero_when_handed_out(void **state)
{
	size_t size, valid;
	uint8_t *buffer = request(&size);

	memset(buffer, 0xff, size);
	cupti_buffers_complete(buffer, size, &urgent);
	cupti_buffers_free(cupti_buffers_next(&valid));
	assert_ptr_equal(request(&size), buffer);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(buffer[i], 0);
}

static void empty_pool_gives_spare_buffers_that_are_only_counted(void **state)
{
	uint64_t before = cupti_buffers_exhausted();
	uint8_t *all[8], *spare[600];
	size_t size;

	for (int i = 0; i < 8; i++)
		all[i] = request(&size);
	for (int i = 0; i < 600; i++) {
		spare[i] = request(&size);
		assert_true(size > 0 && size < CUPTI_BUFFER_BYTES);
		memset(spare[i], 1, size);
		for (int j = 0; j < 8; j++)
			assert_true(spare[i] < all[j] || spare[i] >= all[j] + CUPTI_BUFFER_BYTES);
	}
	assert_int_equal(cupti_buffers_exhausted() - before, 600);
	assert_ptr_not_equal(spare[0], spare[1]);
	assert_false(cupti_buffers_complete(spare[0], 100, &urgent));
	cupti_buffers_free(spare[0]);
	assert_ptr_equal(request(&size), spare[0]);
	assert_int_equal(spare[0][0], 0);
}

static void quarter_of_the_pool_is_urgent(void **state)
{
	size_t size, valid;
	uint8_t *a = request(&size), *b = request(&size);

	urgent = false;
	cupti_buffers_complete(a, 8, &urgent);
	assert_false(urgent);
	cupti_buffers_complete(b, 8, &urgent);
	assert_true(urgent);
	while ((a = cupti_buffers_next(&valid)))
		cupti_buffers_free(a);
	urgent = false;
	cupti_buffers_complete(request(&size), 8, &urgent);
	assert_false(urgent);
}

static void foreign_memory_is_refused(void **state)
{
	static uint8_t foreign[64];

	assert_false(cupti_buffers_complete(foreign, 10, &urgent));
	cupti_buffers_free(foreign);
}

static void oldest_request_is_known(void **state)
{
	size_t size, valid;
	uint64_t first;
	uint8_t *a, *b;

	assert_true(cupti_buffers_oldest_ns() == UINT64_MAX);
	a = request(&size);
	first = cupti_buffers_oldest_ns();
	b = request(&size);
	assert_true(cupti_buffers_oldest_ns() == first);
	cupti_buffers_complete(a, 0, &urgent);
	assert_true(cupti_buffers_oldest_ns() >= first && cupti_buffers_oldest_ns() < UINT64_MAX);
	cupti_buffers_complete(b, 0, &urgent);
	assert_true(cupti_buffers_oldest_ns() == UINT64_MAX);
	while ((a = cupti_buffers_next(&valid)))
		cupti_buffers_free(a);
}

enum { WRITERS = 4, ROUNDS = 3000 };
static _Atomic uint64_t written, lost;

/* What an application thread and CUPTI's worker do, in one: fill, and hand back. */
static void *writer(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		bool soon = false;
		size_t size, max;
		uint64_t *buffer;

		cupti_buffers_request((uint8_t **)&buffer, &size, &max);
		buffer[0] = (uint64_t)i + 1;
		buffer[1] = (uintptr_t)arg;
		if (cupti_buffers_complete((uint8_t *)buffer, 16, &soon)) {
			atomic_fetch_add(&written, 1);
		} else {
			atomic_fetch_add(&lost, 1);
			cupti_buffers_free((uint8_t *)buffer);
		}
	}
	return NULL;
}

static void many_threads_lose_nothing_uncounted(void **state)
{
	pthread_t threads[WRITERS];
	uint64_t read = 0;
	size_t valid;
	uint8_t *b;

	for (uintptr_t i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, writer, (void *)(i + 1));
	while (read + atomic_load(&lost) < WRITERS * ROUNDS) {
		while ((b = cupti_buffers_next(&valid))) {
			uint64_t *w = (uint64_t *)b;

			assert_int_equal(valid, 16);
			assert_in_range(w[0], 1, ROUNDS);
			assert_in_range(w[1], 1, WRITERS);
			cupti_buffers_free(b);
			read++;
		}
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(read, atomic_load(&written));
	assert_false(cupti_buffers_unread());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(buffer_comes_back_once_with_its_records, prepare),
		cmocka_unit_test_setup(buffers_are_zero_when_handed_out, prepare),
		cmocka_unit_test_setup(empty_pool_gives_spare_buffers_that_are_only_counted, prepare),
		cmocka_unit_test_setup(quarter_of_the_pool_is_urgent, prepare),
		cmocka_unit_test_setup(foreign_memory_is_refused, prepare),
		cmocka_unit_test_setup(oldest_request_is_known, prepare),
		cmocka_unit_test_setup(many_threads_lose_nothing_uncounted, prepare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
