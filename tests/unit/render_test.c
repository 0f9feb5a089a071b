/* SPDX-License-Identifier: Apache-2.0
 *
 * Text and JSON say the same; a healthy run is one line; nothing that a trace holds can reach the terminal raw.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "analyzer/render.h"
#include "analyzer/util.h"
#include "tests/unit/result_sample.h"

static char *as_text(const struct result *r, struct render_options opt)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_int_equal(render_text(f, r, &opt), 0);
	fclose(f);
	return text;
}

static json_t *as_json(const struct result *r)
{
	char *text = NULL;
	size_t len;
	json_error_t err;
	FILE *f = open_memstream(&text, &len);
	json_t *j;

	assert_int_equal(render_json(f, r), 0);
	fclose(f);
	j = json_loads(text, 0, &err);
	if (!j)
		fail_msg("line %d: %s", err.line, err.text);
	free(text);
	return j;
}

static int64_t sum_of(json_t *o)
{
	const char *key;
	int64_t sum = 0;
	json_t *v;

	json_object_foreach(o, key, v)
		sum += json_integer_value(v);
	return sum;
}

static struct result slow_result(void)
{
	struct result r = sample_result();

	for (int i = 0; i < 2; i++) {
		struct window_result *w = &r.devices[i].windows[WINDOW_STEADY];

		sample_lose(w, LEAF_DATA_STORAGE, 1000 * MS + i);
		sample_lose(w, LEAF_COMM_RETRY, 400 * MS);
		sample_lose(w, LEAF_SCALER_SKIP, 20 * MS);
		sample_lose(w, LEAF_UNKNOWN, 3 * MS);
		w->skipped_compute_ns = 500 * MS;
	}
	findings_make(&r, &(struct seen){ 0 });
	r.findings[0].worst_at_ns = 3500 * MS;
	r.findings[0].worst_ns = 80 * MS;
	r.findings[0].gaps = 40;
	sample_say(&r.findings[0].evidence, &r.findings[0].nevidence, "/data/a.bin took most: 1.2 s at 80 MB/s");
	sample_say(&r.findings[0].advice, &r.findings[0].nadvice, "copy the data set to a local disk");
	return r;
}

static void healthy_run_is_one_line(void **state)
{
	struct result r = sample_result();
	char *text;

	findings_make(&r, &(struct seen){ 0 });
	text = as_text(&r, (struct render_options){ .shown = "session", .several = true });
	assert_string_equal(text, "Healthy: 2 GPUs were busy 100.0 % of the steady window (50 steps), nothing to change. Timeline: session\n");
	free(text);
	result_free(&r);
}

static void how_a_failed_job_ended_is_said_first(void **state)
{
	struct result r = sample_result();
	char *text;

	findings_make(&r, &(struct seen){ 0 });
	r.ending = mem_copy("the job ended with status 2 after 3 ms");
	text = as_text(&r, (struct render_options){ .shown = "session", .several = true });
	assert_memory_equal(text, "The job ended with status 2 after 3 ms.\n2 GPUs were busy", 56);
	assert_null(strstr(text, "ealthy"));
	free(text);
	result_free(&r);
}

static void text_fits_the_page_and_has_no_colour_in_a_pipe(void **state)
{
	struct result r = slow_result();
	char *text;

	for (int i = 0; i < 60; i++)
		sample_say(&r.findings[0].evidence, &r.findings[0].nevidence, "a long line of evidence about one file of many, which is read in many small pieces by one worker after another");
	text = as_text(&r, (struct render_options){ .shown = "s", .verbose = false });
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "GPUs lost"));
	assert_non_null(strstr(text, "largest cause: data.storage, 20.0 %"));
	assert_non_null(strstr(text, "worst 80.0 ms, at 2.500000 s of the timeline"));
	assert_non_null(strstr(text, "-> copy the data set to a local disk"));
	assert_non_null(strstr(text, "1.00 s (10.0 %) of computing thrown away"));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (text_columns(line) > 100)
			fail_msg("too long: %s", line);
	free(text);
	result_free(&r);
}

static void json_has_the_integers_of_the_text(void **state)
{
	struct result r = slow_result();
	json_t *j = as_json(&r), *device, *w, *v;
	int64_t data = 0;
	size_t i;

	assert_string_equal(json_string_value(json_object_get(j, "schema")), "whyidle.report/1");
	json_array_foreach(json_object_get(j, "devices"), i, device) {
		w = json_object_get(json_object_get(device, "windows"), "steady");
		v = json_object_get(w, "state");
		assert_int_equal(sum_of(v), json_integer_value(json_object_get(w, "ns")));
		assert_int_equal(sum_of(json_object_get(w, "ledger_a")), json_integer_value(json_object_get(v, "idle")));
		assert_int_equal(sum_of(json_object_get(w, "ledger_b")), json_integer_value(json_object_get(v, "idle")) +
			json_integer_value(json_object_get(v, "exposed_comm")) + json_integer_value(json_object_get(v, "exposed_copy")));
		assert_int_equal(sum_of(json_object_get(w, "unknown")),
			json_integer_value(json_object_get(json_object_get(w, "ledger_b"), "unknown")));
		data += json_integer_value(json_object_get(json_object_get(w, "ledger_b"), "data.storage"));
	}
	assert_int_equal(data, 2000 * MS + 1);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "headline"), "data_starvation_ns")), data);
	v = json_array_get(json_object_get(j, "findings"), 0);
	assert_string_equal(json_string_value(json_object_get(v, "leaf")), "data.storage");
	assert_int_equal(json_integer_value(json_object_get(v, "ns")), data);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(v, "worst"), "at_ns")), 3500 * MS);
	assert_null(json_object_get(j, "host_only"));
	json_decref(j);
	result_free(&r);
}

static void absent_steady_window_is_null(void **state)
{
	struct result r = sample_result();
	json_t *j, *windows;

	r.devices[0].windows[WINDOW_STEADY].present = false;
	findings_make(&r, &(struct seen){ 0 });
	j = as_json(&r);
	windows = json_object_get(json_array_get(json_object_get(j, "devices"), 0), "windows");
	assert_true(json_is_null(json_object_get(windows, "steady")));
	assert_int_equal(json_integer_value(json_object_get(json_object_get(windows, "run"), "ns")), 6000 * MS);
	json_decref(j);
	result_free(&r);
}

static void names_from_traces_cannot_harm(void **state)
{
	struct result r = slow_result();
	char *text;
	json_t *j;

	sample_say(&r.findings[0].evidence, &r.findings[0].nevidence, "/data/\033]0;evil\007\xff\xfe\nname");
	free(r.devices[0].host);
	r.devices[0].host = mem_copy("h\033[31m\x9b");
	text = as_text(&r, (struct render_options){ .shown = "x\033y", .verbose = true });
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\007'));
	free(text);
	j = as_json(&r);
	json_decref(j);
	result_free(&r);
}

static void thousand_ranks_make_a_short_text(void **state)
{
	struct result r = sample_result();
	unsigned lines = 0;
	char *text;

	r.devices = mem_resize(r.devices, 1000, sizeof(*r.devices));
	for (unsigned i = 2; i < 1000; i++) {
		r.devices[i] = r.devices[0];
		r.devices[i].rank = (int)i;
		r.devices[i].host = mem_copy("node");
		r.devices[i].name = NULL;
	}
	r.ndevices = 1000;
	for (unsigned i = 0; i < 1000; i++)
		sample_lose(&r.devices[i].windows[WINDOW_STEADY], LEAF_COMM_LATE_PEER, i == 777 ? 4000 * MS : 500 * MS);
	findings_make(&r, &(struct seen){ 0 });
	text = as_text(&r, (struct render_options){ .shown = "s" });
	assert_non_null(strstr(text, "\n   777  "));
	for (char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	assert_true(lines < 60);
	free(text);
	result_free(&r);
}

static void amounts_read_well(void **state)
{
	char out[AMOUNT_MAX];

	assert_string_equal(amount_time(out, 0), "0 ns");
	assert_string_equal(amount_time(out, 999), "999 ns");
	assert_string_equal(amount_time(out, 1234), "1.23 us");
	assert_string_equal(amount_time(out, 999600), "1.00 ms");
	assert_string_equal(amount_time(out, 312 * MS), "312 ms");
	assert_string_equal(amount_time(out, 59990 * MS), "60.0 s");
	assert_string_equal(amount_time(out, 125000 * MS), "2 min 05 s");
	assert_string_equal(amount_time(out, 2 * 3600000 * MS + 60000 * MS), "2 h 01 min");
	assert_string_equal(amount_time(out, -5 * MS), "-5.00 ms");
	assert_string_equal(amount_share(out, 0.0001), "< 0.1 %");
	assert_string_equal(amount_share(out, 0), "0.0 %");
	assert_string_equal(amount_bytes(out, 1234567), "1.23 MB");
}

static void cleaning_keeps_what_is_text(void **state)
{
	static const char *const same[] = { "", "plain", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x99\x82" };
	char *s;

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		s = clean_text(same[i]);
		assert_string_equal(s, same[i]);
		free(s);
	}
	s = clean_text("a\xc3");			/* cut in the middle of a character */
	assert_string_equal(s, "a\xef\xbf\xbd");
	free(s);
	s = clean_text("\xed\xa0\x80");			/* a surrogate */
	assert_null(strstr(s, "\xed\xa0\x80"));
	free(s);
	s = clean_text("\xc0\xaf");			/* overlong */
	assert_string_equal(s, "\xef\xbf\xbd\xef\xbf\xbd");
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_run_is_one_line),
		cmocka_unit_test(how_a_failed_job_ended_is_said_first),
		cmocka_unit_test(text_fits_the_page_and_has_no_colour_in_a_pipe),
		cmocka_unit_test(json_has_the_integers_of_the_text),
		cmocka_unit_test(absent_steady_window_is_null),
		cmocka_unit_test(names_from_traces_cannot_harm),
		cmocka_unit_test(thousand_ranks_make_a_short_text),
		cmocka_unit_test(amounts_read_well),
		cmocka_unit_test(cleaning_keeps_what_is_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
