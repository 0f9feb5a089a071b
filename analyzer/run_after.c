/* SPDX-License-Identifier: Apache-2.0
 *
 * What is left when the job has ended: processes that go on, and the marks of a full disk or of limits that the recorder ran into.
 */
#include "analyzer/run_after.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/run_session.h"

#define CHUNK 65536
#define say(to, ...) (snprintf(to, 512, __VA_ARGS__), true)

/* ---- who still records */

/* Everything in /proc/PID/environ; allocated and ended by a zero, NULL when it is none of our business. */
static char *environment_of(long pid, size_t *len)
{
	char path[64], *text = NULL, *more;
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/environ", pid);
	f = fopen(path, "re");
	if (!f)
		return NULL;
	*len = 0;
	do {
		more = realloc(text, *len + CHUNK + 1);
		if (!more)
			break;
		text = more;
		n = fread(text + *len, 1, CHUNK, f);
		*len += n;
		text[*len] = 0;
	} while (n == CHUNK);
	fclose(f);
	return text;
}

/* It was started with our recorder and our directory; a fork shows what its parent was started with. */
static bool records(long pid, const struct session *s)
{
	bool directory = false, recorder = false;
	size_t len;
	char *text = environment_of(pid, &len);

	for (char *e = text; e && e < text + len; e += strlen(e) + 1) {
		directory |= !strncmp(e, "WHYIDLE_DIR=", 12) && !strcmp(e + 12, s->dir);
		recorder |= !strncmp(e, "LD_PRELOAD=", 11) && strstr(e + 11, s->recorder);
	}
	free(text);
	return directory && recorder;
}

static long parent_of(long pid)
{
	char path[64], line[512], *close;
	long parent = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fgets(line, sizeof(line), f) && (close = strrchr(line, ')')))
		sscanf(close + 1, " %*c %ld", &parent);
	fclose(f);
	return parent;
}

/* A run within a run: those that wait for us record, too, and are no news. */
static bool is_ancestor(long pid)
{
	long p = getpid();

	for (int generations = 0; p > 0 && generations < 64; generations++, p = parent_of(p))
		if (p == pid)
			return true;
	return false;
}

static unsigned count_recording(const struct session *s)
{
	DIR *d = opendir("/proc");
	unsigned n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));) {
		long pid = isdigit((unsigned char)e->d_name[0]) ? strtol(e->d_name, NULL, 10) : 0;

		n += pid > 0 && records(pid, s) && !is_ancestor(pid);
	}
	closedir(d);
	return n;
}

unsigned session_still_recording(const struct session *s)
{
	static const struct timespec a_moment = { 0, 20000000 };
	unsigned n = s->dir[0] && s->recorder[0] ? count_recording(s) : 0;

	for (int i = 0; n && i < 10; i++) {
		nanosleep(&a_moment, NULL);
		n = count_recording(s);
	}
	return n;
}

/* ---- what kept them from it */

/* The recorder's log grows by a line when it gives up; what was in it before is an earlier run's. An empty one means that not even that could be written. */
static bool log_tells(const struct session *s, char why[512])
{
	char path[PATH_MAX + 16], line[512] = "", *reason;
	bool grown = false;
	struct stat st;
	int err = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/whyidle.log", s->dir);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fstat(fileno(f), &st) && !st.st_size && s->log_bytes < 0) {
		fclose(f);
		return say(why, "nothing more could be written to %.300s: the disk was full, or a limit on file sizes was reached", s->dir);
	}
	if (!fseek(f, s->log_bytes > 0 ? s->log_bytes : 0, SEEK_SET))
		grown = fgets(line, sizeof(line), f) && strchr(line, ':');
	fclose(f);
	if (!grown)
		return false;
	line[strcspn(line, "\n")] = 0;
	reason = strstr(line, " (errno ");
	if (reason) {
		err = (int)strtol(reason + 8, NULL, 10);
		*reason = 0;
	}
	return say(why, "%.200s%s%s (more in %.200s)", strchr(line, ':') + 2, err ? ": " : "", err ? strerror(err) : "", path);
}

static bool disk_is_full(const struct session *s, char why[512])
{
	struct statvfs v;

	if (statvfs(s->dir, &v))
		return false;
	if (v.f_bavail * v.f_frsize < 128 * 1024)
		return say(why, "the disk is full that %.300s lies on", s->dir);
	if (v.f_files && !v.f_favail)
		return say(why, "no more files can be made on the disk that %.300s lies on: it has no inodes left", s->dir);
	return false;
}

static bool limits(bool nothing_recorded, char why[512])
{
	struct rlimit size, files;

	if (!getrlimit(RLIMIT_FSIZE, &size) && size.rlim_cur != RLIM_INFINITY && size.rlim_cur < 1024 * 1024)
		return say(why, "files may not be longer than %llu bytes here (ulimit -f): traces end there", (unsigned long long)size.rlim_cur);
	if (nothing_recorded && !getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < 32)
		return say(why, "a process may have only %llu files open here (ulimit -n): there was none left for a trace",
			(unsigned long long)files.rlim_cur);
	return false;
}

static bool asked_not_to(char why[512])
{
	const char *disable = getenv("WHYIDLE_DISABLE"), *only = getenv("WHYIDLE_ONLY");

	if (disable && *disable && strcmp(disable, "0"))
		return say(why, "WHYIDLE_DISABLE is set");
	if (only && *only)
		return say(why, "no program of the job that could be recorded is called %.300s (WHYIDLE_ONLY)", only);
	return false;
}

bool session_trouble(const struct session *s, bool nothing_recorded, char why[512])
{
	return (nothing_recorded && asked_not_to(why)) || limits(nothing_recorded, why) || disk_is_full(s, why) || log_tells(s, why);
}
