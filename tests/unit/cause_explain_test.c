/* SPDX-License-Identifier: Apache-2.0
 *
 * What causes collect, and that what they say of it holds the names and numbers that somebody can act on.
 */
#include "cause_fixture.h"

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"

static void forget(struct finding *f)
{
	free(f->title);
	for (unsigned i = 0; i < f->nevidence; i++)
		free(f->evidence[i]);
	for (unsigned i = 0; i < f->nadvice; i++)
		free(f->advice[i]);
	free(f->evidence);
	free(f->advice);
}

static bool says(const struct finding *f, const char *text)
{
	if (f->title && strstr(f->title, text))
		return true;
	for (unsigned i = 0; i < f->nevidence; i++)
		if (strstr(f->evidence[i], text))
			return true;
	for (unsigned i = 0; i < f->nadvice; i++)
		if (strstr(f->advice[i], text))
			return true;
	print_error("not said: %s\n  %s\n", text, f->title);
	for (unsigned i = 0; i < f->nevidence; i++)
		print_error("  - %s\n", f->evidence[i]);
	for (unsigned i = 0; i < f->nadvice; i++)
		print_error("  > %s\n", f->advice[i]);
	return false;
}

static struct finding explain(const struct cause *c, void *state, const struct result *r, int64_t ns)
{
	struct finding f = { .leaf = c->leaf, .ns = ns, .share = 0.2, .gaps = 10 };

	c->explain(state, r, &f);
	if (c->close)
		c->close(state);
	assert_non_null(f.title);
	assert_false(strstr(f.title, "(null)") != NULL);
	for (unsigned i = 0; i < f.nevidence; i++)
		assert_false(strstr(f.evidence[i], "(null)") || strstr(f.evidence[i], "nan"));
	assert_true(f.nadvice > 0);
	for (unsigned i = 0; i < f.nadvice; i++)
		assert_false(strstr(f.advice[i], "(null)") || strstr(f.advice[i], "nan"));
	return f;
}

/* ---- the tools ---- */

static void words_are_short(void **state)
{
	(void)state;
	assert_string_equal(words_ns(950), "950 ns");
	assert_string_equal(words_ns(1234), "1.23 us");
	assert_string_equal(words_ns(23456789), "23.5 ms");
	assert_string_equal(words_ns(999600000), "1.00 s");
	assert_string_equal(words_ns(3600ll * 1000000000), "3600 s");
	assert_string_equal(words_ns(-1500), "-1.50 us");
	assert_string_equal(words_bytes(999), "999 bytes");
	assert_string_equal(words_bytes(1500000), "1.50 MB");
	assert_string_equal(words_rate(70000000, 1000000000), "70.0 MB/s");
	assert_string_equal(words_rate(5, 0), "0.00 MB/s");
	assert_string_equal(words_share(1, 3), "33 %");
	assert_string_equal(words_share(1, 0), "0.0 %");
	assert_string_equal(words_count(1, "file", "files"), "1 file");
	assert_string_equal(words_count(2, "file", "files"), "2 files");
}

static void tally_keeps_the_largest_in_bounded_memory(void **state)
{
	struct tally t = {0};
	char name[32];

	(void)state;
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "/data/%d", i);
		tally_add(&t, name, 10, 1, 1);
		tally_add(&t, "/data/big", 100, 5, 1);
	}
	assert_true(t.nrows <= TALLY_ROWS);
	assert_string_equal(tally_top(&t, 0)->name, "/data/big");
	assert_int_equal(tally_top(&t, 0)->ns, 500000);
	assert_in_range(tally_names(&t), 4800, 5200);
	tally_free(&t);
}

static void tally_counts_few_names_exactly(void **state)
{
	struct tally t = {0};
	char name[32];

	(void)state;
	assert_int_equal(tally_names(&t), 0);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "peer %d", i % 100);
		tally_add(&t, name, i, 0, 1);
	}
	assert_int_equal(tally_names(&t), 100);
	assert_string_equal(tally_top(&t, 0)->name, "peer 99");
	assert_null(tally_top(&t, 100));
	tally_free(&t);
}

static void spread_knows_quantiles(void **state)
{
	struct spread *s = mem_new(1, sizeof(*s));

	(void)state;
	assert_int_equal(spread_at(s, 0.5), 0);
	for (int i = 1; i <= 1000; i++)
		spread_add(s, i * 1000);
	assert_in_range(spread_at(s, 0.5), 455000, 545000);
	assert_in_range(spread_at(s, 0.95), 865000, 1000000);
	assert_int_equal(s->max, 1000000);
	spread_add(s, INT64_MAX);
	spread_add(s, 0);
	spread_add(s, -5);
	free(s);
}

static void rhythm_tells_a_period_from_chance(void **state)
{
	struct rhythm regular = {0}, chance = {0};
	int64_t t = 0;
	unsigned seed = 7;

	(void)state;
	for (int i = 0; i < 20; i++) {
		rhythm_add(&regular, state, i * 21000 * MS + i % 3 * 50 * MS, i * 21000 * MS + 400 * MS, 100 * MS);
		rhythm_add(&regular, state, i * 21000 * MS + 410 * MS, i * 21000 * MS + 500 * MS, 100 * MS);
		seed = seed * 1103515245 + 12345;
		t += (int64_t)(seed >> 16) % 40000 * MS;
		rhythm_add(&chance, state, t, t + 100 * MS, 100 * MS);
	}
	assert_int_equal(regular.episodes, 20);
	assert_in_range(rhythm_period(&regular), 19000 * MS, 23000 * MS);
	assert_int_equal(rhythm_period(&chance), 0);
	rhythm_free(&regular);
	rhythm_free(&chance);
}

/* ---- what is said ---- */

static void explain_says_nothing_wrong_about_nothing(void **state)
{
	struct result r = {0};

	(void)state;
	for (unsigned i = 0; causes[i]; i++) {
		struct finding f = explain(causes[i], causes[i]->open ? causes[i]->open() : NULL, &r, 5 * MS);

		forget(&f);
	}
}

static void explain_names_folder_rate_and_files_of_storage(void **state)
{
	struct world w = world_new(1);
	struct process *p = world_worker(&w, 0, 500);
	struct thread *t = timeline_thread(w.tl, p, 500);
	void *seen = cause_storage.open();
	struct result r = {0};
	struct finding f;
	char path[64];

	(void)state;
	for (int i = 0; i < 50; i++) {
		snprintf(path, sizeof(path), "/mnt/slow/train/%04d.bin", i);
		add_call(&w, t, "pread64", path, (100 + i * 20) * MS, (110 + i * 20) * MS, 700000, 0);
	}
	world_ready(&w);
	for (int i = 0; i < 50; i++) {
		struct moment m = idle(&w, t, (100 + i * 20) * MS, (105 + i * 20) * MS);

		m.loader = true;
		m.workers_seen = 2;
		cause_storage.see(seen, w.tl, &m);
		m.start_ns = m.end_ns;		/* the rest of the same call */
		m.end_ns = (110 + i * 20) * MS;
		cause_storage.see(seen, w.tl, &m);
	}
	f = explain(&cause_storage, seen, &r, 500 * MS);
	assert_true(says(&f, "/mnt/slow/train"));
	assert_true(says(&f, "50 files"));
	assert_true(says(&f, "70.0 MB/s"));
	assert_true(says(&f, "2 loader workers"));
	assert_true(says(&f, "not from the page cache"));
	forget(&f);
	world_free(&w);
}

static void explain_computes_the_workers_that_are_needed(void **state)
{
	struct world w = world_new(1);
	void *seen = cause_workers.open();
	struct result r = {0};
	struct finding f;
	struct moment m;

	(void)state;
	world_ready(&w);
	m = idle(&w, w.main[0], 0, 50 * MS);
	m.activity = ACT_OFF_CPU;
	m.loader = true;
	m.workers_seen = 1;
	m.workers_needed = 4;
	cause_workers.see(seen, w.tl, &m);
	f = explain(&cause_workers, seen, &r, 50 * MS);
	assert_true(says(&f, "num_workers=4"));
	assert_true(says(&f, "now 1"));
	forget(&f);
	world_free(&w);
}

static void explain_names_the_late_rank_and_what_it_did(void **state)
{
	struct world w = world_new(2);
	void *seen = cause_late_peer.open();
	struct result r = {0};
	struct finding f;

	(void)state;
	for (int i = 0; i < 10; i++) {
		int64_t t = (100 + i * 100) * MS;

		add_collective(&w, 0, 1, (uint64_t)i, 2, t, t + 1 * MS, t + 50 * MS);
		add_op(&w, 1, "gemm", 7, t, t, t + 41 * MS, -1);
		add_collective(&w, 1, 1, (uint64_t)i, 2, t + 1 * MS, t + 41 * MS, t + 50 * MS);
	}
	world_ready(&w);
	for (int i = 0; i < 10; i++) {
		struct moment m = exposed(&w, 0, (101 + i * 100) * MS, (101 + i * 100) * MS, (141 + i * 100) * MS);

		cause_late_peer.see(seen, w.tl, &m);
	}
	f = explain(&cause_late_peer, seen, &r, 400 * MS);
	assert_true(says(&f, "Rank 1 arrives last"));
	assert_true(says(&f, "last in 10 of 10"));
	assert_true(says(&f, "computing for 100 %"));
	assert_true(says(&f, "computes longer"));
	forget(&f);
	world_free(&w);
}

/* Late because it reads: its GPU is idle meanwhile. */
static void explain_says_what_a_late_rank_was_in(void **state)
{
	struct world w = world_new(2);
	void *seen = cause_late_peer.open();
	struct result r = {0};
	struct finding f;

	(void)state;
	for (int i = 0; i < 10; i++) {
		int64_t t = (100 + i * 100) * MS;

		add_collective(&w, 0, 1, (uint64_t)i, 2, t, t + 1 * MS, t + 50 * MS);
		add_call(&w, w.main[1], "pread64", "/data/cold.bin", t + 2 * MS, t + 38 * MS, 1000, 0);
		add_collective(&w, 1, 1, (uint64_t)i, 2, t + 40 * MS, t + 41 * MS, t + 50 * MS);
	}
	world_ready(&w);
	for (int i = 0; i < 10; i++) {
		struct moment m = exposed(&w, 0, (101 + i * 100) * MS, (101 + i * 100) * MS, (141 + i * 100) * MS);

		cause_late_peer.see(seen, w.tl, &m);
	}
	f = explain(&cause_late_peer, seen, &r, 400 * MS);
	assert_true(says(&f, "pread64 on /data/cold.bin"));
	assert_true(says(&f, "is not busy in that time"));
	forget(&f);
	world_free(&w);
}

static void explain_counts_allocations(void **state)
{
	struct world w = world_new(1);
	void *seen = cause_alloc.open();
	struct result r = {0};
	struct finding f;

	(void)state;
	for (int i = 0; i < 8; i++) {
		add_call(&w, w.main[0], "cudaMalloc", NULL, (10 + i * 10) * MS, (11 + i * 10) * MS, -1, 0);
		add_call(&w, w.main[0], "cudaFree", NULL, (15 + i * 10) * MS, (17 + i * 10) * MS, -1, 0);
	}
	world_ready(&w);
	for (int i = 0; i < 8; i++) {
		struct moment m = idle(&w, w.main[0], (10 + i * 10) * MS, (11 + i * 10) * MS);

		cause_alloc.see(seen, w.tl, &m);
		m = idle(&w, w.main[0], (15 + i * 10) * MS, (17 + i * 10) * MS);
		cause_alloc.see(seen, w.tl, &m);
	}
	f = explain(&cause_alloc, seen, &r, 24 * MS);
	assert_true(says(&f, "in 16 calls"));
	assert_true(says(&f, "cudaFree: 8 calls, 16.0 ms"));
	assert_true(says(&f, "empty_cache"));
	forget(&f);
	world_free(&w);
}

static void explain_names_connection_and_sender_of_retries(void **state)
{
	struct world w = world_new(2);
	struct connection *c = timeline_connection(w.tl, w.rank[1], timeline_target(w.tl, w.rank[1], "tcp:10.0.0.2:1->10.0.0.1:2"));
	struct tcp_sample s = { .state = 1, .acked = 100, .unacked = 3, .rtt_us = 50, .snd_wnd = 1 << 20, .at_ns = 1000 * MS };
	void *seen = cause_retry.open();
	struct result r = {0};
	struct finding f;
	struct moment m;

	(void)state;
	c->role = ROLE_NCCL;
	timeline_tcp(w.tl, c, &s);
	s.at_ns = 1205 * MS;
	s.retrans = s.rto = 1;
	s.ca = 4;
	timeline_tcp(w.tl, c, &s);
	s.at_ns = 1400 * MS;
	s.acked = 300;
	s.rto = s.ca = 0;
	timeline_tcp(w.tl, c, &s);
	add_collective(&w, 0, 1, 1, 2, 900 * MS, 901 * MS, 1500 * MS);
	add_collective(&w, 1, 1, 1, 2, 900 * MS, 901 * MS, 1500 * MS);
	world_ready(&w);
	m = exposed(&w, 0, 901 * MS, 1000 * MS, 1400 * MS);
	cause_retry.see(seen, w.tl, &m);
	f = explain(&cause_retry, seen, &r, 400 * MS);
	assert_true(says(&f, "tcp:10.0.0.2:1->10.0.0.1:2"));
	assert_true(says(&f, "retransmission timeouts"));
	assert_true(says(&f, "rank 1"));
	forget(&f);
	world_free(&w);
}

static void explain_counts_saves_and_their_bytes(void **state)
{
	struct world w = world_new(1);
	void *seen = cause_checkpoint.open();
	struct result r = {0};
	struct finding f;

	(void)state;
	for (int i = 0; i < 6; i++)
		add_call(&w, w.main[0], "write", "/out/ckpt.pt", (1000 + i * 5000) * MS, (1200 + i * 5000) * MS, 40000000, 0);
	world_ready(&w);
	for (int i = 0; i < 6; i++) {
		struct moment m = idle(&w, w.main[0], (1000 + i * 5000) * MS, (1200 + i * 5000) * MS);

		cause_checkpoint.see(seen, w.tl, &m);
	}
	f = explain(&cause_checkpoint, seen, &r, 1200 * MS);
	assert_true(says(&f, "in 6 saves"));
	assert_true(says(&f, "240 MB written at 200 MB/s"));
	assert_true(says(&f, "every 5."));
	assert_true(says(&f, "/out/ckpt.pt"));
	forget(&f);
	world_free(&w);
}

static void explain_tells_the_scalers_waste(void **state)
{
	struct result r = {0};
	struct device_result d[2] = { { .scaler_seen = true, .scaler_checks = 400, .scaler_skips = 40 }, { .scaler_seen = true, .scaler_checks = 400, .scaler_skips = 40 } };
	struct finding f;

	(void)state;
	for (int i = 0; i < 2; i++) {
		d[i].windows[WINDOW_STEADY].present = true;
		d[i].windows[WINDOW_STEADY].skipped_compute_ns = 2000 * MS;
	}
	r.devices = d;
	r.ndevices = 2;
	f = explain(&cause_scaler, cause_scaler.open(), &r, 30 * MS);
	assert_true(says(&f, "skipped 40 of 400 steps"));
	assert_true(says(&f, "4.00 s of GPU work thrown away"));
	assert_true(says(&f, "0.5 is the default"));
	forget(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_short),
		cmocka_unit_test(tally_keeps_the_largest_in_bounded_memory),
		cmocka_unit_test(tally_counts_few_names_exactly),
		cmocka_unit_test(spread_knows_quantiles),
		cmocka_unit_test(rhythm_tells_a_period_from_chance),
		cmocka_unit_test(explain_says_nothing_wrong_about_nothing),
		cmocka_unit_test(explain_names_folder_rate_and_files_of_storage),
		cmocka_unit_test(explain_computes_the_workers_that_are_needed),
		cmocka_unit_test(explain_names_the_late_rank_and_what_it_did),
		cmocka_unit_test(explain_says_what_a_late_rank_was_in),
		cmocka_unit_test(explain_counts_allocations),
		cmocka_unit_test(explain_names_connection_and_sender_of_retries),
		cmocka_unit_test(explain_counts_saves_and_their_bytes),
		cmocka_unit_test(explain_tells_the_scalers_waste),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
