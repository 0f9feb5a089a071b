/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches out of pipe traffic: the awaited one, queues, start methods, framing, lost records.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <time.h>

#include "analyzer/batch.h"
#include "analyzer/timeline_build.h"

static struct timeline *tl;
static struct batches *b;
static struct process *p, *c1, *c2;
static struct thread *t, *w1, *w2;

static int setup(void **unused)
{
	(void)unused;
	tl = timeline_new();
	b = batches_open();
	p = timeline_process(tl, "host", 100, 100);
	c1 = timeline_process(tl, "host", 201, 100);
	c2 = timeline_process(tl, "host", 202, 100);
	p->first_ns = c1->first_ns = c2->first_ns = 0;
	c1->parent = c2->parent = p;
	t = timeline_thread(tl, p, 100);
	w1 = timeline_thread(tl, c1, 201);
	w2 = timeline_thread(tl, c2, 202);
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	batches_close(b);
	timeline_free(tl);
	return 0;
}

static void io(struct thread *th, const char *name, int pipe, int64_t bytes, int64_t a, int64_t e)
{
	char target[32];

	snprintf(target, sizeof(target), "pipe:[%d]", pipe);
	timeline_call(tl, th, &(struct slice){.start_ns = a, .end_ns = e, .bytes = bytes, .name = timeline_name(tl, name),
		.target = timeline_target(tl, th->process, target)});
}

static void settle(int64_t at)
{
	timeline_settle(tl, at);
	batches_advance(b, tl);
}

static const struct batch *awaited(int64_t at)
{
	return batches_awaited(b, timeline_target(tl, p, "pipe:[9]"), at, NULL);
}

/* Requests by pipes 1 and 2, answers by pipe 9; worker 2 is faster than worker 1. */
static void first_round(void)
{
	io(t, "write", 1, 20, 100, 101);
	io(t, "write", 2, 20, 110, 111);
	io(w1, "read", 1, 20, 90, 120);
	io(w2, "read", 2, 20, 90, 121);
	io(w1, "write", 9, 30, 200, 201);
	io(w2, "write", 9, 30, 210, 211);
	io(t, "read", 9, 30, 220, 221);
	io(t, "read", 9, 30, 230, 231);
}

static void consumer_waits_for_the_oldest_request(void **unused)
{
	(void)unused;
	first_round();
	io(t, "write", 1, 20, 300, 301);
	io(t, "write", 2, 20, 310, 311);
	io(w1, "read", 1, 20, 290, 320);
	io(w2, "read", 2, 20, 290, 321);
	io(w2, "write", 9, 30, 500, 501);	/* out of turn: read, and put aside */
	io(t, "poll", 9, -1, 400, 505);
	io(t, "read", 9, 30, 506, 507);
	io(w1, "write", 9, 30, 900, 901);
	io(t, "poll", 9, -1, 510, 905);
	io(t, "read", 9, 30, 906, 907);
	settle(2000);
	assert_int_equal(awaited(400)->requested_ns, 300);
	assert_int_equal(awaited(510)->requested_ns, 300);
	assert_ptr_equal(awaited(510)->worker, w1);
	assert_int_equal(awaited(510)->started_ns, 320);
	assert_int_equal(awaited(510)->finished_ns, 900);
	assert_int_equal(awaited(510)->taken_ns, 907);
	assert_false(awaited(510)->queued_behind);
	assert_null(awaited(950));
	assert_true(batches_is_worker(b, c1));
	assert_false(batches_is_worker(b, p));
	assert_true(batches_is_consumer(b, t));
}

static void busy_worker_makes_a_batch_queue(void **unused)
{
	struct loader_facts facts;

	(void)unused;
	io(t, "write", 1, 20, 100, 101);
	io(t, "write", 1, 20, 105, 106);
	io(w1, "read", 1, 20, 90, 120);
	io(w1, "write", 9, 30, 500, 501);
	io(w1, "read", 1, 20, 510, 511);
	io(w1, "write", 9, 30, 900, 901);
	io(t, "read", 9, 30, 502, 503);
	io(t, "read", 9, 30, 902, 903);
	settle(2000);
	assert_int_equal(awaited(503)->requested_ns, 105);
	assert_int_equal(awaited(503)->started_ns, 511);
	assert_true(awaited(503)->queued_behind);
	assert_false(awaited(50)->queued_behind);
	assert_true(batches_facts(b, p, &facts));
	assert_int_equal(facts.taken, 2);
	assert_int_equal(facts.workers, 1);
	assert_int_equal(facts.service_ns, (500 - 120 + 900 - 511) / 2);
}

/* Python writes a long message as its length and then itself; a reader takes length and body apart always. */
static void framing_does_not_matter(void **unused)
{
	(void)unused;
	io(t, "write", 1, 24, 100, 101);
	io(w1, "read", 1, 4, 90, 120);
	io(w1, "read", 1, 20, 121, 122);
	io(w1, "write", 9, 4, 500, 501);
	io(w1, "write", 9, 100000, 502, 600);
	io(t, "read", 9, 4, 400, 503);
	io(t, "read", 9, 65536, 504, 550);
	io(t, "read", 9, 100000 - 65536, 551, 610);
	io(t, "write", 1, 24, 700, 701);
	io(w1, "read", 1, 4, 620, 720);
	io(w1, "read", 1, 20, 721, 722);
	io(w1, "write", 9, 4, 800, 801);
	io(w1, "write", 9, 100000, 802, 900);
	settle(2000);
	assert_int_equal(awaited(400)->started_ns, 122);
	assert_int_equal(awaited(400)->finished_ns, 500);
	assert_int_equal(awaited(400)->taken_ns, 610);
	assert_int_equal(awaited(650)->requested_ns, 700);
	assert_int_equal(awaited(650)->finished_ns, 800);
}

static void what_a_worker_is_started_with_is_no_request(void **unused)
{
	(void)unused;
	io(t, "write", 50, 23027, 10, 20);	/* spawn: the worker's program */
	io(w1, "read", 50, 4096, 30, 31);
	io(w1, "read", 50, 18931, 32, 33);
	io(t, "write", 1, 20, 100, 101);
	io(w1, "read", 1, 20, 110, 120);
	io(w1, "write", 9, 30, 500, 501);
	io(t, "read", 9, 30, 502, 503);
	io(t, "write", 1, 20, 600, 601);
	io(w1, "read", 1, 20, 610, 620);
	io(w1, "write", 9, 30, 900, 901);
	io(t, "read", 9, 30, 902, 903);
	settle(2000);
	assert_int_equal(awaited(400)->requested_ns, 100);
	assert_int_equal(awaited(700)->requested_ns, 600);
	assert_int_equal(awaited(700)->finished_ns, 900);
}

static void lost_records_do_not_shift_the_count_for_good(void **unused)
{
	(void)unused;
	first_round();
	io(t, "write", 1, 20, 300, 301);
	/* the read of it was not recorded; then the worker blocks on an empty pipe, so it must have been read */
	io(w1, "write", 9, 30, 400, 401);
	io(t, "read", 9, 30, 402, 403);
	io(w1, "poll", 1, -1, 410, 100000);
	io(t, "write", 1, 20, 90000, 90001);
	io(w1, "read", 1, 20, 100010, 100020);
	io(w1, "write", 9, 30, 200000, 200001);
	io(t, "read", 9, 30, 200010, 200020);
	settle(1000000);
	assert_int_equal(awaited(150000)->requested_ns, 90000);
	assert_int_equal(awaited(150000)->started_ns, 100020);
}

static int takes;
static void on_take(void *ctx, const struct thread *consumer, int64_t at_ns)
{
	(void)ctx;
	assert_ptr_equal(consumer, t);
	assert_true(at_ns > 0);
	takes++;
}

static void same_answer_in_one_go_or_in_pieces(void **unused)
{
	(void)unused;
	takes = 0;
	batches_on_take(b, on_take, NULL);
	first_round();
	io(t, "write", 1, 20, 300, 301);
	io(w1, "read", 1, 20, 290, 320);	/* begins in one piece, ends in the next */
	io(w1, "write", 9, 30, 900, 901);
	io(t, "read", 9, 30, 906, 907);
	for (int64_t at = 50; at < 1000; at += 13)
		settle(at);
	assert_int_equal(takes, 3);
	assert_int_equal(awaited(400)->started_ns, 320);
	batches_evict(b, 800);
	assert_int_equal(awaited(400)->requested_ns, 300);
}

/* head | cat | md5sum: what is read is never answered. */
static void a_pipeline_costs_its_length(void **unused)
{
	struct loader_facts facts;
	clock_t began = clock();
	int64_t at = 1000;

	(void)unused;
	for (int i = 0; i < 300000; i++, at += 100) {
		io(t, "write", 1, 65536, at, at + 10);
		io(w1, "read", 1, 65536, at + 20, at + 30);
	}
	settle(INT64_MAX);
	assert_false(batches_is_worker(b, c1));
	assert_false(batches_facts(b, p, &facts));
	/* in proportion it is a second; with every message looking at all before it, a minute or more */
	assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 20);
}

/* Each request is two messages and only one of them is answered: the rest may not pile up, nor may what is forgotten be used. */
static void requests_without_end_keep_the_batches_in_order(void **unused)
{
	struct loader_facts facts;
	int64_t at = 1000;

	(void)unused;
	for (int i = 0; i < 5000; i++, at += 1000) {
		io(t, "write", 1, 20, at, at + 10);
		io(t, "write", 1, 30, at + 20, at + 30);
		io(w1, "read", 1, 50, at + 40, at + 50);
		io(w1, "write", 9, 30, at + 500, at + 510);
		io(t, "read", 9, 30, at + 520, at + 530);
		if (i % 100 == 99) {
			settle(at + 900);
			batches_evict(b, at - 50000);
		}
	}
	settle(INT64_MAX);
	assert_true(batches_is_worker(b, c1));
	assert_true(batches_facts(b, p, &facts));
	assert_int_equal(facts.taken, 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(consumer_waits_for_the_oldest_request),
		T(busy_worker_makes_a_batch_queue),
		T(framing_does_not_matter),
		T(what_a_worker_is_started_with_is_no_request),
		T(lost_records_do_not_shift_the_count_for_good),
		T(same_answer_in_one_go_or_in_pieces),
		T(a_pipeline_costs_its_length),
		T(requests_without_end_keep_the_batches_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
