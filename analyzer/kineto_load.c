/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the text of a profiler trace once, from front to back, whatever the order of its parts, see kineto_load.h. What was read before
 * damage or a cut is used.
 */
#include "analyzer/kineto_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/kineto_call.h"
#include "analyzer/kineto_event.h"
#include "analyzer/kineto_json.h"
#include "analyzer/mem.h"
#include "trace/input.h"

enum { DEVICES = 4096, PIDS = 64, RANKS = 1 << 24 };

struct loading {
	struct kineto_file *f;
	struct jtext *j;
	struct kineto_event e;
	struct { int64_t pid; int64_t n; char name[64]; } pids[PIDS];	/* of host events, and what metadata call them */
	unsigned npids;
	int64_t base_ns, known, impossible;
	int64_t first_ns, last_ns;	/* without the base */
	bool array;			/* "traceEvents" was there, or the file is a bare array */
	size_t last_thread;
};

/* ---- numbers for names, threads, groups ---- */

static uint32_t name_number(struct kineto_names *t, const char *s)
{
	uint64_t h = mem_hash(s, strlen(s), 3);
	size_t at;

	if ((t->n + 1) * 2 > t->nslots) {
		size_t n = t->nslots ? t->nslots * 2 : 1024;

		free(t->slots);
		t->slots = mem_new(n, sizeof(*t->slots));
		t->nslots = n;
		for (size_t i = 0; i < t->n; i++) {
			at = mem_hash(t->text[i], strlen(t->text[i]), 3) & (n - 1);
			while (t->slots[at])
				at = (at + 1) & (n - 1);
			t->slots[at] = (uint32_t)i + 1;
		}
	}
	for (at = h & (t->nslots - 1); t->slots[at]; at = (at + 1) & (t->nslots - 1))
		if (!strcmp(t->text[t->slots[at] - 1], s))
			return t->slots[at] - 1;
	t->text = mem_more(t->text, t->n, &t->cap, sizeof(*t->text));
	t->text[t->n] = mem_copy(s);
	t->slots[at] = (uint32_t)++t->n;
	return (uint32_t)t->n - 1;
}

static struct kineto_thread *thread_by_tid(struct loading *l, int64_t tid)
{
	struct kineto_file *f = l->f;

	if (l->last_thread < f->nthreads && f->threads[l->last_thread].tid == tid)
		return &f->threads[l->last_thread];
	for (size_t i = 0; i < f->nthreads; i++)
		if (f->threads[i].tid == tid) {
			l->last_thread = i;
			return &f->threads[i];
		}
	f->threads = mem_more(f->threads, f->nthreads, &f->threads_cap, sizeof(*f->threads));
	f->threads[f->nthreads] = (struct kineto_thread){.tid = tid};
	l->last_thread = f->nthreads;
	return &f->threads[f->nthreads++];
}

static uint32_t thread_number(struct loading *l, int64_t tid)
{
	return (uint32_t)(thread_by_tid(l, tid) - l->f->threads);
}

static uint32_t group_number(struct kineto_file *f, uint64_t key, int64_t nranks)
{
	for (size_t i = 0; i < f->ngroups; i++)
		if (f->groups[i].key == key)
			return (uint32_t)i;
	f->groups = mem_more(f->groups, f->ngroups, &f->groups_cap, sizeof(*f->groups));
	f->groups[f->ngroups] = (struct kineto_group){key, nranks > 0 && nranks <= RANKS ? (uint32_t)nranks : 0};
	return (uint32_t)f->ngroups++;
}

static int64_t *pid_count(struct loading *l, int64_t pid, const char *name)
{
	unsigned i = 0;

	while (i < l->npids && l->pids[i].pid != pid)
		i++;
	if (i == PIDS)
		return NULL;
	if (i == l->npids)
		l->pids[l->npids++].pid = pid;
	if (name)
		snprintf(l->pids[i].name, sizeof(l->pids[i].name), "%.63s", name);
	return &l->pids[i].n;
}

/* ---- events ---- */

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* The words of the rest of the program for copies; HIP has had its own. */
static const char *copy_name(const struct kineto_event *e, char *room, size_t len)
{
	static const struct { const char *part, *name; } kinds[] = {
		{"HostToDevice", "HtoD"}, {"DeviceToHost", "DtoH"}, {"DeviceToDevice", "DtoD"}, {"PeerToPeer", "PtoP"},
		{"HtoD", "HtoD"}, {"DtoH", "DtoH"}, {"DtoD", "DtoD"}, {"H2D", "HtoD"}, {"D2H", "DtoH"}, {"D2D", "DtoD"},
	};

	if (begins(e->name, "Memcpy") || begins(e->name, "Memset"))
		return e->name;
	if (e->cat == KINETO_MEMSET)
		return "Memset (Device)";
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strstr(e->name, kinds[i].part)) {
			snprintf(room, len, "Memcpy %s (%.100s)", kinds[i].name, e->name);
			return room;
		}
	snprintf(room, len, "Memcpy (%.100s)", e->name);
	return room;
}

static const char *op_name(struct kineto_event *e, char *room, size_t len)
{
	if (e->cat != KINETO_KERNEL)
		return copy_name(e, room, len);
	/* a collective by its arguments whose kernel has a name of its own */
	if (e->collective[0] && !begins(e->name, "nccl") && !begins(e->name, "rccl") && kineto_collective(e->collective) != CALL_NONE) {
		snprintf(room, len, "nccl: %.200s", e->name);
		return room;
	}
	return e->name;
}

static void add_op(struct loading *l, struct kineto_event *e)
{
	char room[256];
	int64_t device = e->device >= 0 ? e->device : e->pid, stream = e->stream >= 0 ? e->stream : e->tid;
	struct kineto_record r = {.start_ns = e->start_ns, .end_ns = e->end_ns, .id = e->correlation > 0 ? (uint64_t)e->correlation : 0, .bytes = e->bytes,
		.kind = KINETO_OP};

	if (device < 0 || device >= DEVICES) {
		l->impossible++;
		return;
	}
	r.lane = stream < 0 ? 0 : (uint32_t)stream;
	r.more = (uint32_t)device;
	r.name = name_number(&l->f->names, op_name(e, room, sizeof(room)));
	kineto_sorter_add(l->f->sorter, &r);
}

static void add_host(struct loading *l, struct kineto_event *e, enum kineto_kind kind, const char *name, uint64_t id, uint32_t more)
{
	struct kineto_record r = {.start_ns = e->start_ns, .end_ns = e->end_ns, .id = id, .bytes = -1, .kind = kind, .more = more};

	if (kind == KINETO_COMMS && e->nelems >= 0 && e->elem_bytes > 0 && e->nelems < INT64_MAX / 8)
		r.bytes = e->nelems * e->elem_bytes;
	r.lane = thread_number(l, e->tid);
	r.name = name_number(&l->f->names, name);
	kineto_sorter_add(l->f->sorter, &r);
}

static void add_call(struct loading *l, struct kineto_event *e)
{
	enum call call = kineto_call(e->name);
	enum call_class class = call_class(call);
	bool launches = class == CLASS_GPU_LAUNCH || class == CLASS_GPU_COPY;

	if (class != CLASS_NONE)
		add_host(l, e, KINETO_CALLED, e->name, launches && e->correlation > 0 ? (uint64_t)e->correlation : 0, 0);
}

static void add_annotation(struct loading *l, struct kineto_event *e)
{
	const char *n = e->name;
	enum call call;
	long long step;

	/* hot: most are operators, told by their first letter */
	switch (n[0]) {
	case 'P':
		if (sscanf(n, "ProfilerStep#%lld", &step) != 1)
			return;
		add_host(l, e, KINETO_STEP, n, (uint64_t)step, 0);
		l->f->has_steps = l->f->profiler_steps = true;
		return;
	case 'O':
		if (!begins(n, "Optimizer.step#"))
			return;
		add_host(l, e, KINETO_UPDATE, n, 0, 0);
		l->f->has_steps = true;
		return;
	case 'e':
		if (begins(n, "enumerate(DataLoader)#"))
			add_host(l, e, KINETO_RANGE, n, 0, 0);
		return;
	case 'n':
		if (!begins(n, "nccl:"))
			return;
		call = kineto_collective(n);
		if (call_class(call) == CLASS_NCCL_COLL)
			add_host(l, e, KINETO_COLLECTIVE, call_name(call), 0, group_number(l->f, 0, 0));
		return;
	case 'r':
		if (strcmp(n, "record_param_comms") || !e->collective[0])
			return;
		call = kineto_collective(e->collective);
		if (call_class(call) == CLASS_NCCL_COLL)
			add_host(l, e, KINETO_COMMS, call_name(call), e->seq > 0 ? (uint64_t)e->seq : 0, group_number(l->f, e->group, e->group_size));
		return;
	}
}

static void note_time(struct loading *l, const struct kineto_event *e)
{
	if (e->start_ns < l->first_ns)
		l->first_ns = e->start_ns;
	if (e->end_ns > l->last_ns)
		l->last_ns = e->end_ns;
	l->f->head.events++;
}

static void metadata(struct loading *l, const struct kineto_event *e)
{
	if (!strcmp(e->name, "process_name") && e->label[0]) {
		pid_count(l, e->pid, e->label);
	} else if (!strcmp(e->name, "thread_name") && e->label[0] && e->tid >= 0 && !begins(e->label, "stream")) {
		struct kineto_thread *t = thread_by_tid(l, e->tid);

		free(t->name);
		t->name = mem_copy(e->label);
	}
}

static void add_event(struct loading *l, struct kineto_event *e)
{
	int64_t *count;

	if (e->ph == 'M')
		metadata(l, e);
	if (e->ph != 'X' || e->cat == KINETO_OTHER || e->cat == KINETO_SPAN)
		return;
	l->known++;
	if (!e->timed) {
		l->impossible++;
		return;
	}
	note_time(l, e);
	switch (e->cat) {
	case KINETO_KERNEL:
	case KINETO_MEMCPY:
	case KINETO_MEMSET:
		add_op(l, e);
		break;
	case KINETO_CALL:
		count = pid_count(l, e->pid, NULL);
		if (count)
			*count += 16;	/* calls are made by the process itself; Python functions may be drawn anywhere */
		add_call(l, e);
		break;
	case KINETO_CPU:
		count = pid_count(l, e->pid, NULL);
		if (count)
			++*count;
		add_annotation(l, e);
		break;
	default:
		break;
	}
}

static bool read_events(struct loading *l)
{
	bool first = true;
	int got;

	if (jtext_peek(l->j) != '[')
		return jtext_skip(l->j);
	jtext_take(l->j, '[');
	l->array = true;
	while ((got = jtext_element(l->j, &first)) == 1) {
		if (!kineto_event_read(l->j, &l->e))
			return false;
		add_event(l, &l->e);
	}
	return got == 0;
}

/* ---- what stands beside the events ---- */

static bool read_integer(struct jtext *j, int64_t *out)
{
	char text[64];
	size_t len;
	int c = jtext_peek(j);

	if (c == '{' || c == '[')
		return jtext_skip(j);
	if (c == '"' ? !jtext_string(j, text, sizeof(text), &len) : !jtext_scalar(j, text, sizeof(text), &len))
		return false;
	jtext_decimal(text, len, 0, out);
	return true;
}

static bool read_distributed(struct loading *l)
{
	int64_t rank = -1, world = -1;
	bool first = true;
	char key[64];
	int got;

	if (jtext_peek(l->j) != '{')
		return jtext_skip(l->j);
	jtext_take(l->j, '{');
	while ((got = jtext_key(l->j, &first, key, sizeof(key))) == 1) {
		bool ok = !strcmp(key, "rank") ? read_integer(l->j, &rank) : !strcmp(key, "world_size") ? read_integer(l->j, &world) : jtext_skip(l->j);

		if (!ok)
			return false;
	}
	if (rank >= 0 && rank < RANKS)
		l->f->head.rank = (int)rank;
	if (world > 0 && world <= RANKS)
		l->f->head.world_size = (int)world;
	return got == 0;
}

static bool read_device(struct loading *l)
{
	int64_t id = -1;
	bool first = true, ok = true;
	char key[64], name[256] = "";
	struct kineto_file *f = l->f;
	int got;

	if (jtext_peek(l->j) != '{')
		return jtext_skip(l->j);
	jtext_take(l->j, '{');
	while (ok && (got = jtext_key(l->j, &first, key, sizeof(key))) == 1)
		ok = !strcmp(key, "id") ? read_integer(l->j, &id) :
			!strcmp(key, "name") && jtext_peek(l->j) == '"' ? jtext_string(l->j, name, sizeof(name), NULL) : jtext_skip(l->j);
	if (!ok || got < 0)
		return false;
	if (id < 0 || id >= DEVICES || !name[0])
		return true;
	if ((size_t)id >= f->ndevices) {
		f->devices = mem_resize(f->devices, (size_t)id + 1, sizeof(*f->devices));
		memset(f->devices + f->ndevices, 0, ((size_t)id + 1 - f->ndevices) * sizeof(*f->devices));
		f->ndevices = (size_t)id + 1;
	}
	if (!f->devices[id])
		f->devices[id] = mem_copy(name);
	return true;
}

static bool read_devices(struct loading *l)
{
	bool first = true;
	int got;

	if (jtext_peek(l->j) != '[')
		return jtext_skip(l->j);
	jtext_take(l->j, '[');
	while ((got = jtext_element(l->j, &first)) == 1)
		if (!read_device(l))
			return false;
	return got == 0;
}

static bool read_host(struct loading *l)
{
	char text[256];

	if (jtext_peek(l->j) != '"')
		return jtext_skip(l->j);
	if (!jtext_string(l->j, text, sizeof(text), NULL))
		return false;
	free(l->f->host);
	l->f->host = mem_copy(text);
	return true;
}

static bool read_top(struct loading *l)
{
	bool first = true, ok = true;
	char key[64];
	int got = 0;

	/* a byte order mark */
	if (jtext_peek(l->j) == 0xef && !(jtext_take(l->j, '\xef') && jtext_take(l->j, '\xbb') && jtext_take(l->j, '\xbf')))
		return false;
	if (jtext_peek(l->j) == '[')
		return read_events(l);
	if (!jtext_take(l->j, '{'))
		return false;
	while (ok && (got = jtext_key(l->j, &first, key, sizeof(key))) == 1) {
		if (!strcmp(key, "traceEvents"))
			ok = read_events(l);
		else if (!strcmp(key, "distributedInfo"))
			ok = read_distributed(l);
		else if (!strcmp(key, "deviceProperties"))
			ok = read_devices(l);
		else if (!strcmp(key, "baseTimeNanoseconds"))
			ok = read_integer(l->j, &l->base_ns);
		else if (!strcmp(key, "host_name") || !strcmp(key, "hostname"))
			ok = read_host(l);
		else
			ok = jtext_skip(l->j);
	}
	return ok && got == 0;
}

/* ---- the whole file ---- */

/* Names of files say the rank where the trace does not: "rank-3.json", "rank3_...". */
static int rank_in_name(const char *path)
{
	const char *base = strrchr(path, '/'), *p;
	int rank;

	for (p = strstr(base ? base + 1 : path, "rank"); p; p = strstr(p + 4, "rank"))
		if (sscanf(p[4] == '-' || p[4] == '_' || p[4] == '.' ? p + 5 : p + 4, "%7d", &rank) == 1 && rank >= 0)
			return rank;
	return -1;
}

static void free_file(struct kineto_file *f)
{
	kineto_sorter_close(f->sorter);
	for (size_t i = 0; i < f->names.n; i++)
		free(f->names.text[i]);
	free(f->names.text);
	free(f->names.slots);
	for (size_t i = 0; i < f->nthreads; i++)
		free(f->threads[i].name);
	free(f->threads);
	free(f->groups);
	for (size_t i = 0; i < f->ndevices; i++)
		free(f->devices[i]);
	free(f->devices);
	free(f->command);
	free(f->host);
	free(f->trouble);
	free(f->path);
	free(f);
}

/* Collectives of whom the trace does not say the group: of all ranks, which is what they mostly are. */
static void name_groups(struct kineto_file *f)
{
	for (size_t i = 0; i < f->ngroups; i++) {
		if (!f->groups[i].nranks && f->head.world_size > 0)
			f->groups[i].nranks = (uint32_t)f->head.world_size;
		f->groups[i].key = mem_mix(f->groups[i].key + f->groups[i].nranks) | 1;
	}
}

static void choose_process(struct loading *l)
{
	unsigned best = 0;

	for (unsigned i = 1; i < l->npids; i++)
		if (l->pids[i].n > l->pids[best].n)
			best = i;
	l->f->head.pid = -1;
	if (!l->npids)
		return;
	if (l->pids[best].pid >= 0 && l->pids[best].pid <= INT32_MAX)
		l->f->head.pid = (int)l->pids[best].pid;
	if (l->pids[best].name[0])
		l->f->command = mem_copy(l->pids[best].name);
}

static void finish(struct loading *l)
{
	struct kineto_file *f = l->f;
	/* a base that puts the events beyond all time is none */
	int64_t base = l->base_ns > 0 && l->base_ns < 4000000000000000000 && l->last_ns < 4000000000000000000 ? l->base_ns : 0;

	if (!f->host)
		f->host = mem_copy("");
	f->head.host = f->host;
	f->head.trouble = f->trouble;
	f->head.text_bytes = jtext_offset(l->j);
	f->head.first_ns = l->first_ns + base;
	f->head.last_ns = l->last_ns + base;
	f->base_ns = base;
	choose_process(l);
	name_groups(f);
	kineto_sorter_finish(f->sorter);
}

static struct kineto_file *load(struct jtext *j, char *error, size_t len)
{
	struct loading *l = mem_new(1, sizeof(*l));
	struct kineto_file *f = mem_new(1, sizeof(*f));
	const char *why = NULL;
	uint64_t at = 0;
	bool whole;

	l->f = f;
	l->j = j;
	l->first_ns = INT64_MAX;
	l->last_ns = INT64_MIN;
	f->head.rank = f->head.world_size = -1;
	f->sorter = kineto_sorter_open();
	whole = read_top(l);
	if (!whole && !jtext_failed(j))
		jtext_refuse(j, "the JSON ends in the middle");
	if (!whole)
		why = jtext_error(j, &at);
	if (!f->head.events) {
		if (!whole)
			snprintf(error, len, "%s (offset %llu), and no event of PyTorch's profiler comes before that", why, (unsigned long long)at);
		else if (!l->array)
			snprintf(error, len, "is JSON, but no profiler trace: it has no list \"traceEvents\"");
		else if (l->known)
			snprintf(error, len, "none of its %lld events has a time that is possible", (long long)l->known);
		else
			snprintf(error, len, "holds no events of PyTorch's profiler (kernel, cuda_runtime, cpu_op ...)");
		free_file(f);
		free(l);
		return NULL;
	}
	if (!whole && l->impossible)
		f->trouble = mem_format("%s (offset %llu); what came before it is used, but for %lld events with impossible times or devices", why,
			(unsigned long long)at, (long long)l->impossible);
	else if (!whole)
		f->trouble = mem_format("%s (offset %llu); what came before it is used", why, (unsigned long long)at);
	else if (l->impossible)
		f->trouble = mem_format("%lld events have impossible times or devices and were left out", (long long)l->impossible);
	finish(l);
	free(l);
	return f;
}

struct kineto_file *kineto_load_memory(const void *data, size_t n, char *error, size_t len)
{
	struct jtext *j = jtext_open_memory(data, n, error, len);
	struct kineto_file *f;

	if (!j)
		return NULL;
	f = load(j, error, len);
	jtext_close(j);
	return f;
}

/* ---- keeping ---- */

static struct kineto_file *kept;

static struct kineto_file *take_kept(const char *path, const struct stat *st)
{
	for (struct kineto_file *f = kept; f; f = f->kept)
		if (!f->in_use && !strcmp(f->path, path) && f->dev == st->st_dev && f->ino == st->st_ino && f->size == (uint64_t)st->st_size &&
		    f->mtime_ns == st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec) {
			f->in_use = true;
			return f;
		}
	return NULL;
}

struct kineto_file *kineto_load_path(const char *path, char *error, size_t len)
{
	struct stat st = {0};
	struct kineto_file *f;
	struct jtext *j;

	/* what is no regular file cannot be read twice */
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
		f = take_kept(path, &st);
		if (f)
			return f;
	}
	j = jtext_open_path(path, error, len);
	if (!j)
		return NULL;
	f = load(j, error, len);
	jtext_close(j);
	if (!f)
		return NULL;
	if (f->head.rank < 0)
		f->head.rank = rank_in_name(path);
	f->path = mem_copy(path);
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->size = (uint64_t)st.st_size;
	f->mtime_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
	f->in_use = true;
	f->kept = kept;
	kept = f;
	return f;
}

void kineto_file_leave(struct kineto_file *f)
{
	if (f->path)
		f->in_use = false;
	else
		free_file(f);
}

void kineto_load_forget(void)
{
	struct kineto_file **at = &kept;

	while (*at) {
		struct kineto_file *f = *at;

		if (f->in_use) {
			at = &f->kept;
			continue;
		}
		*at = f->kept;
		free_file(f);
	}
}

/* ---- is it one? ---- */

static bool is_space(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool kineto_is_json(const char *path)
{
	struct input in;
	struct stat st;
	struct pf_error err = {0};
	uint8_t buf[256];
	size_t n = 0, i = 0;
	uint8_t open;

	/* what is looked at in a pipe is gone */
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || input_open_path(&in, path, &err) < 0)
		return false;
	while (n < sizeof(buf)) {
		ssize_t k = input_read(&in, buf + n, sizeof(buf) - n, &err);

		if (k <= 0)
			break;
		n += (size_t)k;
	}
	input_close(&in);
	if (n >= 3 && !memcmp(buf, "\xef\xbb\xbf", 3))
		i = 3;
	while (i < n && is_space(buf[i]))
		i++;
	if (i == n || (buf[i] != '{' && buf[i] != '['))
		return false;
	/* a packet of a Perfetto trace begins with a line feed and its length, which may be a bracket: look at what comes in it */
	open = buf[i++];
	while (i < n && is_space(buf[i]))
		i++;
	if (i == n)
		return true;
	return open == '{' ? buf[i] == '"' || buf[i] == '}' : buf[i] == '{' || buf[i] == ']';
}
