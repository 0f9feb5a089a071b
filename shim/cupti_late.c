/* SPDX-License-Identifier: Apache-2.0
 *
 * A mapped runtime is no reason to start: importing PyTorch maps it in launchers and loader workers that never use it, and CUPTI before the program's own
 * first call could initialise the driver too early (before CUDA_VISIBLE_DEVICES is set, before a fork whose child wants it). So the driver is asked,
 * by a query that initialises nothing, whether the program has.
 */
#include "shim/cupti_late.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/cupti.h"
#include "shim/drain.h"
#include "shim/resolve.h"

#define PATH_BYTES 1024
#define DRIVER_NOT_INITIALIZED 3

/* The drain thread's and the exiting thread's, which may look at the same time: both find the same. */
static _Atomic(int (*)(int *)) device_count;	/* the driver's */
static _Atomic uint64_t seen_adds;		/* libraries ever loaded, when a look that found nothing began */

static int first_adds(struct dl_phdr_info *info, size_t size, void *adds)
{
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs))
		*(uint64_t *)adds = info->dlpi_adds;
	return 1;
}

/* Has libcuda come in? The handle is kept: what is called must stay. */
static bool find_driver(void)
{
	char path[PATH_BYTES];
	int (*found)(int *) = NULL;
	uint64_t adds = 0;
	void *handle;

	if (atomic_load_explicit(&device_count, memory_order_acquire))	/* pairs with the release below */
		return true;
	dl_iterate_phdr(first_adds, &adds);
	if (adds == atomic_load_explicit(&seen_adds, memory_order_relaxed))
		return false;
	handle = resolve_loaded("libcuda.so", path, sizeof(path)) ? NULL : dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (handle)
		found = (int (*)(int *))dlsym(handle, "cuDeviceGetCount");
	if (!found) {
		dlerror();
		atomic_store_explicit(&seen_adds, adds, memory_order_relaxed);
		return false;
	}
	atomic_store_explicit(&device_count, found, memory_order_release);	/* pairs with the acquire loads */
	return true;
}

static bool in_use(void)
{
	int n = 0;

	return find_driver() && atomic_load_explicit(&device_count, memory_order_acquire)(&n) != DRIVER_NOT_INITIALIZED;
}

static bool look(void)
{
	unsigned int state = atomic_load_explicit(&cupti_state, memory_order_acquire);

	if (state >= CUPTI_ACTIVE)
		return false;
	if (state == CUPTI_FRESH && in_use())
		cupti_start_late();
	return true;
}

static void last_look(void)
{
	if (atomic_load_explicit(&cupti_state, memory_order_acquire) != CUPTI_FRESH)
		return;
	drain_watch(NULL);	/* too late to start it */
	if (!in_use())
		return;
	drain_attr_str("whyidle.gpu", "none: CUDA was loaded later and called in a way that is not seen (dlsym): its calls were not recorded");
	drain_kick();
}

void cupti_late_init(void)
{
	drain_watch(look);
	drain_on_exit(last_look);
}
