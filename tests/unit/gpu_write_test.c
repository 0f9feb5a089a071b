/* SPDX-License-Identifier: Apache-2.0
 *
 * From decoded CUPTI records to the file, read back with the trace's reader.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shim/cupti_clock.h"
#include "shim/cupti_lanes.h"
#include "shim/cupti_write.h"
#include "shim/drain.h"
#include "trace/reader.h"

#define MOST 100000

/* The drain's side. */
static uint64_t dropped, recorded;
static char attr_key[64], attr_value[64];

uint64_t drain_process_uuid(void)
{
	return 42;
}

uint64_t drain_uuid(const char *kind, uint64_t a, uint64_t b)
{
	return ((a + 1) * 0x9e3779b97f4a7c15u ^ (b + 1) * 0xbf58476d1ce4e5b9u ^ (unsigned char)kind[0]) | 1;
}

uint64_t drain_thread_track(struct pf_writer *w, int64_t tid)
{
	uint64_t uuid = drain_uuid("thread", (uint64_t)tid, 0);

	pf_thread_track(w, DRAIN_SEQ_PROCESS, uuid, 1, tid, "thread");
	return uuid;
}

void drain_count_dropped(uint64_t n)
{
	dropped += n;
}

void drain_count_recorded(uint64_t n)
{
	recorded += n;
}

void drain_attr_str(const char *key, const char *value)
{
	snprintf(attr_key, sizeof(attr_key), "%s", key);
	snprintf(attr_value, sizeof(attr_value), "%s", value);
}

static uint8_t file[64 << 20];
static struct pf_writer w;
static struct cupti_clock clock;
static uint32_t next_correlation = 1;

struct seen {
	char name[64], track[32];
	uint64_t start, end, flow, end_flow, uuid;	/* end 0 = none */
	int64_t bytes, error;
};
static struct seen seen[MOST];
static unsigned int nseen;

static void see(const struct pf_item *item)
{
	struct seen *s = &seen[nseen];

	if (item->kind == PF_SLICE_END) {
		for (unsigned int i = nseen; i-- > 0;) {
			if (seen[i].uuid == item->track->uuid && !seen[i].end) {
				seen[i].end = item->ts_ns;
				return;
			}
		}
		fail_msg("an end without a begin");
	}
	if (item->kind != PF_SLICE_BEGIN)
		return;
	assert_true(nseen < MOST);
	memset(s, 0, sizeof(*s));
	snprintf(s->name, sizeof(s->name), "%s", item->name);
	snprintf(s->track, sizeof(s->track), "%s", item->track->name);
	s->start = item->ts_ns;
	s->flow = item->flow_id;
	s->end_flow = item->end_flow_id;
	s->uuid = item->track->uuid;
	s->bytes = -1;
	for (unsigned int i = 0; i < item->nargs; i++) {
		if (!strcmp(item->args[i].key, "bytes"))
			s->bytes = item->args[i].v.i;
		if (!strcmp(item->args[i].key, "errno"))
			s->error = item->args[i].v.i;
	}
	nseen++;
}

/* Writes the batch and reads the whole file again. */
static void read_back(void)
{
	struct pf_reader *r;
	struct pf_error err;
	struct pf_item item;
	int rc;

	cupti_write_flush(&w, 1000);
	r = pf_reader_open_memory(file, w.len, &err);
	assert_non_null(r);
	nseen = 0;
	while ((rc = pf_reader_next(r, &item, &err)) > 0)
		see(&item);
	if (rc)
		fail_msg("%s", err.text);
	pf_reader_close(r);
}

/* One file for all tests: sequences and names go on, as they do in a process. Each test looks at what it added. */
static unsigned int before;

static int begin(void **state)
{
	read_back();
	before = nseen;
	return 0;
}

static int start_file(void **state)
{
	w = (struct pf_writer){.buf = file, .cap = sizeof(file)};
	cupti_clock_init(&clock, NULL);
	cupti_clock_add(&clock, 1000, 1000, 1000);	/* source and trace alike */
	pf_clocks(&w, DRAIN_SEQ_PROCESS, 1, 2, 3);
	pf_process_track(&w, DRAIN_SEQ_PROCESS, &(struct pf_process){.uuid = 42, .pid = 1, .name = "p"});
	return cupti_write_init();
}

static void add_op(const char *name, uint32_t stream, uint64_t start, uint64_t end, uint32_t correlation)
{
	cupti_write_add(&w, &clock, &(struct cupti_record){.type = RECORD_OP, .name = name, .context = 1, .stream = stream, .start = start,
							   .end = end, .correlation = correlation, .bytes = -1}, 1000, false);
}

static void add_api(enum call call, int64_t tid, uint64_t start, uint64_t end, uint32_t correlation, int result)
{
	cupti_write_add(&w, &clock, &(struct cupti_record){.type = RECORD_API, .call = call, .tid = tid, .start = start, .end = end,
							   .correlation = correlation, .result = result}, 1000, false);
}

static void launch_and_kernel_are_joined(void **state)
{
	uint32_t c = next_correlation++;

	add_op("_Z1kv", 7, 3000, 4000, c);
	add_api(CALL_cudaLaunchKernel, 11, 2000, 2500, c, 0);
	read_back();
	assert_int_equal(nseen - before, 2);
	assert_string_equal(seen[before].name, "cudaLaunchKernel");
	assert_true(seen[before].start == 2000 && seen[before].end == 2500);
	assert_string_equal(seen[before + 1].name, "_Z1kv");
	assert_string_equal(seen[before + 1].track, "stream 7");
	assert_true(seen[before + 1].start == 3000 && seen[before + 1].end == 4000);
	assert_true(seen[before].flow && seen[before].flow == seen[before + 1].end_flow);
	assert_true(seen[before].flow == cupti_write_flow(c) && !seen[before].end_flow && !seen[before + 1].flow);
}

static void one_call_of_two_records_is_written_once(void **state)
{
	uint32_t c = next_correlation++;

	add_api(CALL_cuLaunchKernel, 11, 5100, 5200, c, 0);
	add_api(CALL_cudaLaunchKernel, 11, 5000, 5300, c, 0);
	read_back();
	assert_int_equal(nseen - before, 1);
	assert_string_equal(seen[before].name, "cudaLaunchKernel");
	add_api(CALL_cuLaunchKernel, 11, 5100, 5200, c, 0);	/* the other in a later buffer */
	read_back();
	assert_int_equal(nseen - before, 1);
}

static void failed_call_says_why(void **state)
{
	add_api(CALL_cudaMemcpy, 12, 6000, 6100, next_correlation++, 719);
	read_back();
	assert_int_equal(nseen - before, 1);
	assert_int_equal(seen[before].error, 719);
}

static void calls_that_are_not_ours_are_left_out(void **state)
{
	add_api(CALL_NONE, 12, 6200, 6300, next_correlation++, 0);
	read_back();
	assert_int_equal(nseen, before);
}

static void records_in_any_order_are_written_in_order_of_time(void **state)
{
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t n = i * 389 % 1000;	/* every number once */

		add_op("_Z5mixedv", 8, 100000 + n * 10, 100000 + n * 10 + 10, next_correlation++);
	}
	read_back();
	assert_int_equal(nseen - before, 1000);
	for (unsigned int i = 0; i < 1000; i++) {
		assert_true(seen[before + i].start == 100000 + i * 10);
		assert_true(seen[before + i].uuid == seen[before].uuid);	/* nothing overlaps: one lane */
	}
}

static void overlap_goes_to_another_track_of_the_same_name(void **state)
{
	add_op("_Z1av", 9, 1000, 3000, next_correlation++);
	add_op("_Z1bv", 9, 2000, 4000, next_correlation++);
	read_back();
	assert_int_equal(nseen - before, 2);
	assert_true(seen[before].uuid != seen[before + 1].uuid);
	assert_string_equal(seen[before].track, "stream 9");
	assert_string_equal(seen[before + 1].track, "stream 9");
	assert_true(seen[before].end == 3000 && seen[before + 1].end == 4000);
}

static void name_that_changed_in_place_is_noticed(void **state)
{
	char place[32] = "_Z3oldv";

	add_op(place, 10, 1000, 1100, next_correlation++);
	add_op(place, 10, 1200, 1300, next_correlation++);
	strcpy(place, "_Z3newv");	/* another module was loaded there */
	add_op(place, 10, 1400, 1500, next_correlation++);
	strcpy(place, "_Z3newvIiE");
	add_op(place, 10, 1600, 1700, next_correlation++);
	read_back();
	assert_int_equal(nseen - before, 4);
	assert_string_equal(seen[before].name, "_Z3oldv");
	assert_string_equal(seen[before + 1].name, "_Z3oldv");
	assert_string_equal(seen[before + 2].name, "_Z3newv");
	assert_string_equal(seen[before + 3].name, "_Z3newvIiE");
}

static void operations_without_times_are_counted(void **state)
{
	const struct cupti_write_counts *c = cupti_write_counts();
	struct cupti_record r = {.type = RECORD_OP, .name = "_Z1kv", .context = 1, .stream = 21, .bytes = -1};
	uint64_t zero = c->zero_time, unfinished = c->unfinished;

	cupti_write_add(&w, &clock, &r, 1000, false);
	assert_true(c->zero_time == zero + 1 && c->unfinished == unfinished);
	cupti_write_add(&w, &clock, &r, 1000, true);
	assert_true(c->zero_time == zero + 1 && c->unfinished == unfinished + 1);
	r.start = 70000;
	cupti_write_add(&w, &clock, &r, 1000, true);
	assert_true(c->unfinished == unfinished + 2);
	read_back();
	assert_int_equal(nseen - before, 1);
	assert_true(seen[before].start == 70000 && !seen[before].end);
}

static void copies_have_bytes(void **state)
{
	cupti_write_add(&w, &clock, &(struct cupti_record){.type = RECORD_OP, .copy_kind = 1, .src = 2, .dst = 3, .bytes = 1 << 20,
							   .context = 1, .stream = 7, .start = 90000, .end = 91000}, 1000, false);
	read_back();
	assert_string_equal(seen[before].name, "Memcpy HtoD (Pinned -> Device)");
	assert_int_equal(seen[before].bytes, 1 << 20);
	assert_true(!seen[before].end_flow);
}

static void more_than_a_batch_is_written_in_several(void **state)
{
	uint64_t had = recorded;

	for (uint64_t i = 0; i < 70000; i++)
		add_op("_Z4manyv", 30, 1000000 + i * 10, 1000000 + i * 10 + 5, 0);
	read_back();
	assert_int_equal(nseen - before, 70000);
	assert_int_equal(recorded - had, 70000);
	assert_int_equal(dropped, 0);
}

static void device_is_named(void **state)
{
	cupti_write_add(&w, &clock, &(struct cupti_record){.type = RECORD_DEVICE, .device = 12, .name = "Some GPU"}, 1000, false);
	assert_string_equal(attr_key, "whyidle.gpu.12.name");
	assert_string_equal(attr_value, "Some GPU");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(launch_and_kernel_are_joined, begin),
		cmocka_unit_test_setup(one_call_of_two_records_is_written_once, begin),
		cmocka_unit_test_setup(failed_call_says_why, begin),
		cmocka_unit_test_setup(calls_that_are_not_ours_are_left_out, begin),
		cmocka_unit_test_setup(records_in_any_order_are_written_in_order_of_time, begin),
		cmocka_unit_test_setup(overlap_goes_to_another_track_of_the_same_name, begin),
		cmocka_unit_test_setup(name_that_changed_in_place_is_noticed, begin),
		cmocka_unit_test_setup(operations_without_times_are_counted, begin),
		cmocka_unit_test_setup(copies_have_bytes, begin),
		cmocka_unit_test_setup(more_than_a_batch_is_written_in_several, begin),
		cmocka_unit_test_setup(device_is_named, begin),
	};

	return cmocka_run_group_tests(tests, start_file, NULL);
}
