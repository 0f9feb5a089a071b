/* SPDX-License-Identifier: Apache-2.0
 *
 * What one call costs, in ns: run once bare and once under the shim, the difference is the shim's. Each figure is the minimum over ROUNDS of the
 * mean over CALLS calls, so that the machine's noise falls away on both sides alike. Prints "name ns" lines.
 *
 * An idle thread is started first: libc takes a shorter way through cancellable calls in a program of one thread, which the shim's own thread would
 * end; a training job is never such a program.
 *
 *	calls [FILE]	FILE is a regular file of at least 4096 bytes
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 30, CALLS = 2000 };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Lets the shim's drain empty the ring between rounds: a full ring would make calls cheaper, not dearer. */
static void rest(void)
{
	usleep(60000);
}

static char buffer[4096];
static int file_fd, zero_fd, socket_fd;

static void two_clock_reads(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	clock_gettime(CLOCK_MONOTONIC, &t);
}

static void pread_file(void)
{
	if (pread(file_fd, buffer, 1, 0) != 1)
		abort();
}

static void read_device(void)
{
	if (read(zero_fd, buffer, 1) != 1)
		abort();
}

static void recv_again(void)
{
	if (recv(socket_fd, buffer, 1, MSG_DONTWAIT) != -1 || errno != EAGAIN)
		abort();
}

static void measure(const char *name, void (*call)(void))
{
	double best = 1e18;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = now_ns();

		for (int i = 0; i < CALLS; i++)
			call();
		double each = (double)(now_ns() - start) / CALLS;

		best = each < best ? each : best;
		rest();
	}
	printf("%s %.1f\n", name, best);
}

static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int pair[2];

	if (pthread_create(&thread, NULL, idle, NULL) != 0)
		return 99;

	file_fd = open(argc > 1 ? argv[1] : argv[0], O_RDONLY);
	zero_fd = open("/dev/zero", O_RDONLY);
	if (file_fd < 0 || zero_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
		perror("calls");
		return 99;
	}
	socket_fd = pair[0];
	measure("two_clock_reads", two_clock_reads);
	measure("pread", pread_file);
	measure("read_device", read_device);
	measure("recv_eagain", recv_again);
	return 0;
}
