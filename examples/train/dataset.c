// SPDX-License-Identifier: Apache-2.0

#include "examples/train/dataset.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/train/plan.h"
#include "examples/train/util.h"

#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47
#endif

static size_t sample_bytes(const struct plan *p)
{
	return p->batch_bytes / p->samples;
}

/* About 8 MB of files, so that they are quickly made and stay in the page cache. */
static uint64_t files(const struct plan *p)
{
	size_t n = (8u << 20) / sample_bytes(p);

	return n < 16 ? 16 : n > 64 ? 64 : n;
}

static void fill(uint64_t *state, uint8_t *buf, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		*state ^= *state << 13;
		*state ^= *state >> 7;
		*state ^= *state << 17;
		buf[i] = (uint8_t)(*state >> 32);
	}
}

void dataset_make(const struct plan *p)
{
	uint64_t state = 0x9e3779b97f4a7c15ull ^ (p->seed + 1ull) * 0xbf58476d1ce4e5b9ull;
	uint8_t *buf = malloc(sample_bytes(p));
	char *folder = text("%s/samples", p->dir);

	if (!buf || (mkdir(folder, 0700) && errno != EEXIST))
		die("cannot make %s: %s", folder, strerror(errno));
	for (uint64_t i = 0; i < files(p); i++) {
		char *path = text("%s/%06llu.bin", folder, (unsigned long long)i);
		char *part = text("%s.%d", path, (int)getpid());	/* ranks that share the folder write the same */
		int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		fill(&state, buf, sample_bytes(p));
		if (fd < 0 || write_all(fd, buf, sample_bytes(p)) < 0 || rename(part, path))
			die("cannot write %s: %s", path, strerror(errno));
		close(fd);
		free(path);
		free(part);
	}
	free(folder);
	free(buf);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path) && errno != ENOENT;
}

void dataset_remove(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct request {
	uint64_t index;
};

void dataset_read(const struct plan *p, int fd, uint64_t index, uint8_t *buf)
{
	size_t want = sample_bytes(p), got = 0;

	if (fd >= 0) {
		struct request request = { index };

		if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
			die("the data server is gone");
		while (got < want) {
			ssize_t n = recv(fd, buf + got, want - got, 0);

			if (n <= 0 && errno != EINTR)
				die("the data server is gone");
			got += n > 0 ? (size_t)n : 0;
		}
	} else {
		char *path = text("%s/samples/%06llu.bin", p->dir, (unsigned long long)(index % files(p)));

		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || pread(fd, buf, want, 0) != (ssize_t)want)
			die("cannot read %s: %s", path, strerror(errno));
		close(fd);
		free(path);
	}
}

/* One connection: a process, so that all are paced on their own. The kernel spaces the packets; nothing sleeps here. */
static void serve_one(const struct plan *p, int fd)
{
	unsigned int rate = (unsigned int)p->remote_rate;
	size_t n = sample_bytes(p);
	uint8_t *buf = malloc(n);
	struct request request;

	if (!buf)
		return;
	if (rate)
		setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	while (recv(fd, &request, sizeof(request), MSG_WAITALL) == sizeof(request)) {
		dataset_read(p, -1, request.index, buf);
		for (size_t sent = 0; sent < n;) {
			ssize_t put = send(fd, buf + sent, n - sent, MSG_NOSIGNAL);

			if (put < 0)
				return;
			sent += (size_t)put;
		}
	}
}

static _Noreturn void serve(const struct plan *p, int listener)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_SET_NAME, "data_server");
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int one = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGTERM);
			serve_one(p, fd);
			_exit(0);
		}
		close(fd);
	}
}

pid_t dataset_serve(const struct plan *p, int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid;

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 64) || getsockname(fd, (struct sockaddr *)&at, &len))
		die("cannot listen on loopback: %s", strerror(errno));
	*port = ntohs(at.sin_port);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("cannot fork: %s", strerror(errno));
	if (pid == 0)
		serve(p, fd);
	close(fd);
	return pid;
}

int dataset_connect(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("cannot connect to the data server: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}
