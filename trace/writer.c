/* SPDX-License-Identifier: Apache-2.0
 *
 * Perfetto packets by hand. Embedded in the shim's drain: no allocation, no lock, no stdio, async-signal-safe.
 *
 * Each packet is put backwards at the far end of the free room and then moved down to its place. That costs one small
 * memmove and saves sizing every nested message beforehand (see put.h).
 */
#include "trace/writer.h"

#include <errno.h>
#include <string.h>

#include "trace/fields.h"
#include "trace/put.h"

#pragma GCC poison malloc calloc realloc free printf fprintf

/* The incremental clock of every sequence. Private to the sequence, so that one number serves all. */
#define DELTA_CLOCK CLOCK_SEQ_FIRST

#define MAX_ARGS 24
/* A command line longer than this is cut: a descriptor that did not fit a block would be lost whole. */
#define CMDLINE_BUDGET PF_STRING_MAX
#define MAX_LABELS 16

struct text {
	const char *bytes;
	size_t len;
};

/* Everything a packet is made of; what `build` functions read. They change nothing, so that they may run twice. */
struct packet {
	uint32_t seq_id;
	const void *what;
	void (*build)(struct put *o, const struct packet *p);
};

static struct text text_cut(const char *bytes, size_t len)
{
	if (!bytes)
		return (struct text){"", 0};
	if (len > PF_STRING_MAX) {
		len = PF_STRING_MAX;
		while (len && ((uint8_t)bytes[len] & 0xc0) == 0x80)
			len--;
	}
	return (struct text){bytes, len};
}

static void put_text(struct put *o, unsigned field, struct text t)
{
	put_bytes(o, field, t.bytes, t.len);
}

static void put_cstr(struct put *o, unsigned field, const char *s)
{
	if (s)
		put_text(o, field, text_cut(s, strlen(s)));
}

/* Appends the packet when it fits. */
static bool try_append(struct pf_writer *w, const struct packet *p)
{
	uint8_t *const end = w->buf + w->cap;
	struct put o = {.p = end, .low = w->buf + w->len};

	p->build(&o, p);
	put_message(&o, TRACE_PACKET, end);
	if (o.short_of_room)
		return false;
	memmove(w->buf + w->len, o.p, (size_t)(end - o.p));
	w->len += (size_t)(end - o.p);
	w->packets++;
	return true;
}

static bool append_uncounted(struct pf_writer *w, const struct packet *p)
{
	if (try_append(w, p))
		return true;
	return w->full && w->full(w) == 0 && try_append(w, p);
}

static int append(struct pf_writer *w, const struct packet *p)
{
	if (append_uncounted(w, p))
		return 0;
	w->dropped++;
	return -ENOBUFS;
}

/* --- clocks and the start of a sequence --- */

static void put_clock(struct put *o, uint32_t id, uint64_t ns, bool incremental)
{
	const uint8_t *end = o->p;

	if (incremental)
		put_uint(o, CLOCK_IS_INCREMENTAL, 1);
	put_uint(o, CLOCK_TIMESTAMP, ns);
	put_uint(o, CLOCK_ID, id);
	put_message(o, SNAPSHOT_CLOCKS, end);
}

struct start {
	uint64_t track_uuid, now_ns;
	bool lost;
};

static void build_start(struct put *o, const struct packet *p)
{
	const struct start *s = p->what;
	const uint8_t *end = o->p;

	put_uint(o, DEFAULTS_CLOCK_ID, DELTA_CLOCK);
	if (s->track_uuid) {
		const uint8_t *inner = o->p;

		put_uint(o, DEFAULTS_EVENT_TRACK_UUID, s->track_uuid);
		put_message(o, DEFAULTS_TRACK_EVENT, inner);
	}
	put_message(o, PACKET_DEFAULTS, end);

	/* The reason bit matters: 1 alone is what a tracing service writes on every first packet. */
	if (s->lost)
		put_uint(o, PACKET_PREVIOUS_DROPPED, DROPPED_PRESENT | DROPPED_PRODUCER_FULL);
	put_uint(o, PACKET_SEQUENCE_FLAGS, SEQ_STATE_CLEARED);
	put_uint(o, PACKET_SEQUENCE_ID, p->seq_id);

	end = o->p;
	put_uint(o, SNAPSHOT_PRIMARY, BUILTIN_MONOTONIC);
	put_clock(o, DELTA_CLOCK, s->now_ns, true);
	put_clock(o, BUILTIN_MONOTONIC, s->now_ns, false);
	put_message(o, PACKET_CLOCK_SNAPSHOT, end);
}

static bool seq_start(struct pf_writer *w, struct pf_seq *s, uint64_t now_ns)
{
	struct start start = {
		.track_uuid = s->track_uuid,
		.now_ns = now_ns > w->snapshot_ns ? now_ns : w->snapshot_ns,
		.lost = s->lost,
	};
	const struct packet p = {s->id, &start, build_start};

	if (!append_uncounted(w, &p))
		return false;
	w->snapshot_ns = start.now_ns;
	s->last_ns = start.now_ns;
	s->open = true;
	s->lost = false;
	memset(s->seen, 0, sizeof(s->seen));
	return true;
}

int pf_seq_begin(struct pf_writer *w, struct pf_seq *s, uint64_t now_ns)
{
	if (seq_start(w, s, now_ns))
		return 0;
	w->dropped++;
	s->lost = true;
	return -ENOBUFS;
}

struct snapshot {
	uint64_t monotonic_ns, realtime_ns, boottime_ns;
};

static void build_clocks(struct put *o, const struct packet *p)
{
	const struct snapshot *s = p->what;
	const uint8_t *end;

	put_uint(o, PACKET_SEQUENCE_ID, p->seq_id);
	end = o->p;
	put_uint(o, SNAPSHOT_PRIMARY, BUILTIN_MONOTONIC);
	if (s->boottime_ns)
		put_clock(o, BUILTIN_BOOTTIME, s->boottime_ns, false);
	if (s->realtime_ns)
		put_clock(o, BUILTIN_REALTIME, s->realtime_ns, false);
	put_clock(o, BUILTIN_MONOTONIC, s->monotonic_ns, false);
	put_message(o, PACKET_CLOCK_SNAPSHOT, end);
}

int pf_clocks(struct pf_writer *w, uint32_t seq_id, uint64_t monotonic_ns, uint64_t realtime_ns, uint64_t boottime_ns)
{
	struct snapshot s = {monotonic_ns, realtime_ns, boottime_ns};
	const struct packet p = {seq_id, &s, build_clocks};
	int err;

	/* Read just before a sequence's start was: move all three on, their distances are what counts. */
	if (s.monotonic_ns < w->snapshot_ns) {
		uint64_t late_ns = w->snapshot_ns - s.monotonic_ns;

		s.monotonic_ns += late_ns;
		s.realtime_ns += s.realtime_ns ? late_ns : 0;
		s.boottime_ns += s.boottime_ns ? late_ns : 0;
	}
	if (s.realtime_ns < w->realtime_ns)
		s.realtime_ns = 0;
	err = append(w, &p);
	if (err)
		return err;
	w->snapshot_ns = s.monotonic_ns;
	if (s.realtime_ns)
		w->realtime_ns = s.realtime_ns;
	return 0;
}

/* --- events --- */

struct fresh_iid {
	uint32_t iid;
	enum pf_table table;
};

struct event_packet {
	const struct pf_seq *seq;
	const struct pf_strings *strings;
	const struct pf_event *e;
	unsigned nargs;
	enum pf_event_type type;
	int64_t counter;
	struct fresh_iid fresh[1 + 2 * MAX_ARGS];	/* names, then keys, then strings */
	unsigned nfresh;
};

static bool is_interned(uint32_t iid)
{
	return iid && iid < PF_SEQ_NAMES;
}

static struct text text_of(const struct event_packet *ep, enum pf_table table, uint32_t iid)
{
	size_t len = 0;
	const char *bytes = NULL;

	if (ep->strings && ep->strings->lookup)
		bytes = ep->strings->lookup(ep->strings->ctx, table, iid, &len);
	return bytes ? text_cut(bytes, len) : (struct text){"?", 1};
}

static void note_fresh(struct event_packet *ep, enum pf_table table, uint32_t iid)
{
	if (!is_interned(iid) || ep->seq->seen[table][iid / 8] >> iid % 8 & 1)
		return;
	for (unsigned i = 0; i < ep->nfresh; i++)
		if (ep->fresh[i].iid == iid && ep->fresh[i].table == table)
			return;
	ep->fresh[ep->nfresh++] = (struct fresh_iid){iid, table};
}

static void find_fresh(struct event_packet *ep)
{
	note_fresh(ep, PF_NAMES, ep->e->name_iid);
	for (unsigned i = 0; i < ep->nargs; i++)
		note_fresh(ep, PF_KEYS, ep->e->args[i].key_iid);
	for (unsigned i = 0; i < ep->nargs; i++)
		if (ep->e->args[i].type == PF_ARG_STR_IID)
			note_fresh(ep, PF_STRINGS, ep->e->args[i].v.iid);
}

static void put_interned(struct put *o, const struct event_packet *ep)
{
	static const unsigned field_of[] = {
		[PF_NAMES] = INTERNED_EVENT_NAMES,
		[PF_KEYS] = INTERNED_ANNOTATION_NAMES,
		[PF_STRINGS] = INTERNED_ANNOTATION_STRINGS,
	};
	const uint8_t *end = o->p;

	for (unsigned i = ep->nfresh; i-- > 0;) {
		const struct fresh_iid *f = &ep->fresh[i];
		const uint8_t *entry = o->p;

		put_text(o, ENTRY_VALUE, text_of(ep, f->table, f->iid));
		put_uint(o, ENTRY_IID, f->iid);
		put_message(o, field_of[f->table], entry);
	}
	put_message(o, PACKET_INTERNED_DATA, end);
}

static void put_arg(struct put *o, const struct event_packet *ep, const struct pf_arg *a)
{
	const uint8_t *end = o->p;
	bool inline_string = a->type == PF_ARG_STR_IID && !is_interned(a->v.iid);

	if (a->type == PF_ARG_STR_IID && !inline_string)
		put_uint(o, ANNOTATION_STRING_IID, a->v.iid);
	if (!is_interned(a->key_iid))
		put_text(o, ANNOTATION_NAME, text_of(ep, PF_KEYS, a->key_iid));
	if (inline_string)
		put_text(o, ANNOTATION_STRING, text_of(ep, PF_STRINGS, a->v.iid));
	if (a->type == PF_ARG_DOUBLE)
		put_double(o, ANNOTATION_DOUBLE, a->v.d);
	if (a->type == PF_ARG_INT)
		put_int(o, ANNOTATION_INT, a->v.i);
	if (a->type == PF_ARG_UINT)
		put_uint(o, ANNOTATION_UINT, a->v.u);
	if (is_interned(a->key_iid))
		put_uint(o, ANNOTATION_NAME_IID, a->key_iid);
	put_message(o, EVENT_ANNOTATIONS, end);
}

static void put_track_event(struct put *o, const struct event_packet *ep)
{
	const struct pf_event *e = ep->e;
	const uint8_t *end = o->p;

	if (e->end_flow_id)
		put_fixed64(o, EVENT_END_FLOW_IDS, e->end_flow_id);
	if (e->flow_id)
		put_fixed64(o, EVENT_FLOW_IDS, e->flow_id);
	if (ep->type == TYPE_COUNTER)
		put_int(o, EVENT_COUNTER_VALUE, ep->counter);
	if (e->name_iid && !is_interned(e->name_iid))
		put_text(o, EVENT_NAME, text_of(ep, PF_NAMES, e->name_iid));
	if (e->track_uuid && e->track_uuid != ep->seq->track_uuid)
		put_uint(o, EVENT_TRACK_UUID, e->track_uuid);
	if (is_interned(e->name_iid))
		put_uint(o, EVENT_NAME_IID, e->name_iid);
	put_uint(o, EVENT_TYPE, ep->type);
	for (unsigned i = ep->nargs; i-- > 0;)
		put_arg(o, ep, &e->args[i]);
	put_message(o, PACKET_TRACK_EVENT, end);
}

static void build_event(struct put *o, const struct packet *p)
{
	const struct event_packet *ep = p->what;

	/* SEQ_NEEDS_STATE is left out to save two bytes an event: whatever loses packets here restarts the sequence. */
	if (ep->nfresh)
		put_interned(o, ep);
	put_track_event(o, ep);
	put_uint(o, PACKET_SEQUENCE_ID, p->seq_id);
	/* A step back wraps round to the two's complement that the incremental clock takes. */
	put_uint(o, PACKET_TIMESTAMP, ep->e->ts_ns - ep->seq->last_ns);
}

static int write_event(struct pf_writer *w, struct pf_seq *s, const struct pf_strings *t, const struct pf_event *e,
		       enum pf_event_type type, int64_t counter)
{
	struct event_packet ep;
	const struct packet p = {s->id, &ep, build_event};

	if ((!s->open || s->lost) && !seq_start(w, s, e->ts_ns))
		goto lost;
	ep.seq = s;
	ep.strings = t;
	ep.e = e;
	ep.nargs = e->nargs < MAX_ARGS ? e->nargs : MAX_ARGS;
	ep.type = type;
	ep.counter = counter;
	ep.nfresh = 0;
	find_fresh(&ep);
	if (!append_uncounted(w, &p))
		goto lost;
	for (unsigned i = 0; i < ep.nfresh; i++)
		s->seen[ep.fresh[i].table][ep.fresh[i].iid / 8] |= (uint8_t)(1 << ep.fresh[i].iid % 8);
	s->last_ns = e->ts_ns;
	return 0;
lost:
	w->dropped++;
	s->lost = true;
	return -ENOBUFS;
}

int pf_begin(struct pf_writer *w, struct pf_seq *s, const struct pf_strings *t, const struct pf_event *e)
{
	return write_event(w, s, t, e, TYPE_BEGIN, 0);
}

int pf_end(struct pf_writer *w, struct pf_seq *s, const struct pf_strings *t, const struct pf_event *e)
{
	return write_event(w, s, t, e, TYPE_END, 0);
}

int pf_instant(struct pf_writer *w, struct pf_seq *s, const struct pf_strings *t, const struct pf_event *e)
{
	return write_event(w, s, t, e, TYPE_INSTANT, 0);
}

int pf_counter(struct pf_writer *w, struct pf_seq *s, uint64_t ts_ns, uint64_t track_uuid, int64_t value)
{
	const struct pf_event e = {.ts_ns = ts_ns, .track_uuid = track_uuid};

	return write_event(w, s, NULL, &e, TYPE_COUNTER, value);
}

/* --- tracks --- */

/* As many of the strings as the budget holds. */
static unsigned within_budget(const char *const *strings, unsigned n, size_t budget)
{
	for (unsigned i = 0; i < n; i++) {
		size_t len = text_cut(strings[i], strings[i] ? strlen(strings[i]) : 0).len;

		if (len > budget)
			return i;
		budget -= len;
	}
	return n;
}

static void build_process(struct put *o, const struct packet *p)
{
	const struct pf_process *t = p->what;
	const uint8_t *end = o->p, *process = o->p;

	for (unsigned i = t->nlabels < MAX_LABELS ? t->nlabels : MAX_LABELS; i-- > 0;)
		put_cstr(o, PROCESS_LABELS, t->labels[i]);
	if (t->start_ns)
		put_uint(o, PROCESS_START_NS, t->start_ns);
	put_cstr(o, PROCESS_NAME, t->name);
	for (unsigned i = within_budget(t->argv, t->argc, CMDLINE_BUDGET); i-- > 0;)
		put_cstr(o, PROCESS_CMDLINE, t->argv[i]);
	put_int(o, PROCESS_PID, t->pid);
	put_message(o, TRACK_PROCESS, process);
	put_uint(o, TRACK_UUID, t->uuid);
	put_message(o, PACKET_TRACK_DESCRIPTOR, end);
	put_uint(o, PACKET_SEQUENCE_ID, p->seq_id);
}

int pf_process_track(struct pf_writer *w, uint32_t seq_id, const struct pf_process *t)
{
	return append(w, &(struct packet){seq_id, t, build_process});
}

struct thread {
	uint64_t uuid;
	int32_t pid;
	int64_t tid;
	const char *name;
};

static void build_thread(struct put *o, const struct packet *p)
{
	const struct thread *t = p->what;
	const uint8_t *end = o->p, *thread = o->p;

	put_cstr(o, THREAD_NAME, t->name);
	put_int(o, THREAD_TID, t->tid);
	put_int(o, THREAD_PID, t->pid);
	put_message(o, TRACK_THREAD, thread);
	put_uint(o, TRACK_UUID, t->uuid);
	put_message(o, PACKET_TRACK_DESCRIPTOR, end);
	put_uint(o, PACKET_SEQUENCE_ID, p->seq_id);
}

int pf_thread_track(struct pf_writer *w, uint32_t seq_id, uint64_t uuid, int32_t pid, int64_t tid, const char *name)
{
	const struct thread t = {uuid, pid, tid, name};

	return append(w, &(struct packet){seq_id, &t, build_thread});
}

static void build_track(struct put *o, const struct packet *p)
{
	const struct pf_track *t = p->what;
	const uint8_t *end = o->p;

	if (t->no_merge)
		put_uint(o, TRACK_MERGE_BEHAVIOR, MERGE_NONE);
	put_cstr(o, TRACK_DESCRIPTION, t->description);
	if (t->rank)
		put_int(o, TRACK_RANK, t->rank);
	if (t->child_order != PF_ORDER_DEFAULT)
		put_uint(o, TRACK_CHILD_ORDERING, t->child_order);
	if (t->parent_uuid)
		put_uint(o, TRACK_PARENT_UUID, t->parent_uuid);
	put_cstr(o, TRACK_NAME, t->name);
	put_uint(o, TRACK_UUID, t->uuid);
	put_message(o, PACKET_TRACK_DESCRIPTOR, end);
	put_uint(o, PACKET_SEQUENCE_ID, p->seq_id);
}

int pf_track(struct pf_writer *w, uint32_t seq_id, const struct pf_track *t)
{
	return append(w, &(struct packet){seq_id, t, build_track});
}

static void build_counter_track(struct put *o, const struct packet *p)
{
	const struct pf_counter_track *t = p->what;
	const uint8_t *end = o->p, *counter = o->p;

	put_cstr(o, COUNTER_UNIT_NAME, t->unit_name);
	if (t->unit != PF_UNIT_NONE)
		put_uint(o, COUNTER_UNIT, t->unit);
	put_message(o, TRACK_COUNTER, counter);
	if (t->parent_uuid)
		put_uint(o, TRACK_PARENT_UUID, t->parent_uuid);
	put_cstr(o, TRACK_NAME, t->name);
	put_uint(o, TRACK_UUID, t->uuid);
	put_message(o, PACKET_TRACK_DESCRIPTOR, end);
	put_uint(o, PACKET_SEQUENCE_ID, p->seq_id);
}

int pf_counter_track(struct pf_writer *w, uint32_t seq_id, const struct pf_counter_track *t)
{
	return append(w, &(struct packet){seq_id, t, build_counter_track});
}

/* --- what is said about the trace as a whole --- */

struct attribute {
	struct text key, string;
	int64_t value;
	bool is_string;
};

static void build_attribute(struct put *o, const struct packet *p)
{
	const struct attribute *a = p->what;
	const uint8_t *end = o->p, *attribute = o->p;

	if (a->is_string)
		put_text(o, ATTRIBUTE_STRING, a->string);
	else
		put_int(o, ATTRIBUTE_LONG, a->value);
	put_text(o, ATTRIBUTE_KEY, a->key);
	put_message(o, ATTRIBUTES_ATTRIBUTE, attribute);
	put_message(o, PACKET_ATTRIBUTES, end);
	put_uint(o, PACKET_SEQUENCE_ID, p->seq_id);
}

int pf_attr_int(struct pf_writer *w, uint32_t seq_id, const char *key, int64_t value)
{
	const struct attribute a = {.key = text_cut(key, strlen(key)), .value = value};

	return append(w, &(struct packet){seq_id, &a, build_attribute});
}

int pf_attr_str(struct pf_writer *w, uint32_t seq_id, const char *key, const char *value, size_t len)
{
	const struct attribute a = {
		.key = text_cut(key, strlen(key)), .string = text_cut(value, len), .is_string = true,
	};

	return append(w, &(struct packet){seq_id, &a, build_attribute});
}

static void build_uuid(struct put *o, const struct packet *p)
{
	const uint64_t *uuid = p->what;
	const uint8_t *end = o->p;

	put_uint(o, UUID_LSB, uuid[1]);
	put_uint(o, UUID_MSB, uuid[0]);
	put_message(o, PACKET_TRACE_UUID, end);
}

int pf_trace_uuid(struct pf_writer *w, uint64_t msb, uint64_t lsb)
{
	const uint64_t uuid[2] = {msb, lsb};

	return append(w, &(struct packet){0, uuid, build_uuid});
}

struct losers {
	const uint32_t *seq_ids;
	unsigned n;
};

static void build_loss(struct put *o, const struct packet *p)
{
	const struct losers *l = p->what;
	const uint8_t *end = o->p;

	for (unsigned i = l->n; i-- > 0;) {
		const uint8_t *writer = o->p;

		put_uint(o, WRITER_BUFFER, 0);
		put_uint(o, WRITER_SEQUENCE_ID, l->seq_ids[i]);
		put_message(o, STATS_WRITER, writer);
	}
	/* The buffer that the writers point to must exist; what is in it does not matter. */
	put_bytes(o, STATS_BUFFER, "", 0);
	put_message(o, PACKET_TRACE_STATS, end);
}

int pf_loss(struct pf_writer *w, const uint32_t *seq_ids, unsigned n)
{
	const struct losers l = {seq_ids, n};

	return append(w, &(struct packet){0, &l, build_loss});
}
