/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim linked into the program that it records: spans, rings and the drain thread together, also under the sanitizers. The program runs
 * itself again with a session directory, since settings are read before main.
 */
#include "shim/span.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "shim/drain.h"
#include "shim/life.h"
#include "shim/quiesce.h"
#include "shim/thread.h"
#include "trace/reader.h"

#define SECOND 1000000000u

static char *directory;

struct found {
	unsigned begins, ends, open, counters, dropped;
	unsigned by_call[CALL_COUNT];
	uint64_t nccl_seq;
	int64_t bytes;
};

static void look_at(const char *path, struct found *f)
{
	struct pf_error err;
	struct pf_reader *r = pf_reader_open(path, &err);
	struct pf_item it;
	int got;

	assert_non_null(r);
	while ((got = pf_reader_next(r, &it, &err)) == 1) {
		unsigned i;

		if (it.kind == PF_SLICE_BEGIN) {
			f->begins++;
			f->by_call[call_by_name(it.name, strlen(it.name))]++;
			for (i = 0; i < it.nargs; i++) {
				if (strcmp(it.args[i].key, "seq") == 0)
					f->nccl_seq = it.args[i].v.u;
				if (strcmp(it.args[i].key, "bytes") == 0)
					f->bytes = it.args[i].v.i;
			}
		}
		f->ends += it.kind == PF_SLICE_END;
		f->counters += it.kind == PF_COUNTER;
		if (it.kind == PF_ATTRIBUTE && strcmp(it.attr_key, "whyidle.dropped") == 0)
			f->dropped = (unsigned)it.attr_int;
	}
	assert_int_equal(got, 0);
	pf_reader_close(r);
}

/* What the file of process `pid` holds now. */
static struct found look(pid_t pid)
{
	struct found f = { 0 };
	char pattern[600];
	glob_t g;
	size_t i;

	snprintf(pattern, sizeof(pattern), "%s/*.%d.*.pftrace", directory, pid);
	assert_int_equal(glob(pattern, 0, NULL, &g), 0);
	for (i = 0; i < g.gl_pathc; i++)
		look_at(g.gl_pathv[i], &f);
	globfree(&g);
	return f;
}

static void spans_become_slices(void **state)
{
	struct span outer, inner;
	struct found f;

	errno = 77;
	span_begin(&outer, CALL_ncclGroupEnd);
	span_begin(&inner, CALL_ncclAllReduce);
	inner.nccl = inner.always = true;
	inner.seq = 41;
	inner.bytes = 4096;
	span_end(&inner, 0);
	outer.always = true;
	span_end(&outer, 0);
	assert_int_equal(errno, 77);
	drain_flush(5ull * SECOND);
	f = look(getpid());
	assert_int_equal(f.by_call[CALL_ncclGroupEnd], 1);
	assert_int_equal(f.by_call[CALL_ncclAllReduce], 1);
	assert_int_equal(f.nccl_seq, 41);
	assert_int_equal(f.begins, f.ends);
}

static void short_spans_are_only_counted(void **state)
{
	struct span s;
	uint64_t before = tls.slot->shorts;

	span_begin(&s, CALL_fsync);
	span_end(&s, 0);
	span_begin(&s, CALL_fsync);
	span_cancel(&s);
	assert_int_equal(tls.slot->shorts, before + 1);
	assert_int_equal(tls.slot->depth, 0);
}

static void guarded_threads_record_nothing(void **state)
{
	struct span s;

	assert_false(span_guarded());
	span_guard_up();
	assert_true(span_guarded());
	span_begin(&s, CALL_ncclSend);
	assert_int_equal(s.start_ns, 0);
	span_end(&s, 0);
	span_guard_down();
	assert_false(span_guarded());
}

static __attribute__((noinline)) void leave_open(jmp_buf *out)
{
	struct span s;
	volatile char deeper[512];

	deeper[0] = 0;
	span_begin(&s, CALL_ncclRecv);
	longjmp(*out, deeper[0] + 1);
}

static void a_span_that_was_jumped_out_of_is_taken_away(void **state)
{
	struct span s;
	jmp_buf out;
	volatile int i;

	for (i = 0; i < 3; i++)
		if (setjmp(out) == 0)
			leave_open(&out);
	span_begin(&s, CALL_ncclSend);
	assert_int_equal(tls.slot->depth, 1);
	span_end(&s, 0);
	assert_int_equal(tls.slot->depth, 0);
}

static void deep_nesting_is_survived(void **state)
{
	struct span s[20];
	int i;

	/* outer ones at higher addresses, as on a stack */
	for (i = 19; i >= 0; i--)
		span_begin(&s[i], CALL_ncclGroupStart);
	assert_int_equal(tls.slot->depth, 20);
	for (i = 0; i < 20; i++)
		span_end(&s[i], 0);
	assert_int_equal(tls.slot->depth, 0);
}

static void quiet_spans_leave_nothing(void **state)
{
	struct found before = look(getpid()), after;
	struct span s;

	span_begin_quiet(&s, CALL_cudaLaunchKernel);
	usleep(60000);
	span_end(&s, 0);
	drain_flush(5ull * SECOND);
	after = look(getpid());
	assert_int_equal(after.by_call[CALL_cudaLaunchKernel], before.by_call[CALL_cudaLaunchKernel]);
}

enum { THREADS = 4, LOOPS = 300 };

static void *talk(void *none)
{
	int p[2], i;
	char c;

	if (pipe(p))
		return "pipe";
	for (i = 0; i < LOOPS; i++)
		if (write(p[1], "x", 1) != 1 || read(p[0], &c, 1) != 1)
			return "talk";
	close(p[0]);
	close(p[1]);
	return none;
}

static void threads_come_and_go_while_the_drain_works(void **state)
{
	struct found before = look(getpid()), after;
	int round, i;

	for (round = 0; round < 5; round++) {
		pthread_t t[THREADS];
		void *bad;

		for (i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&t[i], NULL, talk, NULL), 0);
		for (i = 0; i < THREADS; i++) {
			assert_int_equal(pthread_join(t[i], &bad), 0);
			assert_null(bad);
		}
	}
	drain_flush(10ull * SECOND);
	after = look(getpid());
	assert_true(after.by_call[CALL_write] - before.by_call[CALL_write] + after.dropped >= 5 * THREADS * LOOPS);
	assert_int_equal(after.begins, after.ends);
}

static void a_forked_child_has_its_own_file(void **state)
{
	struct found parent, child;
	int status, i;

	for (i = 0; i < 5; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(talk(NULL) ? 1 : 4);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 4 << 8);
		child = look(pid);
		assert_int_equal(child.by_call[CALL_write], LOOPS);
		assert_int_equal(child.begins, child.ends);
	}
	drain_flush(5ull * SECOND);
	parent = look(getpid());
	assert_int_equal(parent.by_call[CALL_fork], 5);
}

static unsigned hook_calls;

static void hook(struct pf_writer *w, uint64_t now)
{
	assert_non_null(w);
	assert_true(now > 0);
	drain_thread_track(w, getpid());
	__atomic_fetch_add(&hook_calls, 1, __ATOMIC_RELAXED);
}

static void hooks_are_called_each_period_and_over_forks(void **state)
{
	unsigned before;

	assert_int_equal(drain_hook(hook), 0);
	drain_kick();
	drain_flush(5ull * SECOND);
	before = __atomic_load_n(&hook_calls, __ATOMIC_RELAXED);
	assert_true(before > 0);
	drain_quiesce();
	drain_unquiesce();
	drain_kick();
	usleep(300000);
	assert_true(__atomic_load_n(&hook_calls, __ATOMIC_RELAXED) >= before + 3);
}

static void cleanup(void)
{
	char command[600];

	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	if (system(command))
		fputs("left behind: the session directory\n", stderr);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans_become_slices),
		cmocka_unit_test(short_spans_are_only_counted),
		cmocka_unit_test(guarded_threads_record_nothing),
		cmocka_unit_test(a_span_that_was_jumped_out_of_is_taken_away),
		cmocka_unit_test(deep_nesting_is_survived),
		cmocka_unit_test(quiet_spans_leave_nothing),
		cmocka_unit_test(threads_come_and_go_while_the_drain_works),
		cmocka_unit_test(a_forked_child_has_its_own_file),
		cmocka_unit_test(hooks_are_called_each_period_and_over_forks),
	};
	char template[] = "/tmp/shim_span.XXXXXX";
	int rc;

	directory = getenv("WHYIDLE_DIR");
	if (!directory) {
		if (!mkdtemp(template) || setenv("WHYIDLE_DIR", template, 1))
			return 99;
		execv("/proc/self/exe", argv);
		return 99;
	}
	life_start();	/* runs twice: the constructor has been here */
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	cleanup();
	return rc;
}
