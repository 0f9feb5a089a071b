/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files there are, in what order they are read, and how far the window may move. A file is opened when the others have come to
 * where it begins and closed when it ends, so that a thousand short-lived workers do not cost a thousand open files.
 */
#include "analyzer/feed.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/feed_file.h"
#include "analyzer/kineto.h"
#include "analyzer/mem.h"

enum { HEAD_ITEMS = 1000000, FOREIGN_STRIDE = 65536 };
#define WINDOW_NS 2000000000

struct feed {
	struct timeline *tl;
	struct feed_file **files;
	size_t nfiles, cap;
	struct feed_totals totals;
	size_t warnings_cap;
};

static void warn(struct feed *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void warn(struct feed *f, const char *fmt, ...)
{
	va_list ap;
	char text[640];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	f->totals.warnings = mem_more(f->totals.warnings, f->totals.nwarnings, &f->warnings_cap, sizeof(char *));
	f->totals.warnings[f->totals.nwarnings++] = mem_copy(text);
}

/* ---- finding files ---- */

static bool ends_in(const char *s, const char *with)
{
	size_t n = strlen(s), m = strlen(with);

	return n > m && strcmp(s + n - m, with) == 0;
}

static void add_file(struct feed *f, const char *path, bool named)
{
	struct feed_file *file = mem_new(1, sizeof(*file));
	struct stat st;

	file->path = mem_copy(path);
	file->named = named;
	file->watermark_ns = INT64_MIN;
	file->newest_ns = INT64_MIN;
	if (stat(path, &st) == 0)
		file->size = (uint64_t)st.st_size;
	f->files = mem_more(f->files, f->nfiles, &f->cap, sizeof(*f->files));
	f->files[f->nfiles++] = file;
}

/* A directory of a profiler's traces, as tensorboard_trace_handler makes it. */
static void add_profiles(struct feed *f, DIR *d, const char *path)
{
	struct dirent *e;

	rewinddir(d);
	while ((e = readdir(d))) {
		char *full;

		if (!ends_in(e->d_name, ".json") && !ends_in(e->d_name, ".json.gz"))
			continue;
		full = mem_format("%s%s%s", path, ends_in(path, "/") ? "" : "/", e->d_name);
		if (kineto_is_json(full))
			add_file(f, full, false);
		free(full);
	}
}

static int add_directory(struct feed *f, const char *path, char *error, size_t len)
{
	DIR *d = opendir(path);
	struct dirent *e;
	size_t before = f->nfiles;

	if (!d) {
		snprintf(error, len, "cannot read the directory %s: %s", path, strerror(errno));
		return -1;
	}
	while ((e = readdir(d))) {
		char *full;

		if (!ends_in(e->d_name, ".pftrace") && !ends_in(e->d_name, ".pftrace.gz") && !ends_in(e->d_name, ".perfetto-trace"))
			continue;
		full = mem_format("%s%s%s", path, ends_in(path, "/") ? "" : "/", e->d_name);
		add_file(f, full, false);
		free(full);
	}
	/* both may be recorded at once: then ours knows more, and together they would count everything twice */
	if (f->nfiles == before)
		add_profiles(f, d, path);
	closedir(d);
	if (f->nfiles == before) {
		snprintf(error, len, "no trace (*.pftrace, or *.json, *.json.gz of PyTorch's profiler) in %s; name the session directory that `whyidle run` "
			"printed, or trace files", path);
		return -1;
	}
	return 0;
}

static int by_path(const void *a, const void *b)
{
	const struct feed_file *x = *(struct feed_file *const *)a, *y = *(struct feed_file *const *)b;
	int c = strcmp(x->path, y->path);

	return c ? c : (int)y->named - (int)x->named;
}

/* One file reached by two paths (or named twice) counts once. */
static void sort_files(struct feed *f)
{
	size_t n = 0;

	qsort(f->files, f->nfiles, sizeof(*f->files), by_path);
	for (size_t i = 0; i < f->nfiles; i++) {
		if (n && strcmp(f->files[n - 1]->path, f->files[i]->path) == 0) {
			free(f->files[i]->path);
			free(f->files[i]);
		} else {
			f->files[n++] = f->files[i];
		}
	}
	f->nfiles = n;
}

/* ---- heads ---- */

static void head_attribute(struct feed_head *h, const struct pf_item *it)
{
	static const struct { const char *key; size_t at; } ints[] = {
		{"pid", offsetof(struct feed_head, pid)}, {"ppid", offsetof(struct feed_head, ppid)},
		{"rank", offsetof(struct feed_head, rank)}, {"local_rank", offsetof(struct feed_head, local_rank)},
		{"world_size", offsetof(struct feed_head, world_size)}, {"cpus", offsetof(struct feed_head, cpus)},
	};
	const char *k = it->attr_key;

	if (strncmp(k, "whyidle.", 8))
		return;
	h->ours = true;
	k += 8;
	for (size_t i = 0; it->attr_is_int && i < sizeof(ints) / sizeof(ints[0]); i++)
		if (!strcmp(k, ints[i].key))
			memcpy((char *)h + ints[i].at, &(int){(int)it->attr_int}, sizeof(int));
	if (!it->attr_is_int && it->attr_str && !strcmp(k, "host")) {
		free(h->host);
		h->host = mem_copy(it->attr_str);
	} else if (!it->attr_is_int && it->attr_str && !strcmp(k, "boot")) {
		free(h->boot);
		h->boot = mem_copy(it->attr_str);
	}
}

int feed_head(struct feed_file *f, struct pf_error *err)
{
	struct pf_reader *r = pf_reader_open(f->path, err);
	struct feed_head *h = &f->head;
	struct pf_item it;
	int got = 0, n = 0;

	h->rank = h->local_rank = h->world_size = -1;
	h->first_ns = INT64_MAX;
	if (!r)
		return -1;
	if (pf_reader_size(r))
		f->size = pf_reader_size(r);
	/* what the recorder says about itself comes after the first events: at most its rings full of them */
	while (n++ < HEAD_ITEMS && (got = pf_reader_next(r, &it, err)) == 1) {
		if (it.kind == PF_ATTRIBUTE)
			head_attribute(h, &it);
		else if (h->ours && h->pid && h->mono_ns)
			break;
		if (it.kind == PF_CLOCKS && it.monotonic_ns && it.realtime_ns && !h->mono_ns) {
			h->mono_ns = (int64_t)it.monotonic_ns;
			h->real_ns = (int64_t)it.realtime_ns;
		}
		if (it.kind == PF_CLOCKS && it.monotonic_ns && (int64_t)it.monotonic_ns < h->first_ns)
			h->first_ns = (int64_t)it.monotonic_ns;
		if (it.kind <= PF_COUNTER && (int64_t)it.ts_ns < h->first_ns)
			h->first_ns = (int64_t)it.ts_ns;
	}
	pf_reader_close(r);
	if (!h->host)
		h->host = mem_copy("");
	if (got < 0 && h->first_ns == INT64_MAX)
		return -1;
	if (h->first_ns == INT64_MAX)
		h->first_ns = 0;
	return 0;
}

/* The head of a profiler's trace. Its clock is the real-time one, which is as good as a clock of its own: `boot` keeps it from being taken for a
 * recorder's of the same host. */
static int profile_head(struct feed_file *f, struct pf_error *err)
{
	struct feed_head *h = &f->head;
	const struct kineto_head *k;

	f->kineto = kineto_open(f->path, err->text, sizeof(err->text));
	if (!f->kineto) {
		err->code = PF_EOPEN;	/* the sentence says it all, the place too */
		return -1;
	}
	k = kineto_head(f->kineto);
	h->host = mem_copy(k->host);
	h->boot = mem_copy("profiler");
	h->pid = k->pid;
	h->rank = k->rank;
	h->local_rank = h->world_size = -1;
	h->mono_ns = h->real_ns = h->first_ns = k->first_ns;
	return 0;
}

/* Hosts are those that share a MONOTONIC clock: same boot, or same name when nothing else is known. */
static bool same_clock(const struct feed_head *a, const struct feed_head *b)
{
	if (a->boot && b->boot)
		return strcmp(a->boot, b->boot) == 0;
	return strcmp(a->host, b->host) == 0;
}

static void align(struct feed *f)
{
	const struct feed_head *ref = NULL;

	for (size_t i = 0; i < f->nfiles && !ref; i++)
		if (f->files[i]->head.mono_ns)
			ref = &f->files[i]->head;
	for (size_t i = 0; ref && i < f->nfiles; i++) {
		const struct feed_head *h = &f->files[i]->head;

		if (same_clock(h, ref))
			continue;
		for (size_t j = 0; j <= i; j++) {
			const struct feed_head *o = &f->files[j]->head;

			/* one offset per clock: from the first of its files that has a snapshot */
			if (!same_clock(o, h) || !o->mono_ns)
				continue;
			f->files[i]->offset_ns = (o->real_ns - o->mono_ns) - (ref->real_ns - ref->mono_ns);
			break;
		}
	}
	for (size_t i = 0; i < f->nfiles; i++) {
		struct feed_file *file = f->files[i];

		file->watermark_ns = file->head.first_ns + file->offset_ns - WINDOW_NS;
	}
}

/* A family: all that descend from one process by recorded parents. Forked members see the same semaphores at the same addresses. */
static uint64_t family_of(const struct feed *f, const struct feed_head *h)
{
	int pid = h->pid, ppid = h->ppid;

	for (int hops = 0; hops < 64 && ppid > 1; hops++) {
		const struct feed_head *up = NULL;

		for (size_t i = 0; i < f->nfiles && !up; i++)
			if (f->files[i]->head.ours && f->files[i]->head.pid == ppid && !strcmp(f->files[i]->head.host, h->host))
				up = &f->files[i]->head;
		pid = ppid;
		if (!up)
			break;
		ppid = up->ppid;
	}
	return (uint64_t)pid;
}

static const char *sentence(const struct pf_error *err, char *room, size_t len)
{
	if (err->code == PF_EOPEN || err->code == PF_EIO)
		snprintf(room, len, "%s%s%s", err->text, err->sys_errno && !strstr(err->text, strerror(err->sys_errno)) ? ": " : "",
			err->sys_errno && !strstr(err->text, strerror(err->sys_errno)) ? strerror(err->sys_errno) : "");
	else
		snprintf(room, len, "%s (offset %llu)", err->text, (unsigned long long)err->offset);
	return room;
}

/* Traces are read more than once: pipes, sockets and terminals cannot be. */
static int look_at(struct feed_file *file, struct pf_error *err)
{
	struct stat st;

	if (stat(file->path, &st) == 0 && !S_ISREG(st.st_mode)) {
		err->code = PF_EOPEN;
		snprintf(err->text, sizeof(err->text), "is %s; a trace is read more than once, so it must be a regular file",
			S_ISFIFO(st.st_mode) ? "a pipe" : S_ISSOCK(st.st_mode) ? "a socket" : S_ISDIR(st.st_mode) ? "a directory" : "a device");
		return -1;
	}
	return kineto_is_json(file->path) ? profile_head(file, err) : feed_head(file, err);
}

static int read_heads(struct feed *f, char *error, size_t len)
{
	size_t n = 0;
	char room[400], last[640] = "";

	for (size_t i = 0; i < f->nfiles; i++) {
		struct feed_file *file = f->files[i];
		struct pf_error err = {0};

		if (look_at(file, &err) < 0) {
			snprintf(last, sizeof(last), "%s: %s", file->path, sentence(&err, room, sizeof(room)));
			if (file->named) {
				snprintf(error, len, "%s", last);
				memmove(f->files + n, f->files + i, (f->nfiles - i) * sizeof(*f->files));
				f->nfiles = n + f->nfiles - i;
				return -1;
			}
			warn(f, "not read: %s", last);
			file->state = FILE_DONE;
			file->watermark_ns = INT64_MAX;
			free(file->path);
			free(file->head.host);
			free(file->head.boot);
			free(file);
			continue;
		}
		f->totals.bytes_total += file->size;
		f->files[n++] = file;
	}
	f->nfiles = n;
	if (!n) {
		snprintf(error, len, "none of the trace files can be read; %s", last);
		return -1;
	}
	return 0;
}

struct feed *feed_open(const char *const *paths, unsigned npaths, struct timeline *tl, char *error, size_t error_len)
{
	struct feed *f = mem_new(1, sizeof(*f));

	f->tl = tl;
	for (unsigned i = 0; i < npaths; i++) {
		struct stat st;

		if (stat(paths[i], &st) < 0) {
			snprintf(error, error_len, "cannot read %s: %s", paths[i], strerror(errno));
			goto fail;
		}
		if (!S_ISDIR(st.st_mode))
			add_file(f, paths[i], true);
		else if (add_directory(f, paths[i], error, error_len) < 0)
			goto fail;
	}
	if (!f->nfiles) {
		snprintf(error, error_len, "nothing to read: name a session directory or trace files");
		goto fail;
	}
	sort_files(f);
	if (read_heads(f, error, error_len) < 0)
		goto fail;
	align(f);
	for (size_t i = 0; i < f->nfiles; i++)
		f->files[i]->family = family_of(f, &f->files[i]->head);
	return f;
fail:
	feed_close(f);
	return NULL;
}

/* ---- reading ---- */

static void finish_file(struct feed *f, struct feed_file *file)
{
	kineto_close(file->kineto);
	file->kineto = NULL;
	feed_show_open(file, f->tl, true);
	feed_file_close(file);
	file->done = file->size;
	file->state = FILE_DONE;
	file->watermark_ns = INT64_MAX;
	if (!file->head.ours)
		f->totals.dropped += file->lost;
}

static void read_profile(struct feed *f, struct feed_file *file)
{
	if (file->state == FILE_WAITING) {
		const struct kineto_head *k = kineto_head(file->kineto);

		file->state = FILE_OPEN;
		f->totals.events += k->events;
		if (k->trouble)
			warn(f, "%s: %s", file->path, k->trouble);
	}
	if (!kineto_read(file->kineto, f->tl, file->offset_ns, &file->watermark_ns)) {
		if (kineto_failed(file->kineto))
			warn(f, "%s: its sorted events could not be kept in the folder for temporary files; the report is not complete", file->path);
		finish_file(f, file);
	}
}

/* Reads `file` until its watermark moves or it ends. */
static void read_on(struct feed *f, struct feed_file *file)
{
	struct pf_error err = {0};
	struct pf_item it;
	int64_t before = file->watermark_ns;
	char room[400];
	int got;

	if (file->kineto) {
		read_profile(f, file);
		return;
	}
	if (file->state == FILE_WAITING) {
		file->reader = pf_reader_open(file->path, &err);
		file->state = FILE_OPEN;
		if (!file->reader) {
			warn(f, "not read: %s: %s", file->path, sentence(&err, room, sizeof(room)));
			finish_file(f, file);
			return;
		}
	}
	while ((got = pf_reader_next(file->reader, &it, &err)) == 1) {
		feed_item(file, f->tl, &it, &f->totals.events);
		if (!file->head.ours && ++file->items % FOREIGN_STRIDE == 0 && file->newest_ns - WINDOW_NS > file->watermark_ns)
			file->watermark_ns = file->newest_ns - WINDOW_NS;
		if (file->watermark_ns > before) {
			file->done = pf_reader_offset(file->reader);
			return;
		}
	}
	if (got < 0 && err.code != PF_ECUT)
		warn(f, "%s: %s; what came before it is used", file->path, sentence(&err, room, sizeof(room)));
	finish_file(f, file);
}

bool feed_step(struct feed *f)
{
	struct feed_file *slowest = NULL;
	int64_t complete = INT64_MAX, goal;

	for (size_t i = 0; i < f->nfiles; i++)
		if (f->files[i]->state != FILE_DONE && (!slowest || f->files[i]->watermark_ns < slowest->watermark_ns))
			slowest = f->files[i];
	if (!slowest)
		return false;
	goal = slowest->watermark_ns + 500000000;
	for (size_t i = 0; i < f->nfiles; i++)
		while (f->files[i]->state != FILE_DONE && f->files[i]->watermark_ns < goal)
			read_on(f, f->files[i]);
	f->totals.bytes_done = 0;
	for (size_t i = 0; i < f->nfiles; i++) {
		if (f->files[i]->watermark_ns < complete)
			complete = f->files[i]->watermark_ns;
		f->totals.bytes_done += f->files[i]->state == FILE_OPEN ? f->files[i]->done : f->files[i]->state == FILE_DONE ? f->files[i]->size : 0;
		if (f->files[i]->state == FILE_OPEN)
			feed_show_open(f->files[i], f->tl, false);
	}
	f->tl->finished = complete == INT64_MAX;
	timeline_settle(f->tl, complete);
	return true;
}

size_t feed_nfiles(const struct feed *f)
{
	return f->nfiles;
}

const char *feed_path(const struct feed *f, size_t i, int64_t *offset_ns)
{
	*offset_ns = f->files[i]->offset_ns;
	return f->files[i]->path;
}

const struct feed_totals *feed_totals(struct feed *f)
{
	return &f->totals;
}

void feed_close(struct feed *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->nfiles; i++) {
		struct feed_file *file = f->files[i];

		feed_file_close(file);
		kineto_close(file->kineto);
		free(file->path);
		free(file->head.host);
		free(file->head.boot);
		free(file);
	}
	for (unsigned i = 0; i < f->totals.nwarnings; i++)
		free(f->totals.warnings[i]);
	free(f->totals.warnings);
	free(f->files);
	free(f);
}
