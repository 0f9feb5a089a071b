/* SPDX-License-Identifier: Apache-2.0
 *
 * --fail-if: what is accepted, what is refused with a hint, what holds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "analyzer/fail_if.h"
#include "tests/unit/result_sample.h"

static struct fail_if parsed(const char *text)
{
	struct fail_if f;
	char why[256] = "";

	if (fail_if_parse(&f, text, why))
		fail_msg("%s: %s", text, why);
	return f;
}

static int holds(const char *text, const struct result *r)
{
	struct fail_if f = parsed(text);
	char found[64];

	return fail_if_holds(&f, r, found);
}

/* 20 % storage on both ranks, 6 % retries on one. */
static struct result slow_result(void)
{
	struct result r = sample_result();

	for (int i = 0; i < 2; i++)
		sample_lose(&r.devices[i].windows[WINDOW_STEADY], LEAF_DATA_STORAGE, 1000 * MS);
	sample_lose(&r.devices[0].windows[WINDOW_STEADY], LEAF_COMM_RETRY, 600 * MS);
	findings_make(&r, &(struct seen){ 0 });
	return r;
}

static void grammar_is_forgiving_about_blanks_only(void **state)
{
	static const char *const good[] = { "idle>20%", "  idle  >=  20.5 %  ", "data.storage>=5%", "unknown > 10%", "findings > 0", "lost>500ms",
		"comm.retry < .5s", "findings==0", "compute<90%", "other_comm!=0%", "dropped>0", "idle>20. %" };
	static const char *const bad[] = { "", "idle", "idle >", "idle > x", "idle > 20", "idle => 20%", "idle > 20%%", "findings > 5%", "findings > 1s",
		"idel > 20%", "> 20%", "idle > 20% and lost > 5%", "idle > 20 percent", "idle > -5%", "idle = 5%", "idle > inf%", "idle > 0x10%",
		"a_name_that_is_much_longer_than_any_subject_or_leaf_could_ever_be_in_practice > 5%" };
	struct fail_if f;
	char why[256];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		parsed(good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why[0] = 0;
		if (!fail_if_parse(&f, bad[i], why))
			fail_msg("accepted: %s", bad[i]);
		assert_true(strlen(why) > 20);
	}
}

static void shares_times_and_counts_are_compared(void **state)
{
	struct result r = slow_result();

	assert_int_equal(holds("idle > 19.9%", &r), 1);
	assert_int_equal(holds("idle > 20%", &r), 0);
	assert_int_equal(holds("idle >= 20%", &r), 1);
	assert_int_equal(holds("data >= 2s", &r), 1);
	assert_int_equal(holds("data > 2000ms", &r), 0);
	assert_int_equal(holds("data.storage == 2s", &r), 1);
	assert_int_equal(holds("lost == 26%", &r), 1);
	assert_int_equal(holds("retries > 6%", &r), 0);
	assert_int_equal(holds("comm.retry >= 6%", &r), 1);
	assert_int_equal(holds("findings > 1", &r), 1);
	assert_int_equal(holds("criticals == 1", &r), 1);
	assert_int_equal(holds("warnings >= 2", &r), 1);
	assert_int_equal(holds("dropped != 0", &r), 0);
	assert_int_equal(holds("unknown > 0%", &r), 0);
	assert_int_equal(holds("exposed_comm > 5%", &r), 1);
	result_free(&r);
}

static void states_of_no_device_cannot_be_told(void **state)
{
	struct result r = { 0 };

	assert_int_equal(holds("idle > 1%", &r), -1);
	assert_int_equal(holds("data > 1%", &r), -1);
	assert_int_equal(holds("findings > 0", &r), 0);
	r.nhost_only = 1;
	r.host_only = mem_new(1, sizeof(*r.host_only));
	r.host_only[0].wall_ns = 100;
	r.host_only[0].leaf[LEAF_DATA_REMOTE] = 50;
	findings_make(&r, &(struct seen){ 0 });
	assert_int_equal(holds("data > 49%", &r), 1);
	assert_int_equal(holds("idle > 1%", &r), -1);
	assert_int_equal(holds("skipped > 1", &r), -1);
	result_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grammar_is_forgiving_about_blanks_only),
		cmocka_unit_test(shares_times_and_counts_are_compared),
		cmocka_unit_test(states_of_no_device_cannot_be_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
