/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor's questions about the GPU side. Libraries are looked for as files and by name, each name tried in a process of its own: nothing of NVIDIA's
 * is loaded into this one.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/doctor_check.h"
#include "analyzer/mem.h"
#include "analyzer/run_session.h"

/* Can the loader find `name`? Tried in a child, which also catches a library whose constructor fails. */
static bool loads(const char *name)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		close_range(0, ~0u, 0);		/* what a constructor prints is not for our reader; no stdio, our buffers are the parent's */
		_exit(dlopen(name, RTLD_LAZY | RTLD_LOCAL) ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* The first file that fits, as a copy; NULL = none. */
static char *first_file(const char *pattern)
{
	char *found = NULL;
	glob_t g;

	if (!glob(pattern, 0, NULL, &g) && g.gl_pathc)
		found = mem_copy(g.gl_pathv[0]);
	globfree(&g);
	return found;
}

/* `tail` below each folder of the Python that `python3` is: wheels bring CUPTI and NCCL along. */
static char *in_python(const char *tail)
{
	FILE *p = popen("exec python3 -c 'import sys; print(\"\\n\".join(p for p in sys.path if p))' 2>/dev/null </dev/null", "r");
	char line[2048], *found = NULL, *pattern;

	while (p && !found && fgets(line, sizeof(line), p)) {
		line[strcspn(line, "\n")] = 0;
		pattern = mem_format("%s/%s", line, tail);
		found = first_file(pattern);
		free(pattern);
	}
	if (p)
		pclose(p);
	return found;
}

static char *find_library(const char *const *names, const char *const *patterns, const char *const *wheels)
{
	char *found = NULL;

	for (; *names && !found; names++)
		if (loads(*names))
			found = mem_format("%s, found by the loader", *names);
	for (; *patterns && !found; patterns++)
		found = first_file(*patterns);
	for (; *wheels && !found; wheels++)
		found = in_python(*wheels);
	return found;
}

struct check check_driver(void)
{
	unsigned n = 0;
	char *node = first_file("/dev/nvidia[0-9]*");
	glob_t g;

	if (!glob("/dev/nvidia[0-9]*", 0, NULL, &g))
		n = (unsigned)g.gl_pathc;
	globfree(&g);
	free(node);
	if (loads("libcuda.so.1"))
		return (struct check){ n ? CHECK_OK : CHECK_MISSING, mem_format("libcuda.so.1 is there, %u device%s in /dev", n, n == 1 ? "" : "s"),
			n ? NULL : mem_copy("GPU work"), n ? NULL : mem_copy("give the container its devices, as with docker run --gpus all") };
	return (struct check){ CHECK_MISSING, mem_copy("no libcuda.so.1"),
		mem_copy("GPU work; what is left is what training threads and loader workers wait for on the host"),
		mem_copy("the NVIDIA driver; without a GPU, run --sim tries everything out") };
}

struct check check_cupti(void)
{
	static const char *const names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", NULL };
	static const char *const patterns[] = { "/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1*", "/usr/local/cuda*/lib64/libcupti.so.1*", NULL };
	static const char *const wheels[] = { "nvidia/cuda_cupti/lib/libcupti.so.1*", "nvidia/cu1*/lib/libcupti.so.1*", NULL };
	const char *given = getenv("WHYIDLE_CUPTI");
	char *found;

	if (given && *given)
		return access(given, R_OK) ? (struct check){ CHECK_MISSING, mem_format("WHYIDLE_CUPTI=%s is not readable", given), mem_copy("kernels' times"),
						     mem_copy("correct or unset WHYIDLE_CUPTI") }
					   : (struct check){ CHECK_OK, mem_format("%s (WHYIDLE_CUPTI)", given), NULL, NULL };
	found = find_library(names, patterns, wheels);
	if (found)
		return (struct check){ CHECK_OK, found, NULL, NULL };
	return (struct check){ CHECK_MISSING, mem_copy("no libcupti (11.8, 12, 13) in the loader's path, /usr/local/cuda or python3's packages"),
		mem_copy("kernels' and copies' times on the GPU: only the calls are seen"),
		mem_copy("it comes with CUDA builds of PyTorch (package nvidia-cuda-cupti) and with the CUDA toolkit; name it with WHYIDLE_CUPTI") };
}

struct check check_nccl(void)
{
	static const char *const names[] = { "libnccl.so.2", NULL };
	static const char *const patterns[] = { "/usr/local/cuda*/lib64/libnccl.so.2*", NULL };
	static const char *const wheels[] = { "nvidia/nccl/lib/libnccl.so.2*", NULL };
	char *found = find_library(names, patterns, wheels);

	if (found)
		return (struct check){ CHECK_OK, found, NULL, NULL };
	return (struct check){ CHECK_INFO, mem_copy("no libnccl.so.2: jobs of one GPU, or a framework that is linked with it statically"), NULL, NULL };
}

struct check check_simgpu(void)
{
	char path[PATH_MAX], why[512];

	if (!find_simgpu(path, why))
		return (struct check){ CHECK_OK, mem_format("%s, for run --sim", path), NULL, NULL };
	return (struct check){ CHECK_INFO, mem_copy("not installed: run --sim does not work"), NULL, NULL };
}
