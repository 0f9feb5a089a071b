/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/strings.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "trace/calls.h"

static void is(enum pf_table table, uint32_t iid, const char *text)
{
	const struct pf_strings *s = strings_lookup();
	size_t len = 0;
	const char *p = s->lookup(s->ctx, table, iid, &len);

	assert_non_null(p);
	assert_int_equal(len, strlen(text));
	assert_memory_equal(p, text, len);
}

static void calls_and_keys_have_their_numbers_from_the_start(void **state)
{
	is(PF_NAMES, CALL_read, "read");
	is(PF_NAMES, CALL_ncclAllReduce, "ncclAllReduce");
	is(PF_KEYS, KEY_target, "target");
	is(PF_KEYS, KEY_role, "role");
}

static void equal_strings_have_one_number_per_table(void **state)
{
	uint32_t a = strings_intern(PF_NAMES, "kernel", 6);

	assert_true(a >= CALL_COUNT);
	assert_int_equal(strings_intern(PF_NAMES, "kernel", 6), a);
	assert_int_not_equal(strings_intern(PF_NAMES, "kerne", 5), a);
	is(PF_NAMES, a, "kernel");
	is(PF_STRINGS, strings_intern(PF_STRINGS, "kernel", 6), "kernel");
}

static void unknown_numbers_have_no_bytes(void **state)
{
	const struct pf_strings *s = strings_lookup();
	size_t len;

	assert_null(s->lookup(s->ctx, PF_STRINGS, 0, &len));
	assert_null(s->lookup(s->ctx, PF_NAMES, 16384, &len));
	assert_null(s->lookup(s->ctx, PF_KEYS, 0x7ffffffe, &len));
}

static void long_strings_are_refused(void **state)
{
	static char big[5000];
	uint64_t before = strings_refused();

	memset(big, 'x', sizeof(big));
	assert_int_equal(strings_intern(PF_STRINGS, big, sizeof(big)), 0);
	assert_int_equal(strings_target(big, sizeof(big)), 0);
	assert_int_equal(strings_refused(), before + 2);
}

static void *intern_same(void *out)
{
	uint32_t *iid = out;
	char text[32];
	int i;

	for (i = 0; i < 500; i++)
		iid[i] = strings_intern(PF_NAMES, text, (size_t)sprintf(text, "shared %d", i));
	return NULL;
}

static void threads_agree_on_numbers(void **state)
{
	static uint32_t iid[4][500];
	pthread_t t[4];
	char text[32];
	int i, k;

	for (i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, intern_same, iid[i]);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (k = 0; k < 500; k++) {
		sprintf(text, "shared %d", k);
		for (i = 0; i < 4; i++)
			assert_int_equal(iid[i][k], iid[0][k]);
		is(PF_NAMES, iid[0][k], text);
	}
}

/* A data set of a million files must not use up the table, and no target may ever name another file. */
static void targets_never_end_and_never_lie(void **state)
{
	static uint64_t target[50000];
	char text[64];
	unsigned i, readable = 0;

	for (i = 0; i < 50000; i++) {
		target[i] = strings_target(text, (size_t)sprintf(text, "/data/set/file-%u.jpg", i));
		assert_true(target[i] != 0);
		assert_true(strings_target_fresh(target[i]));
		is(PF_STRINGS, strings_target_iid(target[i]), text);
	}
	for (i = 0; i < 50000; i++) {
		uint32_t iid = strings_target_iid(target[i]);

		if (!iid) {
			assert_false(strings_target_fresh(target[i]));
			continue;
		}
		readable++;
		sprintf(text, "/data/set/file-%u.jpg", i);
		is(PF_STRINGS, iid, text);
	}
	assert_in_range(readable, STRINGS_FEW + 10000, 49000);
}

static void a_full_table_refuses_and_goes_on(void **state)
{
	char text[32];
	unsigned i, got = 0;

	for (i = 0; i < 20000; i++)
		got += strings_intern(PF_NAMES, text, (size_t)sprintf(text, "name %u", i)) != 0;
	assert_in_range(got, 10000, 16384);
	is(PF_NAMES, strings_intern(PF_NAMES, "name 5", 6), "name 5");
	assert_true(strings_refused() > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_and_keys_have_their_numbers_from_the_start),
		cmocka_unit_test(equal_strings_have_one_number_per_table),
		cmocka_unit_test(unknown_numbers_have_no_bytes),
		cmocka_unit_test(long_strings_are_refused),
		cmocka_unit_test(threads_agree_on_numbers),
		cmocka_unit_test(targets_never_end_and_never_lie),
		cmocka_unit_test(a_full_table_refuses_and_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
