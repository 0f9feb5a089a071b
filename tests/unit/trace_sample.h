/* SPDX-License-Identifier: Apache-2.0
 *
 * Small trace files made with the writer, for tests of what reads them: one process, its main thread, one GPU stream.
 */
#ifndef WHYIDLE_TESTS_TRACE_SAMPLE_H
#define WHYIDLE_TESTS_TRACE_SAMPLE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/writer.h"

enum { SAMPLE_STRINGS = 256 };

struct sample {
	struct pf_writer w;
	struct pf_seq process, main, gpu;
	uint64_t uuid;
	int fd, pid;
	uint8_t block[1 << 16];
	char strings[3][SAMPLE_STRINGS][96];	/* by table, from 1 */
};

static inline int sample_full(struct pf_writer *w)
{
	struct sample *s = w->ctx;

	if (write(s->fd, w->buf, w->len) != (ssize_t)w->len)
		return -1;
	w->len = 0;
	return 0;
}

static inline const char *sample_lookup(void *ctx, enum pf_table table, uint32_t iid, size_t *len)
{
	struct sample *s = ctx;

	*len = strlen(s->strings[table][iid]);
	return s->strings[table][iid];
}

static inline uint32_t sample_string(struct sample *s, enum pf_table table, const char *text)
{
	uint32_t i = 1;

	while (s->strings[table][i][0] && strcmp(s->strings[table][i], text))
		i++;
	snprintf(s->strings[table][i], sizeof(s->strings[table][i]), "%s", text);
	return i;
}

/* Begins the file; attributes come with sample_attributes. real_ns = REALTIME at mono_ns. */
static inline struct sample *sample_open(const char *path, int pid, uint64_t mono_ns, uint64_t real_ns)
{
	struct sample *s = calloc(1, sizeof(*s));
	const char *argv[] = {"python3", "train.py"};

	s->fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	s->pid = pid;
	s->uuid = (uint64_t)pid * 1000000;
	s->w = (struct pf_writer){.buf = s->block, .cap = sizeof(s->block), .full = sample_full, .ctx = s};
	s->process = (struct pf_seq){.id = 1, .track_uuid = s->uuid};
	s->main = (struct pf_seq){.id = 2, .track_uuid = s->uuid + 1};
	s->gpu = (struct pf_seq){.id = 0x10000, .track_uuid = s->uuid + 3};
	pf_clocks(&s->w, 1, mono_ns, real_ns, mono_ns);
	pf_process_track(&s->w, 1, &(struct pf_process){.uuid = s->uuid, .pid = pid, .start_ns = mono_ns, .name = "python3", .argv = argv, .argc = 2});
	pf_thread_track(&s->w, 1, s->uuid + 1, pid, pid, "python3");
	return s;
}

static inline void sample_attributes(struct sample *s, const char *host, const char *boot, int ppid, int rank)
{
	pf_attr_int(&s->w, 1, "whyidle.schema", 1);
	pf_attr_str(&s->w, 1, "whyidle.host", host, strlen(host));
	pf_attr_str(&s->w, 1, "whyidle.boot", boot, strlen(boot));
	pf_attr_int(&s->w, 1, "whyidle.pid", s->pid);
	pf_attr_int(&s->w, 1, "whyidle.ppid", ppid);
	pf_attr_int(&s->w, 1, "whyidle.rank", rank);
	pf_attr_int(&s->w, 1, "whyidle.cpus", 8);
}

static inline void sample_gpu(struct sample *s)
{
	pf_track(&s->w, 1, &(struct pf_track){.uuid = s->uuid + 2, .parent_uuid = s->uuid, .name = "GPU 0"});
	pf_track(&s->w, 1, &(struct pf_track){.uuid = s->uuid + 3, .parent_uuid = s->uuid + 2, .name = "stream 7"});
	pf_attr_str(&s->w, 1, "whyidle.gpu", "cupti", 5);
	pf_attr_str(&s->w, 1, "whyidle.gpu.0.name", "Test GPU", 8);
}

static inline void sample_begin(struct sample *s, struct pf_seq *seq, const char *name, const char *target, int64_t bytes, uint64_t at, uint64_t flow)
{
	const struct pf_strings t = {sample_lookup, s};
	struct pf_arg args[2];
	unsigned n = 0;

	if (!seq->open)
		pf_seq_begin(&s->w, seq, at);
	if (target)
		args[n++] = (struct pf_arg){.key_iid = sample_string(s, PF_KEYS, "target"), .type = PF_ARG_STR_IID, .v.iid = sample_string(s, PF_STRINGS, target)};
	if (bytes >= 0)
		args[n++] = (struct pf_arg){.key_iid = sample_string(s, PF_KEYS, "bytes"), .type = PF_ARG_INT, .v.i = bytes};
	pf_begin(&s->w, seq, &t, &(struct pf_event){.ts_ns = at, .name_iid = sample_string(s, PF_NAMES, name), .args = args, .nargs = n,
		.flow_id = seq == &s->gpu ? 0 : flow, .end_flow_id = seq == &s->gpu ? flow : 0});
}

static inline void sample_end(struct sample *s, struct pf_seq *seq, uint64_t at)
{
	const struct pf_strings t = {sample_lookup, s};

	pf_end(&s->w, seq, &t, &(struct pf_event){.ts_ns = at});
}

static inline void sample_slice(struct sample *s, struct pf_seq *seq, const char *name, const char *target, int64_t bytes, uint64_t a, uint64_t b,
	uint64_t flow)
{
	sample_begin(s, seq, name, target, bytes, a, flow);
	sample_end(s, seq, b);
}

static inline void sample_snapshot(struct sample *s, uint64_t mono_ns, uint64_t real_ns)
{
	pf_clocks(&s->w, 1, mono_ns, real_ns, mono_ns);
}

static inline void sample_close(struct sample *s, const char *end)
{
	if (end)
		pf_attr_str(&s->w, 1, "whyidle.end", end, strlen(end));
	sample_full(&s->w);
	close(s->fd);
	free(s);
}

#endif
