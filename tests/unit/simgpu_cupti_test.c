/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated CUPTI: what records come, in which layout, from which thread, and what a flush does. The version is fixed for a
 * process, so every test runs in a child of its own that sets the environment first.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "examples/simgpu/cupti.h"
#include "examples/simgpu/simgpu.h"

/* In the child: a failed check ends it. */
#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
			_exit(1);                                                               \
		}                                                                               \
	} while (0)
#define OK(call) CHECK((call) == 0)

enum { BUFFER = 64 << 10, MAX = 4096 };

static const dim3 grid = { 4, 2, 1 }, block = { 128, 1, 1 };
static char sleep_stub;
static uint8_t *seen[MAX];
static size_t nseen, buffer_bytes = BUFFER, max_per_buffer;
static pid_t request_thread, complete_thread;
static bool no_buffer;
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t u32(const uint8_t *r, size_t at)
{
	uint32_t v;

	memcpy(&v, r + at, sizeof(v));
	return v;
}

static uint64_t u64(const uint8_t *r, size_t at)
{
	uint64_t v;

	memcpy(&v, r + at, sizeof(v));
	return v;
}

static uint64_t realtime(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	pthread_mutex_lock(&seen_lock);
	request_thread = (pid_t)syscall(SYS_gettid);
	pthread_mutex_unlock(&seen_lock);
	*buffer = no_buffer ? NULL : aligned_alloc(8, buffer_bytes);
	*size = no_buffer ? 0 : buffer_bytes;
	*max_records = max_per_buffer;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	void *record = NULL, *before = NULL;
	int rc;

	(void)context, (void)stream, (void)size;
	pthread_mutex_lock(&seen_lock);		/* of the worker and of who flushes */
	complete_thread = (pid_t)syscall(SYS_gettid);
	while (!(rc = cuptiActivityGetNextRecord(buffer, valid, &record))) {
		CHECK(nseen < MAX);
		if (before)
			CHECK((uint8_t *)record > (uint8_t *)before);
		seen[nseen++] = record;
		before = record;
	}
	CHECK(rc == CUPTI_ERROR_MAX_LIMIT_REACHED);
	pthread_mutex_unlock(&seen_lock);
	/* the buffer stays: records and their names are read later */
}

static size_t count(uint32_t kind)
{
	size_t n = 0;

	for (size_t i = 0; i < nseen; i++)
		n += u32(seen[i], 0) == kind;
	return n;
}

static const uint8_t *find(uint32_t kind, size_t at, uint32_t value)
{
	for (size_t i = 0; i < nseen; i++)
		if (u32(seen[i], 0) == kind && u32(seen[i], at) == value)
			return seen[i];
	return NULL;
}

static uint64_t sleep_duration(void **args, dim3 g, dim3 b)
{
	(void)g, (void)b;
	return *(uint64_t *)args[0];
}

static void launch_sleep(uint64_t ns, cudaStream_t stream)
{
	void *args[] = { &ns };

	OK(cudaLaunchKernel(&sleep_stub, grid, block, args, 48, stream));
}

static void start(const int *kinds)
{
	static const size_t arg_bytes[] = { 8 };
	CUpti_SubscriberHandle subscriber;
	void **module = __cudaRegisterFatBinary(NULL);

	__cudaRegisterFunction(module, &sleep_stub, NULL, "_Z5sleepm", -1, NULL, NULL, NULL, NULL, NULL);
	simgpu_kernel_model("_Z5sleepm", sleep_duration, NULL, 1, arg_bytes);
	OK(cuptiSubscribe(&subscriber, NULL, NULL));
	CHECK(cuptiSubscribe(&subscriber, NULL, NULL) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	OK(cuptiActivityRegisterCallbacks(request, complete));
	OK(cuptiSetThreadIdType(1));
	for (; *kinds; kinds++)
		OK(cuptiActivityEnable(*kinds));
}

static const int usual[] = {
	CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
	CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_OVERHEAD,
	CUPTI_ACTIVITY_KIND_DEVICE, CUPTI_ACTIVITY_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_STREAM,
	CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0
};

static void check_kernels(cudaStream_t stream, uint64_t before, uint64_t after)
{
	unsigned long long id;
	int n = 0;

	OK(cudaStreamGetId(stream, &id));
	for (size_t i = 0; i < nseen; i++) {
		const uint8_t *r = seen[i], *api;

		if (u32(r, 0) != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			continue;
		n++;
		CHECK(u64(r, 24) - u64(r, 16) == 2000000);
		CHECK(u64(r, 16) > before && u64(r, 24) < after);
		CHECK(u32(r, 40) == 0 && u32(r, 44) == 1 && u32(r, 48) == id);
		CHECK(u32(r, 52) == 4 && u32(r, 56) == 2 && u32(r, 64) == 128 && u32(r, 80) == 48);
		CHECK(!strcmp((const char *)(uintptr_t)u64(r, 104), "_Z5sleepm"));
		api = find(CUPTI_ACTIVITY_KIND_RUNTIME, 32, u32(r, 92));
		CHECK(api && u32(api, 4) == 211 && u32(api, 36) == 0);
		CHECK(u32(api, 24) == (uint32_t)getpid() && u32(api, 28) == (uint32_t)syscall(SYS_gettid));
		CHECK(u64(api, 8) < u64(api, 16) && u64(api, 16) < u64(r, 24));
		CHECK(u64(api, 8) < u64(r, 16));
		CHECK(find(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 16, u32(r, 92)));
	}
	CHECK(n == 20);
}

static void check_back_to_back(void)
{
	uint64_t first = UINT64_MAX, last = 0;

	for (size_t i = 0; i < nseen; i++) {
		if (u32(seen[i], 0) != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			continue;
		first = u64(seen[i], 16) < first ? u64(seen[i], 16) : first;
		last = u64(seen[i], 24) > last ? u64(seen[i], 24) : last;
	}
	CHECK(last - first == 20 * 2000000);
}

/* The whole of a small program, in the layouts of the version in the environment. */
static void session(void)
{
	uint64_t before = realtime(), after, id;
	void *device, *other, *pinned;
	const uint8_t *r;
	cudaStream_t stream;
	uint32_t version;

	OK(cuptiGetVersion(&version));
	start(usual);
	OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -2));
	OK(cuptiActivityPushExternalCorrelationId(3, 777));
	for (int i = 0; i < 20; i++)
		launch_sleep(2000000, stream);
	OK(cuptiActivityPopExternalCorrelationId(3, &id));
	CHECK(id == 777 && cuptiActivityPopExternalCorrelationId(3, &id) == CUPTI_ERROR_QUEUE_EMPTY);
	OK(cudaStreamSynchronize(stream));
	OK(cudaMalloc(&device, 1 << 20));
	OK(cudaMallocHost(&pinned, 1 << 20));
	OK(cudaMemcpyAsync(device, pinned, 1 << 20, cudaMemcpyHostToDevice, stream));
	OK(cudaMemsetAsync(device, 3, 1000, stream));
	OK(cudaStreamSynchronize(stream));
	OK(cudaMemcpy(&version, device, 4, cudaMemcpyDeviceToHost));
	OK(cudaSetDevice(1));
	OK(cudaMalloc(&other, 1 << 20));
	OK(cudaMemcpyPeerAsync(other, 1, device, 0, 1 << 20, 0));
	OK(cudaDeviceSynchronize());
	OK(cudaSetDevice(0));
	OK(cudaDeviceSynchronize());
	after = realtime();
	CHECK(request_thread == getpid());	/* on the application's thread, inside a call */
	OK(cuptiActivityFlushAll(0));
	check_kernels(stream, before, after);
	check_back_to_back();

	CHECK(count(CUPTI_ACTIVITY_KIND_MEMCPY) == 2 && count(CUPTI_ACTIVITY_KIND_MEMCPY2) == 1);
	r = find(CUPTI_ACTIVITY_KIND_MEMCPY, 8, 1 << 20);
	CHECK(r && r[4] == 1 && r[5] == 2 && r[6] == 3 && r[7] == 1);
	CHECK(u64(r, 24) - u64(r, 16) == 1000 + (1 << 20) / 12);
	CHECK(find(CUPTI_ACTIVITY_KIND_RUNTIME, 32, u32(r, 44)));
	r = find(CUPTI_ACTIVITY_KIND_MEMCPY, 8, 4);
	CHECK(r && r[4] == 2 && r[5] == 3 && r[6] == 1 && r[7] == 0);
	r = find(CUPTI_ACTIVITY_KIND_MEMCPY2, 8, 1 << 20);
	CHECK(r && r[4] == 10 && u32(r, 44) == 0 && u32(r, 52) == 1 && find(CUPTI_ACTIVITY_KIND_RUNTIME, 32, u32(r, 60)));
	r = find(CUPTI_ACTIVITY_KIND_MEMSET, 8, 1000);
	CHECK(r && u32(r, 4) == 3);
	CHECK(count(CUPTI_ACTIVITY_KIND_DEVICE) == 8);
	r = find(CUPTI_ACTIVITY_KIND_DEVICE, 112, 5);
	CHECK(r && !strcmp((const char *)(uintptr_t)u64(r, 136), "Simulated GPU 5"));
	CHECK(count(CUPTI_ACTIVITY_KIND_CONTEXT) == 2 && find(CUPTI_ACTIVITY_KIND_CONTEXT, 4, 2));
	CHECK(u32(find(CUPTI_ACTIVITY_KIND_CONTEXT, 4, 1), 12) >> 16 == 7);
	CHECK(find(CUPTI_ACTIVITY_KIND_STREAM, 16, 2) && find(CUPTI_ACTIVITY_KIND_STREAM, 16, 3));
	CHECK(find(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 4, 3) && find(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 4, 4));
	CHECK(find(CUPTI_ACTIVITY_KIND_OVERHEAD, 4, 5 << 16));
}

/* Bytes of each record as the walk steps. */
static void check_sizes(size_t kernel, size_t copy, size_t p2p, size_t set, size_t sync, size_t overhead, size_t device)
{
	const struct {
		uint32_t kind;
		size_t bytes;
	} want[] = {
		{ 10, kernel }, { 1, copy }, { 22, p2p }, { 2, set }, { 38, sync }, { 17, overhead }, { 8, device },
		{ 5, 40 }, { 4, 40 }, { 39, 24 }, { 37, 24 },
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		uint8_t buffer[512] = { 0 };
		void *record = NULL;

		memcpy(buffer, &want[i].kind, 4);
		memcpy(buffer + want[i].bytes, &want[i].kind, 4);
		OK(cuptiActivityGetNextRecord(buffer, 2 * want[i].bytes, &record));
		CHECK(record == buffer);
		OK(cuptiActivityGetNextRecord(buffer, 2 * want[i].bytes, &record));
		CHECK(record == buffer + want[i].bytes);
		CHECK(cuptiActivityGetNextRecord(buffer, 2 * want[i].bytes, &record) == CUPTI_ERROR_MAX_LIMIT_REACHED);
		record = NULL;
		CHECK(cuptiActivityGetNextRecord(buffer, want[i].bytes - 1, &record) == CUPTI_ERROR_INVALID_KIND);
	}
}

static void version_18(void)
{
	check_sizes(200, 88, 96, 88, 40, 40, 176);
	session();
	CHECK(cuptiActivityEnableRuntimeApi(211, 0) == CUPTI_ERROR_NOT_SUPPORTED);
}

static void version_22(void)
{
	check_sizes(208, 88, 96, 88, 40, 56, 184);
	session();
}

static void version_130001(void)
{
	check_sizes(216, 96, 96, 88, 56, 56, 184);
	session();
	OK(cuptiActivityEnableRuntimeApi(211, 0));
}

static void records_come_in_no_order(void)
{
	bool disordered = false;
	uint64_t last = 0;

	start(usual);
	for (int i = 0; i < 50; i++)
		launch_sleep(1000, NULL);
	OK(cudaDeviceSynchronize());
	OK(cuptiActivityFlushAll(0));
	for (size_t i = 0; i < nseen; i++) {
		if (u32(seen[i], 0) != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			continue;
		disordered |= u64(seen[i], 16) < last;
		last = u64(seen[i], 16);
	}
	CHECK(disordered);
}

/* The worker comes in its own time. */
static void await_seen(size_t n)
{
	bool there = false;

	for (int i = 0; i < 1000 && !there; i++) {
		usleep(10000);
		pthread_mutex_lock(&seen_lock);
		there = nseen >= n;
		pthread_mutex_unlock(&seen_lock);
	}
	CHECK(there);
}

static void full_buffers_come_from_a_worker(void)
{
	static const int kinds[] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0 };

	buffer_bytes = 1024;
	start(kinds);
	for (int i = 0; i < 10; i++)	/* four in a buffer */
		launch_sleep(1000, NULL);
	OK(cudaDeviceSynchronize());
	await_seen(8);
	CHECK(complete_thread != getpid());
	OK(cuptiActivityFlushAll(0));
	CHECK(nseen == 10 && complete_thread == getpid());
}

static void flush_keeps_unfinished_records_and_forcing_loses_their_end(void)
{
	static const int kinds[] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0 };

	start(kinds);
	launch_sleep(100000000, NULL);
	OK(cuptiActivityFlushAll(0));
	CHECK(nseen == 0);
	OK(cudaDeviceSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(nseen == 1 && u64(seen[0], 24));
	launch_sleep(100000000, NULL);
	OK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	CHECK(nseen == 2 && u64(seen[1], 16) == 0 && u64(seen[1], 24) == 0);
	OK(cudaDeviceSynchronize());
	OK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	CHECK(nseen == 2);
}

static void new_library_drops_when_no_buffer_comes(void)
{
	static const int kinds[] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0 };
	size_t dropped;

	no_buffer = true;
	start(kinds);
	for (int i = 0; i < 5; i++)
		launch_sleep(1000, NULL);
	OK(cudaDeviceSynchronize());
	OK(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	CHECK(dropped == 5);
	OK(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	CHECK(dropped == 0);
}

static void old_library_dies_when_no_buffer_comes(void)
{
	static const int kinds[] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0 };

	no_buffer = true;
	start(kinds);
	launch_sleep(1000, NULL);
}

static void one_call_can_be_chosen_and_driver_calls_nest(void)
{
	static const int kinds[] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0 };
	const uint8_t *outer, *inner;
	const char *name;

	start(kinds);
	OK(cuptiActivityEnableRuntimeApi(211, 1));
	OK(cuptiActivityEnableDriverApi(307, 1));
	launch_sleep(1000, NULL);
	OK(cudaDeviceSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(count(CUPTI_ACTIVITY_KIND_RUNTIME) == 1 && count(CUPTI_ACTIVITY_KIND_DRIVER) == 1);
	outer = find(CUPTI_ACTIVITY_KIND_RUNTIME, 4, 211);
	inner = find(CUPTI_ACTIVITY_KIND_DRIVER, 4, 307);
	CHECK(outer && inner && u32(outer, 32) == u32(inner, 32));
	CHECK(u64(outer, 8) <= u64(inner, 8) && u64(inner, 16) <= u64(outer, 16));
	OK(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, 211, &name));
	CHECK(!strcmp(name, "cudaLaunchKernel_v7000"));
}

static void busy_library_refuses(void)
{
	CUpti_SubscriberHandle subscriber;
	char holder[64] = "";
	CUpti_SubscriberParams params = { sizeof(params), "test", holder, sizeof(holder) };

	CHECK(cuptiSubscribe(&subscriber, NULL, NULL) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	CHECK(cuptiSubscribe_v2(&subscriber, NULL, NULL, &params) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	CHECK(strstr(holder, "profiler"));
	OK(cuptiActivityRegisterCallbacks(request, complete));
}

static void child_of_a_fork_gets_15(void)
{
	int status;

	start(usual);
	launch_sleep(1000, NULL);
	if (!fork()) {
		uint32_t version;
		size_t n;

		OK(cuptiGetVersion(&version));
		CHECK(cuptiActivityFlushAll(1) == CUPTI_ERROR_NOT_INITIALIZED);
		CHECK(cuptiActivityEnable(1) == CUPTI_ERROR_NOT_INITIALIZED);
		CHECK(cuptiActivityGetNumDroppedRecords(NULL, 0, &n) == CUPTI_ERROR_NOT_INITIALIZED);
		_exit(0);
	}
	wait(&status);
	CHECK(status == 0);
	OK(cudaDeviceSynchronize());
}

static void library_without_devices_is_not_initialised(void)
{
	CUpti_SubscriberHandle subscriber;
	uint64_t t, before = realtime();

	CHECK(cuptiSubscribe(&subscriber, NULL, NULL) == CUPTI_ERROR_NOT_INITIALIZED);
	OK(cuptiActivityRegisterCallbacks(request, complete));
	CHECK(cuptiActivityEnable(10) == CUPTI_ERROR_NOT_INITIALIZED);
	OK(cuptiGetTimestamp(&t));
	CHECK(t >= before && t <= realtime());
}

static void *flush_thread(void *arg)
{
	(void)arg;
	cuptiActivityFlushAll(0);
	return NULL;
}

static void slow_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context, (void)stream, (void)size, (void)valid, (void)buffer;
	sleep(2);
}

static void concurrent_flush_is_detected(void)
{
	pthread_t thread;

	start(usual);
	OK(cuptiActivityRegisterCallbacks(request, slow_complete));
	launch_sleep(1000, NULL);
	OK(cudaDeviceSynchronize());
	pthread_create(&thread, NULL, flush_thread, NULL);
	usleep(300000);
	cuptiActivityFlushAll(0);
}

enum { THREADS = 4, LAUNCHES = 300 };

static void *launch_many(void *arg)
{
	cudaStream_t mine, shared_stream = arg;

	OK(cudaStreamCreate(&mine));
	for (int i = 0; i < LAUNCHES; i++) {
		launch_sleep(1000, i % 3 == 0 ? mine : i % 3 == 1 ? shared_stream : NULL);
		if (i % 50 == 0)
			OK(cudaStreamSynchronize(mine));
	}
	OK(cudaStreamDestroy(mine));
	return NULL;
}

static _Atomic bool stop_flushing;

static void *flush_often(void *arg)
{
	(void)arg;
	while (!stop_flushing) {
		OK(cuptiActivityFlushAll(0));
		usleep(2000);
	}
	return NULL;
}

/* Many threads, small buffers, a thread that flushes: every launch has its kernel and its call record, once. */
static void no_record_is_lost_or_doubled(void)
{
	static const int kinds[] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_RUNTIME, 0 };
	static uint8_t kernel[1 << 16], call[1 << 16];
	pthread_t threads[THREADS], flusher;
	cudaStream_t shared_stream;
	int launches = 0;

	buffer_bytes = 4096;
	start(kinds);
	OK(cudaStreamCreate(&shared_stream));
	pthread_create(&flusher, NULL, flush_often, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, launch_many, shared_stream);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	OK(cudaDeviceSynchronize());
	stop_flushing = true;
	pthread_join(flusher, NULL);
	OK(cuptiActivityFlushAll(1));
	await_seen(2 * THREADS * LAUNCHES);	/* the worker may be at its last buffer */
	usleep(50000);
	pthread_mutex_lock(&seen_lock);
	for (size_t i = 0; i < nseen; i++) {
		bool is_kernel = u32(seen[i], 0) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
		uint32_t id = u32(seen[i], is_kernel ? 92 : 32);

		CHECK(id < 1 << 16 && !(is_kernel ? kernel : call)[id]++);
		CHECK(!is_kernel || u64(seen[i], 24));
	}
	for (size_t i = 0; i < 1 << 16; i++) {
		launches += kernel[i];
		CHECK(!kernel[i] || call[i]);
	}
	pthread_mutex_unlock(&seen_lock);
	CHECK(launches == THREADS * LAUNCHES);
}

static void run_child(void (*fn)(void), const char *version, const char *name, const char *value, int want_signal)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		alarm(60);
		setenv("SIMGPU_CUPTI_VERSION", version, 1);
		if (name)
			setenv(name, value, 1);
		if (want_signal)
			freopen("/dev/null", "w", stderr);
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (want_signal) {
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), want_signal);
	} else {
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

#define IN_CHILD(fn, version, name, value, signal)                 \
	static void test_##fn(void **state)                        \
	{                                                          \
		(void)state;                                       \
		run_child(fn, version, name, value, signal);       \
	}

IN_CHILD(version_18, "18", NULL, NULL, 0)
IN_CHILD(version_22, "22", NULL, NULL, 0)
IN_CHILD(version_130001, "130001", NULL, NULL, 0)
IN_CHILD(records_come_in_no_order, "22", NULL, NULL, 0)
IN_CHILD(full_buffers_come_from_a_worker, "22", NULL, NULL, 0)
IN_CHILD(flush_keeps_unfinished_records_and_forcing_loses_their_end, "22", NULL, NULL, 0)
IN_CHILD(new_library_drops_when_no_buffer_comes, "130001", NULL, NULL, 0)
IN_CHILD(old_library_dies_when_no_buffer_comes, "22", NULL, NULL, SIGABRT)
IN_CHILD(one_call_can_be_chosen_and_driver_calls_nest, "130001", NULL, NULL, 0)
IN_CHILD(no_record_is_lost_or_doubled, "22", NULL, NULL, 0)
static void test_no_record_is_lost_with_buffers_per_thread(void **state)
{
	(void)state;
	run_child(no_record_is_lost_or_doubled, "130001", NULL, NULL, 0);
}
IN_CHILD(busy_library_refuses, "130001", "SIMGPU_CUPTI_BUSY", "1", 0)
IN_CHILD(child_of_a_fork_gets_15, "22", NULL, NULL, 0)
IN_CHILD(library_without_devices_is_not_initialised, "22", "SIMGPU_DEVICES", "0", 0)
IN_CHILD(concurrent_flush_is_detected, "22", NULL, NULL, SIGABRT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version_18),
		cmocka_unit_test(test_version_22),
		cmocka_unit_test(test_version_130001),
		cmocka_unit_test(test_records_come_in_no_order),
		cmocka_unit_test(test_full_buffers_come_from_a_worker),
		cmocka_unit_test(test_flush_keeps_unfinished_records_and_forcing_loses_their_end),
		cmocka_unit_test(test_new_library_drops_when_no_buffer_comes),
		cmocka_unit_test(test_old_library_dies_when_no_buffer_comes),
		cmocka_unit_test(test_one_call_can_be_chosen_and_driver_calls_nest),
		cmocka_unit_test(test_no_record_is_lost_or_doubled),
		cmocka_unit_test(test_no_record_is_lost_with_buffers_per_thread),
		cmocka_unit_test(test_busy_library_refuses),
		cmocka_unit_test(test_child_of_a_fork_gets_15),
		cmocka_unit_test(test_library_without_devices_is_not_initialised),
		cmocka_unit_test(test_concurrent_flush_is_detected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
