/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs once per process, in the thread that makes its first CUDA call. LD_LIBRARY_PATH and the like are left alone: an older
 * libcupti found that way has made torch unimportable.
 */
#include "shim/cupti_find.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/resolve.h"

#define PATH_BYTES 1024

int cupti_find_major(const char *path)
{
	const char *base = strrchr(path, '/'), *so;

	so = strstr(base ? base : path, ".so.");
	return so ? atoi(so + 4) : 0;
}

/* NULL when it is not there or is no CUPTI. */
static void *open_cupti(const char *path)
{
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

	if (!handle)
		return NULL;
	if (dlsym(handle, "cuptiActivityRegisterCallbacks"))
		return handle;
	dlclose(handle);
	return NULL;
}

static void *open_mapped(void)
{
	char path[PATH_BYTES];

	return resolve_loaded("libcupti", path, sizeof(path)) ? NULL : open_cupti(path);
}

/* libcupti.so.MAJOR in `dir`; 11.x carries its minor in the name, so any libcupti.so.11.* will do. */
static void *open_in(const char *dir, int major)
{
	char path[PATH_BYTES], prefix[32];
	void *handle = NULL;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/libcupti.so.%d", dir, major);
	if (major != 11)
		return access(path, R_OK) ? NULL : open_cupti(path);
	d = opendir(dir);
	if (!d)
		return NULL;
	snprintf(prefix, sizeof(prefix), "libcupti.so.%d.", major);
	while (!handle && (e = readdir(d))) {
		if (strncmp(e->d_name, prefix, strlen(prefix)))
			continue;
		snprintf(path, sizeof(path), "%s/%.255s", dir, e->d_name);
		handle = open_cupti(path);
	}
	closedir(d);
	return handle;
}

static void *open_beside(const char *cudart, int major)
{
	/* the same folder (simgpu's, cu13 wheels, distributions); cu11 and cu12 wheels; toolkits, by link and by target folder */
	static const char *const places[] = {"", "/../../cuda_cupti/lib", "/../extras/CUPTI/lib64", "/../../../extras/CUPTI/lib64"};
	char dir[PATH_BYTES / 2], place[PATH_BYTES - 64];
	const char *slash = strrchr(cudart, '/');
	void *handle = NULL;

	if (!slash || (size_t)(slash - cudart) >= sizeof(dir))
		return NULL;
	memcpy(dir, cudart, (size_t)(slash - cudart));
	dir[slash - cudart] = '\0';
	for (size_t i = 0; !handle && i < sizeof(places) / sizeof(*places); i++) {
		snprintf(place, sizeof(place), "%s%s", dir, places[i]);
		handle = open_in(place, major);
	}
	if (handle)
		return handle;
	/* the toolkit's lib64 is a link: its real parent has no extras, the named one has */
	slash = strrchr(dir, '/');
	if (!slash)
		return NULL;
	snprintf(place, sizeof(place), "%.*s/extras/CUPTI/lib64", (int)(slash - dir), dir);
	return open_in(place, major);
}

static void *open_soname(int major)
{
	char name[32];
	void *handle = NULL;

	snprintf(name, sizeof(name), "libcupti.so.%d", major);
	if (major != 11)
		return open_cupti(name);
	for (int minor = 8; !handle && minor >= 0; minor--) {
		snprintf(name, sizeof(name), "libcupti.so.11.%d", minor);
		handle = open_cupti(name);
	}
	return handle;
}

/* With a static runtime only the driver says which major it is. It is asked only when it is there already. */
static int driver_major(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	int (*get)(int *), version = 0;

	if (!handle)
		return 0;
	get = dlsym(handle, "cuDriverGetVersion");
	if (!get || get(&version))
		version = 0;
	dlclose(handle);
	return version / 1000;
}

static void *open_any(char *why, size_t len, bool *early)
{
	const char *wanted = getenv("WHYIDLE_CUPTI");
	char cudart[PATH_BYTES];
	void *handle = open_mapped();
	int major;

	if (handle)
		return handle;
	if (wanted && *wanted) {
		handle = open_cupti(wanted);
		if (!handle)
			snprintf(why, len, "WHYIDLE_CUPTI=%s is no CUPTI that loads", wanted);
		return handle;
	}
	if (!resolve_loaded("libcudart", cudart, sizeof(cudart))) {
		major = cupti_find_major(cudart);
		handle = major ? open_beside(cudart, major) : NULL;
	} else {
		major = driver_major();
	}
	if (!handle && major)
		handle = open_soname(major);
	if (!handle && major)
		snprintf(why, len, "no libcupti.so.%d found; WHYIDLE_CUPTI can name it", major);
	*early = !major;
	if (!handle && *early)
		snprintf(why, len, "no CUDA runtime or driver is loaded; WHYIDLE_CUPTI can name a CUPTI");
	return handle;
}

int cupti_find(struct cupti_functions *f, char *why, size_t why_len)
{
	bool early = false;
	void *handle = open_any(why, why_len, &early);

	if (!handle)
		return early ? -EAGAIN : -ENOENT;
#define LOOK_UP(name, params) f->name = (int(*) params)dlsym(handle, "cupti" #name);
#define REQUIRED(name, params) \
	LOOK_UP(name, params) \
	if (!f->name) { \
		snprintf(why, why_len, "libcupti lacks cupti" #name); \
		return -ENOENT; \
	}
	CUPTI_FUNCTIONS(REQUIRED, LOOK_UP)
#undef REQUIRED
#undef LOOK_UP
	return 0;
}
