/* SPDX-License-Identifier: Apache-2.0
 *
 * The short way to a cause finds what the causes themselves claim, whatever the moment.
 */
#include "tests/unit/cause_fixture.h"

#include "analyzer/cause_plain.h"

static uint64_t state = 88172645463325252u;

static unsigned below(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % n;
}

static const char *const names[] = { "cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize", "ncclAllReduce",
	"ncclCommInitRank", "waitpid", "pread", "write", "sem_wait", "cudaMalloc", "cuModuleLoadData", "poll", "fork" };
static const char *const targets[] = { NULL, NULL, "pipe:[7]", "/data/model.pt", "pid:201", "tcp:10.0.0.1:5->10.0.0.2:6", "/usr/lib/a.so", "unix:[9]" };

/* What asking all causes in order comes to for the whole moment; -1 when they divide it. */
static int ask_all(const struct timeline *tl, const struct moment *m)
{
	for (int row = 0; causes[row]; row++) {
		int64_t until = m->end_ns;

		if (causes[row + 1] && !causes[row]->claim(tl, m, &until))
			continue;
		return !causes[row + 1] || until == m->end_ns ? row : -1;
	}
	return -1;
}

static struct world made_up(void)
{
	struct world w = world_new(2);
	struct process *child = timeline_process(w.tl, "host", 201, 1);
	int64_t at = 0;

	child->parent = w.rank[0];
	child->command = strdup("python train.py");
	for (int i = 0; i < 4000; i++) {
		const char *target = targets[below(8)];
		int64_t len = 1000 + below(9) * 300;
		struct slice s = { .start_ns = at, .end_ns = at + len, .bytes = (int64_t)below(3) * 1000000 - 1, .name = timeline_name(w.tl, names[below(15)]),
			.target = target ? timeline_target(w.tl, w.rank[0], target) : NULL };

		timeline_call(w.tl, w.main[0], &s);
		if (!below(3)) {
			s.name = timeline_name(w.tl, names[below(15)]);
			s.start_ns += 200;
			s.end_ns -= 200;
			timeline_call(w.tl, w.main[0], &s);
		}
		at += len + below(4) * 500;
	}
	timeline_settle(w.tl, NS_OPEN);
	causes_advance(w.tl);
	return w;
}

static void any_moment(struct world *w, struct moment *m)
{
	int64_t at = 1 + below(8000000);

	*m = (struct moment){ .start_ns = at, .end_ns = at + 1 + below(900), .device = w->gpu[0], .waiter = w->main[0], .thread = w->main[!below(8)],
		.activity = (enum activity)below(4), .state = below(6) ? LOST_IDLE : (enum lost_state)below(3), .part = (enum part)below(5),
		.after_sync = !below(4), .outside_steps = !below(9), .skipped_step = !below(6), .loader = !below(9), .hops = below(2) ? 0 : 1 };
	m->gap_start_ns = m->start_ns;
	m->gap_end_ns = m->end_ns;
	if (m->activity == ACT_CALL) {
		m->call = timeline_call_at(w->main[0], at);
		m->outer = m->call;
		while (m->outer && m->outer->up)
			m->outer -= m->outer->up;
		if (!m->call)
			m->activity = ACT_CPU;
	}
}

static void holds(struct world *w, unsigned *plain, unsigned by_row[64])
{
	struct plain_memory memory = {0};

	for (int i = 0; i < 100000; i++) {
		struct moment m;
		int row;

		any_moment(w, &m);
		row = cause_plain(w->tl, &m, &memory);
		if (row < 0)
			continue;
		assert_int_equal(row, ask_all(w->tl, &m));
		++*plain;
		by_row[row]++;
	}
}

static void finds_what_the_causes_claim(void **unused)
{
	struct world w = made_up();
	unsigned plain = 0, rows = 0, by_row[64] = {0};

	holds(&w, &plain, by_row);
	for (int i = 0; i < 64; i++)
		rows += by_row[i] > 0;
	/* it is taken often, and comes to each of its six causes */
	assert_true(plain > 10000);
	assert_int_equal(rows, 6);
	world_free(&w);
}

static void leaves_special_threads_to_the_causes(void **unused)
{
	struct world w = made_up();
	unsigned plain = 0, by_row[64] = {0};

	timeline_thread_name(w.main[0], "whyidle");
	holds(&w, &plain, by_row);
	timeline_thread_name(w.main[0], "python3");
	free((char *)w.rank[0]->command);
	w.rank[0]->command = strdup("/usr/bin/ptxas -O3");
	holds(&w, &plain, by_row);
	assert_int_equal(plain, 0);
	world_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_the_causes_claim),
		cmocka_unit_test(leaves_special_threads_to_the_causes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
