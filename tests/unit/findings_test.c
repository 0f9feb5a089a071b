/* SPDX-License-Identifier: Apache-2.0
 *
 * From sums to findings: what is listed, in which order, how bad, and who is acquitted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/cause_words.h"
#include "tests/unit/result_sample.h"

static void explain_storage(void *state, const struct result *r, struct finding *f)
{
	free(f->title);
	f->title = mem_copy(state ? state : "nothing collected");
}

static const struct cause storage = { .leaf = LEAF_DATA_STORAGE, .explain = explain_storage };
static const struct seen nothing_seen;

static void finish(struct result *r)
{
	assert_int_equal(findings_make(r, &nothing_seen), 0);
}

static void healthy_run_has_no_finding_and_three_acquittals(void **state)
{
	struct result r = sample_result();
	char *verdict;

	finish(&r);
	assert_int_equal(r.nfindings, 0);
	assert_int_equal(r.nacquittals, 3);
	assert_string_equal(r.acquittals[0], "loss scaler: 0 of 52 steps skipped, not your problem");
	assert_int_equal(r.nwarnings, 0);
	verdict = result_verdict(&r);
	assert_string_equal(verdict, "healthy: 2 GPUs were busy 100.0 % of the steady window (50 steps), nothing to change");
	free(verdict);
	result_free(&r);
}

static void findings_are_sorted_and_graded(void **state)
{
	struct result r = sample_result();

	for (int i = 0; i < 2; i++) {
		struct window_result *w = &r.devices[i].windows[WINDOW_STEADY];

		sample_lose(w, LEAF_COMM_RETRY, 200 * MS);	/* 4 % */
		sample_lose(w, LEAF_DATA_STORAGE, 1500 * MS);	/* 30 % */
		sample_lose(w, LEAF_HOST_COMPUTE, 300 * MS);	/* 6 % */
		sample_lose(w, LEAF_HOST_LAUNCH, 149 * MS);	/* below 3 % */
	}
	finish(&r);
	assert_int_equal(r.nfindings, 3);
	assert_int_equal(r.findings[0].leaf, LEAF_DATA_STORAGE);
	assert_int_equal(r.findings[0].severity, SEVERITY_CRITICAL);
	assert_int_equal(r.findings[0].ns, 3000 * MS);
	assert_float_equal(r.findings[0].share, 0.3, 1e-9);
	assert_int_equal(r.findings[1].severity, SEVERITY_WARN);
	assert_int_equal(r.findings[2].leaf, LEAF_COMM_RETRY);
	assert_int_equal(r.findings[2].severity, SEVERITY_NOTE);
	assert_int_equal(r.headline.data_starvation_ns, 3000 * MS);
	assert_int_equal(r.headline.comm_retry_ns, 400 * MS);
	assert_int_equal(r.headline.other_ns, 2 * 449 * MS);
	assert_int_equal(r.nacquittals, 1);			/* of the suspects only the scaler is left */
	result_free(&r);
}

static void few_steps_are_never_critical(void **state)
{
	struct result r = sample_result();

	r.devices[1].steps.count = 19;
	sample_lose(&r.devices[0].windows[WINDOW_STEADY], LEAF_DATA_STORAGE, 4000 * MS);
	finish(&r);
	assert_int_equal(r.findings[0].severity, SEVERITY_WARN);
	result_free(&r);
}

static void skipped_steps_count_what_they_threw_away(void **state)
{
	struct result r = sample_result();

	for (int i = 0; i < 2; i++) {
		r.devices[i].scaler_skips = r.devices[i].steps.skipped = 10;
		r.devices[i].windows[WINDOW_STEADY].skipped_compute_ns = 900 * MS;
		sample_lose(&r.devices[i].windows[WINDOW_STEADY], LEAF_SCALER_SKIP, 10 * MS);
	}
	finish(&r);
	assert_int_equal(r.nfindings, 1);
	assert_int_equal(r.findings[0].leaf, LEAF_SCALER_SKIP);
	assert_int_equal(r.findings[0].ns, 2 * 910 * MS);
	assert_int_equal(r.headline.scaler_skip_ns, 20 * MS);
	assert_int_equal(r.headline.scaler_wasted_ns, 1800 * MS);
	result_free(&r);
}

static void rare_skips_are_acquitted_with_their_share(void **state)
{
	struct result r = sample_result();

	r.devices[0].scaler_skips = 1;
	r.devices[0].windows[WINDOW_STEADY].skipped_compute_ns = 100 * MS;
	finish(&r);
	assert_int_equal(r.nfindings, 0);
	assert_string_equal(r.acquittals[0], "loss scaler: 1 of 52 steps skipped, 1.0 % of the time, not your problem");
	result_free(&r);
}

static void cause_explains_with_the_state_that_saw_most(void **state)
{
	struct result r = sample_result();
	struct seen_cause rows[] = {
		{ .cause = &storage, .state = "little", .ns = 10, .gaps = 1, .worst_ns = 10, .worst_at_ns = 7 },
		{ .cause = &storage, .state = "much", .ns = 1000, .gaps = 4, .worst_ns = 5, .worst_at_ns = 8 },
	};
	struct seen seen = { rows, 2 };

	sample_lose(&r.devices[0].windows[WINDOW_STEADY], LEAF_DATA_STORAGE, 1000 * MS);
	findings_make(&r, &seen);
	assert_string_equal(r.findings[0].title, "much");
	assert_int_equal(r.findings[0].gaps, 5);
	assert_int_equal(r.findings[0].worst_ns, 10);
	assert_int_equal(r.findings[0].worst_at_ns, 7);
	result_free(&r);
}

static void nothing_below_a_tenth_is_an_unknown_finding(void **state)
{
	struct result r = sample_result();

	sample_lose(&r.devices[0].windows[WINDOW_STEADY], LEAF_UNKNOWN, 999 * MS);
	finish(&r);
	assert_int_equal(r.nfindings, 0);
	assert_int_equal(r.nwarnings, 0);
	result_free(&r);
}

static void much_unknown_is_said_first(void **state)
{
	struct result r = sample_result();

	sample_lose(&r.devices[0].windows[WINDOW_STEADY], LEAF_UNKNOWN, 1000 * MS);
	r.dropped_events = 17;
	r.cut = true;
	r.cut_processes = 1;
	r.warnings = mem_new(1, sizeof(char *));
	r.warnings[r.nwarnings++] = mem_copy("a.pftrace: not a trace");
	finish(&r);
	assert_int_equal(r.nwarnings, 4);
	assert_non_null(strstr(r.warnings[0], "17 events"));
	assert_non_null(strstr(r.warnings[1], "cut"));
	assert_non_null(strstr(r.warnings[2], "10.0 %"));
	assert_string_equal(r.warnings[3], "a.pftrace: not a trace");
	assert_int_equal(r.findings[0].leaf, LEAF_UNKNOWN);
	result_free(&r);
}

static void without_steps_the_run_window_counts(void **state)
{
	struct result r = sample_result();

	for (int i = 0; i < 2; i++) {
		r.devices[i].windows[WINDOW_STEADY].present = false;
		r.devices[i].steps.count = 0;
		sample_lose(&r.devices[i].windows[WINDOW_RUN], LEAF_STARTUP, 3000 * MS);
	}
	finish(&r);
	assert_int_equal(result_window_ns(&r), 12000 * MS);
	assert_int_equal(r.findings[0].severity, SEVERITY_NOTE);	/* a start costs what it costs */
	result_free(&r);
}

static void host_only_run_is_judged_by_its_waits(void **state)
{
	struct result r = { 0 };
	char *verdict;

	r.gpu = "none";
	r.ranks = 1;
	r.nhost_only = 1;
	r.host_only = mem_new(1, sizeof(*r.host_only));
	r.host_only[0] = (struct host_result){ .rank = -1, .wall_ns = 1000 * MS, .data_wait_ns = 400 * MS, .batches = 40, .workers = 2 };
	r.host_only[0].leaf[LEAF_DATA_PREPROCESS] = 400 * MS;
	r.host_only[0].leaf[LEAF_HOST_COMPUTE] = 600 * MS;	/* it trains */
	r.host_only[0].steps.count = 40;
	finish(&r);
	assert_int_equal(r.nfindings, 1);
	assert_int_equal(r.findings[0].severity, SEVERITY_CRITICAL);
	assert_int_equal(r.headline.data_starvation_ns, 400 * MS);
	assert_int_equal(r.headline.other_ns, 0);
	verdict = result_verdict(&r);
	assert_string_equal(verdict, "no GPU work was recorded; the training thread waited 40.0 % of the time for data; largest cause: "
		"data.preprocess, 40.0 %");
	free(verdict);
	result_free(&r);
}

/* One process of a second that waited for nothing; a training loop or not. */
static struct result quiet_host(int64_t batches)
{
	struct result r = { .gpu = "none", .ranks = 1, .nhost_only = 1 };

	r.host_only = mem_new(1, sizeof(*r.host_only));
	r.host_only[0] = (struct host_result){ .rank = -1, .wall_ns = 1000 * MS, .batches = batches };
	r.host_only[0].leaf[LEAF_HOST_COMPUTE] = 1000 * MS;
	finish(&r);
	assert_int_equal(r.nfindings, 0);
	return r;
}

static void only_training_that_ended_well_is_healthy(void **state)
{
	struct result trains = quiet_host(40), none = quiet_host(0), gpu = sample_result();
	struct result *of[] = { &trains, &none, &gpu };
	static const bool well[] = { true, false, true };

	finish(&gpu);
	for (int i = 0; i < 3; i++) {
		for (int failed = 0; failed < 2; failed++) {
			char *verdict;

			of[i]->ending = failed ? mem_copy("the job ended with status 2 after 3 ms") : NULL;
			verdict = result_verdict(of[i]);
			assert_int_equal(result_is_healthy(of[i]), well[i] && !failed);
			assert_int_equal(!strncmp(verdict, "healthy", 7), well[i] && !failed);
			assert_int_equal(!!strstr(verdict, "nothing to change"), well[i] && !failed);
			assert_int_equal(!!strstr(verdict, "no training loop"), i == 1);
			free(verdict);
		}
		result_free(of[i]);
	}
}

static void words_know_whether_there_is_a_gpu(void **state)
{
	struct result r = { .ndevices = 1 };

	assert_string_equal(words_waiter(&r, true), "The GPU");
	r.ndevices = 0;
	assert_string_equal(words_waiter(&r, true), "Training");
	assert_string_equal(words_waiter(&r, false), "training");
}

static void empty_result_has_a_verdict_too(void **state)
{
	struct result r = { 0 };
	char *verdict;

	finish(&r);
	assert_int_equal(r.nfindings, 0);
	verdict = result_verdict(&r);
	assert_non_null(strstr(verdict, "neither GPU work nor"));
	free(verdict);
	result_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_run_has_no_finding_and_three_acquittals),
		cmocka_unit_test(findings_are_sorted_and_graded),
		cmocka_unit_test(few_steps_are_never_critical),
		cmocka_unit_test(skipped_steps_count_what_they_threw_away),
		cmocka_unit_test(rare_skips_are_acquitted_with_their_share),
		cmocka_unit_test(cause_explains_with_the_state_that_saw_most),
		cmocka_unit_test(nothing_below_a_tenth_is_an_unknown_finding),
		cmocka_unit_test(much_unknown_is_said_first),
		cmocka_unit_test(without_steps_the_run_window_counts),
		cmocka_unit_test(host_only_run_is_judged_by_its_waits),
		cmocka_unit_test(only_training_that_ended_well_is_healthy),
		cmocka_unit_test(words_know_whether_there_is_a_gpu),
		cmocka_unit_test(empty_result_has_a_verdict_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
