/* SPDX-License-Identifier: Apache-2.0
 *
 * One decoded item of one file -> the timeline: which thread, stream or counter a track is, what an annotation says, which begin an
 * end belongs to. The hot path of a report: an item of a known track touches only small arrays.
 */
#include "analyzer/feed_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"

enum key { K_UNSEEN, K_OTHER, K_target, K_bytes, K_errno, K_comm, K_seq, K_nranks, K_rank, K_peer, K_dtype, K_op, K_state, K_ca, K_rto,
	K_backoff, K_retrans, K_dsack, K_acked, K_received, K_unacked, K_notsent, K_last_ack_ms, K_last_recv_ms, K_rtt_us, K_min_rtt_us,
	K_rwnd_ms, K_snd_wnd, K_role, K_at, K_address, K_bits, K_since_ns, K_call_ns, K_found, K_result, K_growth, K_interval };

static enum key key_by_name(const char *s)
{
	static const struct { const char *name; enum key key; } keys[] = {
#define K(x) {#x, K_##x}
		K(target), K(bytes), K(errno), K(comm), K(seq), K(nranks), K(rank), K(peer), K(dtype), K(op), K(state), K(ca), K(rto),
		K(backoff), K(retrans), K(dsack), K(acked), K(received), K(unacked), K(notsent), K(last_ack_ms), K(last_recv_ms),
		K(rtt_us), K(min_rtt_us), K(rwnd_ms), K(snd_wnd), K(role), K(at), K(address), K(bits), K(since_ns), K(call_ns), K(found), K(result),
		K(growth), K(interval),
#undef K
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(keys[i].name, s) == 0)
			return keys[i].key;
	return K_OTHER;
}

static enum key key_of(struct feed_file *f, const struct pf_annotation *a)
{
	if (a->key_id >= f->keys_cap) {
		size_t cap = a->key_id + 32;

		f->keys = mem_resize(f->keys, cap, 1);
		memset(f->keys + f->keys_cap, 0, cap - f->keys_cap);
		f->keys_cap = cap;
	}
	if (f->keys[a->key_id] == K_UNSEEN)
		f->keys[a->key_id] = (uint8_t)key_by_name(a->key);
	return f->keys[a->key_id];
}

static const struct text **text_slot(const struct text ***array, size_t *cap, uint32_t id)
{
	if (id >= *cap) {
		size_t n = id + id / 2 + 64;

		*array = mem_resize(*array, n, sizeof(**array));
		memset(*array + *cap, 0, (n - *cap) * sizeof(**array));
		*cap = n;
	}
	return &(*array)[id];
}

static const struct text *name_of(struct feed_file *f, struct timeline *tl, const struct pf_item *it)
{
	const struct text **slot = text_slot(&f->names, &f->names_cap, it->name_id);

	if (!*slot || !it->name_id)
		*slot = timeline_name(tl, it->name ? it->name : "");
	return *slot;
}

static const struct text *target_of(struct feed_file *f, struct timeline *tl, const struct process *p, const struct pf_annotation *a)
{
	const struct text **slot = NULL;
	char copy[4200];
	size_t len = a->v.s.len < sizeof(copy) - 1 ? a->v.s.len : sizeof(copy) - 1;

	if (a->v.s.id) {
		slot = text_slot(&f->strings, &f->strings_cap, a->v.s.id);
		/* a foreign file may hold several processes: then a number's text depends on whose it is */
		if (*slot && f->process)
			return *slot;
	}
	memcpy(copy, a->v.s.p, len);
	copy[len] = '\0';
	if (!slot)
		return timeline_target(tl, p, copy);
	return *slot = timeline_target(tl, p, copy);
}

static const struct text *at_of(struct feed_file *f, struct timeline *tl, const struct pf_annotation *a)
{
	const struct text **slot = a->v.s.id ? text_slot(&f->strings, &f->strings_cap, a->v.s.id) : NULL;
	char copy[4200];
	size_t len = a->v.s.len < sizeof(copy) - 1 ? a->v.s.len : sizeof(copy) - 1;

	if (slot && *slot)
		return *slot;
	memcpy(copy, a->v.s.p, len);
	copy[len] = '\0';
	if (!slot)
		return timeline_name(tl, copy);
	return *slot = timeline_name(tl, copy);
}

static int64_t number(const struct pf_annotation *a)
{
	switch (a->type) {
	case PF_A_DOUBLE: return (int64_t)a->v.d;
	case PF_A_STRING: return 0;
	default: return a->v.i;
	}
}

/* ---- what a track is ---- */

static void fill_process(struct process *p, const struct pf_track_info *t, int64_t offset_ns)
{
	size_t len = 0;

	if (t->start_ns && !p->start_ns)
		p->start_ns = (int64_t)t->start_ns + offset_ns;
	if (!t->argc || p->command) {
		if (!p->command && t->name && t->name[0])
			p->command = mem_copy(t->name);
		return;
	}
	for (unsigned i = 0; i < t->argc; i++)
		len += strlen(t->argv[i]) + 1;
	p->command = mem_new(len + 1, 1);
	for (unsigned i = 0; i < t->argc; i++) {
		if (i)
			strcat((char *)p->command, " ");
		strcat((char *)p->command, t->argv[i]);
	}
}

static void fill_attributes(struct process *p, const struct feed_head *h)
{
	p->ppid = h->ppid;
	p->rank = h->rank;
	p->local_rank = h->local_rank;
	p->world_size = h->world_size;
	p->cpus = h->cpus;
}

static struct process *process_of(struct feed_file *f, struct timeline *tl, int pid)
{
	struct process *p;

	if (f->process && (f->head.ours || f->process->pid == pid))
		return f->process;
	if (f->head.ours) {
		p = timeline_process(tl, f->head.host, f->head.pid ? f->head.pid : pid, f->family);
		fill_attributes(p, &f->head);
		/* the snapshot with which the file begins comes before anything says whose it is */
		p->first_ns = p->last_ns = f->head.first_ns + f->offset_ns;
		f->process = p;
		return p;
	}
	p = timeline_process_of(tl, f->head.host, pid, INT64_MAX);
	if (!p)
		p = timeline_process(tl, f->head.host, pid, (uint64_t)pid);
	return p;
}

static struct pf_track_info *by_uuid(const struct feed_file *f, uint64_t uuid)
{
	for (size_t i = 0; i < f->nuuids; i++)
		if (f->uuids[i].uuid == uuid)
			return f->uuids[i].info;
	return NULL;
}

static void remember(struct feed_file *f, struct pf_track_info *info)
{
	if (by_uuid(f, info->uuid) || info->is_counter || f->nuuids > 20000)
		return;
	f->uuids = mem_more(f->uuids, f->nuuids, &f->uuids_cap, sizeof(*f->uuids));
	f->uuids[f->nuuids].uuid = info->uuid;
	f->uuids[f->nuuids++].info = info;
}

static bool counter_by_name(const char *name, enum use_counter *which)
{
	static const char *const names[USE_COUNTERS] = {
		[USE_CPU] = "cpu ns", [USE_RUNQUEUE] = "runqueue ns", [USE_SHORT_FILE] = "short file ns",
		[USE_SHORT_SOCKET] = "short socket ns", [USE_SHORT_OTHER] = "short other ns", [USE_FOLDED] = "folded ns",
	};

	for (int i = 0; i < USE_COUNTERS; i++)
		if (strcmp(name, names[i]) == 0)
			return *which = (enum use_counter)i, true;
	return false;
}

static struct feed_track *track_of(struct feed_file *f, struct timeline *tl, struct pf_track_info *t);

static void classify(struct feed_file *f, struct timeline *tl, struct pf_track_info *t, struct feed_track *ft)
{
	struct pf_track_info *parent = t->parent_uuid ? by_uuid(f, t->parent_uuid) : NULL;
	struct feed_track *up = parent && parent != t ? track_of(f, tl, parent) : NULL;
	unsigned n;

	if (t->is_process) {
		ft->kind = FT_PROCESS;
		ft->process = process_of(f, tl, t->pid);
		fill_process(ft->process, t, f->offset_ns);
	} else if (t->is_thread) {
		ft->kind = FT_THREAD;
		ft->process = process_of(f, tl, t->pid);
		ft->thread = timeline_thread(tl, ft->process, t->tid);
		if (t->name && t->name[0])
			timeline_thread_name(ft->thread, t->name);
	} else if (t->is_counter) {
		if (up && up->thread && counter_by_name(t->name, &ft->counter)) {
			ft->kind = FT_COUNTER;
			ft->process = up->process;
			ft->thread = up->thread;
		}
	} else if (up && up->process && !up->thread) {
		ft->process = up->process;
		ft->device = up->device;
		if (!up->device && sscanf(t->name, "GPU %u", &n) == 1) {
			ft->device = timeline_device(tl, up->process, (int)n);
		} else if (up->device && sscanf(t->name, "stream %u", &n) == 1) {
			ft->kind = FT_STREAM;
			ft->stream = n;
		}
	}
	if (ft->kind == FT_THREAD || ft->kind == FT_STREAM)
		ft->stack = mem_new(FEED_STACK, sizeof(*ft->stack));
}

static struct feed_track *track_of(struct feed_file *f, struct timeline *tl, struct pf_track_info *t)
{
	struct feed_track *ft = t->user;

	if (ft)
		return ft;
	t->user = ft = mem_new(1, sizeof(*ft));
	ft->next = f->tracks;
	f->tracks = ft;
	remember(f, t);
	classify(f, tl, t, ft);
	return ft;
}

/* A later descriptor may name what an earlier one left open. */
static void refine(struct feed_file *f, struct timeline *tl, struct pf_track_info *t)
{
	struct feed_track *ft = t->user;

	if (!ft) {
		track_of(f, tl, t);
		return;
	}
	remember(f, t);
	if (ft->kind == FT_IGNORED && !ft->device)
		classify(f, tl, t, ft);
	else if (ft->kind == FT_THREAD && t->name && t->name[0] && (!ft->thread->name || strcmp(ft->thread->name, t->name)))
		timeline_thread_name(ft->thread, t->name);
	else if (ft->kind == FT_PROCESS)
		fill_process(ft->process, t, f->offset_ns);
}

/* ---- slices ---- */

static void read_args(struct feed_file *f, struct timeline *tl, const struct feed_track *ft, const struct pf_item *it, struct feed_open_slice *o)
{
	for (unsigned i = 0; i < it->nargs; i++) {
		const struct pf_annotation *a = &it->args[i];

		switch (key_of(f, a)) {
		case K_target:
			if (a->type == PF_A_STRING)
				o->s.target = target_of(f, tl, ft->process, a);
			break;
		case K_at:
			if (a->type == PF_A_STRING)
				o->s.at = at_of(f, tl, a);
			break;
		case K_bytes: o->s.bytes = number(a); break;
		case K_errno: o->s.err = (int32_t)number(a); break;
		case K_comm: o->nccl.comm = (uint64_t)number(a); o->s.nccl = &o->nccl; break;
		case K_seq: o->nccl.seq = (uint64_t)number(a); break;
		case K_nranks: o->nccl.nranks = (uint32_t)number(a); break;
		case K_rank: o->nccl.rank = (uint32_t)number(a); break;
		case K_peer: o->nccl.peer = (uint32_t)number(a); break;
		case K_dtype: o->nccl.dtype = (uint32_t)number(a); break;
		case K_op: o->nccl.op = (uint32_t)number(a); break;
		default: break;
		}
	}
	if (o->s.nccl)
		o->s.nccl = &o->nccl;
}

static void put_op(struct timeline *tl, const struct feed_track *ft, const struct feed_open_slice *o)
{
	struct op op = {.start_ns = o->s.start_ns, .end_ns = o->s.end_ns, .name = o->s.name, .bytes = o->s.bytes,
		.stream = ft->stream, .flow = o->s.flow};

	timeline_op(tl, ft->device, &op);
}

static void slice_begin(struct feed_file *f, struct timeline *tl, struct feed_track *ft, const struct pf_item *it, int64_t ts)
{
	struct feed_open_slice *o;

	if (ft->depth == FEED_STACK) {
		ft->ignored_depth++;
		return;
	}
	o = &ft->stack[ft->depth++];
	o->s = (struct slice){.start_ns = ts, .end_ns = NS_OPEN, .name = name_of(f, tl, it), .bytes = -1,
		.flow = ft->kind == FT_STREAM && it->end_flow_id ? it->end_flow_id : it->flow_id};
	o->in_timeline = false;
	if (it->nargs) {
		memset(&o->nccl, 0, sizeof(o->nccl));
		read_args(f, tl, ft, it, o);
	}
}

static void slice_end(struct feed_file *f, struct timeline *tl, struct feed_track *ft, const struct pf_item *it, int64_t ts)
{
	struct feed_open_slice *o;

	if (ft->ignored_depth) {
		ft->ignored_depth--;
		return;
	}
	if (!ft->depth)
		return;
	o = &ft->stack[--ft->depth];
	if (ts < o->s.start_ns)
		ts = o->s.start_ns;
	if (it->nargs)
		read_args(f, tl, ft, it, o);
	if (ft->kind == FT_STREAM) {
		o->s.end_ns = ts;
		put_op(tl, ft, o);
	} else if (o->in_timeline) {
		timeline_call_end(tl, ft->thread, &o->s, ts);
	} else {
		o->s.end_ns = ts;
		timeline_call(tl, ft->thread, &o->s);
	}
}

void feed_show_open(struct feed_file *f, struct timeline *tl, bool at_end)
{
	for (struct feed_track *ft = f->tracks; ft; ft = ft->next) {
		for (unsigned i = 0; i < ft->depth; i++) {
			struct feed_open_slice *o = &ft->stack[i];

			if (ft->kind == FT_THREAD && !o->in_timeline) {
				if (o->s.nccl)
					o->s.nccl = &o->nccl;
				timeline_call(tl, ft->thread, &o->s);
				o->in_timeline = true;
			} else if (ft->kind == FT_STREAM && at_end) {
				o->s.end_ns = f->newest_ns > o->s.start_ns ? f->newest_ns : o->s.start_ns;
				put_op(tl, ft, o);
			}
		}
		if (ft->kind == FT_STREAM && at_end)
			ft->depth = 0;
	}
}

/* ---- sockets, attributes ---- */

static void tcp_instant(struct feed_file *f, struct timeline *tl, struct feed_track *ft, const struct pf_item *it, int64_t ts)
{
	struct tcp_sample s = {.at_ns = ts};
	const struct text *target = NULL;
	int role = -1;

	for (unsigned i = 0; i < it->nargs; i++) {
		const struct pf_annotation *a = &it->args[i];
		int64_t v = number(a);

		switch (key_of(f, a)) {
		case K_target:
			if (a->type == PF_A_STRING)
				target = target_of(f, tl, ft->process, a);
			break;
		case K_state: s.state = (uint8_t)v; break;
		case K_ca: s.ca = (uint8_t)v; break;
		case K_rto: s.rto = (uint8_t)v; break;
		case K_backoff: s.backoff = (uint8_t)v; break;
		case K_retrans: s.retrans = v; break;
		case K_dsack: s.dsack = v; break;
		case K_acked: s.acked = v; break;
		case K_received: s.received = v; break;
		case K_unacked: s.unacked = v; break;
		case K_notsent: s.notsent = v; break;
		case K_last_ack_ms: s.last_ack_ms = v; break;
		case K_last_recv_ms: s.last_recv_ms = v; break;
		case K_rtt_us: s.rtt_us = v; break;
		case K_min_rtt_us: s.min_rtt_us = v; break;
		case K_rwnd_ms: s.rwnd_ms = v; break;
		case K_snd_wnd: s.snd_wnd = v; break;
		case K_role:
			if (a->type == PF_A_STRING)
				role = a->v.s.len == 4 && !memcmp(a->v.s.p, "nccl", 4) ? ROLE_NCCL :
					a->v.s.len == 14 && !memcmp(a->v.s.p, "nccl-bootstrap", 14) ? ROLE_NCCL_BOOTSTRAP : ROLE_OTHER;
			break;
		default: break;
		}
	}
	if (target) {
		struct connection *c = timeline_connection(tl, ft->process, target);

		timeline_tcp(tl, c, &s);
		if (role > 0)
			c->role = role;
	}
}

static void scaler_instant(struct feed_file *f, struct feed_track *ft, const struct pf_item *it, int64_t ts)
{
	struct scaler_note n = {.start_ns = ts, .end_ns = ts, .update = !strcmp(it->name, "scaler update")};
	int64_t since = 0;

	for (unsigned i = 0; i < it->nargs; i++) {
		const struct pf_annotation *a = &it->args[i];
		int64_t v = number(a);
		double d = a->type == PF_A_DOUBLE ? a->v.d : (double)v;

		switch (key_of(f, a)) {
		case K_address:
			n.address = (uint64_t)v;
			n.known = true;
			break;
		case K_found: n.found = (uint64_t)v; break;
		case K_result: n.result = (uint64_t)v; break;
		case K_growth: n.growth = d; break;
		case K_backoff: n.backoff = d; break;
		case K_interval: n.interval = v; break;
		case K_bits: n.bits = (uint32_t)v; break;
		case K_bytes: n.bytes = (uint32_t)v; break;
		case K_since_ns: since = v; break;
		case K_call_ns: n.call_ns = v; break;
		default: break;
		}
	}
	if (!n.update && !n.bytes)
		return;
	n.start_ns -= since;
	timeline_add_note(ft->thread, &n);
}

static void set_text(const char **at, const char *value)
{
	free((char *)*at);
	*at = mem_copy(value);
}

static void attribute(struct feed_file *f, struct timeline *tl, const struct pf_item *it)
{
	struct process *p;
	const char *k = it->attr_key;
	unsigned gpu;
	char tail[8];

	if (strncmp(k, "whyidle.", 8) || !f->head.ours)
		return;
	k += 8;
	p = process_of(f, tl, f->head.pid);
	if (it->attr_is_int) {
		if (!strcmp(k, "dropped"))
			p->dropped = it->attr_int;
		else if (!strcmp(k, "rank"))
			p->rank = (int)it->attr_int;
		else if (!strcmp(k, "local_rank"))
			p->local_rank = (int)it->attr_int;
		else if (!strcmp(k, "world_size"))
			p->world_size = (int)it->attr_int;
		else if (!strcmp(k, "cpus"))
			p->cpus = (int)it->attr_int;
		else if (!strcmp(k, "ppid"))
			p->ppid = (int)it->attr_int;
	} else if (it->attr_str) {
		if (!strcmp(k, "gpu"))
			set_text(&p->gpu, it->attr_str);
		else if (!strcmp(k, "end"))
			set_text(&p->end, it->attr_str);
		else if (sscanf(k, "gpu.%u.%7s", &gpu, tail) == 2 && !strcmp(tail, "name"))
			set_text(&timeline_device(tl, p, (int)gpu)->name, it->attr_str);
	}
}

void feed_item(struct feed_file *f, struct timeline *tl, const struct pf_item *it, int64_t *events)
{
	int64_t ts = (int64_t)it->ts_ns + f->offset_ns;
	struct feed_track *ft;

	switch (it->kind) {
	case PF_CLOCKS:
		if (it->monotonic_ns && it->realtime_ns) {
			ts = (int64_t)it->monotonic_ns + f->offset_ns;
			if (f->head.ours && ts - 2000000000 > f->watermark_ns)
				f->watermark_ns = ts - 2000000000;
			if (f->process && ts > f->process->last_ns)
				f->process->last_ns = ts;
			if (f->process && ts < f->process->first_ns)
				f->process->first_ns = ts;
		}
		return;
	case PF_ATTRIBUTE:
		attribute(f, tl, it);
		return;
	case PF_LOSS:
		f->lost += it->lost_packets ? (int64_t)it->lost_packets : 1;
		return;
	case PF_TRACK:
		refine(f, tl, it->track);
		return;
	default:
		break;
	}
	ft = it->track->user ? it->track->user : track_of(f, tl, it->track);
	if (!ft->process)
		return;
	if (ts > f->newest_ns)
		f->newest_ns = ts;
	if (ts > ft->process->last_ns)
		ft->process->last_ns = ts;
	if (ts < ft->process->first_ns)
		ft->process->first_ns = ts;
	switch (it->kind) {
	case PF_SLICE_BEGIN:
		++*events;
		if (ft->stack)
			slice_begin(f, tl, ft, it, ts);
		break;
	case PF_SLICE_END:
		if (ft->stack)
			slice_end(f, tl, ft, it, ts);
		break;
	case PF_COUNTER:
		if (ft->kind == FT_COUNTER)
			timeline_use_sample(ft->thread, ft->counter, ts, it->counter);
		break;
	case PF_INSTANT:
		++*events;
		if (ft->kind == FT_PROCESS && it->name && !strcmp(it->name, "tcp"))
			tcp_instant(f, tl, ft, it, ts);
		else if (ft->kind == FT_THREAD && it->name && !strncmp(it->name, "scaler ", 7))
			scaler_instant(f, ft, it, ts);
		break;
	default:
		break;
	}
}

void feed_file_close(struct feed_file *f)
{
	struct feed_track *next;

	for (struct feed_track *ft = f->tracks; ft; ft = next) {
		next = ft->next;
		free(ft->stack);
		free(ft);
	}
	f->tracks = NULL;
	if (f->reader)
		pf_reader_close(f->reader);
	f->reader = NULL;
	free(f->names);
	free(f->strings);
	free(f->keys);
	free(f->uuids);
	f->names = f->strings = NULL;
	f->keys = NULL;
	f->uuids = NULL;
	f->names_cap = f->strings_cap = f->keys_cap = f->nuuids = f->uuids_cap = 0;
}
