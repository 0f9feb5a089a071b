/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of calls against its one list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/calls.h"

static const struct {
	enum call call;
	const char *name;
	enum call_class class;
} rows[] = {
#define CALL(name, class) {CALL_##name, #name, CLASS_##class},
#include "trace/calls.def"
#undef CALL
};

#define NROWS (sizeof(rows) / sizeof(rows[0]))

static void calls_have_their_names_and_classes(void **state)
{
	(void)state;
	assert_int_equal(NROWS + 1, CALL_COUNT);
	for (size_t i = 0; i < NROWS; i++) {
		assert_string_equal(call_name(rows[i].call), rows[i].name);
		assert_int_equal(call_class(rows[i].call), rows[i].class);
		assert_true(rows[i].class != CLASS_NONE);
	}
}

static void calls_are_found_by_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < NROWS; i++) {
		size_t len = strlen(rows[i].name);
		/* not terminated, and with something behind it */
		char *bare = malloc(len), longer[128];

		memcpy(bare, rows[i].name, len);
		assert_int_equal(call_by_name(bare, len), rows[i].call);
		free(bare);
		memcpy(longer, rows[i].name, len);
		longer[len] = '_';
		assert_int_equal(call_by_name(longer, len), rows[i].call);
		assert_int_equal(call_by_name(longer, len + 1), CALL_NONE);
	}
}

static void calls_that_are_none_are_told_so(void **state)
{
	char *long_name = malloc(100000);
	(void)state;

	memset(long_name, 'r', 100000);
	assert_int_equal(call_by_name("", 0), CALL_NONE);
	assert_int_equal(call_by_name("?", 1), CALL_NONE);
	assert_int_equal(call_by_name("rea", 3), CALL_NONE);
	assert_int_equal(call_by_name("READ", 4), CALL_NONE);
	assert_int_equal(call_by_name("read\0", 5), CALL_NONE);
	assert_int_equal(call_by_name(long_name, 100000), CALL_NONE);
	assert_string_equal(call_name(CALL_NONE), "?");
	assert_string_equal(call_name(CALL_COUNT), "?");
	assert_string_equal(call_name((enum call)-1), "?");
	assert_int_equal(call_class(CALL_NONE), CLASS_NONE);
	assert_int_equal(call_class(CALL_COUNT), CLASS_NONE);
	assert_int_equal(call_class((enum call)-1), CLASS_NONE);
	free(long_name);
}

static void calls_have_each_name_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < NROWS; i++)
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(rows[i].name, rows[j].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_have_their_names_and_classes),
		cmocka_unit_test(calls_are_found_by_name),
		cmocka_unit_test(calls_that_are_none_are_told_so),
		cmocka_unit_test(calls_have_each_name_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
