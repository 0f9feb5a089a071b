/* SPDX-License-Identifier: Apache-2.0
 *
 * Gaps by hand: who is found at the end of the walk, and that every ns comes out once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/timeline_build.h"
#include "analyzer/walk.h"

static struct timeline *tl;
static struct batches *batches;
static struct process *p, *child;
static struct thread *t, *w;
static struct moment got[4096];
static unsigned ngot;
static int64_t pos;

static void on_moment(void *ctx, struct moment *m)
{
	(void)ctx;
	assert_int_equal(m->start_ns, pos);
	assert_true(m->end_ns > m->start_ns);
	pos = m->end_ns;
	if (ngot < 4096)
		got[ngot++] = *m;
}

static int setup(void **unused)
{
	(void)unused;
	tl = timeline_new();
	batches = batches_open();
	p = timeline_process(tl, "host", 100, 100);
	child = timeline_process(tl, "host", 200, 100);
	child->ppid = 100;
	child->parent = p;
	p->first_ns = child->first_ns = 0;
	p->cpus = 4;
	t = timeline_thread(tl, p, 100);
	w = timeline_thread(tl, child, 200);
	ngot = 0;
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	batches_close(batches);
	timeline_free(tl);
	return 0;
}

static void call(struct thread *th, const char *name, const char *target, int64_t bytes, int64_t a, int64_t b)
{
	timeline_call(tl, th, &(struct slice){.start_ns = a, .end_ns = b, .bytes = bytes, .name = timeline_name(tl, name),
		.target = target ? timeline_target(tl, th->process, target) : NULL});
}

static void walk(int64_t a, int64_t b, const struct op *op, struct thread *fallback)
{
	struct walk walking = {.tl = tl, .batches = batches, .emit = on_moment};

	timeline_settle(tl, 1000000000000);
	batches_advance(batches, tl);
	ngot = 0;
	pos = a;
	walk_gap(&walking, a, b, op, fallback);
	assert_int_equal(pos, b);
}

static void expect(unsigned i, int64_t a, int64_t b, const struct thread *th, const char *name, enum part part, int hops)
{
	assert_true(i < ngot);
	assert_int_equal(got[i].start_ns, a);
	assert_int_equal(got[i].end_ns, b);
	assert_ptr_equal(got[i].thread, th);
	assert_string_equal(got[i].call ? got[i].call->name->text : "-", name);
	assert_int_equal(got[i].part, part);
	assert_int_equal(got[i].hops, hops);
}

static struct op *kernel(int64_t l0, int64_t l1)
{
	static struct op op;

	op = (struct op){.name = timeline_name(tl, "gemm"), .launcher = t, .launch_start_ns = l0, .launch_end_ns = l1};
	return &op;
}

static void gap_is_cut_at_the_launch(void **unused)
{
	(void)unused;
	call(t, "pread", "/data/x", 10, 1200, 5000);
	call(t, "cudaLaunchKernel", NULL, -1, 6000, 8000);
	walk(1000, 100000, kernel(6000, 8000), NULL);
	assert_int_equal(ngot, 6);
	expect(0, 1000, 1200, t, "-", PART_HOST, 0);
	expect(1, 1200, 5000, t, "pread", PART_HOST, 0);
	expect(2, 5000, 6000, t, "-", PART_HOST, 0);
	expect(3, 6000, 8000, t, "cudaLaunchKernel", PART_CALL, 0);
	expect(4, 8000, 28000, t, "-", PART_LATENCY, 0);
	expect(5, 28000, 100000, t, "-", PART_DEVICE, 0);
}

static void work_queued_long_before_is_the_devices(void **unused)
{
	(void)unused;
	call(w, "pread", "/data/x", 10, 0, 500000);	/* somebody reads meanwhile: not the cause */
	walk(100000, 150000, kernel(6000, 8000), NULL);
	assert_int_equal(ngot, 2);
	expect(0, 100000, 120000, t, "-", PART_LATENCY, 0);
	expect(1, 120000, 150000, t, "-", PART_DEVICE, 0);
}

static void gap_without_launch_record_looks_at_the_usual_thread(void **unused)
{
	struct op op = {.name = timeline_name(tl, "gemm")};

	(void)unused;
	call(t, "fsync", "/ckpt", -1, 1000, 9000);
	walk(1000, 9000, &op, t);
	expect(0, 1000, 9000, t, "fsync", PART_HOST, 0);
	walk(1000, 9000, &op, NULL);
	assert_null(got[0].thread);
}

/* One request and its answer, and a second one that is late. */
static void loader(void)
{
	call(t, "write", "pipe:[1]", 20, 100, 110);
	call(w, "read", "pipe:[1]", 20, 90, 120);
	call(w, "write", "pipe:[2]", 50, 300, 310);
	call(t, "read", "pipe:[2]", 50, 400, 410);
	call(t, "write", "pipe:[1]", 20, 500, 510);
	call(w, "read", "pipe:[1]", 20, 505, 520);
	call(w, "pread", "/data/x", 4096, 600, 9000);
	call(w, "write", "pipe:[2]", 50, 9500, 9510);
}

static void wait_for_a_batch_goes_on_in_its_worker(void **unused)
{
	(void)unused;
	loader();
	call(t, "poll", "pipe:[2]", -1, 1000, 9700);
	call(t, "read", "pipe:[2]", 50, 9700, 9710);
	walk(1000, 9700, kernel(9800, 9900), NULL);
	assert_int_equal(ngot, 3);
	expect(0, 1000, 9000, w, "pread", PART_HOST, 1);
	expect(1, 9000, 9500, w, "-", PART_HOST, 1);
	expect(2, 9500, 9700, t, "poll", PART_HOST, 0);
	for (unsigned i = 0; i < ngot; i++) {
		assert_true(got[i].loader);
		assert_non_null(got[i].batch);
		assert_int_equal(got[i].batch->requested_ns, 500);
		assert_int_equal(got[i].batch->started_ns, 520);
		assert_int_equal(got[i].batch->finished_ns, 9500);
		assert_int_equal(got[i].batch->wait_start_ns, 1000);
		assert_int_equal(got[i].workers_seen, 1);
	}
}

static void wait_for_the_pinning_thread_goes_on_to_the_worker(void **unused)
{
	struct thread *pin = timeline_thread(tl, p, 101);

	(void)unused;
	call(t, "write", "pipe:[1]", 20, 100, 110);
	call(w, "read", "pipe:[1]", 20, 90, 120);
	call(w, "write", "pipe:[2]", 50, 300, 310);
	call(pin, "read", "pipe:[2]", 50, 400, 410);
	call(t, "write", "pipe:[1]", 20, 500, 510);
	call(w, "read", "pipe:[1]", 20, 505, 520);
	call(w, "pread", "/data/x", 4096, 600, 9000);
	call(w, "write", "pipe:[2]", 50, 9500, 9510);
	call(pin, "poll", "pipe:[2]", -1, 800, 9600);
	call(pin, "read", "pipe:[2]", 50, 9600, 9610);
	call(pin, "cudaHostAlloc", NULL, -1, 9620, 9680);
	call(pin, "sem_post", "sem:0x1", -1, 9690, 9692);
	call(t, "sem_clockwait", "sem:0x1", -1, 1000, 9700);
	walk(1000, 9700, kernel(9800, 9900), NULL);
	expect(0, 1000, 9000, w, "pread", PART_HOST, 2);
	expect(1, 9000, 9500, w, "-", PART_HOST, 2);
	expect(2, 9500, 9600, pin, "poll", PART_HOST, 1);
	expect(3, 9600, 9610, pin, "read", PART_HOST, 1);
	for (unsigned i = 0; i < ngot; i++)
		assert_true(got[i].loader);
	expect(ngot - 1, 9692, 9700, t, "sem_clockwait", PART_HOST, 0);
}

static void waits_with_a_deadline_are_one_wait(void **unused)
{
	struct thread *other = timeline_thread(tl, p, 102);

	(void)unused;
	/* the first wait timed out: who ends the last one ends them all */
	call(t, "sem_clockwait", "sem:0x1", -1, 1000, 5000000);
	call(t, "sem_clockwait", "sem:0x1", -1, 5000100, 8000000);
	call(other, "connect", "tcp:1.2.3.4:5->6.7.8.9:10", -1, 900, 7900000);
	call(other, "sem_post", "sem:0x1", -1, 7999000, 7999500);
	walk(1000, 8000000, kernel(8100000, 8200000), NULL);
	expect(0, 1000, 5000000, other, "connect", PART_HOST, 1);
}

static void chains_end_at_eight_hops_and_in_circles(void **unused)
{
	struct thread *chain[12];
	char target[32];

	(void)unused;
	for (int i = 0; i < 12; i++) {
		chain[i] = i ? timeline_thread(tl, p, 300 + i) : t;
		snprintf(target, sizeof(target), "sem:0x%d", i);
		call(chain[i], "sem_wait", target, -1, 1000 + i, 9000 - 10 * i);
	}
	for (int i = 0; i < 11; i++) {
		snprintf(target, sizeof(target), "sem:0x%d", i);
		call(chain[i + 1], "sem_post", target, -1, 9000 - 10 * i - 5, 9000 - 10 * i - 4);
	}
	walk(2000, 8800, kernel(9100, 9200), NULL);
	assert_int_equal(ngot, 1);
	expect(0, 2000, 8800, chain[8], "sem_wait", PART_HOST, 8);

	teardown(NULL);
	setup(NULL);
	chain[1] = timeline_thread(tl, p, 301);
	call(t, "sem_wait", "sem:0xa", -1, 1000, 9000);
	call(chain[1], "sem_post", "sem:0xa", -1, 8990, 8991);
	call(chain[1], "sem_wait", "sem:0xb", -1, 1000, 8000);
	call(t, "sem_post", "sem:0xb", -1, 7990, 7991);
	walk(2000, 9000, kernel(9100, 9200), NULL);
	expect(0, 2000, 7990, chain[1], "sem_wait", PART_HOST, 1);	/* until t's own post */
}

static void sync_for_a_busy_device_is_noted(void **unused)
{
	(void)unused;
	call(t, "cudaStreamSynchronize", NULL, -1, 100000, 502000);
	walk(500000, 600000, kernel(590000, 595000), NULL);
	assert_true(got[0].after_sync);
	/* one that began when the device was idle already waited for nothing */
	call(t, "cudaStreamSynchronize", NULL, -1, 800000, 850000);
	walk(700000, 900000, kernel(890000, 895000), NULL);
	assert_false(got[0].after_sync);
}

static void silence_is_split_by_the_counters(void **unused)
{
	(void)unused;
	timeline_use_sample(t, USE_CPU, 0, 0);
	timeline_use_sample(t, USE_CPU, 100000, 50000);
	timeline_use_sample(t, USE_RUNQUEUE, 0, 0);
	timeline_use_sample(t, USE_RUNQUEUE, 100000, 20000);
	walk(0, 100000, kernel(100000, 100100), NULL);
	assert_int_equal(ngot, 3);
	assert_int_equal(got[0].activity, ACT_CPU);
	assert_int_equal(got[0].end_ns, 50000);
	assert_int_equal(got[1].activity, ACT_RUNNABLE);
	assert_int_equal(got[1].end_ns, 70000);
	assert_int_equal(got[2].activity, ACT_OFF_CPU);
}

/* Whatever the threads did: the moments touch, do not overlap, and cover the gap (walk() and on_moment check that). */
static void every_ns_comes_out_once(void **unused)
{
	static const struct { const char *name, *target; } kinds[] = {
		{"pread", "/data/x"}, {"sem_wait", "sem:0x1"}, {"sem_post", "sem:0x1"}, {"poll", "pipe:[2]"}, {"write", "pipe:[2]"},
		{"read", "pipe:[1]"}, {"write", "pipe:[1]"}, {"read", "pipe:[2]"}, {"pthread_join", "thread:101"}, {"waitpid", "pid:200"},
		{"pthread_cond_wait", "cond:0x5"}, {"pthread_cond_signal", "cond:0x5"}, {"connect", "tcp:1:2->3:4"}, {"epoll_wait", "fd:eventpoll"},
		{"cudaStreamSynchronize", NULL}, {"sem_clockwait", "sem:0x2"}, {"sem_post", "sem:0x2"},
	};

	(void)unused;
	for (unsigned seed = 1; seed <= 1500; seed++) {
		struct thread *threads[4];
		int64_t l0 = 500 + (seed * 37) % 1500;

		teardown(NULL);
		setup(NULL);
		srand(seed);
		threads[0] = t;
		threads[1] = timeline_thread(tl, p, 101);
		threads[2] = w;
		threads[3] = timeline_thread(tl, child, 201);
		for (int i = 0; i < 4; i++)
			for (int64_t at = rand() % 100; at < 2000;) {
				int k = rand() % (int)(sizeof(kinds) / sizeof(kinds[0]));
				int64_t end = at + 1 + rand() % 300;

				call(threads[i], kinds[k].name, kinds[k].target, rand() % 3 ? 20 : 4, at, end);
				if (rand() % 4 == 0 && end - at > 10)
					call(threads[i], "read", "pipe:[1]", 20, at + 2, end - 2);
				at = end + rand() % 50;
			}
		walk(200, 1800, rand() % 4 ? kernel(l0, l0 + 10) : NULL, t);
	}
}

/* Targets of damaged traces, and of programs that write the format by themselves. */
static void a_wait_for_what_is_no_thread_ends_at_itself(void **unused)
{
	static const char *const targets[] = {"", "x", "200", "thread", "pid", "thread:", "pid:", "pid:x", "thread:-1", "pid:99999999999999999999",
		"/data/x", "pipe:[1]", "pid:101"};
	static const char *const names[] = {"waitpid", "wait4", "waitid", "pthread_join"};
	int64_t at = 1000;

	(void)unused;
	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
		for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++, at += 10000)
			call(t, names[n], targets[i], -1, at, at + 9000);
	walk(1000, at, NULL, t);
	for (unsigned i = 0; i < ngot; i++)
		assert_ptr_equal(got[i].thread, t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(gap_is_cut_at_the_launch),
		T(work_queued_long_before_is_the_devices),
		T(gap_without_launch_record_looks_at_the_usual_thread),
		T(wait_for_a_batch_goes_on_in_its_worker),
		T(wait_for_the_pinning_thread_goes_on_to_the_worker),
		T(waits_with_a_deadline_are_one_wait),
		T(chains_end_at_eight_hops_and_in_circles),
		T(sync_for_a_busy_device_is_noted),
		T(silence_is_split_by_the_counters),
		T(every_ns_comes_out_once),
		T(a_wait_for_what_is_no_thread_ends_at_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
