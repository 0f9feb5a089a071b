/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls NVIDIA's own runtime on a machine without a driver (or with one) and prints every answer.
 */
#include <stdio.h>

struct dim3_ {
	unsigned int x, y, z;
};
int cudaGetDeviceCount(int *);
int cudaSetDevice(int);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaStreamCreate(void **);
int cudaDeviceSynchronize(void);
int cudaLaunchKernel(const void *, struct dim3_, struct dim3_, void **, size_t, void *);
int cudaGetLastError(void);

int main(void)
{
	char host[64] = "";
	void *p = NULL, *s = NULL;
	int n = -1;

	printf("set %d\n", cudaSetDevice(0));
	printf("malloc %d\n", cudaMalloc(&p, 64));
	printf("count %d\n", cudaGetDeviceCount(&n));
	printf("stream %d\n", cudaStreamCreate(&s));
	printf("copy %d\n", p ? 0 : cudaMemcpy(host, host + 32, 16, 4));
	printf("launch %d\n", cudaLaunchKernel(host, (struct dim3_){1, 1, 1}, (struct dim3_){1, 1, 1}, NULL, 0, NULL));
	printf("last %d\n", cudaGetLastError());
	printf("sync %d\n", cudaDeviceSynchronize());
	printf("free %d\n", p ? cudaFree(p) : cudaFree(NULL));
	return 0;
}
