/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of PyTorch's profiler: numbers by their digits, text that is no JSON, both vocabularies, order of time with little memory, every prefix.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "analyzer/kineto.h"
#include "analyzer/kineto_call.h"
#include "analyzer/kineto_json.h"
#include "analyzer/kineto_sort.h"
#include "analyzer/timeline_build.h"

/* ---- numbers ---- */

static int64_t ns_of(const char *us)
{
	int64_t v = -77;

	assert_true(jtext_decimal(us, strlen(us), 3, &v));
	return v;
}

static void decimals_are_read_by_digit(void **unused)
{
	(void)unused;
	assert_int_equal(ns_of("0"), 0);
	assert_int_equal(ns_of("1712195495505543.168"), 1712195495505543168);
	assert_int_equal(ns_of("1712195495505543"), 1712195495505543000);
	assert_int_equal(ns_of("1365627862757.06"), 1365627862757060);
	assert_int_equal(ns_of("1.0005"), 1001);
	assert_int_equal(ns_of("1.00049999"), 1000);
	assert_int_equal(ns_of("0.0004"), 0);
	assert_int_equal(ns_of("-2.5"), -2500);
	assert_int_equal(ns_of("1.7121954955e15"), 1712195495500000000);
	assert_int_equal(ns_of("25E-1"), 2500);
	assert_int_equal(ns_of("00012.5"), 12500);
	assert_int_equal(ns_of("0e99999999999"), 0);
}

static void numbers_that_are_none_are_refused(void **unused)
{
	static const char *const bad[] = {"", "-", ".", "abc", "1e", "1e+", "1.2.3", "1x", "NaN", "Infinity", "99999999999999999999", "1e300", "9300000000000000",
		"18446744073709551615"};
	int64_t v = 5;

	(void)unused;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (jtext_decimal(bad[i], strlen(bad[i]), 3, &v))
			fail_msg("%s is %lld", bad[i], (long long)v);
	assert_int_equal(v, 5);
}

/* ---- text ---- */

static bool skips(const char *text, uint64_t *offset)
{
	char why[256];
	struct jtext *j = jtext_open_memory(text, strlen(text), why, sizeof(why));
	bool ok = jtext_skip(j);

	jtext_error(j, offset);
	jtext_close(j);
	return ok;
}

static void values_are_passed_by_their_brackets(void **unused)
{
	char deep[3000];
	uint64_t at;

	(void)unused;
	assert_true(skips("{\"a\": [1, \"}]\\\"\", {}], \"b\": null}", &at));
	assert_false(skips("[1, 2}", &at));
	assert_int_equal(at, 5);
	assert_false(skips("[\"abc", &at));
	assert_int_equal(at, 5);
	memset(deep, '[', 1000);
	memset(deep + 1000, ']', 1000);
	deep[2000] = '\0';
	assert_true(skips(deep, &at));
	memset(deep, '[', 1500);
	memset(deep + 1500, ']', 1499);
	deep[2999] = '\0';
	assert_false(skips(deep, &at));
	assert_int_equal(at, JSON_DEEPEST);
}

static void strings_are_unescaped_and_cut(void **unused)
{
	static const char text[] = "\"a\\n\\\"\\\\\\u00e9\\u20ac\\ud83d\" \"0123456789\"";
	char why[64], out[64];
	struct jtext *j = jtext_open_memory(text, strlen(text), why, sizeof(why));
	size_t len;

	(void)unused;
	assert_true(jtext_string(j, out, sizeof(out), &len));
	assert_string_equal(out, "a\n\"\\\xc3\xa9\xe2\x82\xac\xef\xbf\xbd");
	assert_true(jtext_string(j, out, 5, &len));
	assert_string_equal(out, "0123");
	assert_int_equal(len, 4);
	jtext_close(j);
}

/* ---- names ---- */

static void calls_of_hip_and_new_cuda_have_a_class(void **unused)
{
	(void)unused;
	assert_int_equal(call_class(kineto_call("hipFree")), CLASS_GPU_ALLOC);
	assert_int_equal(call_class(kineto_call("hipHostMalloc")), CLASS_GPU_ALLOC);
	assert_int_equal(call_class(kineto_call("cuMemCreate")), CLASS_GPU_ALLOC);
	assert_int_equal(call_class(kineto_call("hipExtModuleLaunchKernel")), CLASS_GPU_LAUNCH);
	assert_int_equal(call_class(kineto_call("cuLaunchKernelEx")), CLASS_GPU_LAUNCH);
	assert_int_equal(call_class(kineto_call("hipMemcpyWithStream")), CLASS_GPU_COPY);
	assert_int_equal(call_class(kineto_call("hipStreamSynchronize")), CLASS_GPU_SYNC);
	assert_int_equal(call_class(kineto_call("cuModuleLoadData")), CLASS_GPU_SETUP);
	assert_int_equal(kineto_call("cudaFuncGetAttributes"), CALL_NONE);
	assert_int_equal(kineto_call("hipGetDevicePropertiesR0600"), CALL_NONE);
	assert_int_equal(kineto_call("aten::copy_"), CALL_NONE);
	assert_int_equal(kineto_call("void cutlass::Kernel<Launch>"), CALL_NONE);
	assert_int_equal(kineto_collective("nccl:_reduce_scatter_base"), CALL_ncclReduceScatter);
	assert_int_equal(kineto_collective("_allgather_base"), CALL_ncclAllGather);
	assert_int_equal(kineto_collective("all_to_allv"), CALL_ncclAlltoAll);
	assert_int_equal(kineto_collective("wait"), CALL_NONE);
}

/* ---- order ---- */

static void sorts_with_less_memory_than_records(void **unused)
{
	struct kineto_sorter *s;
	const struct kineto_record *r;
	int64_t last = INT64_MIN, sum = 0, want = 0;
	unsigned seed = 1, n = 0;

	(void)unused;
	kineto_sort_budget(4096);
	s = kineto_sorter_open();
	for (int i = 0; i < 300000; i++) {
		struct kineto_record in = {.start_ns = rand_r(&seed) % 100000, .id = (uint64_t)i};

		in.end_ns = in.start_ns + rand_r(&seed) % 10;
		want += in.start_ns;
		kineto_sorter_add(s, &in);
	}
	kineto_sorter_finish(s);
	for (int pass = 0; pass < 2; pass++) {
		int64_t last_end = 0;
		uint64_t last_id = 0;

		sum = 0, n = 0, last = INT64_MIN;
		kineto_sorter_rewind(s);
		while ((r = kineto_sorter_next(s))) {
			assert_true(r->start_ns >= last);
			if (r->start_ns == last) {
				assert_true(r->end_ns <= last_end);
				if (r->end_ns == last_end)
					assert_true(r->id > last_id);
			}
			last = r->start_ns, last_end = r->end_ns, last_id = r->id;
			sum += r->start_ns;
			n++;
		}
		assert_int_equal(n, 300000);
		assert_int_equal(sum, want);
	}
	assert_false(kineto_sorter_failed(s));
	kineto_sorter_close(s);
	kineto_sort_budget(0);
}

/* ---- whole traces ---- */

#define EV(cat, name, pid, tid, ts, dur, args) \
	"{\"ph\": \"X\", \"cat\": \"" cat "\", \"name\": \"" name "\", \"pid\": " pid ", \"tid\": " tid ", \"ts\": " ts ", \"dur\": " dur ", \"args\": {" args "}}"

static const char new_words[] = "\n{ \"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU A\", \"x\": {}}, {\"id\": 1, \"name\": \"GPU B\"}],\n"
	"\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8, \"pg_config\": [{}]}, \"traceEvents\": [\n"
	EV("kernel", "gemm", "1", "7", "110.5", "10.25", "\"device\": 1, \"stream\": 7, \"correlation\": 5, \"grid\": [1, 1, 1]") ",\n"
	EV("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "1", "7", "130", "1", "\"device\": 1, \"stream\": 7, \"correlation\": 6, \"bytes\": 4096") ",\n"
	EV("kernel", "ncclDevKernel_AllReduce_Sum(x)", "1", "9", "150", "20", "\"device\": 1, \"stream\": 9, \"correlation\": 8") ",\n"
	EV("cpu_op", "aten::mm", "42", "42", "100", "9", "\"External id\": 3, \"Input Dims\": [[1, 2], []]") ",\n"
	EV("user_annotation", "ProfilerStep#12", "42", "42", "95", "80", "") ",\n"
	EV("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "42", "42", "111", "17", "") ",\n"
	EV("cpu_op", "record_param_comms", "42", "43", "140", "6", "\"Collective name\": \"allreduce\", \"Process Group Name\": \"0\", \"Group size\": 8, "
		"\"In msg nelems\": 100, \"dtype\": \"BFloat16\", \"Seq\": 77") ",\n"
	EV("user_annotation", "nccl:all_reduce", "42", "43", "140.5", "5", "") ",\n"
	EV("cuda_runtime", "cudaLaunchKernel", "42", "42", "101", "2", "\"cbid\": 211, \"correlation\": 5") ",\n"
	EV("cuda_runtime", "cudaMemcpyAsync", "42", "42", "128.001", "1.5", "\"correlation\": 6") ",\n"
	EV("cuda_runtime", "cudaGetDevice", "42", "42", "127", "0.5", "\"correlation\": 7") ",\n"
	EV("cuda_runtime", "cudaLaunchKernelExC", "42", "43", "141", "2", "\"correlation\": 8") ",\n"
	"{\"ph\": \"s\", \"id\": 5, \"pid\": 42, \"tid\": 42, \"ts\": 101, \"cat\": \"ac2g\", \"name\": \"ac2g\"},\n"
	EV("gpu_user_annotation", "Optimizer.step#SGD.step", "1", "7", "110", "20", "") ",\n"
	EV("Trace", "PyTorch Profiler (0)", "\"Spans\"", "\"PyTorch Profiler\"", "1", "9999", "\"Op count\": 0") ",\n"
	"{\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 1, \"pid\": 42, \"tid\": 0, \"args\": {\"name\": \"python3\"}},\n"
	"{\"name\": \"thread_name\", \"ph\": \"M\", \"ts\": 1, \"pid\": 42, \"tid\": 43, \"args\": {\"name\": \"pt_autograd_0\"}}\n"
	"], \"traceName\": \"x.json\", \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": 1700000000000000000 }\n";

static const char old_words[] = "[" EV("Kernel", "k", "0", "\"stream 7\"", "20", "3", "\"correlation\": 5") ","
	EV("Runtime", "cudaLaunchKernel", "9", "\"9\"", "10", "2", "\"correlation\": 5") ","
	EV("Operator", "ProfilerStep#1", "9", "\"9\"", "9", "20", "\"Call stack\": \"a;\\\"b\\\"\"") ","
	EV("Memset", "FillBuffer", "0", "\"stream 7\"", "26", "0", "") "," EV("Memcpy", "CopyHostToDevice", "0", "\"stream 8\"", "27", "1", "") "]";

static struct timeline *whole(struct kineto *k)
{
	struct timeline *tl = timeline_new();
	int64_t watermark = INT64_MIN, last = INT64_MIN;

	while (kineto_read(k, tl, 0, &watermark)) {
		assert_true(watermark >= last);
		last = watermark;
	}
	tl->finished = true;
	timeline_settle(tl, INT64_MAX);
	return tl;
}

static const struct slice *call_named(const struct timeline *tl, const char *name)
{
	for (unsigned i = 0; i < tl->processes[0]->nthreads; i++)
		for (size_t c = 0; c < tl->processes[0]->threads[i]->ncalls; c++)
			if (!strcmp(tl->processes[0]->threads[i]->calls[c].name->text, name))
				return &tl->processes[0]->threads[i]->calls[c];
	return NULL;
}

static void new_words_become_a_timeline(void **unused)
{
	const int64_t base = 1700000000000000000;
	char why[256];
	struct kineto *k = kineto_open_memory(new_words, strlen(new_words), why, sizeof(why));
	struct timeline *tl;
	const struct process *p;
	const struct device *d;
	const struct slice *s;

	(void)unused;
	assert_non_null(k);
	assert_null(kineto_head(k)->trouble);
	tl = whole(k);
	assert_int_equal(tl->nprocesses, 1);
	p = tl->processes[0];
	assert_int_equal(p->pid, 42);
	assert_int_equal(p->rank, 3);
	assert_string_equal(p->command, "python3");
	assert_true(p->profiled && p->marked);
	assert_int_equal(p->first_ns, base + 95000);
	assert_int_equal(p->last_ns, base + 175000);
	assert_int_equal(p->ndevices, 1);
	d = p->devices[0];
	assert_int_equal(d->id, 1);
	assert_string_equal(d->name, "GPU B");
	assert_int_equal(d->nops, 3);
	assert_int_equal(d->ops[0].start_ns, base + 110500);
	assert_int_equal(d->ops[0].end_ns, base + 120750);
	assert_int_equal(d->ops[0].launch_start_ns, base + 101000);
	assert_int_equal(d->ops[0].launcher->tid, 42);
	assert_int_equal(d->ops[1].name->op, OP_COPY);
	assert_int_equal(d->ops[1].bytes, 4096);
	assert_int_equal(d->ops[1].launch_end_ns, base + 129501);
	assert_int_equal(d->ops[2].name->op, OP_COMM);
	assert_string_equal(d->ops[2].launcher->name, "pt_autograd_0");
	s = call_named(tl, "ncclAllReduce");
	assert_non_null(s);
	assert_int_equal(s->start_ns, base + 140000);	/* one, not also the annotation inside */
	assert_int_equal(s->nccl->seq, 77);
	assert_int_equal(s->nccl->nranks, 8);
	assert_int_equal(s->bytes, 200);
	s = call_named(tl, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
	assert_int_equal(s->name->range, RANGE_LOADS);
	assert_null(call_named(tl, "aten::mm"));
	assert_null(call_named(tl, "cudaGetDevice"));	/* time on the CPU like any other */
	assert_int_equal(tl->nmarks, 1);
	assert_int_equal(tl->marks[0].at_ns, base + 95000);
	timeline_free(tl);
	kineto_close(k);
}

static void old_words_become_a_timeline(void **unused)
{
	char why[256];
	struct kineto *k = kineto_open_memory(old_words, strlen(old_words), why, sizeof(why));
	struct timeline *tl;
	const struct device *d;

	(void)unused;
	assert_non_null(k);
	tl = whole(k);
	assert_int_equal(tl->processes[0]->pid, 9);
	assert_int_equal(tl->processes[0]->rank, -1);
	d = tl->processes[0]->devices[0];
	assert_int_equal(d->nops, 3);
	assert_int_equal(d->ops[0].stream, 7);
	assert_int_equal(d->ops[0].launcher->tid, 9);
	assert_string_equal(d->ops[1].name->text, "Memset (Device)");
	assert_memory_equal(d->ops[2].name->text, "Memcpy HtoD", 11);
	assert_int_equal(tl->nmarks, 1);
	timeline_free(tl);
	kineto_close(k);
}

static void two_ranks_name_one_collective(void **unused)
{
	static const char *const texts[] = {
		"{\"distributedInfo\": {\"rank\": 0, \"world_size\": 2}, \"traceEvents\": [" EV("user_annotation", "nccl:broadcast", "1", "1", "4", "1", "") ","
			EV("user_annotation", "ProfilerStep#7", "1", "1", "5", "50", "") "," EV("user_annotation", "nccl:all_reduce", "1", "1", "10", "1", "") "]}",
		"{\"traceEvents\": [" EV("user_annotation", "nccl:all_reduce", "1", "1", "12", "1", "") "," EV("user_annotation", "ProfilerStep#7", "1", "1", "6", "50", "")
			"], \"distributedInfo\": {\"world_size\": 2, \"rank\": 1}}",
	};
	struct nccl_info info[2];
	char why[256];

	(void)unused;
	for (int i = 0; i < 2; i++) {
		struct kineto *k = kineto_open_memory(texts[i], strlen(texts[i]), why, sizeof(why));
		struct timeline *tl = whole(k);

		info[i] = *call_named(tl, "ncclAllReduce")->nccl;
		assert_int_equal(info[i].rank, i);
		timeline_free(tl);
		kineto_close(k);
	}
	assert_int_equal(info[0].comm, info[1].comm);
	assert_int_equal(info[0].seq, info[1].seq);
}

/* Every prefix either is refused in a sentence or gives what came before the cut and says so. */
static void prefixes(const char *text, size_t n)
{
	for (size_t len = 0; len < n; len++) {
		char why[512] = "", *copy = malloc(len ? len : 1);	/* exact, for the address sanitizer */
		struct kineto *k;

		memcpy(copy, text, len);
		k = kineto_open_memory(copy, len, why, sizeof(why));
		if (k) {
			struct timeline *tl = whole(k);

			assert_int_equal(tl->nprocesses, 1);
			assert_true(kineto_head(k)->events > 0);
			timeline_free(tl);
			kineto_close(k);
		} else {
			assert_true(strlen(why) > 10);
		}
		free(copy);
	}
}

static void every_prefix_is_read(void **unused)
{
	unsigned char packed[8192];
	z_stream z = {0};
	char why[256];
	struct kineto *k;

	(void)unused;
	prefixes(new_words, strlen(new_words) - 2);
	prefixes(old_words, strlen(old_words));
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (unsigned char *)(uintptr_t)new_words;
	z.avail_in = (unsigned)strlen(new_words);
	z.next_out = packed;
	z.avail_out = sizeof(packed);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	prefixes((char *)packed, z.total_out);
	/* cut behind the first events */
	k = kineto_open_memory(new_words, strlen(new_words) - 600, why, sizeof(why));
	assert_non_null(strstr(kineto_head(k)->trouble, "what came before it is used"));
	kineto_close(k);
	deflateEnd(&z);
}

/* One byte changed anywhere: no crash, no end without a word. */
static void every_changed_byte_is_survived(void **unused)
{
	static const char with[] = {'\0', '"', '}', '[', '9', '\\', (char)0xff};
	size_t n = strlen(new_words);
	char *copy = malloc(n), why[512];

	(void)unused;
	for (size_t at = 0; at < n; at++) {
		struct kineto *k;

		memcpy(copy, new_words, n);
		copy[at] = with[at % sizeof(with)];
		k = kineto_open_memory(copy, n, why, sizeof(why));
		if (k) {
			timeline_free(whole(k));
			kineto_close(k);
		}
	}
	free(copy);
}

static void refused(const char *text, const char *because)
{
	char why[512] = "";

	assert_null(kineto_open_memory(text, strlen(text), why, sizeof(why)));
	if (!strstr(why, because))
		fail_msg("<%s> lacks <%s>", why, because);
}

static void foreign_text_is_refused_in_a_sentence(void **unused)
{
	(void)unused;
	refused("{}", "no list \"traceEvents\"");
	refused("{\"name\": \"package\", \"version\": [1]}", "no list \"traceEvents\"");
	refused("[1, 2, 3]", "no events of PyTorch's profiler");
	refused("{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"blink\", \"name\": \"x\", \"ts\": 1, \"dur\": 1}]}", "no events of PyTorch's profiler");
	refused("{\"traceEvents\": [{\"a\" 1}]}", "offset 22");
	refused("", "the JSON ends in the middle");
	refused("{\"traceEvents\": [" EV("kernel", "k", "0", "7", "1e400", "1", "") "]}", "none of its 1 events has a time that is possible");
}

static void impossible_events_are_left_out_and_counted(void **unused)
{
	static const char text[] = "{\"traceEvents\": [" EV("kernel", "k", "0", "7", "5", "1", "\"device\": 0, \"stream\": 7") ","
		EV("kernel", "late", "0", "7", "99999999999999999999999999999999999999", "1", "") "," EV("kernel", "long", "0", "7", "5", "18446744073709551", "")
		"," EV("kernel", "back", "0", "7", "5", "-1", "") "," EV("kernel", "where", "-3", "7", "5", "1", "") "," EV("kernel", "when", "0", "7", "NaN", "1", "") "]}";
	char why[256];
	struct kineto *k = kineto_open_memory(text, strlen(text), why, sizeof(why));
	struct timeline *tl;

	(void)unused;
	assert_non_null(k);
	assert_memory_equal(kineto_head(k)->trouble, "5 events", 8);
	tl = whole(k);
	assert_int_equal(tl->processes[0]->devices[0]->nops, 1);
	timeline_free(tl);
	kineto_close(k);
}

static bool json_by_content(const char *bytes, size_t n)
{
	char name[] = "/tmp/kineto-test-XXXXXX";
	int fd = mkstemp(name);
	bool is;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	close(fd);
	is = kineto_is_json(name);
	unlink(name);
	return is;
}

static void json_is_told_from_packets(void **unused)
{
	(void)unused;
	assert_true(json_by_content(new_words, strlen(new_words)));
	assert_true(json_by_content(old_words, strlen(old_words)));
	assert_true(json_by_content("\xef\xbb\xbf{\"a\": 1}", 11));
	/* a first packet of 123 and of 91 bytes: its length is a bracket */
	assert_false(json_by_content("\n\x7b\x40\x01\x50\x01", 6));
	assert_false(json_by_content("\n\x5b\x40\x01\x50\x01", 6));
	assert_false(json_by_content("", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decimals_are_read_by_digit),
		cmocka_unit_test(numbers_that_are_none_are_refused),
		cmocka_unit_test(values_are_passed_by_their_brackets),
		cmocka_unit_test(strings_are_unescaped_and_cut),
		cmocka_unit_test(calls_of_hip_and_new_cuda_have_a_class),
		cmocka_unit_test(sorts_with_less_memory_than_records),
		cmocka_unit_test(new_words_become_a_timeline),
		cmocka_unit_test(old_words_become_a_timeline),
		cmocka_unit_test(two_ranks_name_one_collective),
		cmocka_unit_test(every_prefix_is_read),
		cmocka_unit_test(every_changed_byte_is_survived),
		cmocka_unit_test(foreign_text_is_refused_in_a_sentence),
		cmocka_unit_test(impossible_events_are_left_out_and_counted),
		cmocka_unit_test(json_is_told_from_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
