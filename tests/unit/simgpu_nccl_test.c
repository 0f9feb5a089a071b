/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated NCCL: right results on 1, 2 and 4 ranks, asynchrony, groups, splits, errors, and its faults. Each rank is a
 * process; rank 0 makes the unique id and hands it over in shared memory.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "examples/simgpu/cupti.h"
#include "examples/simgpu/nccl.h"
#include "examples/simgpu/simgpu.h"

#define CHECK(condition)                                                                                  \
	do {                                                                                              \
		if (!(condition)) {                                                                       \
			fprintf(stderr, "%s:%d (rank %d): %s\n", __FILE__, __LINE__, my_rank, #condition); \
			_exit(1);                                                                         \
		}                                                                                         \
	} while (0)
#define OK(call) CHECK((call) == 0)

static struct shared {
	_Atomic int ready;
	ncclUniqueId id;
	_Atomic int values[8];
} *shared;

static int my_rank, nranks;
static ncclComm_t comm;
static cudaStream_t stream;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void open_comm(void)
{
	int n;

	OK(cudaSetDevice(my_rank));
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	if (my_rank == 0) {
		OK(ncclGetUniqueId(&shared->id));
		atomic_store(&shared->ready, 1);
	}
	while (!atomic_load(&shared->ready))
		usleep(1000);
	OK(ncclCommInitRank(&comm, nranks, shared->id, my_rank));
	OK(ncclCommCount(comm, &n));
	CHECK(n == nranks);
	OK(ncclCommUserRank(comm, &n));
	CHECK(n == my_rank);
	OK(ncclCommCuDevice(comm, &n));
	CHECK(n == my_rank);
}

static void close_comm(void)
{
	ncclResult_t error;

	OK(ncclCommGetAsyncError(comm, &error));
	CHECK(error == ncclSuccess);
	OK(ncclCommDestroy(comm));
}

static void *device(size_t bytes)
{
	void *ptr;

	OK(cudaMalloc(&ptr, bytes));
	return ptr;
}

/* Runs fn in n processes, with settings NAME=VALUE for all; every one must exit with 0, rank `killed` by a signal. */
static void run_ranks(int n, void (*fn)(void), const char *name, const char *value, int killed)
{
	pid_t pids[8];

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int r = 0; r < n; r++) {
		pids[r] = fork();
		if (pids[r])
			continue;
		alarm(100);
		my_rank = r;
		nranks = n;
		setenv("NCCL_SOCKET_IFNAME", "lo", 1);
		if (name)
			setenv(name, value, 1);
		fn();
		_exit(0);
	}
	for (int r = 0; r < n; r++) {
		int status;

		waitpid(pids[r], &status, 0);
		if (r == killed)
			assert_true(WIFSIGNALED(status));
		else
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	munmap(shared, sizeof(*shared));
}

static uint32_t pattern(int rank, size_t i)
{
	return (uint32_t)((i * 7 + (size_t)rank * 13) % 97);
}

static uint32_t pattern_sum(size_t i)
{
	uint32_t sum = 0;

	for (int r = 0; r < nranks; r++)
		sum += pattern(r, i);
	return sum;
}

static void all_reduce_float(size_t count, bool in_place)
{
	float *send = device(count * 4 + 4), *recv = in_place ? send : device(count * 4 + 4);

	for (size_t i = 0; i < count; i++)
		send[i] = (float)pattern(my_rank, i);
	OK(ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm, stream));
	OK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < count; i++)
		CHECK(recv[i] == (float)pattern_sum(i));
	for (size_t i = 0; i < count && !in_place; i++)
		CHECK(send[i] == (float)pattern(my_rank, i));
	OK(cudaFree(send));
	if (!in_place)
		OK(cudaFree(recv));
}

/* Whole numbers up to 2048 are exact in half precision. */
static uint16_t half(uint32_t value)
{
	int exponent = 0;

	if (!value)
		return 0;
	while (value >> (exponent + 1))
		exponent++;
	return (uint16_t)((exponent + 15) << 10 | ((value << 10 >> exponent) & 0x3ff));
}

static void all_reduce_other_types(void)
{
	enum { N = 10007 };
	uint16_t *h = device(N * 2);
	double *d = device(N * 8);
	int32_t *n = device(N * 4), *max = device(N * 4);
	float *avg = device(N * 4);

	for (size_t i = 0; i < N; i++) {
		h[i] = half(pattern(my_rank, i));
		d[i] = pattern(my_rank, i) * 0.5;
		n[i] = (int32_t)pattern(my_rank, i) - 50;
		max[i] = (int32_t)pattern(my_rank, i) - 50;
		avg[i] = (float)pattern(my_rank, i);
	}
	OK(ncclAllReduce(h, h, N, ncclFloat16, ncclSum, comm, stream));
	OK(ncclAllReduce(d, d, N, ncclFloat64, ncclSum, comm, stream));
	OK(ncclAllReduce(n, n, N, ncclInt32, ncclSum, comm, stream));
	OK(ncclAllReduce(max, max, N, ncclInt32, ncclMax, comm, stream));
	OK(ncclAllReduce(avg, avg, N, ncclFloat32, ncclAvg, comm, stream));
	OK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < N; i++) {
		int32_t most = -1000;

		for (int r = 0; r < nranks; r++)
			most = (int32_t)pattern(r, i) - 50 > most ? (int32_t)pattern(r, i) - 50 : most;
		CHECK(h[i] == half(pattern_sum(i)));
		CHECK(d[i] == pattern_sum(i) * 0.5);
		CHECK(n[i] == (int32_t)pattern_sum(i) - 50 * nranks);
		CHECK(max[i] == most);
		CHECK(avg[i] == (float)pattern_sum(i) / (float)nranks);
	}
}

static void other_collectives(void)
{
	size_t n = 300000, R = (size_t)nranks, me = (size_t)my_rank;
	uint32_t *block = device(n * 4), *all = device(n * R * 4), *out = device(n * R * 4);
	int root = nranks - 1;

	for (size_t i = 0; i < n; i++)
		block[i] = pattern(my_rank, i);
	OK(ncclAllGather(block, all, n, ncclUint32, comm, stream));
	OK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < n * R; i++)
		CHECK(all[i] == pattern((int)(i / n), i % n));

	for (size_t i = 0; i < n * R; i++)
		all[i] = pattern(my_rank, i);
	OK(ncclReduceScatter(all, out, n, ncclUint32, ncclSum, comm, stream));
	OK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < n; i++)
		CHECK(out[i] == pattern_sum(me * n + i));

	OK(ncclReduce(block, out, n, ncclUint32, ncclSum, root, comm, stream));
	OK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < n; i++) {
		CHECK(block[i] == pattern(my_rank, i));
		CHECK(my_rank != root || out[i] == pattern_sum(i));
	}

	OK(ncclBroadcast(block, out, n, ncclUint32, root, comm, stream));
	OK(ncclBcast(block, n, ncclUint32, 0, comm, stream));
	OK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < n; i++)
		CHECK(out[i] == pattern(root, i) && block[i] == pattern(0, i));

	for (size_t i = 0; i < n * R; i++)
		all[i] = pattern(my_rank, i);
	OK(ncclAlltoAll(all, out, n, ncclUint32, comm, stream));
	OK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < n * R; i++)
		CHECK(out[i] == pattern((int)(i / n), me * n + i % n));
}

static void send_and_receive(void)
{
	size_t n = 1 << 20;
	uint32_t *out = device(n * 4), *in = device(n * 4);
	int next = (my_rank + 1) % nranks, prev = (my_rank + nranks - 1) % nranks;

	for (size_t i = 0; i < n; i++)
		out[i] = pattern(my_rank, i);
	for (int times = 0; times < 2; times++) {
		memset(in, 0, n * 4);
		OK(ncclGroupStart());
		OK(ncclSend(out, n, ncclUint32, next, comm, stream));
		OK(ncclRecv(in, n, ncclUint32, prev, comm, stream));
		OK(ncclGroupEnd());
		OK(cudaStreamSynchronize(stream));
		for (size_t i = 0; i < n; i++)
			CHECK(in[i] == pattern(prev, i));
	}
}

static void everything(void)
{
	open_comm();
	all_reduce_float(0, false);
	all_reduce_float(1, true);
	all_reduce_float(1000, false);
	all_reduce_float((3 << 20) / 4 + 17, true);
	all_reduce_other_types();
	other_collectives();
	send_and_receive();
	close_comm();
}

static void collectives_are_right_on_one_rank(void **state)
{
	(void)state;
	run_ranks(1, everything, NULL, NULL, -1);
}

static void collectives_are_right_on_two_ranks(void **state)
{
	(void)state;
	run_ranks(2, everything, NULL, NULL, -1);
}

static void collectives_are_right_on_four_ranks(void **state)
{
	(void)state;
	run_ranks(4, everything, NULL, NULL, -1);
}

static void old_version_nests_groups(void **state)
{
	(void)state;
	run_ranks(2, everything, "SIMGPU_NCCL_VERSION", "21805", -1);
}

/* The late rank: the other's call returns at once, its kernel waits. */
static void late_peer(void)
{
	float *data = device(4096);
	cudaEvent_t a, b;
	uint64_t start;
	float ms;

	open_comm();
	OK(cudaEventCreate(&a));
	OK(cudaEventCreate(&b));
	if (my_rank == 1)
		usleep(600000);
	start = now_ns();
	OK(cudaEventRecord(a, stream));
	OK(ncclAllReduce(data, data, 1024, ncclFloat32, ncclSum, comm, stream));
	OK(cudaEventRecord(b, stream));
	CHECK(now_ns() - start < 300000000);
	OK(cudaEventSynchronize(b));
	OK(cudaEventElapsedTime(&ms, a, b));
	CHECK(my_rank == 1 || ms > 400);
	CHECK(my_rank == 0 || ms < 300);
	close_comm();
}

static void calls_return_at_once_and_the_kernel_waits_for_the_late_rank(void **state)
{
	(void)state;
	run_ranks(2, late_peer, NULL, NULL, -1);
}

static uint8_t buffer[256 << 10] __attribute__((aligned(8)));
static char names[16][160];
static int nkernels, ndriver, nruntime_launches;

static void request(uint8_t **out, size_t *size, size_t *max_records)
{
	*out = buffer;
	*size = sizeof(buffer);
	*max_records = 0;
}

static void complete(void *context, uint32_t id, uint8_t *records, size_t size, size_t valid)
{
	void *record = NULL;

	(void)context, (void)id, (void)size;
	while (!cuptiActivityGetNextRecord(records, valid, &record)) {
		const uint8_t *r = record;
		uint32_t kind, cbid;
		const char *name;

		memcpy(&kind, r, 4);
		memcpy(&cbid, r + 4, 4);
		memcpy(&name, r + 104, kind == 10 ? sizeof(name) : 0);
		if (kind == 10)
			snprintf(names[nkernels++], sizeof(names[0]), "%s", name);
		ndriver += kind == 4 && cbid == 307;
		nruntime_launches += kind == 5 && cbid == 211;
	}
}

static void one_kernel_per_group(void)
{
	float *data = device(40960);
	CUpti_SubscriberHandle subscriber;

	open_comm();
	OK(cuptiSubscribe(&subscriber, NULL, NULL));
	OK(cuptiActivityRegisterCallbacks(request, complete));
	OK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	OK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER));
	OK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME));
	OK(ncclGroupStart());
	for (int i = 0; i < 3; i++)
		OK(ncclAllReduce(data + i * 1024, data + i * 1024, 1024, ncclFloat32, ncclSum, comm, stream));
	OK(cudaStreamQuery(stream));	/* nothing was launched yet */
	OK(ncclGroupEnd());
	OK(cudaStreamSynchronize(stream));
	OK(cuptiActivityFlushAll(1));
	CHECK(nkernels == 1 && ndriver == 1 && nruntime_launches == 0);
	CHECK(!strcmp(names[0], "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"));
	close_comm();
}

static void a_group_is_one_kernel_launched_through_the_driver(void **state)
{
	(void)state;
	run_ranks(2, one_kernel_per_group, NULL, NULL, -1);
}

static void splitting(void)
{
	uint32_t *data = device(4);
	ncclComm_t half_comm, none;
	int rank, n;

	open_comm();
	OK(ncclCommSplit(comm, my_rank % 2, -my_rank, &half_comm, NULL));
	OK(ncclCommCount(half_comm, &n));
	OK(ncclCommUserRank(half_comm, &rank));
	CHECK(n == 2 && rank == (my_rank < 2));		/* keys turn the order round */
	*data = 1u << my_rank;
	OK(ncclAllReduce(data, data, 1, ncclUint32, ncclSum, half_comm, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(*data == (my_rank % 2 ? 10 : 5));
	OK(ncclCommSplit(comm, my_rank ? 7 : NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
	CHECK(my_rank || !none);
	if (none)
		OK(ncclCommDestroy(none));
	OK(ncclCommDestroy(half_comm));
	close_comm();
}

static void communicators_split(void **state)
{
	(void)state;
	run_ranks(4, splitting, NULL, NULL, -1);
}

static void every_call_has_a_strong_twin(void **state)
{
	void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);

	(void)state;
	assert_non_null(lib);
#define SAME(ret, name, params)                                                   \
	assert_non_null(dlsym(lib, "nccl" #name));                                \
	assert_ptr_equal(dlsym(lib, "nccl" #name), dlsym(lib, "pnccl" #name));
	SIMGPU_NCCL_FUNCTIONS(SAME)
#undef SAME
	dlclose(lib);
}

static void several_devices(void)
{
	int devices[3] = { 2, 0, 1 };
	cudaStream_t streams[3];
	ncclComm_t comms[3];
	uint32_t *data[3];

	OK(ncclCommInitAll(comms, 3, devices));
	for (int i = 0; i < 3; i++) {
		OK(cudaSetDevice(devices[i]));
		OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
		data[i] = device(4000);
		for (int k = 0; k < 1000; k++)
			data[i][k] = (uint32_t)(k + i);
	}
	OK(ncclGroupStart());
	for (int i = 0; i < 3; i++)
		OK(ncclAllReduce(data[i], data[i], 1000, ncclUint32, ncclSum, comms[i], streams[i]));
	OK(ncclGroupEnd());
	for (int i = 0; i < 3; i++) {
		OK(cudaStreamSynchronize(streams[i]));
		for (int k = 0; k < 1000; k++)
			CHECK(data[i][k] == (uint32_t)(3 * k + 3));
	}
	for (int i = 0; i < 3; i++)
		OK(ncclCommDestroy(comms[i]));
}

static void one_process_drives_several_devices(void **state)
{
	(void)state;
	run_ranks(1, several_devices, NULL, NULL, -1);
}

static void peer_dies(void)
{
	float *data = device(4096);
	ncclResult_t error = ncclSuccess;

	open_comm();
	OK(ncclAllReduce(data, data, 1024, ncclFloat32, ncclSum, comm, stream));
	OK(cudaStreamSynchronize(stream));
	if (my_rank == 1)
		raise(SIGKILL);
	OK(ncclAllReduce(data, data, 1024, ncclFloat32, ncclSum, comm, stream));
	while (error == ncclSuccess) {
		OK(ncclCommGetAsyncError(comm, &error));
		usleep(1000);
	}
	CHECK(error == ncclRemoteError);
	CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);	/* the kernel spins on */
	OK(ncclCommAbort(comm));
	OK(cudaStreamSynchronize(stream));
}

static void death_of_a_peer_is_a_remote_error_and_abort_ends_the_kernel(void **state)
{
	(void)state;
	run_ranks(2, peer_dies, NULL, NULL, 1);
}

/* Seconds that reducing 4 MB takes. */
static double time_4mb(void)
{
	float *data = device(4 << 20);
	uint64_t start = now_ns();

	OK(ncclAllReduce(data, data, 1 << 20, ncclFloat32, ncclSum, comm, stream));
	OK(cudaStreamSynchronize(stream));
	return (double)(now_ns() - start) / 1e9;
}

static void paced(void)
{
	open_comm();
	CHECK(time_4mb() > 0.25);	/* 4 MB leave each rank: 0.4 s at 10 MB/s */
	close_comm();
}

static void pacing_slows_the_sockets(void **state)
{
	(void)state;
	run_ranks(2, paced, "SIMGPU_NCCL_PACING_MBS", "10", -1);
}

static void syns_dropped(void)
{
	uint64_t start;

	if (my_rank == 0) {
		OK(ncclGetUniqueId(&shared->id));
		atomic_store(&shared->ready, 1);
	}
	while (!atomic_load(&shared->ready))
		usleep(1000);
	start = now_ns();
	OK(ncclCommInitRank(&comm, nranks, shared->id, my_rank));
	CHECK(now_ns() - start > 900000000);	/* the kernel repeats a SYN after a second */
	OK(cudaStreamCreate(&stream));
	all_reduce_float(1000, false);
	close_comm();
}

static void dropped_syns_are_repeated_until_they_pass(void **state)
{
	(void)state;
	run_ranks(2, syns_dropped, "SIMGPU_NCCL_SYN_DROP_MS", "500", -1);
}

/* Where only root may attach a filter, the other way is taken. */
static void syns_dropped_unprivileged(void)
{
	if (!getuid())
		CHECK(!setresuid(65534, 65534, 65534));
	syns_dropped();
}

static void syns_are_dropped_for_ordinary_users_too(void **state)
{
	(void)state;
	run_ranks(2, syns_dropped_unprivileged, "SIMGPU_NCCL_SYN_DROP_MS", "500", -1);
}

/* A closed port: refused, retried on the same descriptor with growing pauses, given up as a remote error. */
static void refused(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char address[64];
	uint64_t start;

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) && !getsockname(fd, (struct sockaddr *)&at, &len));
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
	setenv("NCCL_COMM_ID", address, 1);
	setenv("NCCL_SOCKET_RETRY_SLEEP_MSEC", "20", 1);
	OK(ncclGetUniqueId(&shared->id));
	start = now_ns();
	/* as rank 1, so that nobody opens the root; bound but not listening: refused */
	CHECK(ncclCommInitRank(&comm, 2, shared->id, 1) == ncclRemoteError);
	CHECK(now_ns() - start > (20 + 40 + 60) * 1000000);
}

static void refused_connects_are_retried_with_growing_pauses(void **state)
{
	(void)state;
	run_ranks(1, refused, "NCCL_SOCKET_RETRY_CNT", "3", -1);
}

static void fixed_address(void)
{
	uint64_t start = now_ns();

	if (!my_rank)
		usleep(300000);	/* rank 1 comes first and is refused */
	OK(ncclGetUniqueId(&shared->id));
	atomic_store(&shared->ready, 1);
	open_comm();
	CHECK(now_ns() - start > 250000000);
	all_reduce_float(100, true);
	close_comm();
}

static void comm_id_names_the_root_address(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char address[64];

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	close(fd);
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
	run_ranks(2, fixed_address, "NCCL_COMM_ID", address, -1);
	setenv("SIMGPU_NCCL_VERSION", "22304", 1);	/* the old policy: each ms */
	run_ranks(2, fixed_address, "NCCL_COMM_ID", address, -1);
	unsetenv("SIMGPU_NCCL_VERSION");
}

static void nonblocking(void)
{
	struct {
		size_t size;
		unsigned int magic, version;
		int blocking, rest[8];
	} config = { sizeof(config), 0xcafebeef, 22809, 0, { 0 } };
	ncclResult_t result;

	if (my_rank == 0) {
		OK(ncclGetUniqueId(&shared->id));
		atomic_store(&shared->ready, 1);
	}
	while (!atomic_load(&shared->ready))
		usleep(1000);
	if (my_rank)
		usleep(200000);
	result = ncclCommInitRankConfig(&comm, nranks, shared->id, my_rank, (ncclConfig_t *)&config);
	CHECK(result == ncclInProgress);
	while (result == ncclInProgress) {
		OK(ncclCommGetAsyncError(comm, &result));
		usleep(1000);
	}
	OK(result);
	OK(cudaStreamCreate(&stream));
	all_reduce_float(100, true);
	close_comm();
}

static void nonblocking_communicators_are_in_progress_first(void **state)
{
	(void)state;
	run_ranks(2, nonblocking, NULL, NULL, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collectives_are_right_on_one_rank),
		cmocka_unit_test(collectives_are_right_on_two_ranks),
		cmocka_unit_test(collectives_are_right_on_four_ranks),
		cmocka_unit_test(old_version_nests_groups),
		cmocka_unit_test(calls_return_at_once_and_the_kernel_waits_for_the_late_rank),
		cmocka_unit_test(a_group_is_one_kernel_launched_through_the_driver),
		cmocka_unit_test(every_call_has_a_strong_twin),
		cmocka_unit_test(communicators_split),
		cmocka_unit_test(one_process_drives_several_devices),
		cmocka_unit_test(death_of_a_peer_is_a_remote_error_and_abort_ends_the_kernel),
		cmocka_unit_test(pacing_slows_the_sockets),
		cmocka_unit_test(dropped_syns_are_repeated_until_they_pass),
		cmocka_unit_test(syns_are_dropped_for_ordinary_users_too),
		cmocka_unit_test(refused_connects_are_retried_with_growing_pauses),
		cmocka_unit_test(comm_id_names_the_root_address),
		cmocka_unit_test(nonblocking_communicators_are_in_progress_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
