/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the library named first privately, as Python loads an extension, and lets it work.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	int (*work)(const char *);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	work = dlsym(handle, "gpu_work");
	return work ? work(argc > 2 ? argv[2] : "") : 1;
}
