/* SPDX-License-Identifier: Apache-2.0
 *
 * Session directory, recorder library and environment of a recorded run. Nothing here may keep the job from running: failures are
 * sentences for the caller.
 */
#include "analyzer/run_session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/mem.h"

extern char **environ;

#define say(to, ...) snprintf(to, 512, __VA_ARGS__)

/* ---- the directory */

static bool is_trace(const char *name)
{
	size_t len = strlen(name);

	return len > 8 && !strcmp(name + len - 8, ".pftrace");
}

static bool older(const struct stat *st, const struct timespec *t)
{
	if (st->st_mtim.tv_sec != t->tv_sec)
		return st->st_mtim.tv_sec < t->tv_sec;
	return st->st_mtim.tv_nsec < t->tv_nsec;
}

/* HOST.PID.N.pftrace of a process of this host that still runs: another `whyidle run` beside us shares the directory (srun starts several). */
static bool still_written(const char *name)
{
	char host[65] = "";
	size_t len;

	gethostname(host, sizeof(host) - 1);
	len = strlen(host);
	return !strncmp(name, host, len) && name[len] == '.' && !kill((pid_t)strtol(name + len + 1, NULL, 10), 0);
}

static unsigned count_earlier(const char *dir)
{
	unsigned n = 0;
	DIR *d = opendir(dir);

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));)
		n += is_trace(e->d_name) && !still_written(e->d_name);
	closedir(d);
	return n;
}

/* What time it is for the files of that directory: a file server has a clock of its own. */
static struct timespec directory_now(const char *dir)
{
	char path[PATH_MAX + 32];
	struct stat st = { 0 };
	int fd;

	snprintf(path, sizeof(path), "%s/.whyidle-XXXXXX", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		clock_gettime(CLOCK_REALTIME_COARSE, &st.st_mtim);	/* as local file times */
	if (fd >= 0) {
		close(fd);
		unlink(path);
	}
	return st.st_mtim;
}

/* mkdir -p; the last one private. Returns 0 when the directory is there afterwards. */
static int make_directories(char *path, bool *created)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		if (mkdir(path, 0777) && errno != EEXIST) {
			*p = '/';
			return -1;
		}
		*p = '/';
	}
	if (!mkdir(path, 0700)) {
		*created = true;
		return 0;
	}
	return errno == EEXIST ? 0 : -1;
}

static int absolute(char out[PATH_MAX], const char *path)
{
	char cwd[PATH_MAX];
	size_t len;
	int n;

	if (path[0] == '/') {
		n = snprintf(out, PATH_MAX, "%s", path);
	} else {
		if (!getcwd(cwd, sizeof(cwd)))
			return -1;
		n = snprintf(out, PATH_MAX, "%s/%s", strcmp(cwd, "/") ? cwd : "", path);
	}
	if (n < 0 || n >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	for (len = (size_t)n; len > 1 && out[len - 1] == '/'; len--)
		out[len - 1] = 0;
	return 0;
}

/* The recorder keeps the path in a buffer of fixed size. */
#define DIR_MAX 500

static int open_directory(struct session *s, const char *path)
{
	struct stat st;

	if (absolute(s->dir, path))
		return -1;
	if (strlen(s->dir) > DIR_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (make_directories(s->dir, &s->created) || stat(s->dir, &st))
		return -1;
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return -1;
	}
	return access(s->dir, W_OK | X_OK);
}

static void default_name(char *out, size_t size)
{
	char host[65] = "host", stamp[32] = "0";
	time_t now = time(NULL);
	struct tm tm;

	if (gethostname(host, sizeof(host) - 1))
		strcpy(host, "host");
	host[sizeof(host) - 1] = 0;
	for (char *p = host; *p; p++)
		if (*p == '/' || *p == '.')
			*p = *p == '.' ? 0 : '_';
	if (localtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	snprintf(out, size, "whyidle-%s-%s-%ld", host, stamp, (long)getpid());
}

static int open_default(struct session *s, char why[512], char note[512])
{
	const char *tmp = getenv("TMPDIR");
	char name[160], path[PATH_MAX];
	int err;

	default_name(name, sizeof(name));
	if (!open_directory(s, name))
		return 0;
	err = errno;
	if (!tmp || tmp[0] != '/')
		tmp = "/tmp";
	snprintf(path, sizeof(path), "%s/%s", tmp, name);
	if (!open_directory(s, path)) {
		say(note, "no session directory can be made here (%s): it is %.400s", strerror(err), s->dir);
		return 0;
	}
	say(why, "no session directory can be made here or in %.300s (%s); name one with -o DIR", tmp, strerror(errno));
	return -1;
}

/* A shared lock for our lifetime; who cannot have it alone is not alone. The job does not inherit it. */
static void lock_directory(struct session *s)
{
	s->lock_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->lock_fd < 0)
		return;
	s->shared = session_is_shared(s);
	flock(s->lock_fd, LOCK_SH | LOCK_NB);
}

bool session_is_shared(const struct session *s)
{
	if (s->lock_fd < 0)
		return false;
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK;
	return false;
}

static void measure_log(struct session *s)
{
	char path[PATH_MAX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/whyidle.log", s->dir);
	s->log_bytes = stat(path, &st) ? -1 : (long)st.st_size;
}

/* Ranks started one by one by srun or mpirun belong into one directory, and so does a run within a run. */
static bool is_one_of_several(const struct session *s)
{
	static const char *const signs[] = { "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK" };
	const char *around = getenv("WHYIDLE_DIR");

	if (around && !strcmp(around, s->dir) && getenv("LD_PRELOAD"))
		return true;
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (getenv(signs[i]))
			return true;
	return false;
}

/* What is in the directory already, or is about to be. */
static void look_around(struct session *s, const char *wanted, char note[512])
{
	unsigned n = s->created ? 0 : count_earlier(s->dir);

	lock_directory(s);
	measure_log(s);
	if (n)
		s->started = directory_now(s->dir);
	if (s->shared && !is_one_of_several(s))
		say(note, "another `whyidle run` records into %.300s right now: both summaries tell of both jobs as if they were one; use a directory each",
			wanted);
	else if (n)
		say(note, "%.300s already holds %u trace%s of an earlier run: this summary leaves them out, a later `whyidle report` of the directory will not",
			wanted, n, n == 1 ? "" : "s");
}

int session_open(struct session *s, const char *wanted, char why[512], char note[512])
{
	memset(s, 0, sizeof(*s));
	s->lock_fd = s->log_bytes = -1;
	why[0] = note[0] = 0;
	if (!wanted) {
		if (!open_default(s, why, note)) {
			lock_directory(s);
			return 0;
		}
	} else if (open_directory(s, wanted)) {
		say(why, "session directory %.300s: %s; choose another with -o DIR", wanted, strerror(errno));
	} else {
		look_around(s, wanted, note);
		return 0;
	}
	session_drop_empty(s);
	s->dir[0] = 0;
	return -1;
}

void session_drop_empty(const struct session *s)
{
	if (s->created && s->dir[0])
		rmdir(s->dir);			/* only when empty */
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **session_traces(const struct session *s, unsigned *n, unsigned *empty)
{
	DIR *d = s->dir[0] ? opendir(s->dir) : NULL;
	char **paths = NULL, **more;
	size_t cap = 0, count = 0;
	struct stat st;

	*n = 0;
	if (empty)
		*empty = 0;
	if (!d)
		return NULL;
	for (struct dirent *e; (e = readdir(d));) {
		if (!is_trace(e->d_name) || fstatat(dirfd(d), e->d_name, &st, 0) || older(&st, &s->started))
			continue;
		if (empty && !st.st_size) {
			++*empty;
			continue;
		}
		if (count + 1 >= cap) {
			more = realloc(paths, (cap = cap ? cap * 2 : 64) * sizeof(*paths));
			if (!more)
				break;
			paths = more;
		}
		if (asprintf(&paths[count], "%s/%s", s->dir, e->d_name) < 0)
			break;
		paths[++count] = NULL;
	}
	closedir(d);
	if (count)
		qsort(paths, count, sizeof(*paths), by_name);
	*n = (unsigned)count;
	return paths;
}

void session_free_traces(char **paths)
{
	for (char **p = paths; p && *p; p++)
		free(*p);
	free(paths);
}

/* ---- what lies beside us */

/* First of the candidates, relative to the folder of this program, that exists. */
static bool find_beside(char path[PATH_MAX], const char *const *candidates)
{
	char self[PATH_MAX], tried[PATH_MAX * 2];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n <= 0)
		return false;
	self[n] = 0;
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = 0;
	for (; *candidates; candidates++) {
		snprintf(tried, sizeof(tried), "%s/%s", self, *candidates);
		if (!access(tried, R_OK) && realpath(tried, path))
			return true;
	}
	return false;
}

/* A private folder that only we can write to; in /tmp, because $TMPDIR may hold a blank itself. */
static int alias_folder(char *folder, size_t size)
{
	struct stat st;

	snprintf(folder, size, "/tmp/whyidle-%ld", (long)geteuid());
	if (mkdir(folder, 0700) && errno != EEXIST)
		return -1;
	if (lstat(folder, &st))
		return -1;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022) {
		errno = EPERM;
		return -1;
	}
	return 0;
}

/*
 * The dynamic loader splits LD_PRELOAD at blanks and colons and knows no quoting: a path with one goes by a link. It stays, since
 * processes that outlive us may start others.
 */
static int avoid_blanks(char path[PATH_MAX], char why[512])
{
	char folder[64], link[96], old[PATH_MAX];
	ssize_t n;

	if (!path[strcspn(path, " :")])
		return 0;
	if (alias_folder(folder, sizeof(folder))) {
		say(why, "the loader cannot preload a path with a blank or colon (%.300s), and %s cannot be used for a link: %s; name a copy elsewhere with "
			"WHYIDLE_LIB", path, folder, strerror(errno));
		return -1;
	}
	snprintf(link, sizeof(link), "%s/%016llx.so", folder, (unsigned long long)mem_hash(path, strlen(path), 0));
	n = readlink(link, old, sizeof(old) - 1);
	if (n < 0 || (size_t)n != strlen(path) || memcmp(old, path, (size_t)n)) {
		unlink(link);
		if (symlink(path, link) && errno != EEXIST) {
			say(why, "the loader cannot preload a path with a blank or colon (%.300s), and %s could not be made: %s", path, link, strerror(errno));
			return -1;
		}
	}
	strcpy(path, link);
	return 0;
}

int find_recorder(char path[PATH_MAX], char why[512])
{
	static const char *const places[] = { "libwhyidle.so", "../lib/whyidle/libwhyidle.so", "../lib/libwhyidle.so", "../lib64/whyidle/libwhyidle.so", NULL };
	const char *given = getenv("WHYIDLE_LIB");

	if (given && *given) {
		if (!access(given, R_OK) && realpath(given, path))
			return avoid_blanks(path, why);
		say(why, "WHYIDLE_LIB=%.300s: %s", given, strerror(errno));
		return -1;
	}
	if (find_beside(path, places))
		return avoid_blanks(path, why);
	say(why, "libwhyidle.so is neither beside whyidle nor in ../lib/whyidle; install it there or name it with WHYIDLE_LIB");
	return -1;
}

int find_simgpu(char path[PATH_MAX], char why[512])
{
	static const char *const places[] = { "simgpu/libcudart.so.12", "../lib/whyidle/simgpu/libcudart.so.12", NULL };
	char *slash;

	if (!find_beside(path, places)) {
		say(why, "--sim: the software GPU is neither in simgpu/ beside whyidle nor in ../lib/whyidle/simgpu; build it with make");
		return -1;
	}
	slash = strrchr(path, '/');
	*slash = 0;
	return 0;
}

/* ---- the environment */

static bool is_sanitizer(const char *entry, size_t len)
{
	static const char *const runtimes[] = { "libasan.", "libtsan.", "liblsan.", "libubsan.", "libhwasan.", "libclang_rt." };
	const char *base = memrchr(entry, '/', len);

	base = base ? base + 1 : entry;
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (!strncmp(base, runtimes[i], strlen(runtimes[i])))
			return true;
	return false;
}

static char *preload_list(const char *recorder, const char *before)
{
	const char *rest = before;
	char *out;

	for (;;) {				/* rest = behind the leading sanitizer runtimes */
		size_t gap = strspn(rest, " :"), len = strcspn(rest + gap, " :");

		if (!len || !is_sanitizer(rest + gap, len))
			break;
		rest += gap + len;
	}
	rest += strspn(rest, " :");
	if (asprintf(&out, "%.*s%s%s%s%s", (int)(rest - before), before, rest > before && rest[-1] != ' ' && rest[-1] != ':' ? ":" : "", recorder,
			*rest ? ":" : "", rest) < 0)
		return NULL;
	return out;
}

/* Already in the list (a run within a run)? */
static bool preloads(const char *list, const char *recorder)
{
	size_t len = strlen(recorder);

	for (const char *p = list; *p; p += strcspn(p, " :")) {
		p += strspn(p, " :");
		if (strcspn(p, " :") == len && !strncmp(p, recorder, len))
			return true;
	}
	return false;
}

static void set(char **env, char *assignment)
{
	size_t len = assignment ? (size_t)(strchr(assignment, '=') - assignment) + 1 : 0;

	if (!assignment)
		return;
	while (*env && strncmp(*env, assignment, len))
		env++;
	*env = assignment;			/* the list was made with room, zeroed */
}

static char *assign(const char *name, const char *value, const char *more)
{
	char *out;

	return asprintf(&out, "%s=%s%s%s", name, value, *more ? ":" : "", more) < 0 ? NULL : out;
}

char **child_environment(const char *recorder, const char *dir, const char *simgpu)
{
	const char *preload = getenv("LD_PRELOAD"), *libraries = getenv("LD_LIBRARY_PATH");
	size_t n = 0;
	char **env, *list;

	while (environ[n])
		n++;
	env = calloc(n + 4, sizeof(*env));
	if (!env)
		return NULL;
	memcpy(env, environ, n * sizeof(*env));
	if (recorder && !preloads(preload ? preload : "", recorder)) {
		list = preload_list(recorder, preload ? preload : "");
		set(env, list ? assign("LD_PRELOAD", list, "") : NULL);
		free(list);
	}
	if (dir)
		set(env, assign("WHYIDLE_DIR", dir, ""));
	if (simgpu)
		set(env, assign("LD_LIBRARY_PATH", simgpu, libraries ? libraries : ""));
	return env;
}

void child_environment_free(char **env)
{
	for (char **e = env; e && *e; e++) {
		char **ours = environ;

		while (*ours && *ours != *e)
			ours++;
		if (!*ours)
			free(*e);
	}
	free(env);
}
