/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the library named first privately, as Python loads an extension, and lets it work. With INJECT set to our library's path it is
 * loaded before and told so, as the CUDA driver does it with CUDA_INJECTION64_PATH.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), *injection;
	int (*work)(const char *), (*initialize)(void);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	if (getenv("INJECT")) {
		injection = dlopen(getenv("INJECT"), RTLD_NOW | RTLD_LOCAL);
		initialize = injection ? dlsym(injection, "InitializeInjection") : NULL;
		if (!initialize || !initialize())
			return 1;
	}
	work = dlsym(handle, "gpu_work");
	return work ? work(argc > 2 ? argv[2] : "") : 1;
}
