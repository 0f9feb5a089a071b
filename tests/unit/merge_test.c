/* SPDX-License-Identifier: Apache-2.0
 *
 * One file out of several: same sequence ids and numbers of names, other meanings; times of another host shifted; loss still told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/merge.h"
#include "trace/reader.h"
#include "trace/writer.h"

static char folder[] = "/tmp/merge_test.XXXXXX";
static char paths[2][64], merged[64];

static const char *lookup(void *ctx, enum pf_table table, uint32_t iid, size_t *len)
{
	const char *text = table == PF_NAMES ? (ctx ? "second" : "first") : table == PF_KEYS ? "key" : (ctx ? "zwei" : "eins");

	*len = strlen(text);
	return text;
}

/* A process with one thread and one slice [start, start + 100) on sequence 2, whose name has number 1 in both files. */
static void write_file(int which, uint64_t start_ns, bool lost)
{
	static uint8_t buf[65536];
	struct pf_writer w = { .buf = buf, .cap = sizeof(buf) };
	struct pf_seq s = { .id = 2, .track_uuid = (uint64_t)which * 10 + 2 };
	struct pf_strings t = { lookup, which ? &w : NULL };
	const char *label = which ? "host b" : "host a";
	struct pf_arg arg = { .key_iid = 1, .type = PF_ARG_STR_IID, .v.iid = 1 };
	FILE *f = fopen(paths[which], "w");

	pf_clocks(&w, 1, start_ns, 1000000000 + start_ns, 0);
	pf_process_track(&w, 1, &(struct pf_process){ .uuid = (uint64_t)which * 10 + 1, .pid = 7, .name = "p", .labels = &label, .nlabels = 1 });
	pf_thread_track(&w, 1, s.track_uuid, 7, 7 + which, "t");
	if (lost) {
		pf_begin(&w, &s, &t, &(struct pf_event){ .ts_ns = start_ns - 10, .name_iid = 1 });
		pf_end(&w, &s, &t, &(struct pf_event){ .ts_ns = start_ns - 5 });
		s.open = false;
		s.lost = true;
	}
	pf_begin(&w, &s, &t, &(struct pf_event){ .ts_ns = start_ns, .name_iid = 1, .flow_id = 77, .args = &arg, .nargs = 1 });
	pf_end(&w, &s, &t, &(struct pf_event){ .ts_ns = start_ns + 100 });
	assert_non_null(f);
	assert_int_equal(fwrite(buf, 1, w.len, f), w.len);
	fclose(f);
}

static int setup(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(paths[0], sizeof(paths[0]), "%s/a.pftrace", folder);
	snprintf(paths[1], sizeof(paths[1]), "%s/b.pftrace", folder);
	snprintf(merged, sizeof(merged), "%s/out.pftrace", folder);
	return 0;
}

static int teardown(void **state)
{
	unlink(paths[0]);
	unlink(paths[1]);
	unlink(merged);
	return rmdir(folder);
}

struct found {
	unsigned slices, losses, processes;
	uint64_t start_ns[8], end_ns[8];
	char name[8][16], arg[8][16];
};

static struct found read_back(void)
{
	struct found found = { 0 };
	struct pf_error err;
	struct pf_item it;
	struct pf_reader *r = pf_reader_open(merged, &err);
	int rc;

	assert_non_null(r);
	while ((rc = pf_reader_next(r, &it, &err)) == 1) {
		if (it.kind == PF_LOSS)
			found.losses++;
		if (it.kind == PF_TRACK && it.track->is_process)
			found.processes++;
		if (it.kind == PF_SLICE_END)
			found.end_ns[found.slices++] = it.ts_ns;
		if (it.kind != PF_SLICE_BEGIN)
			continue;
		found.start_ns[found.slices] = it.ts_ns;
		snprintf(found.name[found.slices], 16, "%s", it.name);
		if (it.nargs)
			snprintf(found.arg[found.slices], 16, "%.*s", (int)it.args[0].v.s.len, it.args[0].v.s.p);
	}
	assert_int_equal(rc, 0);
	pf_reader_close(r);
	return found;
}

static void two_hosts_become_one_timeline(void **state)
{
	struct found found;
	struct merge *m;
	char why[512];

	write_file(0, 5000, false);
	write_file(1, 900000, false);
	m = merge_open(merged, why);
	assert_non_null(m);
	assert_int_equal(merge_file(m, paths[0], 0, why), 0);
	assert_int_equal(merge_file(m, paths[1], -894000, why), 0);
	assert_int_equal(merge_process(m, "a", 7), 1);
	assert_int_equal(merge_process(m, "b", 7), 11);
	assert_int_equal(merge_process(m, "c", 7), 0);
	assert_int_equal(merge_close(m, 1, why), 0);
	found = read_back();
	assert_int_equal(found.slices, 2);
	assert_int_equal(found.processes, 2);
	assert_string_equal(found.name[0], "first");
	assert_string_equal(found.name[1], "second");
	assert_string_equal(found.arg[0], "eins");
	assert_string_equal(found.arg[1], "zwei");
	assert_int_equal(found.start_ns[0], 5000);
	assert_int_equal(found.start_ns[1], 6000);
	assert_int_equal(found.end_ns[1], 6100);
	assert_int_equal(found.losses, 0);
}

static void loss_is_told_on(void **state)
{
	struct found found;
	struct merge *m;
	char why[512];

	write_file(0, 5000, true);
	m = merge_open(merged, why);
	assert_int_equal(merge_file(m, paths[0], 0, why), 0);
	assert_int_equal(merge_close(m, 1, why), 0);
	found = read_back();
	assert_int_equal(found.slices, 2);
	assert_true(found.losses > 0);
}

static void own_tracks_are_added(void **state)
{
	struct found found;
	struct merge_track *t;
	struct merge *m;
	char why[512];

	write_file(0, 5000, false);
	m = merge_open(merged, why);
	assert_int_equal(merge_file(m, paths[0], 0, why), 0);
	t = merge_track(m, merge_group(m, 1, "group"), "steps", 0);
	merge_slice(m, t, "step 0", 4000, 4500, "a note");
	merge_slice(m, t, "step 1", 4500, 5500, NULL);
	assert_int_equal(merge_close(m, 1, why), 0);
	found = read_back();
	assert_int_equal(found.slices, 3);
	assert_string_equal(found.name[1], "step 0");
	assert_string_equal(found.arg[1], "a note");
	assert_int_equal(found.start_ns[1], 4000);
	assert_int_equal(found.end_ns[2], 5500);
}

static void thousands_of_names_keep_their_meaning(void **state)
{
	struct merge_track *t;
	struct pf_reader *r;
	struct pf_error err;
	struct pf_item it;
	struct merge *m;
	char why[512], name[32];
	int n = 0;

	m = merge_open(merged, why);
	t = merge_track(m, 0, "many", 0);
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "name %d", i);
		merge_slice(m, t, name, i * 10, i * 10 + 5, NULL);
	}
	assert_int_equal(merge_close(m, 1, why), 0);
	r = pf_reader_open(merged, &err);
	while (pf_reader_next(r, &it, &err) == 1) {
		if (it.kind != PF_SLICE_BEGIN)
			continue;
		snprintf(name, sizeof(name), "name %d", n);
		assert_string_equal(it.name, name);
		assert_int_equal(it.ts_ns, n++ * 10);
	}
	pf_reader_close(r);
	assert_int_equal(n, 10000);
}

static void nothing_is_left_after_failure(void **state)
{
	struct merge *m;
	char why[512] = "";

	assert_null(merge_open("/no/such/folder/x", why));
	assert_true(strlen(why) > 10);
	unlink(merged);
	m = merge_open(merged, why);
	assert_int_equal(merge_file(m, "/no/such/file", 0, why), -1);
	assert_non_null(strstr(why, "/no/such/file"));
	assert_int_equal(merge_close(m, 0, why), 0);
	assert_int_equal(access(merged, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_hosts_become_one_timeline),
		cmocka_unit_test(loss_is_told_on),
		cmocka_unit_test(own_tracks_are_added),
		cmocka_unit_test(thousands_of_names_keep_their_meaning),
		cmocka_unit_test(nothing_is_left_after_failure),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
