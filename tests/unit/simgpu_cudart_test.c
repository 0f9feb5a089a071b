/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated CUDA runtime: order, modelled times, what blocks and what does not.
 *
 * Tests compare modelled times (event times), which do not depend on how late a thread woke; host times are only
 * compared with lower bounds, or with upper bounds of a factor that a loaded machine keeps.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "examples/simgpu/simgpu.h"

#define OK(call) assert_int_equal((call), cudaSuccess)

/* A first kernel so long that all that follows is queued while it runs, also on a loaded machine. */
enum { LEAD_NS = 150000000 };

static const dim3 one = { 1, 1, 1 }, block = { 256, 1, 1 };
static char sleep_stub, bump_stub, skip_stub, plain_stub;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* sleep(ns); bump(int *, int add); skip(float *found_inf) */
static uint64_t sleep_duration(void **args, dim3 grid, dim3 threads)
{
	(void)grid, (void)threads;
	return *(uint64_t *)args[0];
}

static void bump_body(void **args, dim3 grid, dim3 threads)
{
	int *at = *(int **)args[0];

	(void)grid, (void)threads;
	*at = *at * 10 + *(int *)args[1];
}

static uint64_t skip_duration(void **args, dim3 grid, dim3 threads)
{
	(void)grid, (void)threads;
	return **(float **)args[0] ? 2000 : 3000000;
}

static void **module;

static int setup(void **state)
{
	static const size_t sleep_args[] = { 8 }, bump_args[] = { 8, 4 }, skip_args[] = { 8 };

	(void)state;
	simgpu_kernel_model("_Z5sleepm", sleep_duration, NULL, 1, sleep_args);	/* before it is registered */
	module = __cudaRegisterFatBinary(NULL);
	__cudaRegisterFunction(module, &sleep_stub, NULL, "_Z5sleepm", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(module, &bump_stub, NULL, "_Z4bumpPii", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(module, &skip_stub, NULL, "_Z4skipPf", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(module, &plain_stub, NULL, "_Z5plainv", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(module);
	simgpu_kernel_model("_Z4bumpPii", NULL, bump_body, 2, bump_args);
	simgpu_kernel_model("_Z4skipPf", skip_duration, NULL, 1, skip_args);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	__cudaUnregisterFatBinary(module);
	return 0;
}

static void launch_sleep(uint64_t ns, cudaStream_t stream)
{
	void *args[] = { &ns };

	OK(cudaLaunchKernel(&sleep_stub, one, block, args, 0, stream));
	ns = 0;		/* the launch has its own copy */
}

static float elapsed_ms(cudaEvent_t a, cudaEvent_t b)
{
	float ms = -1;

	OK(cudaEventElapsedTime(&ms, a, b));
	return ms;
}

static int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int n = 0;

	while (readdir(tasks))
		n++;
	closedir(tasks);
	return n;
}

static int threads_at_start;		/* a sanitizer may have its own */

/* It has registered kernels by now, as any program compiled by nvcc does before main. */
static void program_that_never_calls_cuda_has_no_thread(void **state)
{
	(void)state;
	assert_int_equal(count_threads(), threads_at_start);
}

static void exports_carry_the_version_node_of_the_soname(void **state)
{
	void *lib = dlopen("libcudart.so.12", RTLD_NOW | RTLD_NOLOAD);

	(void)state;
	assert_non_null(lib);
	assert_ptr_equal(dlvsym(lib, "cudaMalloc", "libcudart.so.12"), dlsym(lib, "cudaMalloc"));
	assert_ptr_equal(dlsym(lib, "cudaMalloc"), (void *)cudaMalloc);
	assert_null(dlsym(lib, "cudart_end"));
	dlclose(lib);
}

static void launch_returns_before_the_kernel_ends(void **state)
{
	uint64_t start = now_ns();
	cudaStream_t stream;

	(void)state;
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	launch_sleep(LEAD_NS, stream);
	assert_true(now_ns() - start < LEAD_NS);
	assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
	OK(cudaStreamSynchronize(stream));
	assert_true(now_ns() - start >= LEAD_NS);
	OK(cudaStreamQuery(stream));
	OK(cudaGetLastError());	/* "not ready" is not remembered */
	OK(cudaStreamDestroy(stream));
}

static void modelled_times_add_up_to_the_ns(void **state)
{
	cudaEvent_t a, b;
	cudaStream_t stream;

	(void)state;
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	OK(cudaEventCreate(&a));
	OK(cudaEventCreate(&b));
	launch_sleep(LEAD_NS, stream);
	OK(cudaEventRecord(a, stream));
	for (int i = 0; i < 10; i++)	/* all fit into the queue */
		launch_sleep(30000, stream);
	OK(cudaEventRecord(b, stream));
	OK(cudaEventSynchronize(b));
	assert_float_equal(elapsed_ms(a, b), 0.3, 1e-6);
	OK(cudaEventDestroy(a));
	OK(cudaEventDestroy(b));
	OK(cudaStreamDestroy(stream));
}

static void operations_run_in_order_and_bodies_see_predecessors(void **state)
{
	volatile int host = -1;
	int *value;
	cudaStream_t stream;

	(void)state;
	OK(cudaMalloc((void **)&value, sizeof(*value)));
	OK(cudaStreamCreate(&stream));
	OK(cudaMemsetAsync(value, 0, sizeof(*value), stream));
	for (int i = 1; i <= 5; i++) {
		void *args[] = { &value, &i };

		OK(cudaLaunchKernel(&bump_stub, one, block, args, 0, stream));
	}
	OK(cudaMemcpyAsync((void *)&host, value, sizeof(host), cudaMemcpyDeviceToHost, stream));
	assert_int_equal(host, 12345);	/* pageable: done on return */
	OK(cudaStreamDestroy(stream));
	OK(cudaFree(value));
}

static void duration_may_depend_on_device_memory_at_run_time(void **state)
{
	float *found_inf, one_inf = 1;
	cudaEvent_t e[3];

	(void)state;
	OK(cudaMalloc((void **)&found_inf, sizeof(float)));
	for (int i = 0; i < 3; i++)
		OK(cudaEventCreate(&e[i]));
	launch_sleep(LEAD_NS, NULL);
	OK(cudaMemsetAsync(found_inf, 0, sizeof(float), NULL));
	for (int i = 0; i < 2; i++) {
		void *args[] = { &found_inf };

		OK(cudaEventRecord(e[i], NULL));
		OK(cudaLaunchKernel(&skip_stub, one, block, args, 0, NULL));
		if (!i)	/* staged: returns while the first kernel has not begun */
			OK(cudaMemcpyAsync(found_inf, &one_inf, sizeof(float), cudaMemcpyHostToDevice, NULL));
	}
	OK(cudaEventRecord(e[2], NULL));
	OK(cudaEventSynchronize(e[2]));
	assert_float_equal(elapsed_ms(e[0], e[1]), 3.0 + 0.001, 1e-4);	/* with the copy, 1 us + 4 bytes */
	assert_float_equal(elapsed_ms(e[1], e[2]), 0.002, 1e-6);
	for (int i = 0; i < 3; i++)
		OK(cudaEventDestroy(e[i]));
	OK(cudaFree(found_inf));
}

static void streams_overlap_and_wait_for_events(void **state)
{
	cudaEvent_t start, done, end;
	cudaStream_t a, b;

	(void)state;
	OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
	OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
	OK(cudaEventCreate(&start));
	OK(cudaEventCreate(&done));
	OK(cudaEventCreate(&end));
	launch_sleep(LEAD_NS, a);
	OK(cudaEventRecord(start, a));
	OK(cudaStreamWaitEvent(b, start, 0));
	launch_sleep(8000000, a);
	launch_sleep(5000000, b);	/* beside the one before */
	OK(cudaEventRecord(done, b));
	OK(cudaStreamWaitEvent(a, done, 0));
	launch_sleep(1000000, a);
	OK(cudaEventRecord(end, a));
	OK(cudaEventSynchronize(end));
	assert_float_equal(elapsed_ms(start, done), 5.0, 1e-6);
	assert_float_equal(elapsed_ms(start, end), 9.0, 1e-6);
	OK(cudaEventDestroy(start));
	OK(cudaEventDestroy(done));
	OK(cudaEventDestroy(end));
	OK(cudaStreamDestroy(a));
	OK(cudaStreamDestroy(b));
}

static void legacy_stream_synchronises_with_blocking_streams_only(void **state)
{
	cudaEvent_t start, legacy, after;
	cudaStream_t blocking, free_stream;

	(void)state;
	OK(cudaStreamCreate(&blocking));
	OK(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
	OK(cudaEventCreate(&start));
	OK(cudaEventCreate(&legacy));
	OK(cudaEventCreate(&after));
	launch_sleep(LEAD_NS, blocking);
	OK(cudaEventRecord(start, blocking));
	launch_sleep(4000000, blocking);
	launch_sleep(4 * (uint64_t)LEAD_NS, free_stream);
	launch_sleep(2000000, NULL);
	OK(cudaEventRecord(legacy, NULL));
	launch_sleep(1000000, blocking);
	OK(cudaEventRecord(after, blocking));
	OK(cudaEventSynchronize(after));
	assert_int_equal(cudaStreamQuery(free_stream), cudaErrorNotReady);
	assert_float_equal(elapsed_ms(start, legacy), 6.0, 1e-6);
	assert_float_equal(elapsed_ms(start, after), 7.0, 1e-6);
	OK(cudaDeviceSynchronize());
	OK(cudaStreamQuery(free_stream));
	OK(cudaStreamDestroy(blocking));
	OK(cudaStreamDestroy(free_stream));
	OK(cudaEventDestroy(start));
	OK(cudaEventDestroy(legacy));
	OK(cudaEventDestroy(after));
}

static void pinned_copies_return_at_once_and_pageable_ones_do_not(void **state)
{
	enum { BYTES = 12 << 20 };	/* about 1 ms pinned, 4 ms pageable */
	char *device, *pinned, *pageable = malloc(BYTES);
	struct cudaPointerAttributes attr;
	cudaStream_t stream;
	cudaEvent_t a, b;

	(void)state;
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	OK(cudaEventCreate(&a));
	OK(cudaEventCreate(&b));
	OK(cudaMalloc((void **)&device, BYTES));
	OK(cudaMallocHost((void **)&pinned, BYTES));
	OK(cudaPointerGetAttributes(&attr, pinned + 5));
	assert_int_equal(attr.type, cudaMemoryTypeHost);
	OK(cudaPointerGetAttributes(&attr, device + BYTES - 1));
	assert_int_equal(attr.type, cudaMemoryTypeDevice);
	OK(cudaPointerGetAttributes(&attr, pageable));
	assert_int_equal(attr.type, cudaMemoryTypeUnregistered);
	memset(pinned, 7, BYTES);
	memset(pageable, 8, BYTES);

	launch_sleep(LEAD_NS, stream);
	OK(cudaEventRecord(a, stream));
	OK(cudaMemcpyAsync(device, pinned, BYTES, cudaMemcpyHostToDevice, stream));
	OK(cudaEventRecord(b, stream));
	assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
	OK(cudaStreamSynchronize(stream));
	assert_int_equal(device[BYTES - 1], 7);
	assert_float_equal(elapsed_ms(a, b), 0.001 + BYTES / 12e6, 1e-3);

	launch_sleep(20000000, stream);
	OK(cudaMemcpyAsync(device, pageable, BYTES, cudaMemcpyDefault, stream));
	OK(cudaStreamQuery(stream));
	assert_int_equal(device[BYTES - 1], 8);

	OK(cudaHostRegister(pageable, BYTES, 0));
	launch_sleep(LEAD_NS, stream);
	OK(cudaMemcpyAsync(device, pageable, BYTES, cudaMemcpyHostToDevice, stream));
	assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
	OK(cudaHostUnregister(pageable));
	assert_int_equal(cudaHostUnregister(pageable), cudaErrorHostMemoryNotRegistered);
	assert_int_equal(cudaGetLastError(), cudaErrorHostMemoryNotRegistered);

	assert_int_equal(cudaMemcpy(device, pinned, BYTES + 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	assert_int_equal(cudaMemcpy(device, pinned, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
	OK(cudaFreeHost(pinned));
	OK(cudaFree(device));
	OK(cudaEventDestroy(a));
	OK(cudaEventDestroy(b));
	OK(cudaStreamDestroy(stream));
	cudaGetLastError();
	free(pageable);
}

static void full_queue_blocks_the_launch(void **state)
{
	uint64_t start = now_ns();
	cudaStream_t stream;

	(void)state;
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (int i = 0; i < 16 + 4; i++)	/* SIMGPU_QUEUE_DEPTH is 16 here */
		launch_sleep(5000000, stream);
	assert_true(now_ns() - start >= 4 * 5000000);
	OK(cudaStreamSynchronize(stream));
	OK(cudaStreamDestroy(stream));
}

static void host_function_runs_in_order(void *flag)
{
	*(int *)flag += 1;
}

static void host_functions_and_launch_spellings_work(void **state)
{
	cudaLaunchConfig_t config = { .gridDim = one, .blockDim = block };
	cudaKernel_t kernel;
	cudaStream_t popped;
	int flag = 0;
	dim3 g, b;
	size_t shared;

	(void)state;
	OK(cudaLaunchKernel_ptsz(&plain_stub, one, block, NULL, 0, NULL));
	OK(cudaStreamSynchronize_ptsz(NULL));
	OK(cudaLaunchKernelExC(&config, &plain_stub, NULL));
	OK(__cudaGetKernel(&kernel, &plain_stub));
	OK(__cudaLaunchKernel(kernel, one, block, NULL, 0, cudaStreamPerThread));
	assert_int_equal(__cudaPushCallConfiguration(one, block, 12, cudaStreamLegacy), 0);
	OK(__cudaPopCallConfiguration(&g, &b, &shared, &popped));
	assert_int_equal(b.x, 256);
	assert_int_equal(shared, 12);
	assert_ptr_equal(popped, cudaStreamLegacy);
	assert_int_equal(cudaLaunchKernel(&flag, one, block, NULL, 0, NULL), cudaErrorInvalidDeviceFunction);
	assert_int_equal(cudaLaunchKernel(&plain_stub, one, (dim3){ 2048, 1, 1 }, NULL, 0, NULL),
			 cudaErrorInvalidConfiguration);
	cudaGetLastError();
	OK(cudaLaunchHostFunc(NULL, host_function_runs_in_order, &flag));
	OK(cudaDeviceSynchronize());
	assert_int_equal(flag, 1);
}

static void freeing_waits_for_the_device(void **state)
{
	uint64_t start = now_ns();
	void *memory, *ordered;

	(void)state;
	OK(cudaMalloc(&memory, 100));
	OK(cudaMallocAsync(&ordered, 1 << 20, NULL));
	launch_sleep(LEAD_NS, NULL);
	OK(cudaFreeAsync(ordered, NULL));
	assert_true(now_ns() - start < LEAD_NS);
	OK(cudaFree(memory));
	assert_true(now_ns() - start >= LEAD_NS);
	assert_int_equal(cudaFree(&start), cudaErrorInvalidValue);
	cudaGetLastError();
}

static void child_of_a_fork_gets_initialisation_errors(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	OK(cudaDeviceSynchronize());
	pid = fork();
	if (!pid) {
		int n = 7;

		_exit(cudaGetDeviceCount(&n) == cudaErrorInitializationError &&
		      cudaDeviceSynchronize() == cudaErrorInitializationError &&
		      cudaLaunchKernel(&plain_stub, one, block, NULL, 0, NULL) == cudaErrorInitializationError ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void several_threads_and_devices_work(void **state)
{
	int device, count;

	(void)state;
	OK(cudaGetDeviceCount(&count));
	assert_int_equal(count, 8);
	assert_int_equal(cudaSetDevice(8), cudaErrorInvalidDevice);
	for (int i = 0; i < 3; i++) {
		OK(cudaSetDevice(i));
		OK(cudaGetDevice(&device));
		assert_int_equal(device, i);
		launch_sleep(1000000, NULL);
	}
	for (int i = 0; i < 3; i++) {
		OK(cudaSetDevice(i));
		OK(cudaDeviceSynchronize());
	}
	OK(cudaSetDevice(0));
	cudaGetLastError();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_that_never_calls_cuda_has_no_thread),
		cmocka_unit_test(exports_carry_the_version_node_of_the_soname),
		cmocka_unit_test(launch_returns_before_the_kernel_ends),
		cmocka_unit_test(operations_run_in_order_and_bodies_see_predecessors),
		cmocka_unit_test(duration_may_depend_on_device_memory_at_run_time),
		cmocka_unit_test(streams_overlap_and_wait_for_events),
		cmocka_unit_test(legacy_stream_synchronises_with_blocking_streams_only),
		cmocka_unit_test(pinned_copies_return_at_once_and_pageable_ones_do_not),
		cmocka_unit_test(full_queue_blocks_the_launch),
		cmocka_unit_test(host_functions_and_launch_spellings_work),
		cmocka_unit_test(freeing_waits_for_the_device),
		cmocka_unit_test(several_threads_and_devices_work),
		cmocka_unit_test(child_of_a_fork_gets_initialisation_errors),
		cmocka_unit_test(modelled_times_add_up_to_the_ns),
	};

	threads_at_start = count_threads();
	setenv("SIMGPU_QUEUE_DEPTH", "16", 1);
	return cmocka_run_group_tests(tests, setup, teardown);
}
