/* SPDX-License-Identifier: Apache-2.0
 *
 * From files to the result: a training process with a known gap in each step, and inputs that are not as they should be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "analyzer/analysis.h"
#include "tests/unit/trace_sample.h"

#define MS 1000000ull
#define START (100 * 1000 * MS)
#define REAL 1700000000000000000ull

static char dir[64];

static unsigned reads = 1;		/* into how many calls the reading of a step is divided */

static int setup(void **unused)
{
	(void)unused;
	snprintf(dir, sizeof(dir), "/tmp/whyidle-test-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **unused)
{
	char command[128];

	(void)unused;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static const char *in_dir(const char *name)
{
	static char path[4][128];
	static int i;

	i = (i + 1) % 4;
	snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
	return path[i];
}

#define UPDATE "_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi"
#define GRADIENTS "_Z40ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"

/*
 * One rank: `steps` steps of 100 ms: 20 ms in which the main thread reads a file, 60 ms of computing, 10 ms of communication alone,
 * the update of the scale 1 ms long, and 9 ms in which the main thread is silent.
 */
static void rank(const char *name, const char *host, const char *boot, int pid, int number, unsigned steps, int64_t shift, bool late_attributes,
	const char *end)
{
	uint64_t t = START + (uint64_t)shift, real = REAL + START;
	struct sample *s = sample_open(in_dir(name), pid, t, real);

	if (!late_attributes)
		sample_attributes(s, host, boot, 1, number);
	sample_gpu(s);
	if (late_attributes) {
		for (int i = 0; i < 3000; i++)
			sample_slice(s, &s->main, "write", "pipe:[5]", 1, t + 1000 * (uint64_t)i, t + 1000 * (uint64_t)i + 500, 0);
		sample_attributes(s, host, boot, 1, number);
	}
	t += 1000 * MS;
	for (unsigned i = 0; i < steps; i++, t += 100 * MS) {
		uint64_t flow = (uint64_t)pid * 100000 + 3 * i + 1;

		for (unsigned k = 0; k < reads; k++)
			sample_slice(s, &s->main, "pread", "/data/x", 4096, t + (20 * MS - 5000) * k / reads, t + (20 * MS - 5000) * (k + 1) / reads, 0);
		sample_slice(s, &s->main, "cudaLaunchKernel", NULL, -1, t + 20 * MS - 5000, t + 20 * MS - 1000, flow);
		sample_slice(s, &s->main, "cudaLaunchKernel", NULL, -1, t + 20 * MS + 1000, t + 20 * MS + 5000, flow + 1);
		sample_slice(s, &s->main, "cudaLaunchKernel", NULL, -1, t + 20 * MS + 6000, t + 20 * MS + 9000, flow + 2);
		/* the device's records come in any order */
		sample_slice(s, &s->gpu, UPDATE, NULL, -1, t + 90 * MS, t + 91 * MS, flow + 2);
		sample_slice(s, &s->gpu, "gemm", NULL, -1, t + 20 * MS, t + 80 * MS, flow);
		sample_slice(s, &s->gpu, GRADIENTS, NULL, -1, t + 75 * MS, t + 90 * MS, flow + 1);
		if (i % 7 == 6)
			sample_snapshot(s, t + 95 * MS, real + t + 95 * MS - START - (uint64_t)shift);
	}
	sample_snapshot(s, t, real + t - START - (uint64_t)shift);
	sample_close(s, end);
}

static void analyse(struct result *r, const char *const *paths, unsigned n)
{
	struct analysis_error err;

	if (analysis_run(paths, n, NULL, r, &err) < 0)
		fail_msg("%s", err.text);
}

static void analyse_dir(struct result *r)
{
	const char *paths[] = {dir};

	analyse(r, paths, 1);
}

static void sums_hold(const struct window_result *w)
{
	int64_t a = 0, b = 0;

	for (int i = 0; i < LEAF_COUNT; i++) {
		a += w->ledger_a[i];
		b += w->ledger_b[i];
	}
	assert_int_equal(w->compute_ns + w->exposed_comm_ns + w->exposed_copy_ns + w->idle_ns, w->ns);
	assert_int_equal(a, w->idle_ns);
	assert_int_equal(b, w->idle_ns + w->exposed_comm_ns + w->exposed_copy_ns);
}

static void known_gaps_are_found_to_the_ns(void **unused)
{
	struct result r;
	const struct window_result *w;

	(void)unused;
	rank("h.1.0.pftrace", "h", "b", 1000, 0, 40, 0, false, "exit");
	analyse_dir(&r);
	assert_int_equal(r.ndevices, 1);
	assert_string_equal(r.gpu, "cupti");
	assert_string_equal(r.command, "python3 train.py");
	assert_false(r.cut);
	assert_int_equal(r.devices[0].steps.count, 40);
	assert_string_equal(r.devices[0].steps.rule, "scaler update");
	assert_int_equal(r.devices[0].steps.median_ns, 100 * MS);
	w = &r.devices[0].windows[WINDOW_STEADY];
	assert_true(w->present);
	/* from the end of the third update to the end of the last */
	assert_int_equal(w->ns, 37 * 100 * MS);
	assert_int_equal(w->start_ns, START + 1000 * MS + 200 * MS + 91 * MS);
	assert_int_equal(w->compute_ns, 37 * 61 * MS);
	assert_int_equal(w->exposed_comm_ns, 37 * 10 * MS);
	assert_int_equal(w->idle_ns, 37 * 29 * MS);
	assert_int_equal(w->ledger_b[LEAF_DATA_STORAGE], 37 * (20 * MS - 5000));
	assert_int_equal(w->ledger_a[LEAF_HOST_LAUNCH], 37 * 5000);
	assert_int_equal(w->ledger_b[LEAF_COMM_TRANSFER], 37 * 10 * MS);
	assert_int_equal(w->gap_count, 37);
	assert_int_equal(w->longest_gap_ns, 29 * MS);
	for (int i = 0; i < WINDOW_COUNT; i++)
		sums_hold(&r.devices[0].windows[i]);
	/* the first second and the first step are no property of the loop */
	assert_true(r.devices[0].windows[WINDOW_RUN].ledger_a[LEAF_STARTUP] > 1000 * (int64_t)MS);
	assert_int_equal(r.findings[0].leaf, LEAF_DATA_STORAGE);
	result_free(&r);
}

static void attributes_may_come_late(void **unused)
{
	struct result r;

	(void)unused;
	rank("h.1.0.pftrace", "h", "b", 1000, 3, 20, 0, true, "exit");
	analyse_dir(&r);
	assert_int_equal(r.devices[0].rank, 3);
	assert_int_equal(r.hosts, 1);
	result_free(&r);
}

static void order_of_files_does_not_matter(void **unused)
{
	struct result a, b;
	const char *one[] = {in_dir("a.pftrace"), in_dir("b.pftrace")}, *other[] = {one[1], one[0]};

	(void)unused;
	rank("b.pftrace", "h", "b", 1000, 0, 30, 0, false, "exit");
	rank("a.pftrace", "h", "b", 2000, 1, 30, 3000000, false, "exit");
	one[0] = in_dir("a.pftrace");
	one[1] = in_dir("b.pftrace");
	other[0] = one[1];
	other[1] = one[0];
	analyse(&a, one, 2);
	analyse(&b, other, 2);
	assert_int_equal(a.ndevices, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(a.devices[i].rank, i);
		assert_int_equal(b.devices[i].rank, i);
		assert_memory_equal(a.devices[i].windows, b.devices[i].windows, sizeof(a.devices[i].windows));
	}
	assert_int_equal(a.nfindings, b.nfindings);
	for (unsigned i = 0; i < a.nfindings; i++)
		assert_string_equal(a.findings[i].title, b.findings[i].title);
	result_free(&a);
	result_free(&b);
}

/* Two hosts whose MONOTONIC clocks are an hour apart: by REALTIME the same instant. */
static void hosts_are_put_on_one_clock(void **unused)
{
	struct result r;

	(void)unused;
	rank("h.1.0.pftrace", "h", "b", 1000, 0, 20, 0, false, "exit");
	rank("i.1.0.pftrace", "i", "c", 1000, 1, 20, 3600000000000, false, "exit");
	analyse_dir(&r);
	assert_int_equal(r.hosts, 2);
	assert_int_equal(r.ranks, 2);
	assert_int_equal(r.devices[0].windows[WINDOW_STEADY].start_ns, r.devices[1].windows[WINDOW_STEADY].start_ns);
	assert_true(r.wall_ns < 10000 * (int64_t)MS);
	result_free(&r);
}

static void cut_files_are_used_and_said(void **unused)
{
	struct result r;
	struct stat st;

	(void)unused;
	rank("h.1.0.pftrace", "h", "b", 1000, 0, 30, 0, false, NULL);
	assert_int_equal(stat(in_dir("h.1.0.pftrace"), &st), 0);
	for (int64_t cut = 0; cut < 3000; cut += 37) {
		assert_int_equal(truncate(in_dir("h.1.0.pftrace"), st.st_size - cut), 0);
		analyse_dir(&r);
		assert_true(r.cut);
		assert_int_equal(r.ndevices, 1);
		for (int i = 0; i < WINDOW_COUNT; i++)
			if (r.devices[0].windows[i].present)
				sums_hold(&r.devices[0].windows[i]);
		result_free(&r);
	}
}

/* The window does not wait for ever for the end of a gap: its beginning is then unknown, the rest explained, the sums right. */
static void gap_longer_than_the_window_still_sums(void **unused)
{
	struct result r;
	struct sample *s = sample_open(in_dir("h.1.0.pftrace"), 1000, START, REAL);
	uint64_t t = START + 100 * MS, flow = 1;
	const struct window_result *w;

	(void)unused;
	sample_attributes(s, "h", "b", 1, 0);
	sample_gpu(s);
	for (int i = 0; i < 12; i++) {
		sample_slice(s, &s->main, "cudaLaunchKernel", NULL, -1, t, t + 4000, flow);
		sample_slice(s, &s->gpu, UPDATE, NULL, -1, t + 5000, t + MS, flow++);
		t += MS;
		/* in the middle, 300 s of reading, in many calls */
		for (int k = 0; k < (i == 6 ? 30000 : 2); k++, t += 10 * MS) {
			sample_slice(s, &s->main, "pread", "/data/x", 4096, t, t + 10 * MS - 1000, 0);
			if (k % 100 == 0)
				sample_snapshot(s, t, REAL + t);
		}
	}
	sample_snapshot(s, t, REAL + t);
	sample_close(s, "exit");
	analyse_dir(&r);
	w = &r.devices[0].windows[WINDOW_STEADY];
	for (int i = 0; i < WINDOW_COUNT; i++)
		sums_hold(&r.devices[0].windows[i]);
	assert_true(w->longest_gap_ns > 299 * 1000 * (int64_t)MS);
	assert_true(w->ledger_a[LEAF_DATA_STORAGE] > 100 * 1000 * (int64_t)MS);
	assert_int_equal(w->ledger_a[LEAF_UNKNOWN] + w->ledger_a[LEAF_DATA_STORAGE] > 290 * 1000 * (int64_t)MS, 1);
	result_free(&r);
}

static void put_file(const char *name, const char *text)
{
	FILE *f = fopen(in_dir(name), "w");

	fputs(text, f);
	fclose(f);
}

static void refused(const char *path, const char *word)
{
	struct result r;
	struct analysis_error err;
	const char *paths[] = {path};

	assert_int_equal(analysis_run(paths, 1, NULL, &r, &err), -1);
	assert_int_equal(err.code, ANALYSIS_EINPUT);
	if (!strstr(err.text, word))
		fail_msg("\"%s\" does not say \"%s\"", err.text, word);
}

static void bad_inputs_are_refused_in_a_sentence(void **unused)
{
	struct result r;

	(void)unused;
	refused(in_dir("nowhere"), "No such file");
	refused(dir, "no trace");
	put_file("x.pftrace", "this is not a trace");
	refused(in_dir("x.pftrace"), "x.pftrace");
	refused(dir, "none of the trace files");
	/* beside a good one it is only a warning */
	rank("h.1.0.pftrace", "h", "b", 1000, 0, 20, 0, false, "exit");
	analyse_dir(&r);
	assert_int_equal(r.ndevices, 1);
	assert_int_equal(r.nwarnings >= 1, 1);
	assert_non_null(strstr(r.warnings[0], "x.pftrace"));
	result_free(&r);
}

static void trace_without_gpu_work_is_analysed_by_its_waits(void **unused)
{
	struct result r;
	struct sample *s = sample_open(in_dir("h.1.0.pftrace"), 1000, START, REAL), *w = sample_open(in_dir("h.2.0.pftrace"), 1001, START, REAL);
	uint64_t t = START + 500 * MS;

	(void)unused;
	sample_attributes(s, "h", "b", 1, -1);
	sample_attributes(w, "h", "b", 1000, -1);
	for (int i = 0; i < 50; i++, t += 100 * MS) {
		sample_slice(s, &s->main, "write", "pipe:[1]", 20, t, t + 1000, 0);
		sample_slice(w, &w->main, "read", "pipe:[1]", 20, t - 1000, t + 2000, 0);
		sample_slice(w, &w->main, "pread", "/data/x", 4096, t + 3000, t + 40 * MS, 0);
		sample_slice(w, &w->main, "write", "pipe:[9]", 30, t + 40 * MS + 1000, t + 40 * MS + 2000, 0);
		sample_slice(s, &s->main, "poll", "pipe:[9]", -1, t + 10 * MS, t + 40 * MS + 3000, 0);
		sample_slice(s, &s->main, "read", "pipe:[9]", 30, t + 40 * MS + 4000, t + 40 * MS + 5000, 0);
		if (i % 10 == 9) {
			sample_snapshot(s, t + 50 * MS, REAL + t);
			sample_snapshot(w, t + 50 * MS, REAL + t);
		}
	}
	sample_close(s, "exit");
	sample_close(w, "exit");
	analyse_dir(&r);
	assert_int_equal(r.ndevices, 0);
	assert_string_equal(r.gpu, "none");
	assert_int_equal(r.nhost_only, 1);
	assert_int_equal(r.host_only[0].pid, 1000);
	assert_int_equal(r.host_only[0].batches, 50);
	assert_int_equal(r.host_only[0].workers, 1);
	/* the last 47 of the 50 steps are steady: from the third batch to the last one */
	assert_true(r.host_only[0].steady);
	assert_int_equal(r.host_only[0].window_ns, 47 * 100 * (int64_t)MS);
	assert_int_equal(r.host_only[0].leaf[LEAF_DATA_STORAGE], 47 * 30 * (int64_t)MS);
	assert_true(r.host_only[0].data_wait_ns >= 47 * 30 * (int64_t)MS);
	assert_int_equal(r.findings[0].leaf, LEAF_DATA_STORAGE);
	result_free(&r);
}

/* Five seconds of imports, ten steps that wait 94 % of the time, ten seconds of something else. */
static void shares_without_gpu_work_are_of_the_loop(void **unused)
{
	struct result r;
	struct sample *s = sample_open(in_dir("h.1.0.pftrace"), 1000, START, REAL), *w = sample_open(in_dir("h.2.0.pftrace"), 1001, START, REAL);
	uint64_t t = START + 5000 * MS;

	(void)unused;
	sample_attributes(s, "h", "b", 1, -1);
	sample_attributes(w, "h", "b", 1000, -1);
	sample_slice(s, &s->main, "read", "/usr/lib/x.so", 4096, START + MS, START + 4900 * MS, 0);
	for (int i = 0; i < 10; i++, t += 100 * MS) {
		sample_slice(s, &s->main, "write", "pipe:[1]", 20, t, t + 1000, 0);
		sample_slice(w, &w->main, "read", "pipe:[1]", 20, t - 1000, t + 2000, 0);
		sample_slice(w, &w->main, "pread", "/data/x", 4096, t + 3000, t + 95 * MS, 0);
		sample_slice(w, &w->main, "write", "pipe:[9]", 30, t + 95 * MS + 1000, t + 95 * MS + 2000, 0);
		sample_slice(s, &s->main, "poll", "pipe:[9]", -1, t + MS, t + 95 * MS + 3000, 0);
		sample_slice(s, &s->main, "read", "pipe:[9]", 30, t + 95 * MS + 4000, t + 95 * MS + 5000, 0);
	}
	sample_slice(s, &s->main, "fsync", "/tmp/model.pt", -1, t + MS, t + 10000 * MS, 0);
	sample_close(s, "exit");
	sample_close(w, "exit");
	analyse_dir(&r);
	assert_int_equal(r.nhost_only, 1);
	assert_true(r.host_only[0].steady);
	assert_true(r.host_only[0].wall_ns > 15000 * (int64_t)MS);
	assert_int_equal(r.host_only[0].window_ns, 7 * 100 * (int64_t)MS);
	assert_true(r.host_only[0].data_wait_ns > r.host_only[0].window_ns * 9 / 10);
	assert_true(r.host_only[0].data_wait_ns < r.host_only[0].window_ns);
	assert_true(r.host_only[0].leaf[LEAF_IO_CHECKPOINT] < (int64_t)MS);
	assert_true(r.host_only[0].write_ns < (int64_t)MS);
	assert_int_equal(r.findings[0].leaf, LEAF_DATA_STORAGE);
	assert_true(r.findings[0].share > 0.9 && r.findings[0].share < 1);
	result_free(&r);
}

/* Three batches make no steady part. */
static void few_batches_are_told_of_the_whole_run(void **unused)
{
	struct result r;
	struct sample *s = sample_open(in_dir("h.1.0.pftrace"), 1000, START, REAL), *w = sample_open(in_dir("h.2.0.pftrace"), 1001, START, REAL);
	uint64_t t = START + 500 * MS;

	(void)unused;
	sample_attributes(s, "h", "b", 1, -1);
	sample_attributes(w, "h", "b", 1000, -1);
	for (int i = 0; i < 3; i++, t += 100 * MS) {
		sample_slice(s, &s->main, "write", "pipe:[1]", 20, t, t + 1000, 0);
		sample_slice(w, &w->main, "read", "pipe:[1]", 20, t - 1000, t + 2000, 0);
		sample_slice(w, &w->main, "write", "pipe:[9]", 30, t + 95 * MS + 1000, t + 95 * MS + 2000, 0);
		sample_slice(s, &s->main, "read", "pipe:[9]", 30, t + MS, t + 95 * MS + 5000, 0);
	}
	sample_close(s, "exit");
	sample_close(w, "exit");
	analyse_dir(&r);
	assert_int_equal(r.nhost_only, 1);
	assert_int_equal(r.host_only[0].batches, 3);
	assert_false(r.host_only[0].steady);
	assert_int_equal(r.host_only[0].window_ns, r.host_only[0].wall_ns);
	result_free(&r);
}

/* A trace that was cut after what it says of its process. */
static void a_process_without_events_lasts_no_time(void **unused)
{
	struct result r;
	struct sample *s = sample_open(in_dir("h.1.0.pftrace"), 1000, START, REAL);

	(void)unused;
	sample_attributes(s, "h", "b", 1, -1);
	sample_close(s, NULL);
	analyse_dir(&r);
	for (unsigned i = 0; i < r.nhost_only; i++)
		assert_int_equal(r.host_only[i].wall_ns, 0);
	result_free(&r);
}

/* The longest loss of a cause is that of a gap, not that of one of the calls in it. */
static void worst_is_a_gaps_not_a_calls(void **unused)
{
	struct result r;
	const struct finding *f = NULL;

	(void)unused;
	reads = 10;
	rank("reads.pftrace", "a", "boot-a", 11, 0, 40, 0, false, "exit");
	reads = 1;
	analyse_dir(&r);
	for (unsigned i = 0; i < r.nfindings; i++)
		if (r.findings[i].leaf == LEAF_DATA_STORAGE)
			f = &r.findings[i];
	assert_non_null(f);
	assert_in_range(f->worst_ns, 19 * MS, 20 * MS);
	result_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(known_gaps_are_found_to_the_ns),
		T(worst_is_a_gaps_not_a_calls),
		T(attributes_may_come_late),
		T(order_of_files_does_not_matter),
		T(hosts_are_put_on_one_clock),
		T(cut_files_are_used_and_said),
		T(gap_longer_than_the_window_still_sums),
		T(bad_inputs_are_refused_in_a_sentence),
		T(trace_without_gpu_work_is_analysed_by_its_waits),
		T(shares_without_gpu_work_are_of_the_loop),
		T(few_batches_are_told_of_the_whole_run),
		T(a_process_without_events_lasts_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
