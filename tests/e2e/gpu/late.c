/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses a CUDA runtime that it opens by itself and calls through dlsym, as ctypes does: no wrapper sees a call.
 * usage: late LIBCUDART MODE	quiet: makes no other call that is recorded; sleeps: sleeps between the copies; unused: opens the runtime and
 * does nothing with it; child: opens it, and a child of a fork is who uses it
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *runtime;

static int copies(int n, int sleep_us)
{
	int (*allocate)(void **, size_t) = dlsym(runtime, "cudaMalloc");
	int (*copy)(void *, const void *, size_t, int) = dlsym(runtime, "cudaMemcpy");
	char *host = calloc(1, 1 << 20);
	void *device = NULL;
	int r = allocate(&device, 1 << 20);

	for (int i = 0; i < n && !r; i++) {
		r = copy(device, host, 1 << 20, 1);
		if (sleep_us)
			usleep(sleep_us);
	}
	free(host);
	return r;
}

static int in_child(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		exit(copies(100, 5000));
	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[2] : "";

	if (strcmp(mode, "quiet"))
		usleep(300000);		/* our thread is there before CUDA is */
	runtime = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!runtime) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	if (!strcmp(mode, "quiet"))
		return copies(100, 0);
	if (!strcmp(mode, "sleeps"))
		return copies(100, 5000);
	usleep(400000);
	if (!strcmp(mode, "child"))
		return in_child();
	return 0;
}
