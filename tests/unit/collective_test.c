/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives matched across ranks, and how exposed communication is split between a late rank, retries and the transfer.
 */
#include "cause_fixture.h"

#define COMM 0xabcdefull

static struct collective of(const struct world *w, int rank, int64_t op_start)
{
	struct collective c;

	assert_true(collective_of(w->tl, w->gpu[rank], op_at(w, rank, op_start), &c));
	return c;
}

static void collective_finds_the_last_rank(void **state)
{
	struct world w = world_new(3);
	struct collective c;

	(void)state;
	for (int i = 0; i < 10; i++) {
		int64_t t = (100 + i * 50) * MS;

		add_collective(&w, 0, COMM, (uint64_t)i, 3, t, t + 1 * MS, t + 30 * MS);
		add_collective(&w, 1, COMM, (uint64_t)i, 3, t, t + 21 * MS, t + 30 * MS);
		add_collective(&w, 2, COMM, (uint64_t)i, 3, t, t + 5 * MS, t + 30 * MS);
	}
	world_ready(&w);
	c = of(&w, 0, 201 * MS);
	assert_int_equal(c.seq, 2);
	assert_int_equal(c.nranks, 3);
	assert_int_equal(c.narrivals, 3);
	assert_int_equal(c.last.rank, 1);
	assert_int_equal(c.last.start_ns, 221 * MS);
	assert_int_equal(c.bytes, 1 << 20);
	assert_string_equal(c.call->text, "ncclAllReduce");
	c = of(&w, 1, 221 * MS);
	assert_ptr_equal(c.last.device, c.own.device);
	world_free(&w);
}

static void collective_splits_late_peer_from_transfer(void **state)
{
	struct world w = world_new(2);
	struct shares s;

	(void)state;
	add_collective(&w, 0, COMM, 1, 2, 100 * MS, 101 * MS, 150 * MS);
	add_collective(&w, 1, COMM, 1, 2, 100 * MS, 140 * MS, 150 * MS);
	world_ready(&w);
	s = put(&w, exposed(&w, 0, 101 * MS, 110 * MS, 150 * MS));
	assert_int_equal(s.leaf[LEAF_COMM_LATE_PEER], 30 * MS);
	assert_int_equal(s.leaf[LEAF_COMM_TRANSFER], 10 * MS);
	s = put(&w, exposed(&w, 1, 140 * MS, 140 * MS, 150 * MS));
	assert_int_equal(s.leaf[LEAF_COMM_TRANSFER], 10 * MS);
	world_free(&w);
}

/* Kernels that are still in flight when the window passes them: seen at last, however they came in. */
static void collective_finds_ranks_that_come_in_late(void **state)
{
	struct world w = world_new(2);
	struct collective c;

	(void)state;
	add_collective(&w, 0, COMM, 1, 2, 100 * MS, 101 * MS, 9000 * MS);
	add_call(&w, w.main[1], "read", "/data/x", 100 * MS, 8000 * MS, 10, 0);
	timeline_settle(w.tl, 5000 * MS);
	w.tl->complete_ns = 5000 * MS;
	causes_advance(w.tl);
	add_nccl(&w, w.main[1], "ncclAllReduce", COMM, 1, 2, 101 * MS, 110 * MS, 100);
	add_op(&w, 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, 102 * MS, 4000 * MS, 9000 * MS, -1);
	timeline_settle(w.tl, 20000 * MS);
	w.tl->complete_ns = 20000 * MS;
	causes_advance(w.tl);
	c = of(&w, 0, 101 * MS);
	assert_int_equal(c.narrivals, 2);
	assert_int_equal(c.last.rank, 1);
	assert_int_equal(c.last.start_ns, 4000 * MS);
	world_free(&w);
}

/* Buckets in one group: nothing is launched before its end, one kernel for all. */
static void collective_reads_groups(void **state)
{
	struct world w = world_new(2);
	struct collective c;

	(void)state;
	for (int r = 0; r < 2; r++) {
		int64_t t = 100 * MS;

		add_nccl(&w, w.main[r], "ncclGroupStart", 0, 0, 0, t, t + 2 * US, -1);
		add_nccl(&w, w.main[r], "ncclAllReduce", COMM, 7, 2, t + 10 * US, t + 12 * US, 1000);
		add_nccl(&w, w.main[r], "ncclAllReduce", COMM, 8, 2, t + 20 * US, t + 22 * US, 2000);
		add_nccl(&w, w.main[r], "ncclGroupEnd", 0, 0, 0, t + 30 * US, t + 60 * US, -1);
		add_call(&w, w.main[r], "cudaLaunchKernel", NULL, t + 40 * US, t + 44 * US, -1, 0);
		add_op(&w, r, "ncclDevKernel_Generic", 7, t + 40 * US, t + (r + 1) * MS, t + 9 * MS, -1);
	}
	world_ready(&w);
	c = of(&w, 0, 101 * MS);
	assert_int_equal(c.seq, 8);
	assert_int_equal(c.bytes, 3000);
	assert_int_equal(c.narrivals, 2);
	assert_int_equal(c.last.rank, 1);
	world_free(&w);
}

/* Two communicators in one group: a kernel each, not to be taken for each other. */
static void collective_tells_communicators_of_a_group_apart(void **state)
{
	struct world w = world_new(2);

	(void)state;
	for (int r = 0; r < 2; r++) {
		int64_t t = 100 * MS;

		add_nccl(&w, w.main[r], "ncclGroupStart", 0, 0, 0, t, t + 2 * US, -1);
		add_nccl(&w, w.main[r], "ncclAllReduce", COMM, 1, 2, t + 10 * US, t + 12 * US, 1000);
		add_nccl(&w, w.main[r], "ncclAllGather", COMM + 1, 1, 2, t + 20 * US, t + 22 * US, 2000);
		add_nccl(&w, w.main[r], "ncclGroupEnd", 0, 0, 0, t + 30 * US, t + 90 * US, -1);
		for (int k = 0; k < 2; k++) {
			add_call(&w, w.main[r], "cudaLaunchKernel", NULL, t + 40 * US + k * 20 * US, t + 44 * US + k * 20 * US, -1, 0);
			add_op(&w, r, "ncclDevKernel_Generic", 7 + (unsigned)k, t + 40 * US + k * 20 * US, t + (1 + r + 3 * k) * MS, t + 20 * MS, -1);
		}
	}
	world_ready(&w);
	assert_int_equal(of(&w, 0, 101 * MS).comm, COMM);
	assert_int_equal(of(&w, 0, 101 * MS).last.start_ns, 102 * MS);
	assert_int_equal(of(&w, 0, 104 * MS).comm, COMM + 1);
	assert_int_equal(of(&w, 0, 104 * MS).last.start_ns, 105 * MS);
	world_free(&w);
}

static void collective_of_one_rank_is_not_split(void **state)
{
	struct world w = world_new(1);

	(void)state;
	add_collective(&w, 0, COMM, 1, 8, 100 * MS, 101 * MS, 150 * MS);
	world_ready(&w);
	assert_int_equal(of(&w, 0, 101 * MS).narrivals, 1);
	assert_leaf(&w, exposed(&w, 0, 101 * MS, 101 * MS, 150 * MS), LEAF_COMM_TRANSFER);
	world_free(&w);
}

/* Without a launch record nothing is known about who waits for whom; it is communication all the same. */
static void collective_without_a_launch_is_a_transfer(void **state)
{
	struct world w = world_new(2);
	struct collective c;

	(void)state;
	timeline_op(w.tl, w.gpu[0], &(struct op){ .start_ns = 100 * MS, .end_ns = 120 * MS, .name = timeline_name(w.tl, "ncclDevKernel_AllReduce"), .bytes = -1 });
	world_ready(&w);
	assert_false(collective_of(w.tl, w.gpu[0], op_at(&w, 0, 100 * MS), &c));
	assert_leaf(&w, exposed(&w, 0, 100 * MS, 100 * MS, 120 * MS), LEAF_COMM_TRANSFER);
	world_free(&w);
}

static void add_pair(struct world *w, int rank, const char *name, unsigned peer, int64_t call, int64_t start, int64_t end)
{
	struct nccl_info info = { .comm = COMM, .nranks = 2, .rank = (uint32_t)rank, .peer = peer };

	timeline_call(w->tl, w->main[rank], &(struct slice){ .start_ns = call, .end_ns = call + 20 * US, .bytes = 4096, .name = timeline_name(w->tl, name), .nccl = &info });
	add_call(w, w->main[rank], "cudaLaunchKernel", NULL, call + 5 * US, call + 9 * US, -1, 0);
	add_op(w, rank, "ncclDevKernel_SendRecv", 7, call + 5 * US, start, end, -1);
}

/* A pipeline stage that waits for the one before it. */
static void collective_finds_the_other_side_of_a_receive(void **state)
{
	struct world w = world_new(3);
	struct shares s;

	(void)state;
	for (int i = 0; i < 3; i++) {
		int64_t t = (100 + i * 100) * MS;

		add_pair(&w, 0, "ncclRecv", 1, t, t + 1 * MS, t + 60 * MS);
		add_pair(&w, 1, "ncclSend", 0, t, t + 51 * MS, t + 60 * MS);
		add_pair(&w, 2, "ncclSend", 1, t, t + 58 * MS, t + 60 * MS);	/* not for rank 0 */
	}
	world_ready(&w);
	s = put(&w, exposed(&w, 0, 201 * MS, 201 * MS, 260 * MS));
	assert_int_equal(s.leaf[LEAF_COMM_LATE_PEER], 50 * MS);
	assert_int_equal(s.leaf[LEAF_COMM_TRANSFER], 9 * MS);
	world_free(&w);
}

/* A rank that starts after this one was through was not waited for: a broadcast's root leaves early. */
static void collective_ignores_ranks_after_its_end(void **state)
{
	struct world w = world_new(2);

	(void)state;
	add_collective(&w, 0, COMM, 1, 2, 100 * MS, 101 * MS, 110 * MS);
	add_collective(&w, 1, COMM, 1, 2, 100 * MS, 140 * MS, 150 * MS);
	world_ready(&w);
	assert_leaf(&w, exposed(&w, 0, 101 * MS, 101 * MS, 110 * MS), LEAF_COMM_TRANSFER);
	world_free(&w);
}

/* ---- with retries ---- */

static struct connection *stalled(struct world *w, int rank, int64_t from, int64_t to)
{
	struct connection *c = timeline_connection(w->tl, w->rank[rank], timeline_target(w->tl, w->rank[rank],
		rank ? "tcp:10.0.0.2:1->10.0.0.1:2" : "tcp:10.0.0.1:1->10.0.0.2:2"));
	struct tcp_sample s = { .state = 1, .acked = 100, .unacked = 3, .rtt_us = 50, .snd_wnd = 1 << 20 };

	c->role = ROLE_NCCL;
	s.at_ns = from - 10 * MS;
	timeline_tcp(w->tl, c, &s);
	s.at_ns = from;
	s.acked = 200;
	timeline_tcp(w->tl, c, &s);
	s.at_ns = from + 205 * MS;
	s.retrans = s.rto = 1;
	s.ca = 4;
	timeline_tcp(w->tl, c, &s);
	s.at_ns = to;
	s.acked = 300;
	s.rto = s.ca = 0;
	timeline_tcp(w->tl, c, &s);
	return c;
}

/* The loss is on the other rank's sending side; this rank's own sockets show nothing. */
static void retry_on_the_sender_explains_the_receiver(void **state)
{
	struct world w = world_new(2);
	struct shares s;

	(void)state;
	add_collective(&w, 0, COMM, 1, 2, 1000 * MS, 1001 * MS, 1500 * MS);
	add_collective(&w, 1, COMM, 1, 2, 1000 * MS, 1051 * MS, 1500 * MS);
	stalled(&w, 1, 1100 * MS, 1480 * MS);
	world_ready(&w);
	s = put(&w, exposed(&w, 0, 1001 * MS, 1001 * MS, 1500 * MS));
	assert_int_equal(s.leaf[LEAF_COMM_LATE_PEER], 50 * MS);
	assert_int_equal(s.leaf[LEAF_COMM_RETRY], 380 * MS);
	assert_int_equal(s.leaf[LEAF_COMM_TRANSFER], 69 * MS);
	world_free(&w);
}

/* Before the last rank arrived a stall cannot have held this collective up. */
static void retry_is_not_taken_before_the_last_arrival(void **state)
{
	struct world w = world_new(2);
	struct shares s;

	(void)state;
	add_collective(&w, 0, COMM, 1, 2, 1000 * MS, 1001 * MS, 1500 * MS);
	add_collective(&w, 1, COMM, 1, 2, 1000 * MS, 1450 * MS, 1500 * MS);
	stalled(&w, 0, 1100 * MS, 1400 * MS);
	world_ready(&w);
	s = put(&w, exposed(&w, 0, 1001 * MS, 1001 * MS, 1500 * MS));
	assert_int_equal(s.leaf[LEAF_COMM_LATE_PEER], 449 * MS);
	assert_int_equal(s.leaf[LEAF_COMM_RETRY], 0);
	world_free(&w);
}

/* ... unless it held the late rank up in the collective before: then that is why it is late. */
static void retry_of_the_collective_before_explains_a_late_rank(void **state)
{
	struct world w = world_new(2);
	struct shares s;

	(void)state;
	add_collective(&w, 0, COMM, 1, 2, 1000 * MS, 1001 * MS, 1100 * MS);
	add_collective(&w, 1, COMM, 1, 2, 1000 * MS, 1001 * MS, 1450 * MS);
	add_collective(&w, 0, COMM, 2, 2, 1000 * MS + 50 * US, 1101 * MS, 1500 * MS);
	add_collective(&w, 1, COMM, 2, 2, 1000 * MS + 50 * US, 1451 * MS, 1500 * MS);
	stalled(&w, 1, 1090 * MS, 1440 * MS);
	world_ready(&w);
	s = put(&w, exposed(&w, 0, 1101 * MS, 1101 * MS, 1500 * MS));
	assert_int_equal(s.leaf[LEAF_COMM_RETRY], 339 * MS);
	assert_int_equal(s.leaf[LEAF_COMM_LATE_PEER], 11 * MS);
	assert_int_equal(s.leaf[LEAF_COMM_TRANSFER], 49 * MS);
	world_free(&w);
}

/* Ranks that are not in this collective may lose what they like. */
static void retry_of_other_ranks_is_not_taken(void **state)
{
	struct world w = world_new(3);
	struct connection *c;
	struct shares s;

	(void)state;
	add_collective(&w, 0, COMM, 1, 2, 1000 * MS, 1001 * MS, 1500 * MS);
	add_collective(&w, 1, COMM, 1, 2, 1000 * MS, 1001 * MS, 1500 * MS);
	c = stalled(&w, 2, 1100 * MS, 1400 * MS);
	assert_ptr_equal(c->process, w.rank[2]);
	world_ready(&w);
	s = put(&w, exposed(&w, 0, 1001 * MS, 1001 * MS, 1500 * MS));
	assert_int_equal(s.leaf[LEAF_COMM_RETRY], 0);
	assert_int_equal(s.leaf[LEAF_COMM_TRANSFER], 499 * MS);
	world_free(&w);
}

/* A communicator created in mid-run whose connect is not answered: both ranks wait, one of them knows why. */
static void retry_in_setup_holds_for_all_ranks_that_wait(void **state)
{
	struct world w = world_new(2);
	struct connection *c = timeline_connection(w.tl, w.rank[1], timeline_target(w.tl, w.rank[1], "tcp:10.0.0.2:9->10.0.0.1:2"));
	struct tcp_sample syn = { .state = 2, .at_ns = 1100 * MS };
	struct shares s;

	(void)state;
	add_call(&w, w.main[0], "ncclCommInitRank", NULL, 1000 * MS, 3300 * MS, -1, 0);
	add_call(&w, w.main[1], "ncclCommInitRank", NULL, 1000 * MS, 3300 * MS, -1, 0);
	timeline_tcp(w.tl, c, &syn);
	for (int i = 1; i < 3; i++) {
		syn.at_ns += 1000 * MS;
		syn.retrans = syn.rto = (uint8_t)i;
		timeline_tcp(w.tl, c, &syn);
	}
	syn = (struct tcp_sample){ .at_ns = 3200 * MS, .state = 1, .retrans = 2 };
	timeline_tcp(w.tl, c, &syn);
	world_ready(&w);
	s = put(&w, idle(&w, w.main[0], 1000 * MS, 3300 * MS));
	assert_int_equal(s.leaf[LEAF_COMM_RETRY], 2100 * MS);
	assert_int_equal(s.leaf[LEAF_COMM_SETUP], 200 * MS);
	world_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collective_finds_the_last_rank),
		cmocka_unit_test(collective_splits_late_peer_from_transfer),
		cmocka_unit_test(collective_finds_ranks_that_come_in_late),
		cmocka_unit_test(collective_reads_groups),
		cmocka_unit_test(collective_tells_communicators_of_a_group_apart),
		cmocka_unit_test(collective_of_one_rank_is_not_split),
		cmocka_unit_test(collective_without_a_launch_is_a_transfer),
		cmocka_unit_test(collective_finds_the_other_side_of_a_receive),
		cmocka_unit_test(collective_ignores_ranks_after_its_end),
		cmocka_unit_test(retry_on_the_sender_explains_the_receiver),
		cmocka_unit_test(retry_is_not_taken_before_the_last_arrival),
		cmocka_unit_test(retry_of_the_collective_before_explains_a_late_rank),
		cmocka_unit_test(retry_of_other_ranks_is_not_taken),
		cmocka_unit_test(retry_in_setup_holds_for_all_ranks_that_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
