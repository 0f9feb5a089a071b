/* SPDX-License-Identifier: Apache-2.0
 *
 * libcuda.so.1: only what the runtime's presence implies and what can be asked without initialising anything. The device loads it at the first
 * call that uses it, as the real runtime loads its driver.
 */
#include "examples/simgpu/core.h"

#define EXPORT __attribute__((visibility("default")))

enum { CU_OK = 0, CU_INVALID_VALUE = 1, CU_NOT_INITIALIZED = 3, CU_NO_DEVICE = 100, DRIVER_VERSION = 12040 };

EXPORT int cuInit(unsigned int flags);
int cuInit(unsigned int flags)
{
	if (flags)
		return CU_INVALID_VALUE;
	return sg_init();
}

EXPORT int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
	if (!version)
		return CU_INVALID_VALUE;
	*version = DRIVER_VERSION;
	return CU_OK;
}

EXPORT int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
	if (!count)
		return CU_INVALID_VALUE;
	if (sg_forked() || !sg_initialised())
		return CU_NOT_INITIALIZED;
	*count = sg_config.devices;
	return CU_OK;
}
