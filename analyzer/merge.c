/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads items and writes them again. What differs from the files: sequence ids (those of two files may be equal), numbers of interned names
 * (one table for all), and snapshots of clocks, which must be in order over the whole file and so are made anew by the writer.
 */
#include "analyzer/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/mem.h"
#include "trace/reader.h"
#include "trace/writer.h"

#define BLOCK (1 << 20)
#define ARGS_MAX 16

struct sequence {
	uint32_t was;			/* its id in the file that is being read */
	struct pf_seq seq;
};

struct name {
	uint32_t len, next;		/* next in its bucket, 0 = none */
	char *text;
};

struct names {				/* one table of interned strings; number 0 is none */
	struct name *names;
	size_t n, cap;
	uint32_t *buckets;
	size_t nbuckets;
};

struct process_track {
	uint64_t uuid;
	int pid;
	char *host;
};

struct merge_track {
	struct pf_seq seq;
	struct merge_track *next;
};

struct merge {
	struct pf_writer w;
	struct pf_strings strings;
	char *path, *tmp;
	int fd, error;			/* errno of the first failed write */
	uint32_t next_seq;
	struct sequence **sequences;
	size_t nsequences, sequences_cap;
	struct names tables[3];
	struct process_track *processes;
	size_t nprocesses, processes_cap;
	struct merge_track *tracks;
	uint32_t *lost;			/* sequences that lost packets */
	size_t nlost, lost_cap;
	bool clocks_written;
};

#define say(...) snprintf(why, 512, __VA_ARGS__)

/* ---- the output */

static int write_block(struct pf_writer *w)
{
	struct merge *m = w->ctx;
	size_t done = 0;

	while (done < w->len && !m->error) {
		ssize_t n = write(m->fd, w->buf + done, w->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			m->error = errno;
		else
			done += (size_t)n;
	}
	w->len = 0;			/* after an error the rest is only counted: merge_close tells */
	return 0;
}

/* ---- names */

static void names_grow(struct names *t)
{
	size_t n = t->nbuckets ? t->nbuckets * 2 : 1024;

	free(t->buckets);
	t->buckets = mem_new(n, sizeof(*t->buckets));
	t->nbuckets = n;
	for (uint32_t i = 1; i < t->n; i++) {
		uint32_t *b = &t->buckets[mem_hash(t->names[i].text, t->names[i].len, 0) & (n - 1)];

		t->names[i].next = *b;
		*b = i;
	}
}

/* The number of that string, from 1. */
static uint32_t names_number(struct names *t, const char *text, size_t len)
{
	uint64_t h = mem_hash(text, len, 0);
	struct name *name;
	uint32_t i;

	if (t->nbuckets)
		for (i = t->buckets[h & (t->nbuckets - 1)]; i; i = t->names[i].next)
			if (t->names[i].len == len && !memcmp(t->names[i].text, text, len))
				return i;
	if (!t->n)
		t->n = 1;
	t->names = mem_more(t->names, t->n, &t->cap, sizeof(*t->names));
	name = &t->names[t->n++];
	name->text = mem_new(len + 1, 1);
	memcpy(name->text, text, len);
	name->len = (uint32_t)len;
	name->next = 0;
	i = (uint32_t)t->n - 1;
	if (t->n > t->nbuckets) {
		names_grow(t);
	} else {
		name->next = t->buckets[h & (t->nbuckets - 1)];
		t->buckets[h & (t->nbuckets - 1)] = i;
	}
	return i;
}

static const char *lookup(void *ctx, enum pf_table table, uint32_t iid, size_t *len)
{
	struct merge *m = ctx;
	struct names *t = &m->tables[table];

	if (!iid || iid >= t->n)
		return NULL;
	*len = t->names[iid].len;
	return t->names[iid].text;
}

static uint32_t number(struct merge *m, enum pf_table table, const char *text)
{
	return *text ? names_number(&m->tables[table], text, strlen(text)) : 0;
}

/* ---- sequences */

static struct pf_seq *sequence(struct merge *m, uint32_t was, uint64_t track_uuid)
{
	struct sequence *s;

	for (size_t i = m->nsequences; i-- > 0;)	/* the latest is the likeliest */
		if (m->sequences[i]->was == was)
			return &m->sequences[i]->seq;
	m->sequences = mem_more(m->sequences, m->nsequences, &m->sequences_cap, sizeof(*m->sequences));
	s = m->sequences[m->nsequences++] = mem_new(1, sizeof(*s));
	s->was = was;
	s->seq.id = m->next_seq++;
	s->seq.track_uuid = track_uuid;
	return &s->seq;
}

static void forget_sequences(struct merge *m)
{
	for (size_t i = 0; i < m->nsequences; i++)
		free(m->sequences[i]);
	m->nsequences = 0;
}

/* ---- items */

static uint64_t shifted(uint64_t ts_ns, int64_t offset_ns)
{
	return offset_ns < 0 && ts_ns < (uint64_t)-offset_ns ? 0 : ts_ns + (uint64_t)offset_ns;
}

static const char *host_label(const struct pf_track_info *t)
{
	for (unsigned i = 0; i < t->nlabels; i++)
		if (!strncmp(t->labels[i], "host ", 5))
			return t->labels[i] + 5;
	return "";
}

static void remember_process(struct merge *m, const struct pf_track_info *t)
{
	struct process_track *p;

	for (size_t i = 0; i < m->nprocesses; i++)
		if (m->processes[i].uuid == t->uuid)
			return;
	m->processes = mem_more(m->processes, m->nprocesses, &m->processes_cap, sizeof(*m->processes));
	p = &m->processes[m->nprocesses++];
	p->uuid = t->uuid;
	p->pid = t->pid;
	p->host = mem_copy(host_label(t));
}

/* Units are not read back; ours say ns in their names. */
static void write_counter_track(struct merge *m, const struct pf_track_info *t)
{
	size_t len = strlen(t->name);
	struct pf_counter_track c = { .uuid = t->uuid, .parent_uuid = t->parent_uuid, .name = t->name };

	if (len > 3 && !strcmp(t->name + len - 3, " ns"))
		c.unit = PF_UNIT_TIME_NS;
	pf_counter_track(&m->w, 1, &c);
}

static void write_track(struct merge *m, const struct pf_track_info *t, int64_t offset_ns)
{
	if (t->is_process) {
		remember_process(m, t);
		pf_process_track(&m->w, 1, &(struct pf_process){ .uuid = t->uuid, .pid = t->pid,
			.start_ns = t->start_ns ? shifted(t->start_ns, offset_ns) : 0, .name = t->name, .argv = t->argv, .argc = t->argc,
			.labels = t->labels, .nlabels = t->nlabels });
	} else if (t->is_thread) {
		pf_thread_track(&m->w, 1, t->uuid, t->pid, t->tid, t->name);
	} else if (t->is_counter) {
		write_counter_track(m, t);
	} else {
		pf_track(&m->w, 1, &(struct pf_track){ .uuid = t->uuid, .parent_uuid = t->parent_uuid, .name = t->name });
	}
}

static unsigned convert_args(struct merge *m, const struct pf_item *item, struct pf_arg *args)
{
	unsigned n = item->nargs < ARGS_MAX ? item->nargs : ARGS_MAX;

	for (unsigned i = 0; i < n; i++) {
		const struct pf_annotation *a = &item->args[i];

		args[i].key_iid = number(m, PF_KEYS, *a->key ? a->key : "?");
		switch (a->type) {
		case PF_A_UINT:
		case PF_A_BOOL:
			args[i].type = PF_ARG_UINT;
			args[i].v.u = a->v.u;
			break;
		case PF_A_INT:
			args[i].type = PF_ARG_INT;
			args[i].v.i = a->v.i;
			break;
		case PF_A_DOUBLE:
			args[i].type = PF_ARG_DOUBLE;
			args[i].v.d = a->v.d;
			break;
		case PF_A_STRING:
			args[i].type = PF_ARG_STR_IID;
			args[i].v.iid = names_number(&m->tables[PF_STRINGS], a->v.s.p, a->v.s.len);
			break;
		}
	}
	return n;
}

static void write_event(struct merge *m, const struct pf_item *item, int64_t offset_ns)
{
	struct pf_arg args[ARGS_MAX];
	struct pf_seq *s = sequence(m, item->seq, item->track->uuid);
	struct pf_event e = { .ts_ns = shifted(item->ts_ns, offset_ns), .name_iid = number(m, PF_NAMES, item->name), .flow_id = item->flow_id,
		.end_flow_id = item->end_flow_id, .args = args };

	if (item->track->uuid != s->track_uuid)
		e.track_uuid = item->track->uuid;
	e.nargs = convert_args(m, item, args);
	switch (item->kind) {
	case PF_SLICE_BEGIN: pf_begin(&m->w, s, &m->strings, &e); break;
	case PF_SLICE_END: pf_end(&m->w, s, &m->strings, &e); break;
	case PF_INSTANT: pf_instant(&m->w, s, &m->strings, &e); break;
	default: pf_counter(&m->w, s, e.ts_ns, item->track->uuid, item->counter); break;
	}
}

static void note_loss(struct merge *m, const struct pf_item *item)
{
	struct pf_seq *s;

	for (size_t i = 0; i < m->nsequences; i++) {
		s = &m->sequences[i]->seq;
		if (m->sequences[i]->was != item->seq)
			continue;
		s->lost = true;
		s->open = false;	/* its next event begins it anew, and says so */
		m->lost = mem_more(m->lost, m->nlost, &m->lost_cap, sizeof(*m->lost));
		m->lost[m->nlost++] = s->id;
	}
}

static void write_item(struct merge *m, const struct pf_item *item, int64_t offset_ns)
{
	switch (item->kind) {
	case PF_TRACK:
		write_track(m, item->track, offset_ns);
		break;
	case PF_CLOCKS:			/* one is enough to tell the time of day */
		if (!m->clocks_written && item->monotonic_ns && shifted(item->monotonic_ns, offset_ns) >= m->w.snapshot_ns)
			pf_clocks(&m->w, 1, shifted(item->monotonic_ns, offset_ns), item->realtime_ns, offset_ns ? 0 : item->boottime_ns);
		m->clocks_written = true;
		break;
	case PF_LOSS:
		note_loss(m, item);
		break;
	case PF_ATTRIBUTE:		/* of one process: they would overwrite each other */
		break;
	default:
		write_event(m, item, offset_ns);
	}
}

/* ---- what the header promises */

struct merge *merge_open(const char *path, char why[512])
{
	struct merge *m = mem_new(1, sizeof(*m));

	m->path = mem_copy(path);
	m->tmp = mem_format("%s.%ld", path, (long)getpid());
	m->fd = open(m->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (m->fd < 0) {
		say("%.400s: could not be written: %s", path, strerror(errno));
		free(m->path);
		free(m->tmp);
		free(m);
		return NULL;
	}
	m->w = (struct pf_writer){ .buf = mem_new(BLOCK, 1), .cap = BLOCK, .full = write_block, .ctx = m };
	m->strings = (struct pf_strings){ lookup, m };
	m->next_seq = 2;		/* 1: descriptors */
	return m;
}

int merge_file(struct merge *m, const char *path, int64_t offset_ns, char why[512])
{
	struct pf_error err;
	struct pf_item item;
	struct pf_reader *r = pf_reader_open(path, &err);
	int rc;

	if (!r) {
		say("%.200s: %s", path, err.text);
		return -1;
	}
	while ((rc = pf_reader_next(r, &item, &err)) == 1 && !m->error)
		write_item(m, &item, offset_ns);
	pf_reader_close(r);
	forget_sequences(m);
	if (m->error) {
		say("%.400s: could not be written: %s", m->path, strerror(m->error));
		return -1;
	}
	if (rc < 0)
		say("%.200s: %s", path, err.text);
	return rc < 0 ? 1 : 0;
}

uint64_t merge_process(const struct merge *m, const char *host, int pid)
{
	for (size_t i = 0; i < m->nprocesses; i++)
		if (m->processes[i].pid == pid && (!host || !strcmp(m->processes[i].host, host)))
			return m->processes[i].uuid;
	return 0;
}

static uint64_t track_uuid(uint64_t parent_uuid, const char *name)
{
	uint64_t uuid = mem_hash(name, strlen(name), mem_mix(parent_uuid + 1));

	return uuid ? uuid : 1;
}

uint64_t merge_group(struct merge *m, uint64_t parent_uuid, const char *name)
{
	uint64_t uuid = track_uuid(parent_uuid, name);

	pf_track(&m->w, 1, &(struct pf_track){ .uuid = uuid, .parent_uuid = parent_uuid, .name = name, .child_order = PF_ORDER_EXPLICIT });
	return uuid;
}

struct merge_track *merge_track(struct merge *m, uint64_t parent_uuid, const char *name, int32_t order)
{
	struct merge_track *t = mem_new(1, sizeof(*t));

	t->seq.id = m->next_seq++;
	t->seq.track_uuid = track_uuid(parent_uuid, name);
	t->next = m->tracks;
	m->tracks = t;
	pf_track(&m->w, 1, &(struct pf_track){ .uuid = t->seq.track_uuid, .parent_uuid = parent_uuid, .name = name, .rank = order });
	return t;
}

void merge_slice(struct merge *m, struct merge_track *t, const char *name, int64_t start_ns, int64_t end_ns, const char *note)
{
	struct pf_arg arg = { .key_iid = number(m, PF_KEYS, "note"), .type = PF_ARG_STR_IID };
	struct pf_event e = { .ts_ns = (uint64_t)start_ns, .name_iid = number(m, PF_NAMES, name) };

	if (note && *note) {
		arg.v.iid = number(m, PF_STRINGS, note);
		e.args = &arg;
		e.nargs = 1;
	}
	pf_begin(&m->w, &t->seq, &m->strings, &e);
	pf_end(&m->w, &t->seq, &m->strings, &(struct pf_event){ .ts_ns = (uint64_t)end_ns });
}

struct merge_track *merge_counter_track(struct merge *m, uint64_t parent_uuid, const char *name)
{
	struct merge_track *t = mem_new(1, sizeof(*t));

	t->seq.id = m->next_seq++;
	t->seq.track_uuid = track_uuid(parent_uuid, name);
	t->next = m->tracks;
	m->tracks = t;
	pf_counter_track(&m->w, 1, &(struct pf_counter_track){ .uuid = t->seq.track_uuid, .parent_uuid = parent_uuid, .name = name });
	return t;
}

void merge_counter(struct merge *m, struct merge_track *t, int64_t at_ns, int64_t value)
{
	pf_counter(&m->w, &t->seq, (uint64_t)at_ns, t->seq.track_uuid, value);
}

static void merge_free(struct merge *m)
{
	for (int t = 0; t < 3; t++) {
		for (size_t i = 1; i < m->tables[t].n; i++)
			free(m->tables[t].names[i].text);
		free(m->tables[t].names);
		free(m->tables[t].buckets);
	}
	for (size_t i = 0; i < m->nprocesses; i++)
		free(m->processes[i].host);
	for (struct merge_track *t = m->tracks, *next; t; t = next) {
		next = t->next;
		free(t);
	}
	forget_sequences(m);
	free(m->sequences);
	free(m->processes);
	free(m->lost);
	free(m->w.buf);
	free(m->path);
	free(m->tmp);
	free(m);
}

int merge_close(struct merge *m, int keep, char why[512])
{
	int rc = 0;

	if (m->nlost)
		pf_loss(&m->w, m->lost, (unsigned)m->nlost);
	write_block(&m->w);
	if (close(m->fd) && !m->error)
		m->error = errno;
	if (keep && !m->error && rename(m->tmp, m->path))
		m->error = errno;
	if (!keep || m->error)
		unlink(m->tmp);
	if (m->error) {
		say("%.400s: could not be written: %s", m->path, strerror(m->error));
		rc = -1;
	}
	merge_free(m);
	return rc;
}
