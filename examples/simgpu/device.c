/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices, their contexts and default streams, and the state of the "driver" in this process.
 */
#include "examples/simgpu/core.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sg_config sg_config;

static struct sg_lock init_lock;
static _Atomic bool initialised, forked;
static _Atomic bool contexts[SG_MAX_DEVICES];
static __thread int current_device;

static double env_number(const char *name, double fallback)
{
	const char *text = getenv(name);
	char *end;
	double value;

	if (!text || !*text)
		return fallback;
	value = strtod(text, &end);
	return *end || value < 0 ? fallback : value;
}

static void read_config(void)
{
	double devices = env_number("SIMGPU_DEVICES", 8);
	double depth = env_number("SIMGPU_QUEUE_DEPTH", 1024);

	sg_config.devices = devices > SG_MAX_DEVICES ? SG_MAX_DEVICES : (int)devices;
	sg_config.launch_ns = (uint64_t)(env_number("SIMGPU_LAUNCH_US", 4) * 1000);
	sg_config.latency_ns = (uint64_t)(env_number("SIMGPU_LATENCY_US", 3) * 1000);
	sg_config.alloc_ns = (uint64_t)(env_number("SIMGPU_ALLOC_US", 80) * 1000);
	sg_config.free_ns = (uint64_t)(env_number("SIMGPU_FREE_US", 120) * 1000);
	/* 1 GB/s is one byte per ns */
	sg_config.pcie_bytes_ns = env_number("SIMGPU_PCIE_GBS", 12);
	sg_config.pageable_bytes_ns = env_number("SIMGPU_PAGEABLE_GBS", 3);
	if (sg_config.pcie_bytes_ns <= 0)
		sg_config.pcie_bytes_ns = 12;
	if (sg_config.pageable_bytes_ns <= 0)
		sg_config.pageable_bytes_ns = 3;
	sg_config.queue_depth = depth < 1 ? 1 : depth > 1 << 20 ? 1 << 20 : (uint32_t)depth;
}

/* A driver that was initialised before the fork is lost to the child; one that was not may be used there. */
static void after_fork_in_child(void)
{
	if (atomic_load(&initialised))
		atomic_store(&forked, true);
}

/* The runtime brings its driver into the process when it is first used. Beside us, for a machine may have a real one. */
static void load_driver(void)
{
	char path[PATH_MAX];
	const char *slash;
	Dl_info us;

	if (!sg_config.devices || !dladdr(&sg_config, &us) || !us.dli_fname || !(slash = strrchr(us.dli_fname, '/')))
		return;
	if (snprintf(path, sizeof(path), "%.*s/libcuda.so.1", (int)(slash - us.dli_fname), us.dli_fname) < (int)sizeof(path) &&
	    !dlopen(path, RTLD_NOW | RTLD_LOCAL))
		dlerror();
}

bool sg_initialised(void)
{
	return atomic_load_explicit(&initialised, memory_order_acquire);
}

bool sg_forked(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

int sg_init(void)
{
	bool first = false;

	if (sg_forked())
		return cudaErrorInitializationError;
	if (!atomic_load_explicit(&initialised, memory_order_acquire)) {
		sg_lock(&init_lock);
		if (!atomic_load_explicit(&initialised, memory_order_relaxed)) {
			read_config();
			pthread_atfork(NULL, NULL, after_fork_in_child);
			atomic_store_explicit(&initialised, true, memory_order_release);
			first = true;
		}
		sg_unlock(&init_lock);
	}
	/* not under our lock: a library's constructor, run under the loader's, may be waiting for it */
	if (first)
		load_driver();
	return sg_config.devices ? 0 : cudaErrorNoDevice;
}

int sg_current_device(void)
{
	return current_device;
}

int sg_set_device(int device)
{
	if (device < 0 || device >= sg_config.devices)
		return cudaErrorInvalidDevice;
	current_device = device;
	return 0;
}

bool sg_context_exists(int device)
{
	return device >= 0 && device < SG_MAX_DEVICES && atomic_load(&contexts[device]);
}

void sg_context(int device)
{
	const struct sg_listener *listener;

	if (atomic_load_explicit(&contexts[device], memory_order_relaxed) || atomic_exchange(&contexts[device], true))
		return;
	listener = sg_listener();
	if (listener)
		listener->context(device);
	sg_legacy_stream(device);
}
