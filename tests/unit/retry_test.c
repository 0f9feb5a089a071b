/* SPDX-License-Identifier: Apache-2.0
 *
 * Which stalls of a connection are retries: losses of each kind are, a slow reader, a full link and spurious retransmissions are not. Samples come as
 * the shim takes them: every 10 ms while bytes are outstanding, and only when something changed.
 */
#include "cause_fixture.h"

struct link {
	struct world w;
	struct connection *c;
	struct tcp_sample s;		/* the socket's state */
	int64_t last_ack_ns;
};

static struct link connected(void)
{
	struct link l = { .w = world_new(2) };

	l.c = timeline_connection(l.w.tl, l.w.rank[0], timeline_target(l.w.tl, l.w.rank[0], "tcp:10.0.0.1:40000->10.0.0.2:50000"));
	l.c->role = ROLE_NCCL;
	l.s = (struct tcp_sample){ .state = 1, .rtt_us = 60, .min_rtt_us = 40, .snd_wnd = 1 << 20, .acked = 1 };
	return l;
}

static void sample(struct link *l, int64_t at_ns)
{
	l->s.at_ns = at_ns;
	l->s.last_ack_ms = (at_ns - l->last_ack_ns) / MS;
	timeline_tcp(l->w.tl, l->c, &l->s);
}

/* Bytes flow from a to b, acknowledged all the time; `rate` bytes per sample. */
static void flows(struct link *l, int64_t a, int64_t b, int64_t rate)
{
	for (int64_t t = a; t < b; t += 10 * MS) {
		l->s.acked += rate;
		l->s.unacked = 20;
		l->last_ack_ns = t;
		sample(l, t);
	}
}

static void goes_idle(struct link *l, int64_t at)
{
	l->s.acked += 1000;
	l->s.unacked = 0;
	l->last_ack_ns = at - MS;
	sample(l, at);
}

/* The sum of all retry time in [a, b). */
static int64_t retry_time(struct link *l, int64_t a, int64_t b)
{
	int64_t start, end, sum = 0;

	while (a < b && retry_find(l->w.tl, NULL, ~0u, a, b, &start, &end, NULL)) {
		assert_true(start >= a && end > start && end <= b);
		sum += end - start;
		a = end;
	}
	return sum;
}

static int64_t all_of(struct link *l)
{
	int64_t sum;

	world_ready(&l->w);
	sum = retry_time(l, 0, 100000 * MS);
	world_free(&l->w);
	return sum;
}

#define assert_near(value, expected, slack) assert_in_range((value) + 1000000000, (expected) - (slack) + 1000000000, (expected) + (slack) + 1000000000)

static void retry_says_nothing_about_a_clean_link(void **state)
{
	struct link l = connected();

	(void)state;
	flows(&l, 1000 * MS, 3000 * MS, 1 << 20);
	goes_idle(&l, 3000 * MS);
	flows(&l, 9000 * MS, 9500 * MS, 1 << 20);	/* long idle in between */
	goes_idle(&l, 9510 * MS);
	assert_int_equal(all_of(&l), 0);
}

/* Reordering: one percent retransmitted, all reported back as duplicates. */
static void retry_ignores_spurious_retransmissions(void **state)
{
	struct link l = connected();

	(void)state;
	for (int i = 0; i < 50; i++) {
		flows(&l, (1000 + i * 40) * MS, (1030 + i * 40) * MS, 1 << 20);
		l.s.retrans += 30;
		l.s.dsack += 30;
		l.s.ca = i & 1;
	}
	assert_int_equal(all_of(&l), 0);
}

/* Fast retransmit repairs single losses without a pause. */
static void retry_ignores_losses_that_cost_no_time(void **state)
{
	struct link l = connected();

	(void)state;
	for (int i = 0; i < 50; i++) {
		flows(&l, (1000 + i * 40) * MS, (1040 + i * 40) * MS, 1 << 20);
		l.s.retrans += 3;
		l.s.ca = i % 2 ? 3 : 0;
	}
	assert_int_equal(all_of(&l), 0);
}

/* A bottleneck: slow, steady, some drops, a long queue. */
static void retry_ignores_a_full_link(void **state)
{
	struct link l = connected();

	(void)state;
	l.s.rtt_us = 20000;
	for (int i = 0; i < 100; i++) {
		flows(&l, (1000 + i * 10) * MS, (1010 + i * 10) * MS, 250000);
		l.s.retrans += i % 9 == 0;
		l.s.ca = i % 9 == 0 ? 3 : 0;
		l.s.notsent = 4 << 20;
	}
	assert_int_equal(all_of(&l), 0);
}

static void retry_ignores_a_slow_reader(void **state)
{
	struct link l = connected();

	(void)state;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	/* the peer stops reading for 3 s: window closed, probes, backoff */
	for (int i = 1; i <= 300; i++) {
		l.s.snd_wnd = 0;
		l.s.unacked = 0;
		l.s.notsent = 2 << 20;
		l.s.rwnd_ms = i * 10;
		l.s.backoff = i / 100;
		if (i % 100 == 0) {
			l.s.retrans++;
			l.s.dsack++;
		}
		sample(&l, 1100 * MS + i * 10 * MS);
	}
	l.s.snd_wnd = 1 << 20;
	l.s.backoff = 0;
	flows(&l, 4110 * MS, 4300 * MS, 1 << 20);
	assert_int_equal(all_of(&l), 0);
}

/* A peer that reads in trickles, never quite closing the window. */
static void retry_ignores_a_trickling_reader(void **state)
{
	struct link l = connected();

	(void)state;
	for (int i = 0; i < 20; i++) {
		flows(&l, (1000 + i * 100) * MS, (1010 + i * 100) * MS, 65536);
		for (int k = 1; k < 10; k++) {
			l.s.unacked = 0;
			l.s.notsent = 1 << 20;
			l.s.rwnd_ms += 10;
			l.s.retrans += k == 5;
			sample(&l, (1000 + i * 100 + k * 10) * MS);
		}
	}
	assert_int_equal(all_of(&l), 0);
}

/* One lost tail: 200 ms of silence, then the timeout, repaired within a round trip. The samples never show the timeout itself. */
static void retry_finds_a_timeout_between_two_samples(void **state)
{
	struct link l = connected();

	(void)state;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	l.s.retrans++;
	flows(&l, 1295 * MS, 1400 * MS, 1 << 20);
	assert_near(all_of(&l), 205 * MS, 12 * MS);
}

/* A black hole of 1.5 s: timeouts at 200, 600 and 1400 ms, healed by the one at 3000 ms. */
static void retry_finds_a_black_hole(void **state)
{
	struct link l = connected();
	static const int fires[] = { 200, 600, 1400 };
	int64_t start, end;
	const struct retry_span *span;

	(void)state;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	l.s.ca = 4;
	for (int i = 0; i < 3; i++) {
		l.s.rto++;
		l.s.backoff++;
		l.s.retrans++;
		sample(&l, 1090 * MS + fires[i] * MS + 5 * MS);
	}
	l.s.rto = l.s.backoff = 0;
	l.s.ca = 0;
	l.s.retrans++;
	flows(&l, 4095 * MS, 4200 * MS, 1 << 20);
	world_ready(&l.w);
	assert_near(retry_time(&l, 0, 100000 * MS), 3005 * MS, 15 * MS);
	assert_true(retry_find(l.w.tl, NULL, RETRY_TIMEOUT, 2000 * MS, 2500 * MS, &start, &end, &span));
	assert_int_equal(start, 2000 * MS);
	assert_int_equal(end, 2500 * MS);
	assert_int_equal(span->retrans, 4);
	assert_ptr_equal(span->process, l.w.rank[0]);
	assert_false(retry_find(l.w.tl, NULL, RETRY_CONNECT, 2000 * MS, 2500 * MS, &start, &end, NULL));
	world_free(&l.w);
}

/* It had been idle for five seconds before: the stall begins with the send, not with the last acknowledgement. */
static void retry_dates_a_stall_by_when_bytes_were_sent(void **state)
{
	struct link l = connected();

	(void)state;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	goes_idle(&l, 1110 * MS);
	l.s.unacked = 4;
	sample(&l, 6110 * MS);
	l.s.retrans++;
	l.s.rto = 1;
	l.s.ca = 4;
	sample(&l, 6315 * MS);
	l.s.rto = 0;
	l.s.ca = 0;
	l.s.retrans++;
	flows(&l, 6720 * MS, 6800 * MS, 1 << 20);
	assert_near(all_of(&l), 615 * MS, 15 * MS);
}

/* While nothing is outstanding samples are 50 ms apart: the stall had begun long before the first that shows it. The timeout tells. */
static void retry_dates_a_stall_by_its_timeout(void **state)
{
	struct link l = connected();

	(void)state;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	goes_idle(&l, 1110 * MS);
	l.s.unacked = 4;			/* sent at 5002 */
	sample(&l, 5050 * MS);
	l.s.retrans++;
	l.s.rto = 1;
	l.s.ca = 4;
	sample(&l, 5208 * MS);
	l.s.rto = l.s.ca = 0;
	l.s.retrans++;
	flows(&l, 5605 * MS, 5700 * MS, 1 << 20);
	assert_near(all_of(&l), 603 * MS, 8 * MS);
}

/* A retransmission while nothing had been outstanding says nothing about the idle time before. */
static void retry_does_not_blame_idle_time(void **state)
{
	struct link l = connected();

	(void)state;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	goes_idle(&l, 1110 * MS);
	l.s.retrans++;
	flows(&l, 3000 * MS, 3100 * MS, 1 << 20);
	assert_int_equal(all_of(&l), 0);
}

static void retry_finds_recovery_without_progress(void **state)
{
	struct link l = connected();

	(void)state;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	l.s.ca = 3;
	l.s.retrans += 2;
	sample(&l, 1100 * MS);
	l.s.retrans += 2;
	sample(&l, 1130 * MS);
	l.s.ca = 0;
	flows(&l, 1160 * MS, 1200 * MS, 1 << 20);
	assert_near(all_of(&l), 70 * MS, 12 * MS);
}

/* On a long path it is normal to hear nothing for two round trips. */
static void retry_allows_for_the_round_trip(void **state)
{
	struct link l = connected();

	(void)state;
	l.s.rtt_us = 80000;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	l.s.ca = 3;
	l.s.retrans += 2;
	sample(&l, 1130 * MS);
	l.s.ca = 0;
	flows(&l, 1180 * MS, 1300 * MS, 1 << 20);
	assert_int_equal(all_of(&l), 0);
}

/* All retransmissions of a stall turn out to be duplicates: the path was slow, nothing was lost. */
static void retry_takes_back_a_stall_of_duplicates(void **state)
{
	struct link l = connected();

	(void)state;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	l.s.rto = 1;
	l.s.ca = 4;
	l.s.retrans++;
	sample(&l, 1300 * MS);
	l.s.rto = 0;
	l.s.ca = 0;
	l.s.dsack++;
	flows(&l, 1350 * MS, 1400 * MS, 1 << 20);
	assert_int_equal(all_of(&l), 0);
}

/* Still without progress when the trace ends: open to the end. */
static void retry_stays_open_until_progress(void **state)
{
	struct link l = connected();
	int64_t start, end;

	(void)state;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	l.s.rto = 1;
	l.s.ca = 4;
	l.s.retrans++;
	sample(&l, 1300 * MS);
	timeline_settle(l.w.tl, 1320 * MS);
	l.w.tl->complete_ns = 1320 * MS;
	causes_advance(l.w.tl);
	assert_true(retry_find(l.w.tl, NULL, ~0u, 1000 * MS, 1310 * MS, &start, &end, NULL));
	assert_near(start, 1090 * MS, 5 * MS);
	assert_int_equal(end, 1310 * MS);
	l.s.rto = 2;
	l.s.retrans++;
	sample(&l, 1700 * MS);
	timeline_settle(l.w.tl, 1800 * MS);
	l.w.tl->complete_ns = 1800 * MS;
	causes_advance(l.w.tl);
	assert_true(retry_find(l.w.tl, NULL, ~0u, 1400 * MS, 1790 * MS, &start, &end, NULL));
	assert_int_equal(end - start, 390 * MS);
	world_free(&l.w);
}

/* Losses on a socket that is none of the ranks' (a download, a metrics server). */
static void retry_ignores_other_peoples_sockets(void **state)
{
	struct link l = connected();

	(void)state;
	l.c->role = ROLE_OTHER;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	l.s.retrans++;
	l.s.rto = 1;
	l.s.ca = 4;
	sample(&l, 1300 * MS);
	flows(&l, 1700 * MS, 1800 * MS, 1 << 20);
	assert_int_equal(all_of(&l), 0);
}

/* ... but a socket whose other end is another recorded rank is (gloo). */
static void retry_knows_the_ranks_own_sockets_by_both_ends(void **state)
{
	struct link l = connected();
	struct connection *other = timeline_connection(l.w.tl, l.w.rank[1], timeline_target(l.w.tl, l.w.rank[1], "tcp:10.0.0.2:50000->10.0.0.1:40000"));
	const struct text *web = timeline_target(l.w.tl, l.w.rank[0], "tcp:10.0.0.1:40001->10.0.0.9:443");

	(void)state;
	(void)other;
	l.c->role = ROLE_OTHER;
	flows(&l, 1000 * MS, 1100 * MS, 1 << 20);
	l.s.retrans++;
	l.s.rto = 1;
	l.s.ca = 4;
	sample(&l, 1300 * MS);
	l.s.ca = 0;
	l.s.rto = 0;
	flows(&l, 1700 * MS, 1800 * MS, 1 << 20);
	world_ready(&l.w);
	assert_true(retry_is_comm(l.w.tl, l.w.rank[0], l.c->target));
	assert_false(retry_is_comm(l.w.tl, l.w.rank[0], web));
	assert_near(retry_time(&l, 0, 100000 * MS), 610 * MS, 15 * MS);
	world_free(&l.w);
}

/* ---- connecting ---- */

static void retry_finds_unanswered_connects(void **state)
{
	struct link l = connected();

	(void)state;
	add_call(&l.w, l.w.main[0], "ncclCommInitRank", NULL, 500 * MS, 4000 * MS, -1, 0);
	l.c->role = ROLE_OTHER;		/* nothing was sent on it yet */
	l.s = (struct tcp_sample){ .state = 2 };
	sample(&l, 1000 * MS);
	for (int i = 1; i <= 2; i++) {
		l.s.retrans = l.s.rto = i;
		sample(&l, 1000 * MS + i * 1000 * MS);
	}
	l.s = (struct tcp_sample){ .state = 1, .snd_wnd = 65536, .retrans = 2, .rtt_us = 50 };
	l.last_ack_ns = 3005 * MS;
	sample(&l, 3008 * MS);
	flows(&l, 3018 * MS, 3100 * MS, 4096);
	assert_near(all_of(&l), 2005 * MS, 12 * MS);
}

static void retry_ignores_unanswered_connects_elsewhere(void **state)
{
	struct link l = connected();

	(void)state;
	l.c->role = ROLE_OTHER;
	l.s = (struct tcp_sample){ .state = 2 };
	sample(&l, 1000 * MS);
	l.s.retrans = l.s.rto = 1;
	sample(&l, 2000 * MS);
	l.s = (struct tcp_sample){ .state = 7, .retrans = 1 };
	sample(&l, 3000 * MS);
	assert_int_equal(all_of(&l), 0);
}

static void retry_finds_refused_connects_and_their_pauses(void **state)
{
	struct link l = connected();
	struct thread *t = l.w.main[0];
	int64_t start, end;
	const struct retry_span *span;

	(void)state;
	add_call(&l.w, t, "ncclCommInitRank", NULL, 500 * MS, 4000 * MS, -1, 0);
	for (int i = 0; i < 5; i++)
		add_call(&l.w, t, "connect", "tcp:10.0.0.1:40000->10.0.0.2:51000", (1000 + i * 300) * MS, (1000 + i * 300) * MS + 200 * US, -1, 111);
	add_call(&l.w, t, "connect", "tcp:10.0.0.1:40010->10.0.0.2:51000", 2500 * MS, 2500 * MS + 300 * US, -1, 0);
	/* an unrelated service that refuses, outside of any set-up */
	add_call(&l.w, t, "connect", "tcp:10.0.0.1:40020->10.0.0.3:8080", 5000 * MS, 5000 * MS + 200 * US, -1, 111);
	world_ready(&l.w);
	assert_true(retry_find(l.w.tl, NULL, ~0u, 0, 100000 * MS, &start, &end, &span));
	assert_int_equal(start, 1000 * MS);
	assert_int_equal(end, 2500 * MS + 300 * US);
	assert_int_equal(span->failed, 5);
	assert_int_equal(span->err, 111);
	assert_int_equal(retry_time(&l, 0, 100000 * MS), end - start);
	world_free(&l.w);
}

static void retry_ends_with_the_call_that_gave_up(void **state)
{
	struct link l = connected();
	struct thread *t = l.w.main[0];

	(void)state;
	add_call(&l.w, t, "ncclCommInitRank", NULL, 500 * MS, 1500 * MS, -1, 6);
	add_call(&l.w, t, "connect", "tcp:10.0.0.1:40000->10.0.0.2:51000", 1000 * MS, 1001 * MS, -1, 113);
	world_ready(&l.w);
	assert_int_equal(retry_time(&l, 0, 100000 * MS), 500 * MS);
	world_free(&l.w);
}

/* Looked at in pieces, as the window moves: the same as at once. */
static void retry_is_the_same_in_pieces(void **state)
{
	struct link l = connected();

	(void)state;
	add_call(&l.w, l.w.main[0], "ncclCommInitRank", NULL, 100 * MS, 1050 * MS, -1, 0);
	add_call(&l.w, l.w.main[0], "connect", "tcp:10.0.0.1:40000->10.0.0.2:51000", 200 * MS, 201 * MS, -1, 111);
	add_call(&l.w, l.w.main[0], "connect", "tcp:10.0.0.1:40002->10.0.0.2:51000", 700 * MS, 701 * MS, -1, 0);
	flows(&l, 1100 * MS, 1200 * MS, 1 << 20);
	l.s.retrans++;
	l.s.rto = 1;
	l.s.ca = 4;
	sample(&l, 1400 * MS);
	l.s.rto = l.s.ca = 0;
	flows(&l, 1600 * MS, 1700 * MS, 1 << 20);
	timeline_settle(l.w.tl, NS_OPEN);
	for (int64_t t = 0; t < 3000 * MS; t += 37 * MS) {
		l.w.tl->complete_ns = t;
		causes_advance(l.w.tl);
	}
	assert_near(retry_time(&l, 0, 100000 * MS), 501 * MS + 410 * MS, 15 * MS);
	world_free(&l.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retry_says_nothing_about_a_clean_link),
		cmocka_unit_test(retry_ignores_spurious_retransmissions),
		cmocka_unit_test(retry_ignores_losses_that_cost_no_time),
		cmocka_unit_test(retry_ignores_a_full_link),
		cmocka_unit_test(retry_ignores_a_slow_reader),
		cmocka_unit_test(retry_ignores_a_trickling_reader),
		cmocka_unit_test(retry_finds_a_timeout_between_two_samples),
		cmocka_unit_test(retry_finds_a_black_hole),
		cmocka_unit_test(retry_dates_a_stall_by_when_bytes_were_sent),
		cmocka_unit_test(retry_dates_a_stall_by_its_timeout),
		cmocka_unit_test(retry_does_not_blame_idle_time),
		cmocka_unit_test(retry_finds_recovery_without_progress),
		cmocka_unit_test(retry_allows_for_the_round_trip),
		cmocka_unit_test(retry_takes_back_a_stall_of_duplicates),
		cmocka_unit_test(retry_stays_open_until_progress),
		cmocka_unit_test(retry_ignores_other_peoples_sockets),
		cmocka_unit_test(retry_knows_the_ranks_own_sockets_by_both_ends),
		cmocka_unit_test(retry_finds_unanswered_connects),
		cmocka_unit_test(retry_ignores_unanswered_connects_elsewhere),
		cmocka_unit_test(retry_finds_refused_connects_and_their_pauses),
		cmocka_unit_test(retry_ends_with_the_call_that_gave_up),
		cmocka_unit_test(retry_is_the_same_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
