/* SPDX-License-Identifier: Apache-2.0
 *
 * storm THREADS LAUNCHES: launches small kernels as fast as it can from several threads. Prints the seconds it took.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "examples/simgpu/simgpu.h"

static char stub;
static int launches;

static uint64_t short_ns(void **args, dim3 grid, dim3 block)
{
	return 500;
}

static void *worker(void *arg)
{
	const dim3 one = {1, 1, 1};
	cudaStream_t s;

	if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking))
		exit(1);
	for (int i = 0; i < launches; i++)
		if (cudaLaunchKernel(&stub, one, one, NULL, 0, s))
			exit(1);
	if (cudaStreamSynchronize(s))
		exit(1);
	return NULL;
}

int main(int argc, char **argv)
{
	int n = atoi(argv[1]);
	pthread_t threads[64];
	struct timespec a, b;
	void **handle = __cudaRegisterFatBinary(&stub);

	launches = atoi(argv[2]);
	__cudaRegisterFunction(handle, &stub, (char *)"_Z5stormv", "_Z5stormv", -1, NULL, NULL, NULL, NULL, NULL);
	simgpu_kernel_model("_Z5stormv", short_ns, NULL, 0, NULL);
	if (cudaSetDevice(0))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.3f\n", (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
	return 0;
}
