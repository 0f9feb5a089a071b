/* SPDX-License-Identifier: Apache-2.0
 *
 * Files into the timeline: what begins in one part of a file and ends in another, when the window moves, what a foreign file lacks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "analyzer/feed.h"
#include "analyzer/timeline_build.h"
#include "tests/unit/trace_sample.h"

#define MS 1000000ull
#define START (100 * 1000 * MS)
#define REAL 1700000000000000000ull

static char dir[64];
static struct timeline *tl;
static struct feed *f;

static int setup(void **unused)
{
	(void)unused;
	snprintf(dir, sizeof(dir), "/tmp/whyidle-test-XXXXXX");
	tl = timeline_new();
	f = NULL;
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **unused)
{
	char command[128];

	(void)unused;
	feed_close(f);
	timeline_free(tl);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void open_feed(void)
{
	const char *paths[] = {dir};
	char error[640];

	f = feed_open(paths, 1, tl, error, sizeof(error));
	if (!f)
		fail_msg("%s", error);
}

static struct thread *main_thread(int pid)
{
	for (unsigned i = 0; i < tl->nprocesses; i++)
		if (tl->processes[i]->pid == pid)
			return timeline_thread(tl, tl->processes[i], pid);
	return NULL;
}

static void long_call_is_seen_before_it_ends(void **unused)
{
	struct sample *s = sample_open(in_dir("a.pftrace"), 10, START, REAL);
	bool open_seen = false;

	(void)unused;
	sample_attributes(s, "h", "b", 1, 0);
	sample_begin(s, &s->main, "connect", "tcp:1.1.1.1:1->2.2.2.2:2", -1, START + 100 * MS, 0);
	for (uint64_t t = START + 1000 * MS; t < START + 20000 * MS; t += 1000 * MS)
		sample_snapshot(s, t, REAL + t);
	sample_end(s, &s->main, START + 19500 * MS);
	sample_snapshot(s, START + 21000 * MS, REAL + 1);
	sample_close(s, "exit");
	open_feed();
	while (feed_step(f)) {
		struct thread *t = main_thread(10);

		open_seen |= t && t->ncalls == 1 && t->calls[0].end_ns == NS_OPEN;
	}
	assert_true(open_seen);
	assert_int_equal(main_thread(10)->ncalls, 1);
	assert_int_equal(main_thread(10)->calls[0].end_ns, START + 19500 * MS);
	assert_string_equal(main_thread(10)->process->end, "exit");
}

static void files_move_on_together(void **unused)
{
	(void)unused;
	for (int pid = 10; pid < 13; pid++) {
		struct sample *s = sample_open(in_dir(pid == 10 ? "a.pftrace" : pid == 11 ? "b.pftrace" : "c.pftrace"), pid, START + (uint64_t)(pid - 10) * 30000 * MS,
			REAL + (uint64_t)(pid - 10) * 30000 * MS);

		sample_attributes(s, "h", "b", 1, 0);
		for (uint64_t t = START + (uint64_t)(pid - 10) * 30000 * MS; t < START + 90000 * MS; t += 1000 * MS) {
			sample_slice(s, &s->main, "pread", "/x", 1, t + 1, t + MS, 0);
			sample_snapshot(s, t + 10 * MS, REAL + t);
		}
		sample_close(s, "exit");
	}
	open_feed();
	while (feed_step(f)) {
		for (unsigned i = 0; i < tl->nprocesses; i++) {
			struct thread *t = main_thread(tl->processes[i]->pid);

			/* nobody runs ahead by more than the window and a snapshot or two */
			if (!tl->finished && t->ncalls)
				assert_true(t->calls[t->ncalls - 1].start_ns < tl->complete_ns + 5000 * (int64_t)MS);
		}
		if (!tl->finished)
			timeline_evict(tl, tl->complete_ns - 3000 * (int64_t)MS);
	}
	assert_true(tl->finished);
	assert_int_equal(tl->nprocesses, 3);
	assert_int_equal(feed_totals(f)->events, 90 + 60 + 30);
}

static void semaphores_belong_to_a_family_and_pipes_to_a_host(void **unused)
{
	const struct text *sem[3], *pipe[3];

	(void)unused;
	for (int i = 0; i < 3; i++) {
		/* 10 has the child 11; 12 is a stranger on another host */
		struct sample *s = sample_open(in_dir(i == 0 ? "a.pftrace" : i == 1 ? "b.pftrace" : "c.pftrace"), 10 + i, START, REAL + START);

		sample_attributes(s, i == 2 ? "other" : "h", i == 2 ? "b2" : "b", i == 1 ? 10 : 1, 0);
		sample_slice(s, &s->main, "sem_wait", "sem:0x10", -1, START + 1, START + MS, 0);
		sample_slice(s, &s->main, "read", "pipe:[7]", 3, START + 2 * MS, START + 3 * MS, 0);
		sample_snapshot(s, START + 10 * MS, REAL + START + 10 * MS);
		sample_close(s, "exit");
	}
	open_feed();
	while (feed_step(f))
		;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(main_thread(10 + i)->ncalls, 2);
		sem[i] = main_thread(10 + i)->calls[0].target;
		pipe[i] = main_thread(10 + i)->calls[1].target;
	}
	assert_ptr_equal(sem[0], sem[1]);
	assert_ptr_not_equal(sem[0], sem[2]);
	assert_ptr_equal(pipe[0], pipe[1]);
	assert_ptr_not_equal(pipe[0], pipe[2]);
	assert_int_equal(main_thread(12)->calls[0].start_ns, START + 1);
	assert_int_equal(main_thread(10)->calls[1].bytes, 3);
}

static void trace_of_another_tool_is_read(void **unused)
{
	struct sample *s = sample_open(in_dir("a.pftrace"), 10, START, REAL);

	(void)unused;
	for (int i = 0; i < 1000; i++)
		sample_slice(s, &s->main, "whatever", NULL, -1, START + (uint64_t)i * MS, START + (uint64_t)i * MS + 1000, 0);
	sample_close(s, NULL);
	open_feed();
	while (feed_step(f))
		;
	assert_int_equal(main_thread(10)->ncalls, 1000);
	assert_int_equal(main_thread(10)->calls[0].name->class, CLASS_NONE);
	assert_int_equal(main_thread(10)->process->rank, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(long_call_is_seen_before_it_ends),
		T(files_move_on_together),
		T(semaphores_belong_to_a_family_and_pipes_to_a_host),
		T(trace_of_another_tool_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
