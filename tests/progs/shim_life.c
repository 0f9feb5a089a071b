/* SPDX-License-Identifier: Apache-2.0
 *
 * The unpleasant things a traced process may do, one per mode. Each prints what the trace must hold or what went wrong, and the test
 * (tests/e2e/shim_life_test.sh) compares. "pread" calls on a known file are the marks that are looked for: one of them is made by each
 * process that must leave a trace.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void fail(const char *what)
{
	fprintf(stderr, "failed: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

/* Always recorded: a pipe is written and read. */
static void mark(void)
{
	int p[2];
	char c = 0;

	if (pipe(p) || write(p[1], "x", 1) != 1 || read(p[0], &c, 1) != 1)
		fail("mark");
	close(p[0]);
	close(p[1]);
}

static int wait_for(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid");
	return status;
}


static volatile int going = 1;

static void *busy(void *none)
{
	while (going)
		mark();
	return none;
}

static void *brief(void *none)
{
	mark();
	return none;
}

/* Forks while another thread is in the middle of recorded calls; each child makes a mark and ends by _exit. */
static int fork_busy(void)
{
	pthread_t t[2];
	int i;

	for (i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, busy, NULL);
	for (i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			mark();
			_exit(7);
		}
		if (wait_for(pid) != 7 << 8)
			fail("child");
	}
	going = 0;
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("children 20\n");
	return 0;
}

/* Threads that come and go faster than the drain looks. */
static int threads(void)
{
	int i;

	for (i = 0; i < 3000; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, brief, NULL) || pthread_join(t, NULL))
			fail("thread");
	}
	printf("marks %d\n", i);
	return 0;
}

/* One mark each 5 ms for ever; the test kills it. */
static __attribute__((noreturn)) int endless(void)
{
	for (;;) {
		struct timespec now;

		mark();
		clock_gettime(CLOCK_MONOTONIC, &now);
		printf("%lld%09ld\n", (long long)now.tv_sec, now.tv_nsec);
		fflush(stdout);
		sleep_ms(5);
	}
}

/* Blocked in a call when it is killed. */
static int hang(void)
{
	int p[2];
	char c;

	mark();
	if (pipe(p))
		fail("pipe");
	printf("pid %d\n", getpid());
	fflush(stdout);
	return (int)read(p[0], &c, 1);
}

/* The process's first recorded call is a connect that nobody answers: the listener's queue is full. */
static int hang_connect(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), i;

	if (bind(l, (struct sockaddr *)&a, sizeof(a)) || listen(l, 0) || getsockname(l, (struct sockaddr *)&a, &len))
		fail("listen");
	printf("port %d\n", ntohs(a.sin_port));
	fflush(stdout);
	for (i = 0; i < 8; i++)
		connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof(a));
	return 1;
}

static int vfork_exec(void)
{
	int i;

	mark();
	for (i = 0; i < 50; i++) {
		pid_t pid = vfork();

		if (pid == 0) {
			close(200);
			dup2(1, 200);
			if (i % 5 == 0)
				_exit(3);
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		if (pid < 0 || wait_for(pid) != (i % 5 ? 0 : 3 << 8))
			fail("vfork child");
	}
	mark();
	/* Exec that fails and goes on. */
	if (execl("/no/such/program", "x", (char *)NULL) != -1 || errno != ENOENT)
		fail("exec should have failed");
	mark();
	printf("marks 3\n");
	return 0;
}

static int spawn(void)
{
	char *argv[] = { "sh", "-c", "exit 5", NULL };
	pid_t pid;

	if (posix_spawnp(&pid, "sh", NULL, NULL, argv, environ) || wait_for(pid) != 5 << 8)
		fail("spawn");
	if (system("exit 4") != 4 << 8)
		fail("system");
	return 0;
}

static int exec_again(void)
{
	mark();
	execl("/proc/self/exe", "shim_life", "mark", (char *)NULL);
	fail("exec");
	return 1;
}

/* Closes everything, as daemons do, in three ways; what comes after must be in the trace all the same. */
static int close_all(void)
{
	int fd, low;

	mark();
	sleep_ms(120);
	for (fd = 3; fd < 2000; fd++)
		close(fd);
	mark();
	sleep_ms(120);
	syscall(SYS_close_range, 3, ~0u, 0);
	mark();
	sleep_ms(120);
	close_range(3, ~0u, 0);
	low = open("/dev/null", O_RDONLY);
	if (low != 3)
		fail("the lowest descriptor is taken");
	mark();
	/* Our numbers given to somebody else: nothing of ours may end in there. */
	syscall(SYS_close_range, 3, ~0u, 0);
	for (fd = 880; fd < 1020; fd++) {
		int f = open("victim", O_RDWR | O_CREAT | O_APPEND, 0600);

		if (f < 0 || dup2(f, fd) != fd)
			fail("victim");
		if (f != fd)
			close(f);
	}
	mark();
	sleep_ms(200);
	if (lseek(900, 0, SEEK_END) != 0)
		fail("something was written into the host's file");
	printf("marks 5\n");
	return 0;
}

/* Which descriptors below 900 are there? None but the three and the directory's own. */
static int fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	mark();
	sleep_ms(150);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d) && atoi(e->d_name) < 800)
			printf("fd %s\n", e->d_name);
	return 0;
}

/* Writes beyond RLIMIT_FSIZE: the signal must reach nobody, the host's own writes must go on. */
static int small_files(void)
{
	struct rlimit limit = { 16384, 16384 };
	int i;

	setrlimit(RLIMIT_FSIZE, &limit);
	for (i = 0; i < 3000; i++)
		mark();
	sleep_ms(150);
	for (i = 0; i < 3000; i++)
		mark();
	printf("alive\n");
	return 0;
}

static int many(void)
{
	int i;

	for (i = 0; i < 4000; i++)
		mark();
	printf("alive\n");
	return 0;
}

/* A ring of 64 places (WHYIDLE_RING_KB=4) and a burst without pause. */
static int burst(void)
{
	int p[2], i;
	char c;

	if (pipe(p))
		fail("pipe");
	for (i = 0; i < 5000; i++)
		if (write(p[1], "x", 1) != 1 || read(p[0], &c, 1) != 1)
			fail("burst");
	printf("calls 10000\n");
	return 0;
}

/* More short pipe calls than are written one by one. */
static int flood(void)
{
	int p[2], i;
	char c;

	if (pipe(p))
		fail("pipe");
	for (i = 0; i < 60000; i++)
		if (write(p[1], "x", 1) != 1 || read(p[0], &c, 1) != 1)
			fail("flood");
	return 0;
}

static int pair[2];

static void *late(void *none)
{
	sleep_ms(40);
	send(pair[1], "x", 1, 0);
	return none;
}

/* Asks without blocking until there is an answer, as NCCL does. */
static int spin(void)
{
	long tries = 0;
	pthread_t t;
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pthread_create(&t, NULL, late, NULL))
		fail("spin");
	while (recv(pair[0], &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
		tries++;
	pthread_join(t, NULL);
	printf("tries %ld\n", tries);
	return 0;
}

static sem_t sem;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn;

static void *waiter(void *none)
{
	int i;

	for (i = 0; i < 50; i++)
		sem_wait(&sem);
	pthread_mutex_lock(&mutex);
	for (i = 0; i < 50; i++) {
		while (turn <= i)
			pthread_cond_wait(&cond, &mutex);
	}
	pthread_mutex_unlock(&mutex);
	return none;
}

/* A thread waits, another lets it go; and posts and signals that nobody waits for. */
static int handoff(void)
{
	pthread_cond_t lonely = PTHREAD_COND_INITIALIZER;
	pthread_t t;
	sem_t own;
	int i;

	mark();
	sem_init(&own, 0, 0);
	sem_init(&sem, 0, 0);
	for (i = 0; i < 100; i++) {
		sem_post(&own);
		pthread_cond_signal(&lonely);
	}
	sleep_ms(300);
	pthread_create(&t, NULL, waiter, NULL);
	for (i = 0; i < 50; i++) {
		sleep_ms(3);
		sem_post(&sem);
	}
	for (i = 0; i < 50; i++) {
		sleep_ms(3);
		pthread_mutex_lock(&mutex);
		turn++;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
	}
	pthread_join(t, NULL);
	return 0;
}

static sigjmp_buf out;

static void jump(int sig)
{
	siglongjmp(out, sig);
}

/* Leaves a blocking call by longjmp, again and again; the thread must go on being recorded, and nothing stays open. */
static int jumps(void)
{
	struct sigaction sa = { .sa_handler = jump };
	int p[2], i;
	char c;

	if (pipe(p))
		fail("pipe");
	sigaction(SIGALRM, &sa, NULL);
	for (i = 0; i < 30; i++) {
		if (sigsetjmp(out, 1) == 0) {
			struct itimerval soon = { .it_value = { 0, i % 2 ? 3000 : 70000 } };

			setitimer(ITIMER_REAL, &soon, NULL);
			if (read(p[0], &c, 1) >= 0)
				fail("read should not return");
		}
		mark();
	}
	printf("marks 30\n");
	return 0;
}

static void *cancelled(void *fd)
{
	char c;

	if (read(*(int *)fd, &c, 1) >= 0)
		fail("read should not return");
	return NULL;
}

static int cancel(void)
{
	int p[2], i;
	void *how;

	if (pipe(p))
		fail("pipe");
	for (i = 0; i < 10; i++) {
		pthread_t t;

		pthread_create(&t, NULL, cancelled, &p[0]);
		sleep_ms(i % 2 ? 2 : 80);
		pthread_cancel(t);
		if (pthread_join(t, &how) || how != PTHREAD_CANCELED)
			fail("cancel");
		mark();
	}
	printf("marks 10\n");
	return 0;
}

static int handled;

static void handler(int sig)
{
	int saved = errno;

	(void)sig;
	mark();
	handled++;
	errno = saved;
}

/* A handler that makes recorded calls interrupts recorded calls. */
static int signals(void)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct itimerval tick = { { 0, 500 }, { 0, 500 } }, off = { 0 };
	int i;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &tick, NULL);
	for (i = 0; i < 2000; i++)
		mark();
	setitimer(ITIMER_REAL, &off, NULL);
	printf("marks %d\n", i + handled);
	return 0;
}

/* A fork that no handler sees: the child must neither hang nor write into its parent's file. */
static int bare_fork(void)
{
	long pid;

	mark();
	sleep_ms(120);
	pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		mark();
		mark();
		_exit(9);
	}
	if (wait_for((pid_t)pid) != 9 << 8)
		fail("bare child");
	mark();
	printf("marks 2\n");
	return 0;
}

static int thread_count(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* After a fork the parent has one thread for a while (what CPython looks at), and unshare sees a process with one thread. */
static int alone(void)
{
	pid_t pid;

	mark();
	sleep_ms(100);
	pid = fork();
	if (pid == 0)
		_exit(0);
	if (thread_count() != 1)
		fail("not alone after fork");
	wait_for(pid);
	mark();
	return 0;
}

static int self_kill(int sig)
{
	mark();
	sleep_ms(120);
	raise(sig);
	return 1;
}

static int one_mark(void)
{
	mark();
	return 0;
}

static __attribute__((noreturn)) int quick(void)
{
	mark();
	quick_exit(6);
}

/* The constructor of this program runs when? After the shim's; a call of every family before main must do no harm. */
static __attribute__((constructor(101))) void early(void)
{
	char c;
	int fd = open("/dev/null", O_RDONLY);

	if (read(fd, &c, 1) != 0 || close(fd))
		abort();
}

int main(int argc, char **argv)
{
	static const struct { const char *name; int (*run)(void); } modes[] = {
		{ "fork-busy", fork_busy }, { "threads", threads }, { "endless", endless }, { "hang", hang }, { "hang-connect", hang_connect }, { "vfork", vfork_exec },
		{ "spawn", spawn }, { "exec", exec_again }, { "close-all", close_all }, { "fds", fds }, { "small-files", small_files },
		{ "many", many }, { "burst", burst }, { "flood", flood }, { "spin", spin }, { "handoff", handoff }, { "jumps", jumps }, { "cancel", cancel }, { "signals", signals },
		{ "bare-fork", bare_fork }, { "alone", alone }, { "mark", one_mark }, { "quick", quick },
	};
	unsigned i;

	if (argc > 1 && strcmp(argv[1], "abort") == 0)
		return self_kill(SIGABRT);
	if (argc > 1 && strcmp(argv[1], "segv") == 0)
		return self_kill(SIGSEGV);
	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, argv[1]) == 0)
			return modes[i].run();
	return 2;
}
