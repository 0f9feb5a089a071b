/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of calls, see kineto_call.h. By rules and not by a list: each release of the runtimes has new variants of the same few things.
 */
#include "analyzer/kineto_call.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool has(const char *s, const char *part)
{
	return strstr(s, part) != NULL;
}

/* First rule that fits. What is said of a CUDA call holds for the HIP call of that name. */
static const struct { const char *part; enum call call; } rules[] = {
	/* code is loaded: start-up, wherever it happens */
	{"ModuleLoad", CALL_cudaSetDevice}, {"LibraryLoad", CALL_cudaSetDevice}, {"DeviceReset", CALL_cudaDeviceReset},
	{"StreamCreate", CALL_cudaStreamCreate}, {"SetDevice", CALL_cudaSetDevice}, {"CtxCreate", CALL_cudaSetDevice},
	{"StreamSynchronize", CALL_cudaStreamSynchronize}, {"EventSynchronize", CALL_cudaEventSynchronize},
	{"DeviceSynchronize", CALL_cudaDeviceSynchronize}, {"CtxSynchronize", CALL_cuCtxSynchronize},
	{"StreamWaitEvent", CALL_cudaStreamWaitEvent}, {"EventRecord", CALL_cudaEventRecord}, {"EventQuery", CALL_cudaEventQuery},
	{"StreamQuery", CALL_cudaStreamQuery},
	{"GraphLaunch", CALL_cudaGraphLaunch}, {"LaunchHostFunc", CALL_cudaLaunchHostFunc}, {"Launch", CALL_cudaLaunchKernel},
	{"Memcpy", CALL_cudaMemcpyAsync}, {"Memset", CALL_cudaMemsetAsync},
	{"HostMalloc", CALL_cudaMallocHost}, {"MallocHost", CALL_cudaMallocHost}, {"HostFree", CALL_cudaFreeHost}, {"FreeHost", CALL_cudaFreeHost},
	{"HostAlloc", CALL_cudaHostAlloc}, {"HostRegister", CALL_cudaHostRegister}, {"HostUnregister", CALL_cudaHostUnregister},
	{"MemHost", CALL_cudaHostAlloc},
	{"Malloc", CALL_cudaMalloc}, {"MemAlloc", CALL_cudaMalloc}, {"MemCreate", CALL_cudaMalloc}, {"MemMap", CALL_cudaMalloc},
	{"MemAddress", CALL_cudaMalloc}, {"MemSetAccess", CALL_cudaMalloc},
	{"MemRelease", CALL_cudaFree}, {"MemUnmap", CALL_cudaFree}, {"MemFree", CALL_cudaFree}, {"Free", CALL_cudaFree},
};

static bool is_runtime_name(const char *s)
{
	return !strncmp(s, "hip", 3) || !strncmp(s, "cuda", 4) || (s[0] == 'c' && s[1] == 'u' && s[2] >= 'A' && s[2] <= 'Z') ||
		!strncmp(s, "ur", 2) || !strncmp(s, "musa", 4);
}

enum call kineto_call(const char *name)
{
	enum call call = call_by_name(name, strlen(name));
	char cuda[128];

	if (call != CALL_NONE || !is_runtime_name(name))
		return call_class(call) == CLASS_NONE ? CALL_NONE : call;
	if (!strncmp(name, "hip", 3)) {
		snprintf(cuda, sizeof(cuda), "cuda%s", name + 3);
		call = call_by_name(cuda, strlen(cuda));
		if (call != CALL_NONE)
			return call;
	}
	/* questions, not deeds: the name ends in what the deed's does or begins with a question */
	if (has(name, "GetAttribute") || has(name, "Occupancy") || has(name, "GetInfo") || has(name, "Pool") || has(name, "CaptureInfo") ||
	    has(name, "IsCapturing") || has(name, "GraphInstantiate") || has(name, "GraphAdd"))
		return CALL_NONE;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (has(name, rules[i].part))
			return rules[i].call;
	return CALL_NONE;
}

enum call kineto_collective(const char *name)
{
	static const struct { const char *part; enum call call; } names[] = {
		{"reduce_scatter", CALL_ncclReduceScatter}, {"reducescatter", CALL_ncclReduceScatter},
		{"all_reduce", CALL_ncclAllReduce}, {"allreduce", CALL_ncclAllReduce}, {"barrier", CALL_ncclAllReduce},
		{"all_gather", CALL_ncclAllGather}, {"allgather", CALL_ncclAllGather},
		{"all_to_all", CALL_ncclAlltoAll}, {"alltoall", CALL_ncclAlltoAll},
		{"broadcast", CALL_ncclBroadcast}, {"gather", CALL_ncclGather}, {"scatter", CALL_ncclScatter}, {"reduce", CALL_ncclReduce},
		{"send", CALL_ncclSend}, {"recv", CALL_ncclRecv},
	};

	if (!strncmp(name, "nccl:", 5) || !strncmp(name, "rccl:", 5))
		name += 5;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (has(name, names[i].part))
			return names[i].call;
	return CALL_NONE;
}
