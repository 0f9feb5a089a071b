// SPDX-License-Identifier: Apache-2.0

#include "examples/train/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

int64_t now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

void sleep_ns(int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	if (ns <= 0)
		return;
	while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, &ts) < 0 && errno == EINTR)
		;
}

uint32_t burn_ns(int64_t cpu_ns, const uint8_t *bytes, size_t n)
{
	int64_t end = read_clock(CLOCK_THREAD_CPUTIME_ID) + cpu_ns;
	uint32_t hash = 2166136261u;
	size_t at = 0;

	while (cpu_ns > 0 && read_clock(CLOCK_THREAD_CPUTIME_ID) < end)
		for (int i = 0; i < 4096; i++) {
			hash = (hash ^ bytes[at]) * 16777619u;
			at = at + 1 < n ? at + 1 : 0;
		}
	return hash;
}

void die(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("train: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void check(int result, const char *call)
{
	if (result)
		die("%s failed with %d", call, result);
}

int read_all(int fd, void *buf, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = read(fd, (char *)buf + done, n - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got == 0 && !done ? 0 : -1;
		done += (size_t)got;
	}
	return 1;
}

int write_all(int fd, const void *buf, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t put = write(fd, (const char *)buf + done, n - done);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -1;
		done += (size_t)put;
	}
	return 1;
}

char *text(const char *format, ...)
{
	va_list args;
	char *out;

	va_start(args, format);
	if (vasprintf(&out, format, args) < 0)
		die("out of memory");
	va_end(args);
	return out;
}
