/* SPDX-License-Identifier: Apache-2.0
 *
 * One failing and, where it is easy, one succeeding call of each wrapped libc function; prints "NAME RESULT ERRNO" for each. Run with and
 * without the shim the output must be the same (tests/e2e/shim_errno_test.sh, which also holds the names against the rows). errno is set to
 * a number of our own before each call, so that one that succeeds must leave it.
 */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#undef fread_unlocked
#undef fwrite_unlocked

extern char **environ;
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t off, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t off, size_t room);
size_t __fread_chk(void *buf, size_t room, size_t size, size_t n, FILE *fp);
size_t __fread_unlocked_chk(void *buf, size_t room, size_t size, size_t n, FILE *fp);
char *__fgets_chk(char *buf, size_t room, int n, FILE *fp);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *a, socklen_t *len);
ssize_t __getdelim(char **line, size_t *room, int delim, FILE *fp);

enum { MARK = 77, BAD = 1234 };

static char lines[65536];
static size_t used;

static void note(const char *name, long result, int err)
{
	used += (size_t)snprintf(lines + used, sizeof(lines) - used, "%s %ld %d\n", name, result, err);
}

/* T: a call whose result is a number; P: one whose result is a pointer. */
#define T(name, call) do { errno = MARK; long r_ = (long)(call); int e_ = errno; note(#name, r_, e_); } while (0)
#define P(name, call) do { errno = MARK; long r_ = (call) != NULL; int e_ = errno; note(#name, r_, e_); } while (0)

static char buf[256];
static struct iovec iov = { buf, 8 };

static void files(void)
{
	struct addrinfo *found;
	int fd = open("f", O_RDWR | O_CREAT, 0600), q[2];
	FILE *fp, *gone;
	char *line = NULL;
	size_t room = 0;

	T(open, open("none", O_RDONLY) < 0);
	T(open, close(open("f", O_RDONLY)));
	T(open64, open64("none", O_RDONLY));
	T(openat, openat(AT_FDCWD, "none", O_RDONLY));
	T(openat64, openat64(AT_FDCWD, "none", O_RDONLY));
	T(__open_2, __open_2("none", O_RDONLY));
	T(__open64_2, __open64_2("none", O_RDONLY));
	T(__openat_2, __openat_2(AT_FDCWD, "none", O_RDONLY));
	T(__openat64_2, __openat64_2(AT_FDCWD, "none", O_RDONLY));
	T(creat, creat("none/none", 0600));
	T(creat64, creat64("none/none", 0600));
	P(fopen, fopen("none", "r"));
	P(fopen64, fopen64("none", "r"));
	T(write, write(fd, "0123456789\nabc\nx\ny\n", 19));
	T(write, write(BAD, buf, 1));
	T(read, read(fd, buf, 1));
	T(read, read(BAD, buf, 1));
	T(__read_chk, __read_chk(BAD, buf, 1, 2));
	T(readv, readv(BAD, &iov, 1));
	T(readv, readv(fd, &iov, 1));
	T(pread, pread(BAD, buf, 1, 0));
	T(pread, pread(fd, buf, 1, 0));
	T(pread64, pread64(BAD, buf, 1, 0));
	T(__pread_chk, __pread_chk(fd, buf, 1, 0, 2));
	T(__pread64_chk, __pread64_chk(BAD, buf, 1, 0, 2));
	T(preadv, preadv(BAD, &iov, 1, 0));
	T(preadv64, preadv64(fd, &iov, 1, 0));
	T(preadv2, preadv2(BAD, &iov, 1, 0, 0));
	T(preadv64v2, preadv64v2(fd, &iov, 1, 0, 0));
	T(writev, writev(BAD, &iov, 1));
	T(pwrite, pwrite(BAD, buf, 1, 0));
	T(pwrite64, pwrite64(fd, "0", 1, 0));
	T(pwritev, pwritev(BAD, &iov, 1, 0));
	T(pwritev64, pwritev64(BAD, &iov, 1, 0));
	T(pwritev2, pwritev2(BAD, &iov, 1, 0, 0));
	T(pwritev64v2, pwritev64v2(BAD, &iov, 1, 0, 0));
	T(sendfile, sendfile(BAD, fd, NULL, 1));
	T(sendfile64, sendfile64(BAD, fd, NULL, 1));
	T(copy_file_range, copy_file_range(fd, NULL, BAD, NULL, 1, 0));
	T(fsync, fsync(BAD));
	T(fsync, fsync(fd));
	T(fdatasync, fdatasync(BAD));
	T(sync_file_range, sync_file_range(BAD, 0, 1, 0));
	T(splice, splice(BAD, NULL, fd, NULL, 1, 0));
	T(flock, flock(BAD, LOCK_EX));
	T(flock, flock(fd, LOCK_SH) || flock(fd, LOCK_UN));
	T(lockf, lockf(BAD, F_LOCK, 0));
	T(lockf64, lockf64(BAD, F_LOCK, 0));
	T(eventfd_read, eventfd_read(BAD, &(eventfd_t){ 0 }));
	T(eventfd_write, eventfd_write(BAD, 1));
	T(freopen, freopen("no-such-folder/file", "r", fopen("/dev/null", "r")) != NULL);
	T(freopen64, freopen64("/dev/null", "r", fopen("/dev/null", "r")) != NULL);
	T(getaddrinfo, getaddrinfo("no number", NULL, &(struct addrinfo){ .ai_flags = AI_NUMERICHOST }, &found));
	T(msync, msync((void *)1, 1, MS_SYNC));
	T(mmap, mmap(NULL, 1, PROT_READ, MAP_PRIVATE, BAD, 0));
	T(mmap, munmap(mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0), 1));
	T(mmap64, mmap64(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0));
	T(dup, dup(BAD));
	T(dup2, dup2(BAD, 5));
	T(dup3, dup3(fd, fd, 0));
	T(fcntl, fcntl(BAD, F_GETFL));
	T(fcntl, fcntl(fd, F_GETFL) & O_ACCMODE);
	T(fcntl64, fcntl64(BAD, F_DUPFD_CLOEXEC, 10));
	T(pipe, pipe(NULL));
	T(pipe2, pipe2(q, 12345678));
	T(close, close(BAD));
	T(close, close(fd));
	T(close_range, close_range(9, 5, 0));
	T(closefrom, (closefrom(700), 0));

	fp = fopen("f", "r+");
	gone = fopen("f", "r");
	close(gone->_fileno);
	T(fread, fread(buf, 1, 1, gone));
	clearerr(gone);
	T(fread, fread(buf, 1, 3, fp));
	T(fread_unlocked, fread_unlocked(buf, 1, 1, gone));
	T(__fread_chk, __fread_chk(buf, sizeof(buf), 1, 1, gone));
	T(__fread_unlocked_chk, __fread_unlocked_chk(buf, sizeof(buf), 1, 1, gone));
	P(fgets, fgets(buf, 5, gone));
	P(fgets, fgets(buf, 50, fp));
	P(__fgets_chk, __fgets_chk(buf, sizeof(buf), 5, gone));
	T(getline, getline(&line, &room, gone));
	T(getdelim, getdelim(&line, &room, 'x', gone));
	T(__getdelim, __getdelim(&line, &room, '\n', fp));
	T(fwrite, fwrite(buf, 1, 1, gone));
	T(fwrite_unlocked, fwrite_unlocked(buf, 1, 1, gone));
	T(fflush, fflush(NULL) <= 0);
	T(fflush, fflush(fp));
	T(fflush_unlocked, fflush_unlocked(fp));
	T(fclose, fclose(gone));
	T(fclose, fclose(fp));
	free(line);
}

static void sockets(void)
{
	int p[2], u[2];
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct mmsghdr many = { .msg_hdr = msg };
	struct sockaddr a = { .sa_family = AF_INET };

	T(socket, socket(AF_INET, 99, 99));
	T(socketpair, socketpair(AF_INET, SOCK_STREAM, 0, p));
	T(socketpair, socketpair(AF_UNIX, SOCK_STREAM, 0, u));
	T(recv, recv(u[0], buf, 1, MSG_DONTWAIT));
	T(recv, recv(u[0], buf, 1, MSG_DONTWAIT));
	T(recv, recv(BAD, buf, 1, 0));
	T(__recv_chk, __recv_chk(u[0], buf, 1, 2, MSG_DONTWAIT));
	T(recvfrom, recvfrom(u[0], buf, 1, MSG_DONTWAIT, NULL, NULL));
	T(__recvfrom_chk, __recvfrom_chk(BAD, buf, 1, 2, 0, NULL, NULL));
	T(recvmsg, recvmsg(u[0], &msg, MSG_DONTWAIT));
	T(recvmmsg, recvmmsg(u[0], &many, 1, MSG_DONTWAIT, NULL));
	T(send, send(u[1], buf, 5, 0));
	T(send, send(BAD, buf, 1, 0));
	T(recv, recv(u[0], buf, 5, MSG_DONTWAIT));
	T(sendto, sendto(BAD, buf, 1, 0, NULL, 0));
	T(sendmsg, sendmsg(BAD, &msg, 0));
	T(sendmmsg, sendmmsg(BAD, &many, 1, 0));
	T(accept, accept(u[0], NULL, NULL));
	T(accept4, accept4(BAD, NULL, NULL, 0));
	T(connect, connect(u[0], &a, sizeof(a)));
	T(connect, connect(BAD, &a, sizeof(a)));
	T(shutdown, shutdown(BAD, SHUT_WR));
	T(shutdown, shutdown(u[0], SHUT_WR));
}

static void waits(void)
{
	struct timespec none = { 0, 1 }, wrong = { 0, -1 };
	struct timeval soon = { 0, 1 };
	struct pollfd p = { .fd = BAD, .events = POLLIN };
	struct epoll_event ev;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	siginfo_t info;
	sem_t sem;

	T(poll, poll(&p, 1, 1));
	T(poll, poll(NULL, 0, 1));
	T(__poll_chk, __poll_chk(&p, 1, 1, sizeof(p)));
	T(ppoll, ppoll(&p, 1, &wrong, NULL));
	T(__ppoll_chk, __ppoll_chk(&p, 1, &none, NULL, sizeof(p)));
	T(select, select(0, NULL, NULL, NULL, &soon));
	T(select, select(-1, NULL, NULL, NULL, &soon));
	T(pselect, pselect(-1, NULL, NULL, NULL, &none, NULL));
	T(epoll_wait, epoll_wait(BAD, &ev, 1, 1));
	T(epoll_pwait, epoll_pwait(BAD, &ev, 1, 1, NULL));
	T(epoll_pwait2, epoll_pwait2(BAD, &ev, 1, &none, NULL));
	sem_init(&sem, 0, 1);
	T(sem_wait, sem_wait(&sem));
	T(sem_timedwait, sem_timedwait(&sem, &none));
	T(sem_timedwait, sem_timedwait(&sem, &wrong));
	T(sem_clockwait, sem_clockwait(&sem, CLOCK_MONOTONIC, &none));
	T(sem_post, sem_post(&sem));
	pthread_mutex_lock(&mutex);
	T(pthread_cond_timedwait, pthread_cond_timedwait(&cond, &mutex, &none));
	T(pthread_cond_clockwait, pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &wrong));
	T(pthread_cond_signal, pthread_cond_signal(&cond));
	T(pthread_cond_broadcast, pthread_cond_broadcast(&cond));
	pthread_mutex_unlock(&mutex);
	T(pthread_join, pthread_join(pthread_self(), NULL));
	T(pthread_timedjoin_np, pthread_timedjoin_np(pthread_self(), NULL, &none));
	T(pthread_clockjoin_np, pthread_clockjoin_np(pthread_self(), NULL, CLOCK_MONOTONIC, &none));
	T(nanosleep, nanosleep(&wrong, NULL));
	T(nanosleep, nanosleep(&none, NULL));
	T(clock_nanosleep, clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong, NULL));
	T(usleep, usleep(1));
	T(sleep, sleep(0));
	T(wait, wait(NULL));
	T(waitpid, waitpid(1, NULL, 0));
	T(waitpid, waitpid(-1, NULL, WNOHANG));
	T(wait3, wait3(NULL, 0, NULL));
	T(wait4, wait4(1, NULL, 0, NULL));
	T(waitid, waitid(P_PID, 1, &info, WEXITED));
}

/* In a child, since these end it: what the parent sees is noted. */
#define CHILD(name, call) do { \
	int status_ = 0; \
	pid_t pid_ = fork(); \
	if (pid_ == 0) { \
		call; \
		_exit(99); \
	} \
	waitpid(pid_, &status_, 0); \
	note(#name, status_, 0); \
} while (0)

static void processes(void)
{
	char *argv[] = { "true", NULL }, *none[] = { NULL };
	pid_t pid;

	CHILD(_exit, _exit(3));
	CHILD(_Exit, _Exit(4));
	CHILD(quick_exit, quick_exit(5));
	CHILD(execve, execve("/bin/true", argv, none));
	CHILD(execv, execv("/bin/false", argv));
	CHILD(execvp, execvp("true", argv));
	CHILD(execvpe, execvpe("false", argv, environ));
	CHILD(execl, execl("/bin/sh", "sh", "-c", "exit $1", "x", "17", (char *)NULL));
	CHILD(execlp, execlp("sh", "sh", "-c", "exit $#", "x", "1", "2", "3", (char *)NULL));
	CHILD(execle, execle("/bin/sh", "sh", "-c", "exit $A", (char *)NULL, (char *[]){ "A=21", NULL }));
	CHILD(fexecve, fexecve(open("/bin/true", O_RDONLY), argv, none));
	CHILD(execveat, execveat(AT_FDCWD, "/bin/true", argv, none, 0));
	T(execve, execve("none", argv, none));
	T(execv, execv("none", argv));
	T(execvp, execvp("no-such-program", argv));
	T(execvpe, execvpe("no-such-program", argv, none));
	T(execl, execl("none", "x", (char *)NULL));
	T(execlp, execlp("no-such-program", "x", (char *)NULL));
	T(execle, execle("none", "x", (char *)NULL, none));
	T(fexecve, fexecve(BAD, argv, none));
	T(execveat, execveat(BAD, "none", argv, none, 0));
	T(posix_spawn, posix_spawn(&pid, "none", NULL, NULL, argv, none));
	T(posix_spawnp, posix_spawnp(&pid, "no-such-program", NULL, NULL, argv, none));
	T(system, system("exit 7"));
	P(popen, popen("x", "wrong"));
	T(pclose, pclose(popen("exit 6", "r")));
	T(unshare, unshare(0));
	T(unshare, unshare(1));
	T(setns, setns(BAD, 0));
	T(fork, waitpid(fork() ?: (_exit(1), 0), NULL, 0) > 0);
	errno = MARK;
	pid = vfork();
	if (pid == 0)
		_exit(2);
	note("vfork", pid > 0, errno);
	waitpid(pid, NULL, 0);
	/* With no process left to be had every way fails. */
	if (setrlimit(RLIMIT_NPROC, &(struct rlimit){ 0, 0 }) == 0 && setuid(65534) == 0) {
		T(fork, fork());
		errno = MARK;
		pid = vfork();
		if (pid == 0)
			_exit(2);
		note("vfork", pid, errno);
	}
}

/* A cancellation point that never returns by itself: its own process. */
static void forever(void)
{
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	CHILD(pthread_cond_wait, (alarm(1), pthread_mutex_lock(&mutex), pthread_cond_wait(&cond, &mutex)));
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	files();
	sockets();
	waits();
	forever();
	processes();
	fputs(lines, stdout);
	return 0;
}
