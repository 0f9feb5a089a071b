/* SPDX-License-Identifier: Apache-2.0
 *
 * Which frame of a stack is shown, and which stacks make samples (analyzer/where.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/where.h"

static void assert_own(const char *at, const char *want)
{
	char frame[64];

	where_own(at, frame, sizeof(frame));
	assert_string_equal(frame, want);
}

static void innermost_frame_of_the_programs_own_files(void **state)
{
	(void)state;
	assert_own("train.py:87 in __getitem__", "train.py:87 in __getitem__");
	assert_own("python/socket.py:700 in readinto < requests/api.py:5 in get < data.py:9 in load < train.py:1 in <module>", "data.py:9 in load");
	assert_own("<frozen runpy>:88 in _run_code < ?:3 in f < a.py:1 in g", "a.py:1 in g");
}

static void innermost_frame_when_none_is_own(void **state)
{
	(void)state;
	assert_own("python/threading.py:359 in wait < torch/utils/data/dataloader.py:3 in get", "python/threading.py:359 in wait");
	assert_own("", "");
	assert_own("no colon", "no colon");
}

static void long_frames_are_cut(void **state)
{
	char frame[8];

	(void)state;
	where_own("train.py:87 in __getitem__", frame, sizeof(frame));
	assert_string_equal(frame, "train.p");
}

static void samples_are_made_in_loaders_and_data_sets(void **state)
{
	(void)state;
	assert_true(where_loads("a.py:1 in decode < a.py:9 in __getitem__ < a.py:20 in main"));
	assert_true(where_loads("a.py:1 in f < torch/utils/data/_utils/fetch.py:54 in fetch"));
	assert_false(where_loads("python/queue.py:1 in get < torch/utils/data/dataloader.py:1275 in _try_get_data < a.py:9 in main"));
	assert_false(where_loads("a.py:1 in save < a.py:9 in main"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(innermost_frame_of_the_programs_own_files),
		cmocka_unit_test(innermost_frame_when_none_is_own),
		cmocka_unit_test(long_frames_are_cut),
		cmocka_unit_test(samples_are_made_in_loaders_and_data_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
