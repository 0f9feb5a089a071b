/* SPDX-License-Identifier: Apache-2.0
 *
 * A program (or, with -DAS_LIBRARY, an extension to be loaded privately) that uses the GPU in known ways and prints what the trace
 * must hold: `op NAME STREAM BYTES COUNT`, `call NAME|OTHER NAME|.. TID COUNT`
 * (a launch has an API record of the runtime and one of the driver, and is recorded by whichever comes first). Its argument says what else it does.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/simgpu/simgpu.h"

#define ROUNDS 300
#define BYTES (64 << 10)

static const dim3 grid = {8, 1, 1}, block = {128, 1, 1};
static char scale_stub, add_stub, slow_stub;
static const char scale_name[] = "_Z5scalePffi", add_name[] = "_Z3addPfS_i", slow_name[] = "_Z4slowv";

static void check(cudaError_t e, int line)
{
	if (e) {
		fprintf(stderr, "line %d: CUDA error %d\n", line, (int)e);
		exit(1);
	}
}
#define OK(call) check(call, __LINE__)

static uint64_t slow_ns = 1500000000;

static uint64_t short_ns(void **args, dim3 g, dim3 b)
{
	return 2000;
}

static uint64_t long_ns(void **args, dim3 g, dim3 b)
{
	return slow_ns;
}

static void expect_op(const char *name, cudaStream_t stream, long bytes, long count)
{
	unsigned long long id = 0;

	OK(cudaStreamGetId(stream, &id));
	printf("op|%s|%llu|%ld|%ld\n", name, id, bytes, count);
}

static void expect_call(const char *name, long count)
{
	printf("call|%s|%ld|%ld\n", name, syscall(SYS_gettid), count);
}

static void register_kernels(void)
{
	static const size_t sizes[] = {8, 4, 4};
	void **handle = __cudaRegisterFatBinary(&scale_stub);

	__cudaRegisterFunction(handle, &scale_stub, (char *)scale_name, scale_name, -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(handle, &add_stub, (char *)add_name, add_name, -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(handle, &slow_stub, (char *)slow_name, slow_name, -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(handle);
	simgpu_kernel_model(scale_name, short_ns, NULL, 3, sizes);
	simgpu_kernel_model(add_name, short_ns, NULL, 3, sizes);
	simgpu_kernel_model(slow_name, long_ns, NULL, 0, NULL);
}

static void launch(void *stub, cudaStream_t stream)
{
	float factor = 2;
	int n = 1;
	void *pointer = NULL, *args[] = {&pointer, &factor, &n};

	OK(cudaLaunchKernel(stub, grid, block, args, 0, stream));
}

/* A thread of its own with a stream of its own. */
static void *second_thread(void *arg)
{
	cudaStream_t s;

	OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int i = 0; i < ROUNDS; i++)
		launch(&add_stub, s);
	OK(cudaStreamSynchronize(s));
	flockfile(stdout);
	expect_op(add_name, s, -1, ROUNDS);
	expect_call("cudaLaunchKernel|cuLaunchKernel", ROUNDS);
	funlockfile(stdout);
	return NULL;
}

static void ordinary_work(void)
{
	void *device, *pinned, *pageable = malloc(BYTES);
	cudaStream_t compute, copy;
	cudaKernel_t kernel;
	pthread_t thread;
	void *args[3] = {&device, &device, &device};

	OK(cudaSetDevice(0));
	OK(cudaStreamCreate(&compute));
	OK(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
	OK(cudaMalloc(&device, BYTES));
	OK(cudaMallocHost(&pinned, BYTES));
	memset(pageable, 1, BYTES);
	memset(pinned, 1, BYTES);
	pthread_create(&thread, NULL, second_thread, NULL);
	OK(__cudaGetKernel(&kernel, &add_stub));
	for (int i = 0; i < ROUNDS; i++) {
		OK(cudaMemcpyAsync(device, pinned, BYTES, cudaMemcpyHostToDevice, copy));
		launch(&scale_stub, compute);
		OK(__cudaLaunchKernel(kernel, grid, block, args, 0, compute));
		OK(cudaMemsetAsync(device, 0, BYTES / 2, compute));
		if (i % 10 == 0) {
			OK(cudaMemcpyAsync(pageable, device, 4, cudaMemcpyDeviceToHost, compute));
			OK(cudaStreamSynchronize(compute));
		}
		if (i % 100 == 0)
			OK(cudaMemcpy(pageable, device, BYTES, cudaMemcpyDeviceToHost));
	}
	OK(cudaDeviceSynchronize());
	pthread_join(thread, NULL);
	expect_op("Memcpy HtoD (Pinned -> Device)", copy, BYTES, ROUNDS);
	expect_op(scale_name, compute, -1, ROUNDS);
	expect_op(add_name, compute, -1, ROUNDS);
	expect_op("Memset (Device)", compute, BYTES / 2, ROUNDS);
	expect_op("Memcpy DtoH (Device -> Pageable)", compute, 4, ROUNDS / 10);
	expect_op("Memcpy DtoH (Device -> Pageable)", 0, BYTES, ROUNDS / 100);
	expect_call("cudaLaunchKernel|__cudaLaunchKernel|cuLaunchKernel", 2 * ROUNDS);
	expect_call("cudaMemcpyAsync", ROUNDS + ROUNDS / 10);
	expect_call("cudaMemsetAsync", ROUNDS);
	expect_call("cudaMemcpy", ROUNDS / 100);
	expect_call("cudaStreamSynchronize", ROUNDS / 10);
	expect_call("cudaDeviceSynchronize", 1);
	expect_call("cudaMalloc", 1);
	expect_call("cudaMallocHost", 1);
	fflush(stdout);
}

/* The child of a fork must be left alone, and its parent must go on. */
static void fork_child(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		void *p;

		_exit(cudaMalloc(&p, 64) == cudaErrorInitializationError ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	if (status) {
		fprintf(stderr, "the child ended with %x\n", status);
		exit(1);
	}
	printf("child|%d\n", (int)pid);
}

extern cudaError_t cudaMemcpy3DBatchAsync(size_t, void *, unsigned long long, void *) __attribute__((weak));

int gpu_work(const char *mode);
int gpu_work(const char *mode)
{
	register_kernels();
	ordinary_work();
	if (!strcmp(mode, "fork"))
		fork_child();
	if (!strcmp(mode, "missing") && cudaMemcpy3DBatchAsync)
		printf("missing|%d\n", (int)cudaMemcpy3DBatchAsync(0, NULL, 0, NULL));
	if (!strcmp(mode, "unfinished")) {
		cudaStream_t s;

		OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
		launch(&slow_stub, s);
		usleep(100000);
		printf("unfinished|1\n");
		expect_call("cudaLaunchKernel|__cudaLaunchKernel|cuLaunchKernel", 1);
	}
	if (!strcmp(mode, "longer"))
		slow_ns = 5000000000;
	if (!strncmp(mode, "long", 4)) {	/* a kernel that keeps CUPTI's buffer while others end */
		cudaStream_t s;

		OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
		launch(&slow_stub, s);
		for (int i = 0; i < ROUNDS; i++)
			launch(&scale_stub, 0);
		for (int i = 0; !strcmp(mode, "longer") && i < 100; i++)
			usleep(40000);	/* something to write meanwhile */
		OK(cudaDeviceSynchronize());
		expect_op(slow_name, s, -1, 1);
		expect_op(scale_name, 0, -1, ROUNDS);
		expect_call("cudaLaunchKernel|__cudaLaunchKernel|cuLaunchKernel", ROUNDS + 1);
		expect_call("cudaDeviceSynchronize", 1);
	}
	fflush(stdout);
	if (!strcmp(mode, "_exit"))
		_exit(0);
	return 0;
}

#ifndef AS_LIBRARY
int main(int argc, char **argv)
{
	return gpu_work(argc > 1 ? argv[1] : "");
}
#endif
