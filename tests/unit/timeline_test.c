/* SPDX-License-Identifier: Apache-2.0
 *
 * The window of events: order, nesting, wakers, counters, eviction.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "analyzer/timeline_build.h"

static struct timeline *tl;
static struct process *p;
static struct thread *t;

static int setup(void **unused)
{
	(void)unused;
	tl = timeline_new();
	p = timeline_process(tl, "host", 100, 100);
	p->first_ns = 0;
	t = timeline_thread(tl, p, 100);
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	timeline_free(tl);
	return 0;
}

static void call(struct thread *th, const char *name, const char *target, int64_t a, int64_t b)
{
	timeline_call(tl, th, &(struct slice){.start_ns = a, .end_ns = b, .bytes = -1, .name = timeline_name(tl, name),
		.target = target ? timeline_target(tl, th->process, target) : NULL});
}

static const char *at(int64_t ns)
{
	const struct slice *s = timeline_call_at(t, ns);

	return s ? s->name->text : "-";
}

static void innermost_call_is_found_whatever_the_order_of_arrival(void **unused)
{
	(void)unused;
	call(t, "read", "/a", 120, 130);
	call(t, "pread", "/a", 140, 150);
	call(t, "ncclGroupEnd", NULL, 100, 200);	/* outer one comes after its inner ones */
	timeline_settle(tl, 1000);
	call(t, "connect", NULL, 141, 145);		/* and one late, inside an inner one */
	call(t, "close", NULL, 300, 310);
	timeline_settle(tl, 2000);
	assert_string_equal(at(99), "-");
	assert_string_equal(at(100), "ncclGroupEnd");
	assert_string_equal(at(125), "read");
	assert_string_equal(at(130), "ncclGroupEnd");
	assert_string_equal(at(140), "pread");
	assert_string_equal(at(144), "connect");
	assert_string_equal(at(149), "pread");
	assert_string_equal(at(199), "ncclGroupEnd");
	assert_string_equal(at(200), "-");
	assert_int_equal(timeline_call_at(t, 144)->depth, 2);
	assert_string_equal(timeline_call_after(t, 200)->name->text, "close");
	assert_null(timeline_call_after(t, 301));
}

static void nesting_equals_brute_force(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed < 300; seed++) {
		struct { int64_t a, b; } c[60];
		int n = 0, order[60];

		timeline_free(tl);
		setup(NULL);
		srand(seed);
		/* random properly nested calls: a new one goes where no other is cut */
		for (int i = 0; i < 400 && n < 60; i++) {
			int64_t a = rand() % 1000, b = a + 1 + rand() % 200;
			int bad = 0;

			for (int j = 0; j < n; j++)
				bad |= (a == c[j].a) || !(b <= c[j].a || a >= c[j].b || (a >= c[j].a && b <= c[j].b) || (a <= c[j].a && b >= c[j].b));
			if (!bad)
				c[n].a = a, c[n++].b = b;
		}
		for (int i = 0; i < n; i++)
			order[i] = i;
		for (int i = n - 1; i > 0; i--) {
			int j = rand() % (i + 1), k = order[i];

			order[i] = order[j];
			order[j] = k;
		}
		for (int i = 0; i < n; i++) {
			call(t, "read", "/a", c[order[i]].a, c[order[i]].b);
			if (rand() % 7 == 0)
				timeline_settle(tl, 1);
		}
		timeline_settle(tl, 2000);
		for (int64_t ns = 0; ns < 1300; ns++) {
			const struct slice *s = timeline_call_at(t, ns);
			int best = -1;

			for (int i = 0; i < n; i++)
				if (c[i].a <= ns && ns < c[i].b && (best < 0 || c[i].b - c[i].a < c[best].b - c[best].a))
					best = i;
			if (!!s != (best >= 0) || (s && (s->start_ns != c[best].a || s->end_ns != c[best].b)))
				fail_msg("seed %u at %lld", seed, (long long)ns);
		}
	}
}

static void running_call_gets_its_end_later(void **unused)
{
	struct slice s = {.start_ns = 50, .end_ns = NS_OPEN, .bytes = -1, .name = timeline_name(tl, "poll")};

	(void)unused;
	timeline_call(tl, t, &s);
	timeline_settle(tl, 100);
	assert_string_equal(at(1000000), "poll");
	timeline_call_end(tl, t, &s, 200);
	call(t, "read", "/a", 210, 220);
	timeline_settle(tl, 300);
	assert_string_equal(at(199), "poll");
	assert_string_equal(at(205), "-");
	assert_int_equal(timeline_call_at(t, 215)->depth, 0);
}

static void operations_find_their_launch(void **unused)
{
	struct device *d = timeline_device(tl, p, 0);

	(void)unused;
	timeline_op(tl, d, &(struct op){.start_ns = 500, .end_ns = 600, .name = timeline_name(tl, "gemm"), .flow = 7});
	timeline_op(tl, d, &(struct op){.start_ns = 300, .end_ns = 400, .name = timeline_name(tl, "gemm"), .flow = 8});
	timeline_call(tl, t, &(struct slice){.start_ns = 100, .end_ns = 110, .name = timeline_name(tl, "cudaLaunchKernel"), .flow = 8});
	timeline_call(tl, t, &(struct slice){.start_ns = 120, .end_ns = 130, .name = timeline_name(tl, "cudaLaunchKernel"), .flow = 7});
	timeline_settle(tl, 1000);
	assert_int_equal(d->ops[0].launch_start_ns, 100);
	assert_ptr_equal(d->ops[1].launcher, t);
	assert_int_equal(d->ops[1].launch_end_ns, 130);
}

static void waker_is_the_last_writer_in_the_wait(void **unused)
{
	struct process *child = timeline_process(tl, "host", 101, 100), *other = timeline_process(tl, "elsewhere", 101, 100);
	struct thread *w = timeline_thread(tl, child, 101), *x = timeline_thread(tl, other, 101), *who;
	const struct text *pipe = timeline_target(tl, p, "pipe:[5]");
	const struct slice *c;

	(void)unused;
	call(w, "write", "pipe:[5]", 90, 95);
	call(w, "write", "pipe:[5]", 195, 205);
	call(t, "write", "pipe:[5]", 196, 197);		/* one's own does not wake oneself */
	call(x, "write", "pipe:[5]", 198, 199);		/* another host's pipe of that number */
	call(w, "write", "pipe:[6]", 199, 200);
	timeline_settle(tl, 1000);
	assert_true(timeline_waker(tl, pipe, t, 100, 204, &who, &c));
	assert_ptr_equal(who, w);
	assert_int_equal(c->start_ns, 195);
	assert_false(timeline_waker(tl, pipe, t, 100, 190, &who, &c));
	assert_false(timeline_waker(tl, timeline_target(tl, p, "/file"), t, 0, 1000, &who, &c));
}

static void locks_of_ones_own_process_go_first(void **unused)
{
	struct process *child = timeline_process(tl, "host", 101, 100);
	struct thread *mine = timeline_thread(tl, p, 102), *theirs = timeline_thread(tl, child, 101), *who;
	const struct slice *c;

	(void)unused;
	call(mine, "sem_post", "sem:0x10", 150, 151);
	call(theirs, "sem_post", "sem:0x10", 160, 161);
	call(theirs, "sem_post", "sem:0x20", 160, 162);
	timeline_settle(tl, 1000);
	assert_true(timeline_waker(tl, timeline_target(tl, p, "sem:0x10"), t, 100, 200, &who, &c));
	assert_ptr_equal(who, mine);
	assert_true(timeline_waker(tl, timeline_target(tl, p, "sem:0x20"), t, 100, 200, &who, &c));
	assert_ptr_equal(who, theirs);
}

static void other_end_of_a_socketpair_wakes(void **unused)
{
	struct process *child = timeline_process(tl, "host", 101, 100);
	struct thread *w = timeline_thread(tl, child, 101), *who;
	const struct slice *c;

	(void)unused;
	call(w, "write", "unix:[41]", 150, 151);
	timeline_settle(tl, 1000);
	assert_true(timeline_waker(tl, timeline_target(tl, p, "unix:[40]"), t, 100, 200, &who, &c));
	assert_ptr_equal(who, w);
}

static void counters_interpolate(void **unused)
{
	struct thread_use use;
	int64_t cpu, rq;

	(void)unused;
	assert_false(timeline_use(t, 0, 10, &use));
	timeline_use_sample(t, USE_CPU, 0, 0);
	timeline_use_sample(t, USE_CPU, 100000, 30000);
	timeline_use_sample(t, USE_RUNQUEUE, 0, 0);
	timeline_use_sample(t, USE_RUNQUEUE, 100000, 10000);
	assert_true(timeline_use(t, 0, 50000, &use));
	assert_int_equal(use.cpu_ns, 15000);
	assert_int_equal(use.runqueue_ns, 5000);
	/* of 100 us the thread slept 60 in a recorded call: of the other 40 it was 30 on the CPU and 10 waited for one */
	call(t, "poll", NULL, 20000, 80000);
	timeline_settle(tl, 1000000);
	assert_true(timeline_silence(t, 0, 20000, &cpu, &rq));
	assert_int_equal(cpu, 15000);
	assert_int_equal(rq, 5000);
}

static void eviction_keeps_what_still_runs(void **unused)
{
	(void)unused;
	call(t, "waitpid", NULL, 1, 1000000);
	for (int i = 0; i < 10000; i++)
		call(t, "read", "/a", 10 + i * 10, 15 + i * 10);
	timeline_settle(tl, 200000);
	assert_int_equal(t->ncalls, 10001);
	timeline_evict(tl, 90000);
	timeline_settle(tl, 200000);
	assert_true(t->ncalls < 2000);
	assert_string_equal(at(95010), "read");
	assert_string_equal(at(95018), "waitpid");
	assert_int_equal(timeline_call_at(t, 95010)->depth, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(innermost_call_is_found_whatever_the_order_of_arrival),
		T(nesting_equals_brute_force),
		T(running_call_gets_its_end_later),
		T(operations_find_their_launch),
		T(waker_is_the_last_writer_in_the_wait),
		T(locks_of_ones_own_process_go_first),
		T(other_end_of_a_socketpair_wakes),
		T(counters_interpolate),
		T(eviction_keeps_what_still_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
