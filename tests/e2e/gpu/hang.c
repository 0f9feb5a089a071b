/* SPDX-License-Identifier: Apache-2.0
 *
 * hang HOW: waits for ever in a call. To be killed.
 */
#include <string.h>

#include "examples/simgpu/nccl.h"
#include "examples/simgpu/simgpu.h"

static char stub;

static uint64_t endless_ns(void **args, dim3 grid, dim3 block)
{
	return 3600000000000;
}

int main(int argc, char **argv)
{
	const dim3 one = {1, 1, 1};
	char host[64] = "";
	void *device;
	ncclUniqueId id;
	ncclComm_t comm;

	__cudaRegisterFunction(__cudaRegisterFatBinary(&stub), &stub, (char *)"_Z7endlessv", "_Z7endlessv", -1, NULL, NULL, NULL, NULL,
			       NULL);
	simgpu_kernel_model("_Z7endlessv", endless_ns, NULL, 0, NULL);
	if (cudaMalloc(&device, 64))
		return 1;
	if (!strcmp(argv[1], "init"))	/* the second rank never comes */
		return ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 2, id, 0);
	if (cudaLaunchKernel(&stub, one, one, NULL, 0, NULL))
		return 1;
	if (!strcmp(argv[1], "copy"))
		return cudaMemcpy(host, device, sizeof(host), cudaMemcpyDeviceToHost);
	return cudaDeviceSynchronize();
}
