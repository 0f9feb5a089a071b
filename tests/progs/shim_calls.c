/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes calls of every family and prints what the trace must hold of each, one line per slice in order:
 *	NAME|TARGET|BYTES|ERRNO		(TARGET "" = none is looked at; a trailing * matches any rest; BYTES -1 and ERRNO 0 = none)
 * Run with a threshold of 0, so that every call is written. tests/e2e/shim_record.py compares.
 */
#undef _FORTIFY_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t off, size_t room);
size_t __fread_chk(void *buf, size_t room, size_t size, size_t n, FILE *fp);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);

static char lines[65536];
static size_t used;

/* Collected and written at the end: printing makes calls too. */
static void expect(const char *name, const char *target, long bytes, int err)
{
	used += (size_t)snprintf(lines + used, sizeof(lines) - used, "%s|%s|%ld|%d\n", name, target, bytes, err);
}

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(99);
	}
}

static char buf[4096], path[4096];

static void locks(const char *data)
{
	int fd = open("data", O_RDWR);

	must(fd >= 0, "locks");
	expect("open", data, -1, 0);
	must(flock(fd, LOCK_EX) == 0 && flock(fd, LOCK_UN) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0, "flock");
	expect("flock", data, -1, 0);
	must(lockf(fd, F_LOCK, 0) == 0 && lockf(fd, F_ULOCK, 0) == 0, "lockf");
	expect("flock", data, -1, 0);
	must(close(fd) == 0, "close");
	expect("close", data, -1, 0);
}

static void events(const char *second)
{
	struct addrinfo *found;
	eventfd_t value;
	int e = eventfd(0, 0), p[2], out = open("second", O_WRONLY);

	must(e >= 0 && out >= 0, "eventfd");
	expect("open", second, -1, 0);
	must(eventfd_write(e, 3) == 0 && eventfd_read(e, &value) == 0 && value == 3 && close(e) == 0, "eventfd");
	expect("write", "fd:*", -1, 0);
	expect("read", "fd:*", -1, 0);
	expect("close", "fd:*", -1, 0);
	must(pipe(p) == 0 && write(p[1], "12345", 5) == 5, "pipe");
	expect("write", "pipe:*", 5, 0);
	must(splice(p[0], NULL, out, NULL, 5, 0) == 5, "splice");
	expect("sendfile", second, 5, 0);
	must(close(out) == 0 && close(p[0]) == 0 && close(p[1]) == 0, "close");
	expect("close", second, -1, 0);
	expect("close", "", -1, 0);
	expect("close", "pipe:*", -1, 0);
	must(getaddrinfo("127.0.0.1", "80", NULL, &found) == 0, "getaddrinfo");
	freeaddrinfo(found);
	expect("getaddrinfo", "host:127.0.0.1", -1, 0);
}

/* A stream that goes on with another file keeps the descriptor's number, not its target. */
static void reopened(void)
{
	FILE *fp = fopen("data", "r");
	char second[4200];

	must(fp != NULL, "fopen");
	expect("fopen", path, -1, 0);
	snprintf(second, sizeof(second), "%.*s/second", (int)(strrchr(path, '/') - path), path);
	fp = freopen("second", "w+", fp);
	must(fp && fwrite("x", 1, 1, fp) == 1, "freopen");
	expect("fopen", second, -1, 0);
	expect("fwrite", second, 1, 0);
	must(fclose(fp) == 0, "fclose");
	expect("fclose", second, -1, 0);
	events(second);
}

static void files(void)
{
	struct iovec iov[2] = { { buf, 10 }, { buf + 10, 20 } };
	char *map, *line = NULL;
	size_t room = 0;
	FILE *fp;
	int fd, out;

	must(getcwd(path, sizeof(path) - 32) != NULL, "getcwd");
	strcat(path, "/data");
	fd = creat("data", 0600);
	expect("creat", path, -1, 0);
	must(write(fd, buf, 1000) == 1000, "write");
	expect("write", path, 1000, 0);
	must(writev(fd, iov, 2) == 30 && pwrite(fd, buf, 5, 100) == 5 && pwrite64(fd, buf, 6, 100) == 6 && pwritev(fd, iov, 2, 0) == 30, "pw");
	expect("writev", path, 30, 0);
	expect("pwrite", path, 5, 0);
	expect("pwrite64", path, 6, 0);
	expect("pwritev", path, 30, 0);
	must(fsync(fd) == 0 && fdatasync(fd) == 0 && close(fd) == 0, "sync");
	expect("fsync", path, -1, 0);
	expect("fdatasync", path, -1, 0);
	expect("close", path, -1, 0);

	fd = open("data", O_RDONLY);
	expect("open", path, -1, 0);
	must(read(fd, buf, 100) == 100 && readv(fd, iov, 2) == 30 && pread(fd, buf, 7, 0) == 7 && pread64(fd, buf, 8, 0) == 8 &&
	     preadv(fd, iov, 2, 0) == 30, "reads");
	expect("read", path, 100, 0);
	expect("readv", path, 30, 0);
	expect("pread", path, 7, 0);
	expect("pread64", path, 8, 0);
	expect("preadv", path, 30, 0);
	must(__read_chk(fd, buf, 9, sizeof(buf)) == 9 && __pread64_chk(fd, buf, 11, 0, sizeof(buf)) == 11, "chk");
	expect("read", path, 9, 0);
	expect("pread64", path, 11, 0);
	map = mmap(NULL, 1000, PROT_READ, MAP_PRIVATE, fd, 0);
	must(map != MAP_FAILED && munmap(map, 1000) == 0, "mmap");
	expect("mmap", path, 1000, 0);
	out = open64("data", O_WRONLY | O_APPEND);
	expect("open64", path, -1, 0);
	must(sendfile(out, fd, &(off_t){ 0 }, 12) < 0 || 1, "sendfile");	/* onto an append-only file: refused */
	expect("sendfile", path, -1, EINVAL);
	must(close(out) == 0 && close(fd) == 0, "close");
	expect("close", path, -1, 0);
	expect("close", path, -1, 0);

	locks(path);
	reopened();
	fd = __open_2("data", O_RDONLY);
	out = __open64_2("data", O_RDONLY);
	must(fd >= 0 && out >= 0 && close(fd) == 0 && close(out) == 0, "open_2");
	expect("open", path, -1, 0);
	expect("open64", path, -1, 0);
	expect("close", path, -1, 0);
	expect("close", path, -1, 0);
	must(openat(AT_FDCWD, "no-such", O_RDONLY) < 0, "openat");
	strcpy(strrchr(path, '/'), "/no-such");
	expect("openat", path, -1, ENOENT);
	strcpy(strrchr(path, '/'), "/data");
	must(read(-1, buf, 1) < 0 && pread(12345, buf, 1, 0) < 0, "bad");
	expect("pread", "", -1, EBADF);

	fp = fopen("data", "r+");
	expect("fopen", path, -1, 0);
	must(fread(buf, 10, 5, fp) == 5 && __fread_chk(buf, sizeof(buf), 1, 3, fp) == 3, "fread");
	expect("fread", path, 50, 0);
	expect("fread", path, 3, 0);
	rewind(fp);
	must(fwrite("line\n", 1, 5, fp) == 5 && fflush(fp) == 0, "fwrite");
	expect("fwrite", path, 5, 0);
	expect("fflush", path, -1, 0);
	rewind(fp);
	must(fgets(buf, sizeof(buf), fp) && getline(&line, &room, fp) >= 0, "fgets");
	expect("fgets", path, 5, 0);
	expect("getline", path, 1030 - 5, 0);
	free(line);
	must(fclose(fp) == 0, "fclose");
	expect("fclose", path, -1, 0);
	/* None of these leaves a word: devices, /proc, sources. */
	fd = open("/dev/null", O_RDWR);
	expect("open", "dev:/dev/null", -1, 0);
	must(write(fd, buf, 10) == 10 && read(fd, buf, 10) == 0 && close(fd) == 0, "null");
	fd = creat("module.py", 0600);
	must(write(fd, buf, 100) == 100 && close(fd) == 0, "module");
}

static void pipes(void)
{
	char name[64];
	struct pollfd p = { .events = POLLIN };
	struct stat st;
	int fds[2], none[2];

	must(pipe(fds) == 0 && fstat(fds[0], &st) == 0, "pipe");
	snprintf(name, sizeof(name), "pipe:[%lu]", (unsigned long)st.st_ino);
	must(write(fds[1], buf, 300) == 300 && read(fds[0], buf, 200) == 200, "pipe io");
	expect("write", name, 300, 0);
	expect("read", name, 200, 0);
	p.fd = fds[0];
	must(poll(&p, 1, 1000) == 1 && poll(&p, 1, 0) == 1 && __poll_chk(&p, 1, 1000, sizeof(p)) == 1, "poll");
	expect("poll", name, -1, 0);
	expect("poll", name, -1, 0);
	must(pipe2(none, O_NONBLOCK) == 0 && read(none[0], buf, 1) < 0 && errno == EAGAIN, "nonblock");
	must(close(fds[0]) == 0, "close");
	expect("close", name, -1, 0);
	must(close(fds[1]) == 0, "close");
	expect("close", name, -1, 0);
}

static void sockets(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, b;
	struct { uint64_t magic; uint32_t type; } hello = { 0x564ab9f2fc4b9d6cu, 3 };
	socklen_t len = sizeof(a);
	char client[80], server[80], listening[80];
	struct msghdr msg = { 0 };
	struct iovec iov = { buf, 100 };
	struct epoll_event ev = { .events = EPOLLIN };
	fd_set set;
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), s, pair[2], e;

	must(bind(l, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(l, 5) == 0 && getsockname(l, (struct sockaddr *)&a, &len) == 0, "listen");
	must(connect(c, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
	len = sizeof(b);
	must(getsockname(c, (struct sockaddr *)&b, &len) == 0, "name");
	snprintf(client, sizeof(client), "tcp:127.0.0.1:%d->127.0.0.1:%d", ntohs(b.sin_port), ntohs(a.sin_port));
	snprintf(server, sizeof(server), "tcp:127.0.0.1:%d->127.0.0.1:%d", ntohs(a.sin_port), ntohs(b.sin_port));
	snprintf(listening, sizeof(listening), "tcp:127.0.0.1:%d", ntohs(a.sin_port));
	expect("connect", client, -1, 0);
	s = accept(l, NULL, NULL);
	must(s >= 0, "accept");
	expect("accept", listening, -1, 0);
	must(send(c, &hello.magic, 8, 0) == 8 && send(c, &hello.type, 4, 0) == 4, "hello");
	expect("send", client, 8, 0);
	expect("send", client, 4, 0);
	must(recv(s, buf, 12, MSG_WAITALL) == 12, "recv");
	expect("recv", server, 12, 0);
	must(recv(s, buf, 100, MSG_DONTWAIT) < 0 && errno == EAGAIN, "eagain");
	must(sendto(s, buf, 100, 0, NULL, 0) == 100 && recvfrom(c, buf, 50, 0, NULL, NULL) == 50, "sendto");
	expect("sendto", server, 100, 0);
	expect("recvfrom", client, 50, 0);
	msg.msg_iov = &iov;
	msg.msg_iovlen = 1;
	iov.iov_len = 50;
	must(recvmsg(c, &msg, 0) == 50 && sendmsg(c, &msg, 0) == 50 && __recv_chk(s, buf, 50, sizeof(buf), 0) == 50, "msg");
	expect("recvmsg", client, 50, 0);
	expect("sendmsg", client, 50, 0);
	expect("recv", server, 50, 0);
	must(write(c, buf, 20) == 20, "write");
	expect("write", client, 20, 0);
	FD_ZERO(&set);
	FD_SET(s, &set);
	must(select(s + 1, &set, NULL, NULL, NULL) == 1, "select");
	expect("select", server, -1, 0);
	e = epoll_create1(0);
	must(epoll_ctl(e, EPOLL_CTL_ADD, s, &ev) == 0 && epoll_wait(e, &ev, 1, 1000) == 1, "epoll");
	expect("epoll_wait", "fd:eventpoll", -1, 0);
	must(close(e) == 0, "close");
	expect("close", "", -1, 0);
	must(read(s, buf, 20) == 20, "read");
	expect("read", server, 20, 0);
	must(shutdown(c, SHUT_WR) == 0 && recv(s, buf, 1, 0) == 0, "shutdown");
	expect("shutdown", client, -1, 0);
	expect("recv", server, 0, 0);
	must(close(s) == 0 && close(c) == 0 && close(l) == 0, "close");
	expect("close", server, -1, 0);
	expect("close", client, -1, 0);
	expect("close", listening, -1, 0);
	/* Refused. */
	c = socket(AF_INET, SOCK_STREAM, 0);
	must(connect(c, (struct sockaddr *)&a, sizeof(a)) < 0 && errno == ECONNREFUSED, "refused");
	expect("connect", "tcp:0.0.0.0:*", -1, ECONNREFUSED);
	close(c);
	expect("close", "", -1, 0);
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && send(pair[0], buf, 9, 0) == 9 && recv(pair[1], buf, 9, 0) == 9, "unix");
	expect("send", "unix:[*", 9, 0);
	expect("recv", "unix:[*", 9, 0);
}

static void *thread(void *sem)
{
	struct timespec t = { 0, 30000000 };

	nanosleep(&t, NULL);
	sem_post(sem);
	return NULL;
}

static void waits(void)
{
	struct timespec t = { 0, 2000000 }, until;
	sem_t sem;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t other;
	char name[64];
	pid_t pid;
	int status;

	nanosleep(&t, NULL);
	expect("nanosleep", "", -1, 0);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	expect("clock_nanosleep", "", -1, 0);
	usleep(1000);
	expect("usleep", "", -1, 0);
	sem_init(&sem, 0, 1);
	snprintf(name, sizeof(name), "sem:0x%lx", (unsigned long)&sem);
	sem_wait(&sem);
	expect("sem_wait", name, -1, 0);
	clock_gettime(CLOCK_REALTIME, &until);
	sem_timedwait(&sem, &until);
	expect("sem_timedwait", name, -1, ETIMEDOUT);
	snprintf(name, sizeof(name), "cond:0x%lx", (unsigned long)&cond);
	pthread_mutex_lock(&mutex);
	pthread_cond_timedwait(&cond, &mutex, &until);
	pthread_mutex_unlock(&mutex);
	expect("pthread_cond_timedwait", name, -1, ETIMEDOUT);
	pthread_create(&other, NULL, thread, &sem);
	snprintf(name, sizeof(name), "sem:0x%lx", (unsigned long)&sem);
	sem_wait(&sem);
	expect("sem_wait", name, -1, 0);
	pthread_join(other, NULL);
	expect("pthread_join", "", -1, 0);	/* the number of a thread that is gone already cannot be had */
	pid = fork();
	if (pid == 0)
		_exit(3);
	snprintf(name, sizeof(name), "pid:%d", pid);
	expect("fork", name, -1, 0);
	waitpid(pid, &status, 0);
	expect("waitpid", name, -1, 0);
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";

	if (strcmp(part, "files") == 0)
		files();
	else if (strcmp(part, "pipes") == 0)
		pipes();
	else if (strcmp(part, "sockets") == 0)
		sockets();
	else if (strcmp(part, "waits") == 0)
		waits();
	else
		return 2;
	fputs(lines, stdout);
	return 0;
}
