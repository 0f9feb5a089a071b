/* SPDX-License-Identifier: Apache-2.0
 *
 * What a CUDA call that is too short to be recorded costs, in ns: run bare and under the shim (WHYIDLE_GPU=off leaves out CUPTI's own
 * share), the difference is the shim's. Prints "name ns" lines.
 */
#include <stdio.h>
#include <time.h>

#include "examples/simgpu/cudart.h"

enum { ROUNDS = 30, CALLS = 50000 };

int main(void)
{
	double best = 1e9;
	cudaStream_t s;

	if (cudaStreamCreate(&s))
		return 99;
	for (int round = 0; round < ROUNDS; round++) {
		struct timespec a, b;
		double ns;

		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int i = 0; i < CALLS; i++)
			cudaStreamQuery(s);
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / CALLS;
		best = ns < best ? ns : best;
	}
	printf("cudaStreamQuery %.1f\n", best);
	return 0;
}
