/* SPDX-License-Identifier: Apache-2.0
 *
 * Who books which moment.
 */
#include "cause_fixture.h"

/* ---- the launching thread itself ---- */

static void cause_of_a_call_on_the_launching_thread(void **state)
{
	static const struct { const char *call, *target; enum leaf leaf; } rows[] = {
		{ "pread64", "/data/train/0001.bin", LEAF_DATA_STORAGE },
		{ "open", "/data/train/0001.bin", LEAF_DATA_STORAGE },
		{ "mmap", "/data/train/0001.bin", LEAF_DATA_STORAGE },
		{ "recv", "tcp:10.0.0.1:4->10.0.0.9:443", LEAF_DATA_REMOTE },
		{ "read", "tcp:10.0.0.1:4->10.0.0.9:443", LEAF_DATA_REMOTE },
		{ "poll", "tcp:10.0.0.1:4->10.0.0.9:443", LEAF_DATA_REMOTE },
		{ "recvfrom", "udp:10.0.0.1:4->10.0.0.53:53", LEAF_DATA_REMOTE },
		{ "write", "/out/train.log", LEAF_IO_OTHER_WRITE },
		{ "write", "/out/events.out.tfevents.17", LEAF_IO_OTHER_WRITE },
		{ "write", "/dev/pts/0", LEAF_IO_OTHER_WRITE },
		{ "write", "pipe:[77]", LEAF_HOST_LOCK },
		{ "write", "unix:[78]", LEAF_HOST_LOCK },
		{ "sendmsg", "unix:[78]", LEAF_HOST_LOCK },
		{ "send", "tcp:10.0.0.1:4->10.0.0.9:443", LEAF_IO_OTHER_WRITE },
		{ "write", "/out/ckpt-100.pt", LEAF_IO_CHECKPOINT },
		{ "fsync", "/out/ckpt-100.pt.tmp", LEAF_IO_CHECKPOINT },
		{ "cudaMalloc", NULL, LEAF_GPU_ALLOC },
		{ "cudaFree", NULL, LEAF_GPU_ALLOC },
		{ "cudaHostAlloc", NULL, LEAF_GPU_ALLOC },
		{ "ncclCommInitRank", NULL, LEAF_COMM_SETUP },
		{ "ncclCommDestroy", NULL, LEAF_COMM_SETUP },
		{ "cudaStreamSynchronize", NULL, LEAF_SYNC_BUBBLE },
		{ "cudaLaunchKernel", NULL, LEAF_HOST_LAUNCH },
		{ "cudaEventRecord", NULL, LEAF_HOST_LAUNCH },
		{ "sem_clockwait", "sem:0x7f00", LEAF_HOST_LOCK },
		{ "pthread_cond_wait", "cond:0x7f00", LEAF_HOST_LOCK },
		{ "nanosleep", NULL, LEAF_HOST_LOCK },
		{ "pthread_join", "thread:7", LEAF_HOST_LOCK },
		{ "read", "pipe:[99]", LEAF_HOST_LOCK },
		{ "fork", NULL, LEAF_HOST_LOCK },
		{ "posix_spawn", NULL, LEAF_HOST_LOCK },
		{ "cudaSetDevice", NULL, LEAF_STARTUP },
		{ "open", "/usr/lib/libcudnn_ops.so.9", LEAF_STARTUP },
		{ "read", "/opt/env/module.pyc", LEAF_STARTUP },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct world w = world_new(1);

		add_call(&w, w.main[0], rows[i].call, rows[i].target, 100 * MS, 110 * MS, 100, 0);
		world_ready(&w);
		print_message("%s %s\n", rows[i].call, rows[i].target ? rows[i].target : "");
		assert_leaf(&w, idle(&w, w.main[0], 100 * MS, 110 * MS), rows[i].leaf);
		world_free(&w);
	}
}

static void cause_outside_calls_is_by_activity(void **state)
{
	struct world w = world_new(1);
	struct moment m;

	(void)state;
	world_ready(&w);
	m = idle(&w, w.main[0], 0, MS);
	assert_leaf(&w, m, LEAF_HOST_COMPUTE);
	m.activity = ACT_RUNNABLE;
	assert_leaf(&w, m, LEAF_HOST_DESCHEDULED);
	m.activity = ACT_OFF_CPU;
	assert_leaf(&w, m, LEAF_UNKNOWN);
	m.part = PART_LATENCY;
	assert_leaf(&w, m, LEAF_HOST_LAUNCH);
	m.part = PART_DEVICE;
	assert_leaf(&w, m, LEAF_UNKNOWN);
	m.part = PART_HOST;
	m.thread = m.waiter = NULL;
	assert_leaf(&w, m, LEAF_UNKNOWN);
	world_free(&w);
}

static void cause_unknown_has_a_reason(void **state)
{
	struct world w = world_new(1);
	struct moment m;
	struct op op = {0};

	(void)state;
	world_ready(&w);
	m = idle(&w, w.main[0], 0, MS);
	m.activity = ACT_OFF_CPU;
	assert_int_equal(cause_unknown_reason(&m), UNKNOWN_OFF_CPU);
	m.hops = 8;
	assert_int_equal(cause_unknown_reason(&m), UNKNOWN_HOP_LIMIT);
	m.hops = 0;
	m.op = &op;
	assert_int_equal(cause_unknown_reason(&m), UNKNOWN_NO_LAUNCH_RECORD);
	w.rank[0]->dropped = 3;
	assert_int_equal(cause_unknown_reason(&m), UNKNOWN_EVENTS_LOST);
	m.part = PART_DEVICE;
	assert_int_equal(cause_unknown_reason(&m), UNKNOWN_DEVICE);
	world_free(&w);
}

static void cause_outside_steps_is_startup_whatever_it_is(void **state)
{
	struct world w = world_new(1);
	struct moment m;

	(void)state;
	add_call(&w, w.main[0], "pread64", "/data/a", 100 * MS, 110 * MS, 100, 0);
	add_collective(&w, 0, 1, 1, 1, 200 * MS, 201 * MS, 210 * MS);
	world_ready(&w);
	m = idle(&w, w.main[0], 100 * MS, 110 * MS);
	m.outside_steps = true;
	assert_leaf(&w, m, LEAF_STARTUP);
	m = exposed(&w, 0, 201 * MS, 201 * MS, 210 * MS);
	m.outside_steps = true;
	assert_leaf(&w, m, LEAF_STARTUP);
	world_free(&w);
}

/* A job whose first connect is refused has nothing else to tell. */
static void cause_retry_pierces_startup(void **state)
{
	struct world w = world_new(1);
	struct moment m;
	struct shares s;

	(void)state;
	add_call(&w, w.main[0], "ncclCommInitRank", NULL, 100 * MS, 900 * MS, -1, 0);
	add_call(&w, w.main[0], "connect", "tcp:10.0.0.1:4->10.0.0.2:5", 200 * MS, 201 * MS, -1, 111);
	add_call(&w, w.main[0], "connect", "tcp:10.0.0.1:4->10.0.0.2:5", 700 * MS, 701 * MS, -1, 0);
	world_ready(&w);
	m = idle(&w, w.main[0], 100 * MS, 900 * MS);
	m.outside_steps = true;
	s = put(&w, m);
	assert_int_equal(s.leaf[LEAF_COMM_RETRY], 501 * MS);
	assert_int_equal(s.leaf[LEAF_STARTUP], 299 * MS);
	world_free(&w);
}

static void cause_our_own_thread_is_the_profiler(void **state)
{
	struct world w = world_new(1);
	struct thread *t = timeline_thread(w.tl, w.rank[0], 999);

	(void)state;
	timeline_thread_name(t, "whyidle");
	world_ready(&w);
	assert_leaf(&w, idle(&w, t, 0, MS), LEAF_PROFILER);
	world_free(&w);
}

/* A compiler that the training thread waits for. */
static void cause_of_a_compiler_is_startup(void **state)
{
	struct world w = world_new(1);
	struct process *p = world_worker(&w, 0, 4711);

	(void)state;
	free((char *)p->command);
	p->command = strdup("/usr/local/cuda/bin/ptxas --gpu-name sm_90");
	add_call(&w, w.main[0], "waitpid", "pid:4711", 100 * MS, 110 * MS, -1, 0);
	world_ready(&w);
	assert_leaf(&w, idle(&w, w.main[0], 100 * MS, 110 * MS), LEAF_STARTUP);
	world_free(&w);
}

/* However much goes through a pipe, and whatever was copied off the device before: nothing is saved there. */
static void bulk_through_a_pipe_is_its_reader_s_time(void **state)
{
	static const char *const targets[] = { "pipe:[77]", "unix:[77]", "fd:3" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct world w = world_new(1);

		add_call(&w, w.main[0], "cudaMemcpyAsync", NULL, 90 * MS, 91 * MS, 64 << 20, 0);
		add_op(&w, 0, "Memcpy DtoH (Device -> Pageable)", 7, 90 * MS, 90 * MS, 99 * MS, 64 << 20);
		for (int k = 0; k < 10; k++)
			add_call(&w, w.main[0], "write", targets[i], (100 + k) * MS, (100 + k) * MS + 900 * US, 1 << 20, 0);
		world_ready(&w);
		assert_leaf(&w, idle(&w, w.main[0], 101 * MS, 101 * MS + 900 * US), LEAF_HOST_LOCK);
		world_free(&w);
	}
}

/* A shell that forks, a daemon: there are children of the same program, but nobody takes batches from them. */
static void processes_without_a_loader_are_no_workers(void **state)
{
	struct world w = world_new(1);
	struct process *child = world_worker(&w, 0, 200);

	(void)state;
	(void)child;
	add_call(&w, w.main[0], "fork", NULL, 100 * MS, 110 * MS, -1, 0);
	add_call(&w, w.main[0], "waitpid", "pid:200", 110 * MS, 120 * MS, -1, 0);
	add_call(&w, w.main[0], "poll", "pipe:[5]", 120 * MS, 130 * MS, -1, 0);
	world_ready(&w);
	for (int loads = 0; loads < 2; loads++) {
		enum leaf leaf = loads ? LEAF_DATA_WORKER_START : LEAF_HOST_LOCK;

		w.rank[0]->loads = loads;
		assert_leaf(&w, idle(&w, w.main[0], 100 * MS, 110 * MS), leaf);
		assert_leaf(&w, idle(&w, w.main[0], 110 * MS, 120 * MS), leaf);
		assert_leaf(&w, idle(&w, w.main[0], 120 * MS, 130 * MS), leaf);
	}
	world_free(&w);
}

static void cause_of_waiting_for_a_worker_to_end_is_worker_start(void **state)
{
	struct world w = world_new(1);

	(void)state;
	world_worker(&w, 0, 4711);
	add_call(&w, w.main[0], "waitpid", "pid:4711", 100 * MS, 110 * MS, -1, 0);
	world_ready(&w);
	assert_leaf(&w, idle(&w, w.main[0], 100 * MS, 110 * MS), LEAF_DATA_WORKER_START);
	world_free(&w);
}

/* ---- writes ---- */

static void cause_of_bulk_writes_is_a_checkpoint(void **state)
{
	struct world w = world_new(1);

	(void)state;
	for (int i = 0; i < 40; i++)
		add_call(&w, w.main[0], "write", "/out/part", (100 + i) * MS, (100 + i) * MS + 900 * US, 65536, 0);
	for (int i = 0; i < 40; i++)
		add_call(&w, w.main[0], "write", "/out/progress", (1000 + i * 100) * MS, (1000 + i * 100) * MS + 900 * US, 80, 0);
	for (int i = 0; i < 4; i++)
		add_call(&w, w.main[0], "write", "/out/sample.png", (9000 + i) * MS, (9000 + i) * MS + 900 * US, 2000000, 0);
	world_ready(&w);
	assert_leaf(&w, idle(&w, w.main[0], 100 * MS, 100 * MS + 900 * US), LEAF_IO_CHECKPOINT);
	assert_leaf(&w, idle(&w, w.main[0], 120 * MS, 120 * MS + 900 * US), LEAF_IO_CHECKPOINT);
	assert_leaf(&w, idle(&w, w.main[0], 2000 * MS, 2000 * MS + 900 * US), LEAF_IO_OTHER_WRITE);
	assert_leaf(&w, idle(&w, w.main[0], 9001 * MS, 9001 * MS + 900 * US), LEAF_IO_OTHER_WRITE);
	world_free(&w);
}

static void cause_of_opening_is_what_follows(void **state)
{
	struct world w = world_new(1);

	(void)state;
	add_call(&w, w.main[0], "open", "/out/rows", 100 * MS, 105 * MS, -1, 0);
	add_call(&w, w.main[0], "write", "/out/rows", 106 * MS, 107 * MS, 80, 0);
	add_call(&w, w.main[0], "open", "/out/part", 200 * MS, 205 * MS, -1, 0);
	add_call(&w, w.main[0], "write", "/out/part", 206 * MS, 207 * MS, 2000000, 0);
	add_call(&w, w.main[0], "open", "/data/rows", 300 * MS, 305 * MS, -1, 0);
	add_call(&w, w.main[0], "read", "/data/rows", 306 * MS, 307 * MS, 80, 0);
	world_ready(&w);
	assert_leaf(&w, idle(&w, w.main[0], 100 * MS, 105 * MS), LEAF_IO_OTHER_WRITE);
	assert_leaf(&w, idle(&w, w.main[0], 200 * MS, 205 * MS), LEAF_IO_CHECKPOINT);
	assert_leaf(&w, idle(&w, w.main[0], 300 * MS, 305 * MS), LEAF_DATA_STORAGE);
	world_free(&w);
}

static void cause_of_writing_what_came_off_the_device_is_a_checkpoint(void **state)
{
	struct world w = world_new(1);
	struct moment m;

	(void)state;
	add_call(&w, w.main[0], "cudaMemcpyAsync", NULL, 90 * MS, 90 * MS + 10 * US, 4 << 20, 0);
	add_op(&w, 0, "Memcpy DtoH (Device -> Pageable)", 7, 90 * MS, 91 * MS, 95 * MS, 4 << 20);
	add_call(&w, w.main[0], "write", "/out/blob", 100 * MS, 110 * MS, 5000, 0);
	world_ready(&w);
	m = idle(&w, w.main[0], 100 * MS, 110 * MS);
	m.gap_start_ns = 95 * MS;
	assert_leaf(&w, m, LEAF_IO_CHECKPOINT);
	assert_leaf(&w, exposed(&w, 0, 91 * MS, 91 * MS, 95 * MS), LEAF_IO_CHECKPOINT);
	world_free(&w);
}

/* ---- copies ---- */

static void cause_of_exposed_copies(void **state)
{
	struct world w = world_new(1);

	(void)state;
	add_op(&w, 0, "Memcpy HtoD (Pageable -> Device)", 7, 10 * MS, 11 * MS, 20 * MS, 1 << 24);
	add_op(&w, 0, "Memcpy HtoD (Pinned -> Device)", 7, 30 * MS, 31 * MS, 40 * MS, 1 << 24);
	add_op(&w, 0, "Memset (Device)", 7, 50 * MS, 51 * MS, 60 * MS, 1 << 24);
	world_ready(&w);
	assert_leaf(&w, exposed(&w, 0, 11 * MS, 11 * MS, 20 * MS), LEAF_DATA_PAGEABLE_COPY);
	assert_leaf(&w, exposed(&w, 0, 31 * MS, 31 * MS, 40 * MS), LEAF_COPY);
	assert_leaf(&w, exposed(&w, 0, 51 * MS, 51 * MS, 60 * MS), LEAF_COPY);
	world_free(&w);
}

/* The host is held in the copy while it is staged, before the device sees it. */
static void cause_of_staging_is_the_pageable_copy(void **state)
{
	struct world w = world_new(1);
	struct moment m;

	(void)state;
	add_call(&w, w.main[0], "cudaMemcpyAsync", NULL, 10 * MS, 20 * MS, 1 << 24, 0);
	add_op(&w, 0, "Memcpy HtoD (Pageable -> Device)", 7, 10 * MS, 14 * MS, 20 * MS, 1 << 24);
	add_call(&w, w.main[0], "cudaMemcpyAsync", NULL, 110 * MS, 111 * MS, 1 << 24, 0);
	add_op(&w, 0, "Memcpy HtoD (Pinned -> Device)", 7, 110 * MS, 114 * MS, 120 * MS, 1 << 24);
	world_ready(&w);
	m = idle(&w, w.main[0], 10 * MS, 14 * MS);
	m.part = PART_CALL;
	m.op = op_at(&w, 0, 14 * MS);
	assert_leaf(&w, m, LEAF_DATA_PAGEABLE_COPY);
	m = idle(&w, w.main[0], 110 * MS, 111 * MS);
	m.part = PART_CALL;
	m.op = op_at(&w, 0, 114 * MS);
	assert_leaf(&w, m, LEAF_HOST_LAUNCH);
	world_free(&w);
}

/* ---- sync and scaler ---- */

static void cause_after_a_sync_is_a_bubble_for_the_hosts_own_work(void **state)
{
	struct world w = world_new(1);
	struct moment m;

	(void)state;
	add_call(&w, w.main[0], "cudaLaunchKernel", NULL, 10 * MS, 11 * MS, -1, 0);
	add_call(&w, w.main[0], "pread64", "/data/a", 20 * MS, 21 * MS, 10, 0);
	add_call(&w, w.main[0], "pthread_cond_wait", "cond:0x1", 30 * MS, 31 * MS, 10, 0);
	world_ready(&w);
	m = idle(&w, w.main[0], 0, MS);
	m.after_sync = true;
	assert_leaf(&w, m, LEAF_SYNC_BUBBLE);
	m.activity = ACT_RUNNABLE;
	assert_leaf(&w, m, LEAF_SYNC_BUBBLE);
	m = idle(&w, w.main[0], 10 * MS, 11 * MS);
	m.after_sync = true;
	assert_leaf(&w, m, LEAF_SYNC_BUBBLE);
	m = idle(&w, w.main[0], 20 * MS, 21 * MS);
	m.after_sync = true;
	assert_leaf(&w, m, LEAF_DATA_STORAGE);
	m = idle(&w, w.main[0], 30 * MS, 31 * MS);
	m.after_sync = true;
	assert_leaf(&w, m, LEAF_HOST_LOCK);
	world_free(&w);
}

static void cause_of_a_skipped_step_is_the_scaler_but_not_for_data(void **state)
{
	struct world w = world_new(1);
	struct moment m;

	(void)state;
	add_call(&w, w.main[0], "pread64", "/data/a", 20 * MS, 21 * MS, 10, 0);
	world_ready(&w);
	m = idle(&w, w.main[0], 0, MS);
	m.after_sync = m.skipped_step = true;
	assert_leaf(&w, m, LEAF_SCALER_SKIP);
	m = idle(&w, w.main[0], 20 * MS, 21 * MS);
	m.skipped_step = true;
	assert_leaf(&w, m, LEAF_DATA_STORAGE);
	world_free(&w);
}

/* ---- communicators ---- */

static void cause_inside_setup_is_setup_whatever_is_called_there(void **state)
{
	struct world w = world_new(1);
	struct thread *proxy = timeline_thread(w.tl, w.rank[0], 999);

	(void)state;
	add_call(&w, w.main[0], "ncclCommInitRank", NULL, 100 * MS, 200 * MS, -1, 0);
	add_call(&w, w.main[0], "poll", "fd:eventfd", 110 * MS, 120 * MS, -1, 0);
	add_call(&w, w.main[0], "cudaMalloc", NULL, 130 * MS, 131 * MS, -1, 0);
	world_ready(&w);
	assert_leaf(&w, idle(&w, w.main[0], 110 * MS, 120 * MS), LEAF_COMM_SETUP);
	assert_leaf(&w, idle(&w, w.main[0], 100 * MS, 105 * MS), LEAF_COMM_SETUP);
	assert_leaf(&w, idle(&w, proxy, 140 * MS, 150 * MS), LEAF_COMM_SETUP);
	assert_leaf(&w, idle(&w, w.main[0], 130 * MS, 131 * MS), LEAF_GPU_ALLOC);
	world_free(&w);
}

/* NCCL connects in the first collective: it takes long, which no ordinary call does. */
static void cause_of_a_first_collective_is_setup_of_others_a_launch(void **state)
{
	struct world w = world_new(1);

	(void)state;
	add_nccl(&w, w.main[0], "ncclAllReduce", 1, 0, 2, 100 * MS, 150 * MS, 10);
	add_nccl(&w, w.main[0], "ncclAllReduce", 1, 1, 2, 200 * MS, 200 * MS + 15 * US, 10);
	world_ready(&w);
	assert_leaf(&w, idle(&w, w.main[0], 100 * MS, 150 * MS), LEAF_COMM_SETUP);
	assert_leaf(&w, idle(&w, w.main[0], 200 * MS, 200 * MS + 15 * US), LEAF_HOST_LAUNCH);
	world_free(&w);
}

/* ---- the loader ---- */

struct loading { struct world w; struct thread *worker; struct batch b; };

/* Requested at 0, begun at 40, finished at 200, the consumer waits from 100; all ms. The worker was born long ago. */
static struct loading loading(bool queued)
{
	struct loading l = { .w = world_new(1) };
	struct process *p = world_worker(&l.w, 0, 500);

	p->start_ns = p->first_ns = -60000 * MS;
	l.worker = timeline_thread(l.w.tl, p, 500);
	l.b = (struct batch){ .consumer = l.w.main[0], .worker = l.worker, .requested_ns = 1, .started_ns = 40 * MS, .finished_ns = 200 * MS,
		.taken_ns = 210 * MS, .wait_start_ns = 100 * MS, .queued_behind = queued };
	return l;
}

static struct moment load(struct loading *l, int64_t start, int64_t end, enum activity activity)
{
	struct moment m = idle(&l->w, l->worker, start, end);

	m.loader = true;
	m.batch = &l->b;
	m.workers_seen = 2;
	if (!m.call)
		m.activity = activity;
	return m;
}

static void cause_of_a_busy_worker_is_preprocess(void **state)
{
	struct loading l = loading(false);

	(void)state;
	add_call(&l.w, l.worker, "sem_wait", "sem:0x1", 180 * MS, 181 * MS, -1, 0);
	world_ready(&l.w);
	assert_leaf(&l.w, load(&l, 100 * MS, 110 * MS, ACT_CPU), LEAF_DATA_PREPROCESS);
	assert_leaf(&l.w, load(&l, 110 * MS, 120 * MS, ACT_RUNNABLE), LEAF_DATA_PREPROCESS);
	assert_leaf(&l.w, load(&l, 120 * MS, 130 * MS, ACT_OFF_CPU), LEAF_DATA_PREPROCESS);
	assert_leaf(&l.w, load(&l, 180 * MS, 181 * MS, ACT_CPU), LEAF_DATA_PREPROCESS);
	world_free(&l.w);
}

static void cause_of_a_worker_that_reads(void **state)
{
	struct loading l = loading(true);

	(void)state;
	add_call(&l.w, l.worker, "pread64", "/data/a", 110 * MS, 120 * MS, 1000, 0);
	add_call(&l.w, l.worker, "recv", "tcp:10.0.0.1:4->10.0.0.9:443", 130 * MS, 140 * MS, 1000, 0);
	add_call(&l.w, l.worker, "send", "tcp:10.0.0.1:4->10.0.0.9:443", 150 * MS, 151 * MS, 1000, 0);
	add_call(&l.w, l.worker, "write", "/cache/decoded.bin", 160 * MS, 161 * MS, 1000, 0);
	world_ready(&l.w);
	assert_leaf(&l.w, load(&l, 110 * MS, 120 * MS, ACT_CPU), LEAF_DATA_STORAGE);
	assert_leaf(&l.w, load(&l, 130 * MS, 140 * MS, ACT_CPU), LEAF_DATA_REMOTE);
	assert_leaf(&l.w, load(&l, 150 * MS, 151 * MS, ACT_CPU), LEAF_DATA_REMOTE);
	assert_true(only(&l.w, load(&l, 160 * MS, 161 * MS, ACT_CPU)) != LEAF_DATA_STORAGE);
	world_free(&l.w);
}

static void cause_after_the_batch_is_finished_is_the_handoff(void **state)
{
	struct loading l = loading(false);
	struct shares s;
	struct moment m;

	(void)state;
	add_call(&l.w, l.worker, "write", "pipe:[5]", 200 * MS, 203 * MS, 1000, 0);
	add_call(&l.w, l.worker, "open", "/dev/shm/torch_1", 150 * MS, 151 * MS, -1, 0);
	add_call(&l.w, l.w.main[0], "read", "pipe:[5]", 100 * MS, 210 * MS, 1000, 0);
	world_ready(&l.w);
	assert_leaf(&l.w, load(&l, 200 * MS, 203 * MS, ACT_CPU), LEAF_DATA_HANDOFF);
	assert_leaf(&l.w, load(&l, 150 * MS, 151 * MS, ACT_CPU), LEAF_DATA_HANDOFF);
	s = put(&l.w, load(&l, 190 * MS, 200 * MS, ACT_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_PREPROCESS], 10 * MS);
	/* the consumer at its own end: before, the batch is being made; after, it is on its way */
	m = idle(&l.w, l.w.main[0], 190 * MS, 210 * MS);
	m.loader = true;
	m.batch = &l.b;
	s = put(&l.w, m);
	assert_int_equal(s.leaf[LEAF_DATA_PREPROCESS], 10 * MS);
	assert_int_equal(s.leaf[LEAF_DATA_HANDOFF], 10 * MS);
	world_free(&l.w);
}

static void cause_of_the_pin_thread_is_the_handoff(void **state)
{
	struct loading l = loading(false);
	struct thread *pin = timeline_thread(l.w.tl, l.w.rank[0], 101);
	struct moment m;

	(void)state;
	world_ready(&l.w);
	m = idle(&l.w, pin, 150 * MS, 160 * MS);
	m.loader = true;
	assert_leaf(&l.w, m, LEAF_DATA_HANDOFF);
	world_free(&l.w);
}

/* Joining workers and fetching shared memory from them look like waits for pipes and local sockets on the training thread. */
static void cause_of_what_a_trainer_does_with_its_workers(void **state)
{
	struct loading l = loading(false);
	struct thread *t = l.w.main[0];

	(void)state;
	add_call(&l.w, t, "poll", "pipe:[70]", 100 * MS, 110 * MS, -1, 0);	/* the sentinel of a child */
	add_call(&l.w, t, "poll", "pipe:[71]", 120 * MS, 130 * MS, -1, 0);	/* something that is read then */
	add_call(&l.w, t, "read", "pipe:[71]", 130 * MS, 130 * MS + 30 * US, 4, 0);
	add_call(&l.w, t, "recvmsg", "unix:[72]", 140 * MS, 141 * MS, 4, 0);
	add_call(&l.w, t, "write", "unix:[72]", 142 * MS, 143 * MS, 20, 0);
	world_ready(&l.w);
	assert_leaf(&l.w, idle(&l.w, t, 100 * MS, 110 * MS), LEAF_DATA_WORKER_START);
	assert_leaf(&l.w, idle(&l.w, t, 120 * MS, 130 * MS), LEAF_HOST_LOCK);
	assert_leaf(&l.w, idle(&l.w, t, 140 * MS, 141 * MS), LEAF_DATA_HANDOFF);
	assert_leaf(&l.w, idle(&l.w, t, 142 * MS, 143 * MS), LEAF_DATA_HANDOFF);
	world_free(&l.w);
}

static void cause_of_a_worker_that_is_starting(void **state)
{
	struct loading l = loading(false);
	struct shares s;

	(void)state;
	l.worker->process->start_ns = -20 * MS;
	l.b.started_ns = 150 * MS;
	add_call(&l.w, l.worker, "read", "/opt/module.pyc", 120 * MS, 130 * MS, 1000, 0);
	world_ready(&l.w);
	s = put(&l.w, load(&l, 100 * MS, 115 * MS, ACT_OFF_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_WORKER_START], 15 * MS);
	s = put(&l.w, load(&l, 120 * MS, 130 * MS, ACT_OFF_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_WORKER_START], 10 * MS);
	s = put(&l.w, load(&l, 140 * MS, 160 * MS, ACT_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_WORKER_START], 10 * MS);
	assert_int_equal(s.leaf[LEAF_DATA_PREPROCESS], 10 * MS);
	/* an old worker that does not begin is not starting */
	l.worker->process->start_ns = -60000 * MS;
	s = put(&l.w, load(&l, 100 * MS, 115 * MS, ACT_OFF_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_WORKER_START], 0);
	world_free(&l.w);
}

/* ---- too few workers ---- */

/* It queued for 40 ms: of the wait from 100 on, the first 40 ms could have been saved. */
static void cause_of_the_time_that_a_batch_queued_is_workers(void **state)
{
	struct loading l = loading(true);
	struct shares s;

	(void)state;
	world_ready(&l.w);
	s = put(&l.w, load(&l, 100 * MS, 200 * MS, ACT_OFF_CPU));
	assert_in_range(s.leaf[LEAF_DATA_WORKERS], 39 * MS, 40 * MS);
	assert_in_range(s.leaf[LEAF_DATA_PREPROCESS], 60 * MS, 61 * MS);
	/* the same in two pieces */
	s = put(&l.w, load(&l, 130 * MS, 200 * MS, ACT_OFF_CPU));
	assert_in_range(s.leaf[LEAF_DATA_WORKERS], 9 * MS, 10 * MS);
	world_free(&l.w);
}

/* On the CPU: only if as many workers as are needed fit. */
static void cause_workers_needs_cpus_for_them(void **state)
{
	struct loading l = loading(true);
	struct moment m;

	(void)state;
	world_ready(&l.w);
	m = load(&l, 100 * MS, 120 * MS, ACT_CPU);
	m.workers_needed = 4;
	assert_leaf(&l.w, m, LEAF_DATA_WORKERS);
	m.workers_needed = 12;
	assert_leaf(&l.w, m, LEAF_DATA_PREPROCESS);
	m.workers_needed = 0;
	m.cpus = 2;
	assert_leaf(&l.w, m, LEAF_DATA_PREPROCESS);
	m.activity = ACT_OFF_CPU;
	assert_leaf(&l.w, m, LEAF_DATA_WORKERS);
	world_free(&l.w);
}

/* Reading does not use the queueing time up: it keeps its own leaf, what comes after is still the workers'. */
static void cause_workers_does_not_count_storage(void **state)
{
	struct loading l = loading(true);
	struct shares s;

	(void)state;
	add_call(&l.w, l.worker, "pread64", "/data/a", 110 * MS, 150 * MS, 1000, 0);
	add_call(&l.w, l.worker, "pread64", "/data/b", 160 * MS, 170 * MS, 1000, 0);
	world_ready(&l.w);
	s = put(&l.w, load(&l, 100 * MS, 110 * MS, ACT_OFF_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_WORKERS], 10 * MS);
	s = put(&l.w, load(&l, 110 * MS, 150 * MS, ACT_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_STORAGE], 40 * MS);
	s = put(&l.w, load(&l, 150 * MS, 160 * MS, ACT_OFF_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_WORKERS], 10 * MS);
	s = put(&l.w, load(&l, 170 * MS, 200 * MS, ACT_OFF_CPU));
	assert_in_range(s.leaf[LEAF_DATA_WORKERS], 19 * MS, 20 * MS);
	world_free(&l.w);
}

/* Its worker is busy with other batches: not even begun. */
static void cause_of_a_batch_not_begun_is_workers(void **state)
{
	struct loading l = loading(true);
	struct shares s;

	(void)state;
	l.b.started_ns = 150 * MS;
	world_ready(&l.w);
	s = put(&l.w, load(&l, 100 * MS, 160 * MS, ACT_OFF_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_WORKERS], 60 * MS);
	world_free(&l.w);
}

/* Nothing queued, so more workers would have had nothing to do. */
static void cause_without_a_queue_is_never_workers(void **state)
{
	struct loading l = loading(false);
	struct shares s;

	(void)state;
	world_ready(&l.w);
	s = put(&l.w, load(&l, 100 * MS, 200 * MS, ACT_OFF_CPU));
	assert_int_equal(s.leaf[LEAF_DATA_WORKERS], 0);
	world_free(&l.w);
}

/* Many cached files: each call is too short to be recorded, together they are the time. */
static void cause_of_many_short_file_calls_is_storage(void **state)
{
	struct loading l = loading(false);

	(void)state;
	timeline_use_sample(l.worker, USE_CPU, 100 * MS, 0);
	timeline_use_sample(l.worker, USE_CPU, 200 * MS, 100 * MS);
	timeline_use_sample(l.worker, USE_SHORT_FILE, 100 * MS, 0);
	timeline_use_sample(l.worker, USE_SHORT_FILE, 150 * MS, 40 * MS);
	timeline_use_sample(l.worker, USE_SHORT_FILE, 200 * MS, 50 * MS);
	world_ready(&l.w);
	assert_leaf(&l.w, load(&l, 105 * MS, 145 * MS, ACT_CPU), LEAF_DATA_STORAGE);
	assert_leaf(&l.w, load(&l, 155 * MS, 195 * MS, ACT_CPU), LEAF_DATA_PREPROCESS);
	world_free(&l.w);
}

static void cause_of_faults_in_a_mapped_file_is_storage(void **state)
{
	struct loading l = loading(false);

	(void)state;
	add_call(&l.w, l.worker, "mmap64", "/data/a.arrow", 50 * MS, 50 * MS + 30 * US, 1 << 20, 0);
	world_ready(&l.w);
	assert_leaf(&l.w, load(&l, 105 * MS, 145 * MS, ACT_OFF_CPU), LEAF_DATA_STORAGE);
	assert_leaf(&l.w, load(&l, 105 * MS, 145 * MS, ACT_CPU), LEAF_DATA_PREPROCESS);
	world_free(&l.w);
}

/* ---- anything at all ---- */

static unsigned seed;

static unsigned dice(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % n;
}

static int64_t any_time(void)
{
	return (int64_t)dice(1000) * MS + dice(1000) * US;
}

static void any_calls(struct world *w, struct thread *t, int n)
{
	static const char *const targets[] = { NULL, "/data/a", "/dev/shm/x", "/out/b.pt", "/out/c.log", "pipe:[1]", "pipe:[2]", "unix:[3]", "sem:0x1", "cond:0x2",
		"tcp:10.0.0.1:1->10.0.0.2:2", "tcp:10.0.0.2:2->10.0.0.1:1", "tcp:10.0.0.1:5->10.0.0.9:443", "tcp:0.0.0.0:80", "udp:10.0.0.1:5->10.0.0.9:53",
		"fd:epoll", "dev:/dev/nvidia0", "thread:100", "pid:500", "pid:9", "", "/", "odd" };

	for (int i = 0; i < n; i++) {
		enum call c = 1 + dice(CALL_COUNT - 1);
		int64_t start = any_time(), end = dice(50) ? start + dice(40) * MS + dice(1000) : NS_OPEN;

		if (call_class(c) >= CLASS_NCCL_COLL)
			add_nccl(w, t, call_name(c), dice(3), dice(20), dice(4), start, end, (int64_t)dice(1 << 20) - 1);
		else
			add_call(w, t, call_name(c), targets[dice(sizeof(targets) / sizeof(*targets))], start, end, (int64_t)dice(1 << 22) - 1, dice(5) ? 0 : (int)dice(120));
	}
}

static void any_samples(struct world *w, struct connection *c)
{
	struct tcp_sample s = { .at_ns = any_time() };

	c->role = dice(3);
	for (int i = 0; i < 60; i++) {
		s.at_ns += dice(30) * MS;
		s.acked += dice(3) ? dice(100000) : 0;
		s.unacked = dice(2) ? dice(40) : 0;
		s.retrans += dice(4) ? 0 : dice(5);
		s.dsack += dice(6) ? 0 : dice(3);
		s.state = dice(20) ? 1 : dice(13);
		s.ca = (uint8_t)dice(6);
		s.rto = (uint8_t)(dice(5) ? 0 : dice(7));
		s.backoff = (uint8_t)dice(4);
		s.last_ack_ms = dice(4) ? dice(300) : 4294967295u;
		s.rtt_us = dice(100000);
		s.rwnd_ms += dice(5) ? 0 : dice(30);
		s.snd_wnd = dice(3) ? 65536 : 0;
		timeline_tcp(w->tl, c, &s);
	}
}

static void any_ops(struct world *w, int rank, int n)
{
	static const char *const names[] = { "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "gemm", "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)",
		"Memcpy DtoH (Device -> Pageable)", "Memset (Device)", "" };

	for (int i = 0; i < n; i++) {
		int64_t start = any_time();

		timeline_op(w->tl, w->gpu[rank], &(struct op){ .start_ns = start, .end_ns = start + 1 + dice(30 * MS), .name = timeline_name(w->tl, names[dice(7)]),
			.bytes = (int64_t)dice(1 << 22) - 1, .stream = dice(3), .launcher = dice(5) ? w->main[rank] : NULL,
			.launch_start_ns = start - dice(5 * MS), .launch_end_ns = start - dice(MS) });
	}
}

static struct moment any_moment(struct world *w, struct thread *worker, struct batch *b)
{
	struct thread *t = dice(3) ? w->main[0] : worker;
	int64_t start = any_time();
	struct moment m = idle(w, t, start, start + 1 + dice(60 * MS));

	*b = (struct batch){ .consumer = w->main[0], .worker = dice(4) ? worker : NULL, .queued_behind = dice(2), .requested_ns = dice(4) ? any_time() : 0,
		.started_ns = dice(4) ? any_time() : 0, .finished_ns = dice(4) ? any_time() : 0, .taken_ns = dice(4) ? any_time() : 0,
		.wait_start_ns = dice(4) ? any_time() : 0 };
	if (!m.call)
		m.activity = 1 + dice(3);
	m.state = dice(3);
	m.part = m.state == LOST_IDLE ? dice(4) : PART_EXPOSED;
	m.op = m.state != LOST_IDLE || dice(2) ? &w->gpu[0]->ops[dice((unsigned)w->gpu[0]->nops)] : NULL;
	m.loader = dice(2);
	m.batch = dice(2) ? b : NULL;
	m.hops = (int)dice(9);
	m.after_sync = dice(3) == 0;
	m.outside_steps = dice(5) == 0;
	m.skipped_step = dice(5) == 0;
	m.workers_needed = dice(5);
	m.workers_seen = dice(5);
	m.cpus = dice(3) ? 8 : 0;
	if (dice(20) == 0) {
		m.thread = NULL;
		m.call = m.outer = NULL;
		m.activity = ACT_OFF_CPU;
	}
	if (dice(20) == 0)
		m.waiter = NULL;
	if (dice(20) == 0)
		m.device = NULL;
	return m;
}

/* Whatever comes: each claim ends where it may, all is booked once, evidence can be collected and told. */
static void causes_take_any_moment(void **state)
{
	(void)state;
	for (unsigned round = 1; round <= 40; round++) {
		struct world w = world_new(2);
		struct thread *worker = timeline_thread(w.tl, world_worker(&w, 0, 500), 500);
		void *seen[64] = { NULL };
		struct result r = {0};

		seed = round;
		any_calls(&w, w.main[0], 300);
		any_calls(&w, w.main[1], 300);
		any_calls(&w, worker, 100);
		any_ops(&w, 0, 200);
		any_ops(&w, 1, 200);
		any_samples(&w, timeline_connection(w.tl, w.rank[0], timeline_target(w.tl, w.rank[0], "tcp:10.0.0.1:1->10.0.0.2:2")));
		any_samples(&w, timeline_connection(w.tl, w.rank[1], timeline_target(w.tl, w.rank[1], "tcp:10.0.0.2:2->10.0.0.1:1")));
		worker->process->start_ns = dice(2) ? any_time() : 0;
		world_ready(&w);
		for (int i = 0; i < 300; i++) {
			struct batch b;
			struct moment m = any_moment(&w, worker, &b);
			int64_t end = m.end_ns;

			while (m.start_ns < end) {
				int64_t until = end;
				unsigned row = 0;

				m.end_ns = end;
				while (!causes[row]->claim(w.tl, &m, &until)) {
					until = end;
					row++;
				}
				if (until <= m.start_ns || until > end)
					fail_msg("round %u: %s claims up to %lld of [%lld, %lld)", round, leaf_name(causes[row]->leaf), (long long)until,
						(long long)m.start_ns, (long long)end);
				m.end_ns = until;
				if (!seen[row])
					seen[row] = causes[row]->open();
				causes[row]->see(seen[row], w.tl, &m);
				m.start_ns = until;
			}
		}
		for (unsigned i = 0; causes[i]; i++) {
			struct finding f = { .leaf = causes[i]->leaf, .ns = 1000 * MS, .gaps = 3 };

			if (!seen[i])
				continue;
			causes[i]->explain(seen[i], &r, &f);
			causes[i]->close(seen[i]);
			assert_non_null(f.title);
			free(f.title);
			for (unsigned k = 0; k < f.nevidence; k++)
				free(f.evidence[k]);
			for (unsigned k = 0; k < f.nadvice; k++)
				free(f.advice[k]);
			free(f.evidence);
			free(f.advice);
		}
		world_free(&w);
	}
}

/* ---- the table ---- */

static void cause_table_has_every_leaf(void **state)
{
	bool have[LEAF_COUNT] = { false };

	(void)state;
	for (unsigned i = 0; causes[i]; i++) {
		assert_non_null(causes[i]->explain);
		have[causes[i]->leaf] = true;
	}
	for (int i = 0; i < LEAF_COUNT; i++)
		assert_true(have[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cause_of_a_call_on_the_launching_thread),
		cmocka_unit_test(cause_outside_calls_is_by_activity),
		cmocka_unit_test(cause_unknown_has_a_reason),
		cmocka_unit_test(cause_outside_steps_is_startup_whatever_it_is),
		cmocka_unit_test(cause_retry_pierces_startup),
		cmocka_unit_test(cause_our_own_thread_is_the_profiler),
		cmocka_unit_test(cause_of_a_compiler_is_startup),
		cmocka_unit_test(bulk_through_a_pipe_is_its_reader_s_time),
		cmocka_unit_test(processes_without_a_loader_are_no_workers),
		cmocka_unit_test(cause_of_waiting_for_a_worker_to_end_is_worker_start),
		cmocka_unit_test(cause_of_bulk_writes_is_a_checkpoint),
		cmocka_unit_test(cause_of_opening_is_what_follows),
		cmocka_unit_test(cause_of_writing_what_came_off_the_device_is_a_checkpoint),
		cmocka_unit_test(cause_of_exposed_copies),
		cmocka_unit_test(cause_of_staging_is_the_pageable_copy),
		cmocka_unit_test(cause_after_a_sync_is_a_bubble_for_the_hosts_own_work),
		cmocka_unit_test(cause_of_a_skipped_step_is_the_scaler_but_not_for_data),
		cmocka_unit_test(cause_inside_setup_is_setup_whatever_is_called_there),
		cmocka_unit_test(cause_of_a_first_collective_is_setup_of_others_a_launch),
		cmocka_unit_test(cause_of_a_busy_worker_is_preprocess),
		cmocka_unit_test(cause_of_a_worker_that_reads),
		cmocka_unit_test(cause_after_the_batch_is_finished_is_the_handoff),
		cmocka_unit_test(cause_of_the_pin_thread_is_the_handoff),
		cmocka_unit_test(cause_of_what_a_trainer_does_with_its_workers),
		cmocka_unit_test(cause_of_a_worker_that_is_starting),
		cmocka_unit_test(cause_of_the_time_that_a_batch_queued_is_workers),
		cmocka_unit_test(cause_workers_needs_cpus_for_them),
		cmocka_unit_test(cause_workers_does_not_count_storage),
		cmocka_unit_test(cause_of_a_batch_not_begun_is_workers),
		cmocka_unit_test(cause_without_a_queue_is_never_workers),
		cmocka_unit_test(cause_of_many_short_file_calls_is_storage),
		cmocka_unit_test(cause_of_faults_in_a_mapped_file_is_storage),
		cmocka_unit_test(causes_take_any_moment),
		cmocka_unit_test(cause_table_has_every_leaf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
