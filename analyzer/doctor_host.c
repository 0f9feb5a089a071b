/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor's questions about the machine: can the recorder be loaded, can it write, what does the kernel tell about threads and sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/doctor_check.h"
#include "analyzer/mem.h"
#include "analyzer/run_session.h"
#include "analyzer/util.h"
#include "trace/reader.h"

#define PROBE_S 10

struct check check_recorder(void)
{
	char path[PATH_MAX], why[512];

	if (!find_recorder(path, why))
		return (struct check){ CHECK_OK, mem_format("%s", path), NULL, NULL };
	return (struct check){ CHECK_BAD, mem_copy("not found"), mem_copy("everything"), mem_copy(why) };
}

/* ---- does a preloaded program leave a trace? */

/* Waits for pid, at most PROBE_S. Returns its wait status, or -1 when it had to be killed. */
static int wait_limited(pid_t pid)
{
	static const struct timespec a_moment = { 0, 10000000 };
	int status;

	for (int i = 0; i < PROBE_S * 100; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		nanosleep(&a_moment, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -1;
}

/* Runs a shell pipeline with the recorder in front, its stderr into `log`. 0, or -1 when it did not run or end as it should. */
static int probe(const char *recorder, const char *dir, const char *log)
{
	char *argv[] = { "sh", "-c", "sleep 0.1 | cat", NULL };
	posix_spawn_file_actions_t actions;
	char **env;
	pid_t pid;
	int rc;

	setenv("LD_PRELOAD", "", 1);		/* what else is preloaded is not our question */
	unsetenv("WHYIDLE_DISABLE");
	unsetenv("WHYIDLE_ONLY");
	env = child_environment(recorder, dir, NULL);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	rc = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	child_environment_free(env);
	return rc || wait_limited(pid) ? -1 : 0;
}

static bool is_a_trace(const char *path)
{
	struct pf_error err;
	struct pf_item item;
	struct pf_reader *r = pf_reader_open(path, &err);
	bool good = r && pf_reader_next(r, &item, &err) == 1;

	if (r)
		pf_reader_close(r);
	return good;
}

static char *first_line(const char *path)
{
	char line[200] = "";
	FILE *f = fopen(path, "re");

	if (f && !fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = 0;
	return *line ? mem_format("the loader said: %s", line) : mem_copy("the program left no trace");
}

static struct check judge_probe(const char *recorder, const char *dir, const char *log)
{
	struct session s = { 0 };
	unsigned n, good = 0;
	char **traces, *said;
	int rc = probe(recorder, dir, log);

	snprintf(s.dir, sizeof(s.dir), "%s", dir);
	traces = session_traces(&s, &n, NULL);
	for (unsigned i = 0; i < n; i++) {
		good += is_a_trace(traces[i]);
		unlink(traces[i]);
	}
	session_free_traces(traces);
	if (!rc && good)
		return (struct check){ CHECK_OK, mem_format("a preloaded shell pipeline ran and left %u trace%s", good, good == 1 ? "" : "s"), NULL, NULL };
	said = rc ? mem_copy("a preloaded shell pipeline did not end well") : first_line(log);
	return (struct check){ CHECK_BAD, said, mem_copy("everything"),
		mem_copy("use a libwhyidle.so built for this machine and its C library (glibc); programs linked statically cannot be recorded") };
}

struct check check_preload(void)
{
	char recorder[PATH_MAX], why[512], dir[64] = "/tmp/whyidle-doctor-XXXXXX", log[96];
	struct check c;

	if (find_recorder(recorder, why))
		return (struct check){ CHECK_BAD, mem_copy("not tried: there is no recorder"), NULL, NULL };
	if (!mkdtemp(dir))
		return (struct check){ CHECK_INFO, mem_format("not tried: no directory can be made in /tmp: %s", strerror(errno)), NULL, NULL };
	snprintf(log, sizeof(log), "%s/stderr", dir);
	c = judge_probe(recorder, dir, log);
	unlink(log);
	snprintf(log, sizeof(log), "%s/whyidle.log", dir);
	unlink(log);
	rmdir(dir);
	return c;
}

/* ---- where traces go */

struct check check_disk(void)
{
	struct statvfs st;
	char space[AMOUNT_MAX];
	int64_t bytes;

	if (access(".", W_OK | X_OK))
		return (struct check){ CHECK_MISSING, mem_format("the working directory is not writable: %s", strerror(errno)),
			mem_copy("sessions go to $TMPDIR or /tmp"), mem_copy("name a session directory with run -o DIR") };
	if (statvfs(".", &st))
		return (struct check){ CHECK_INFO, mem_format("free space is unknown: %s", strerror(errno)), NULL, NULL };
	bytes = (int64_t)st.f_bavail * (int64_t)st.f_frsize;
	amount_bytes(space, bytes);
	if (bytes < 1000000000)
		return (struct check){ CHECK_MISSING, mem_format("%s free here", space),
			mem_copy("a busy job writes some MB a minute and process; when the disk is full, recording stops and the job goes on"),
			mem_copy("name a session directory on a larger disk with run -o DIR") };
	return (struct check){ CHECK_OK, mem_format("%s free here; a busy job writes some MB a minute and process", space), NULL, NULL };
}

/* ---- what the kernel tells */

/* A kernel without the statistics writes zeros. So does one with them for a process that has hardly run: hence the attempts. */
static bool schedstat_counts(void)
{
	for (int i = 0; i < 2000; i++) {
		unsigned long long cpu = 0;
		FILE *f = fopen("/proc/self/schedstat", "re");
		bool read = f && fscanf(f, "%llu", &cpu) == 1;

		if (f)
			fclose(f);
		if (!read || cpu)
			return read;
	}
	return false;
}

struct check check_threads(void)
{
	if (schedstat_counts())
		return (struct check){ CHECK_OK, mem_copy("/proc/*/schedstat tells when threads ran"), NULL, NULL };
	return (struct check){ CHECK_MISSING, mem_copy("/proc/self/schedstat is empty or missing"),
		mem_copy("computing on the host cannot be told from waiting: such time becomes unknown"),
		mem_copy("a kernel with CONFIG_SCHED_INFO, and /proc mounted") };
}

struct check check_sockets(void)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	if (major > 5 || (major == 5 && minor >= 5))
		return (struct check){ CHECK_OK, mem_format("Linux %s: TCP_INFO tells retransmissions, also needless ones", u.release), NULL, NULL };
	return (struct check){ CHECK_MISSING, mem_format("Linux %s", u.release),
		mem_copy("needless retransmissions are not told from real ones (TCP_INFO before 5.5)"), mem_copy("a newer kernel") };
}

struct check check_limits(void)
{
	struct rlimit files, size;

	getrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_FSIZE, &size);
	if (size.rlim_cur != RLIM_INFINITY)
		return (struct check){ CHECK_MISSING, mem_format("files may have at most %llu bytes (ulimit -f)", (unsigned long long)size.rlim_cur),
			mem_copy("recording of a process stops when its trace is that long"), mem_copy("ulimit -f unlimited") };
	if (files.rlim_cur < 1024)
		return (struct check){ CHECK_MISSING, mem_format("%llu open files (ulimit -n)", (unsigned long long)files.rlim_cur),
			mem_copy("the recorder needs up to 70 descriptors of its own and does with fewer: threads' CPU times may be missing"),
			mem_copy("ulimit -n 4096") };
	return (struct check){ CHECK_OK, mem_format("%llu open files, file size unlimited", (unsigned long long)files.rlim_cur), NULL, NULL };
}

struct check check_cpus(void)
{
	cpu_set_t set;
	long all = sysconf(_SC_NPROCESSORS_ONLN);
	int allowed = sched_getaffinity(0, sizeof(set), &set) ? (int)all : CPU_COUNT(&set);
	double quota = 0, period = 0;
	FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
	bool limited = f && fscanf(f, "%lf %lf", &quota, &period) == 2 && period > 0;

	if (f)
		fclose(f);
	if (limited && quota / period < allowed)
		return (struct check){ CHECK_INFO, mem_format("%d of %ld CPUs allowed, but a cgroup limits this to %.1f CPUs' time", allowed, all, quota / period),
			NULL, NULL };
	return (struct check){ CHECK_INFO, mem_format("%d of %ld CPUs may be used: more loader workers than that do not help", allowed, all), NULL, NULL };
}
