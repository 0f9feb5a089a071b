/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts and line tables of CPython (shim/pystack_layout.h). That the layouts are those of real interpreters is tests/e2e/python_stacks_test.sh's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shim/pystack_layout.h"

struct table { const unsigned char *p; size_t n; };

static int next(void *ctx)
{
	struct table *t = ctx;

	return t->n ? (t->n--, *t->p++) : -1;
}

#define LINE(kind, first, offset, ...) \
	(__extension__({ \
		static const unsigned char bytes_[] = { __VA_ARGS__ }; \
		struct table t_ = { bytes_, sizeof(bytes_) }; \
		pystack_line(kind, first, offset, next, &t_); \
	}))

static void lnotab_goes_back_and_forth(void **state)
{
	(void)state;
	assert_int_equal(LINE(TABLE_LNOTAB, 10, 0, 4, 1, 6, 0xff), 10);
	assert_int_equal(LINE(TABLE_LNOTAB, 10, 4, 4, 1, 6, 0xff), 11);
	assert_int_equal(LINE(TABLE_LNOTAB, 10, 9, 4, 1, 6, 0xff), 11);
	assert_int_equal(LINE(TABLE_LNOTAB, 10, 10, 4, 1, 6, 0xff), 10);
	assert_int_equal(LINE(TABLE_LNOTAB, 10, 400, 255, 0, 45, 3), 13);
}

static void pairs_name_the_line_of_their_bytes(void **state)
{
	(void)state;
	assert_int_equal(LINE(TABLE_PAIRS, 10, 0, 4, 0, 6, 2), 10);
	assert_int_equal(LINE(TABLE_PAIRS, 10, 4, 4, 0, 6, 2), 12);
	assert_int_equal(LINE(TABLE_PAIRS, 10, 5, 4, 0, 4, 0x80, 6, 2), -1);
	assert_int_equal(LINE(TABLE_PAIRS, 10, 9, 4, 0, 4, 0x80, 6, 2), 12);
	assert_int_equal(LINE(TABLE_PAIRS, 10, 99, 4, 0, 6, 2), -1);
}

static void varints_of_each_kind(void **state)
{
	(void)state;
	/* kind 11 (one line on, two columns), 2 units; kind 0 (same line), 1 unit; kind 13 with a line 70 back, 1 unit; kind 14, 1 unit; none */
	static const unsigned char t[] = { 0x80 | 11 << 3 | 1, 1, 2, 0x80, 3, 0x80 | 13 << 3, 0x40 | (141 & 63), 141 >> 6, 0x80 | 14 << 3, 4, 0, 1, 2,
		0x80 | 15 << 3 };
	static const int want[] = { 101, 101, 101, 31, 33, -1, -1 };

	(void)state;
	for (int unit = 0; unit < 7; unit++) {
		struct table table = { t, sizeof(t) };

		assert_int_equal(pystack_line(TABLE_VARINT, 100, unit * 2, next, &table), want[unit]);
	}
}

static void every_cut_table_ends(void **state)
{
	static const unsigned char t[] = { 0x80 | 14 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0xff, 0x80 | 11 << 3 | 1, 1 };

	(void)state;
	for (int kind = TABLE_LNOTAB; kind <= TABLE_VARINT; kind++)
		for (size_t n = 0; n <= sizeof(t); n++) {
			struct table table = { t, n };

			pystack_line(kind, 1, 1000, next, &table);
			assert_true(table.n <= n);
		}
}

static void layouts_by_version(void **state)
{
	(void)state;
	assert_non_null(pystack_layout_of("3.9.18 (main, Nov 30 2026)"));
	assert_non_null(pystack_layout_of("3.12.1 (main)"));
	assert_null(pystack_layout_of("3.8.18 (default)"));
	assert_null(pystack_layout_of("3.1.0"));
	assert_null(pystack_layout_of("3.15.0a1 (main)"));
	assert_null(pystack_layout_of("3.12.1 experimental free-threading build"));
}

/* The table as 3.14 has it: the numbers of its words are what is tested, the offsets are any. */
static void fill_314(uint64_t *w)
{
	memset(w, 0, PYSTACK_TABLE_WORDS * sizeof(*w));
	memcpy(w, "xdebugpy", 8);
	w[1] = 0x030e00f0;
	w[22] = 800, w[26] = 72;
	w[31] = 96, w[32] = 8, w[33] = 0, w[34] = 56, w[35] = 80, w[36] = 74;
	w[39] = 208, w[40] = 112, w[41] = 120, w[42] = 128, w[43] = 136, w[44] = 68, w[48] = 200;
	w[51] = 8, w[76] = 32, w[79] = 16, w[80] = 40;
}

static void table_of_offsets_is_believed_only_when_it_agrees_with_itself(void **state)
{
	uint64_t w[PYSTACK_TABLE_WORDS];
	struct pystack_layout l;

	(void)state;
	fill_314(w);
	assert_true(pystack_layout_from(w, &l));
	assert_int_equal(l.state_frame, 72);
	assert_int_equal(l.code_code, 200);
	assert_int_equal(l.frame_owner, 74);
	w[1] = 0x030e00b3;	/* a beta */
	assert_false(pystack_layout_from(w, &l));
	w[1] = 0x030f00f0;
	assert_false(pystack_layout_from(w, &l));
	fill_314(w);
	w[2] = 1;		/* free-threaded */
	assert_false(pystack_layout_from(w, &l));
	fill_314(w);
	w[1] = 0x030d00f0;	/* other words */
	assert_false(pystack_layout_from(w, &l));
	fill_314(w);
	w[48] = 4000;		/* outside of its struct */
	assert_false(pystack_layout_from(w, &l));
	fill_314(w);
	w[0]++;
	assert_false(pystack_layout_from(w, &l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lnotab_goes_back_and_forth),
		cmocka_unit_test(pairs_name_the_line_of_their_bytes),
		cmocka_unit_test(varints_of_each_kind),
		cmocka_unit_test(every_cut_table_ends),
		cmocka_unit_test(layouts_by_version),
		cmocka_unit_test(table_of_offsets_is_believed_only_when_it_agrees_with_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
