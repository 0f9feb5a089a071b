/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds the hand-written packets against protobuf-c: the same events are put into protobuf-c's structs by a model of what
 * the writer promises (interning, delta clock, restarts), packed, and compared byte for byte.
 * WHYIDLE_SEED=n repeats a run.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "trace/whyidle.pb-c.h"
#include "trace/writer.h"

static uint64_t rng_state;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static uint64_t below(uint64_t n)
{
	return rng() % n;
}

/* A number whose size in bits is itself random, so that varints of each length come up. */
static uint64_t any_number(void)
{
	return rng() >> below(64);
}

static void seed_rng(void)
{
	const char *given = getenv("WHYIDLE_SEED");

	rng_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u;
	rng_state |= 1;
	print_message("WHYIDLE_SEED=%llu\n", (unsigned long long)rng_state);
}

/* --- strings: what iid n of a table says is made from n, so that model and writer need no shared table --- */

static const char *string_of(enum pf_table table, uint32_t iid, size_t *len)
{
	static char text[3][70000];
	static const char *const words[] = {"name", "key", "string"};
	char *t = text[table];
	int n = snprintf(t, sizeof(text[0]), "%s %u ", words[table], iid);

	/* every seventh is long, some longer than the writer keeps; "ä" makes cuts hard */
	*len = (size_t)n;
	if (iid % 7 == 3)
		for (size_t want = iid % 11000; *len + 2 <= want; *len += 2)
			memcpy(t + *len, "\xc3\xa4", 2);
	return t;
}

static const char *lookup(void *ctx, enum pf_table table, uint32_t iid, size_t *len)
{
	(void)ctx;
	/* some are not known to the caller */
	return iid % 97 == 13 ? NULL : string_of(table, iid, len);
}

static const struct pf_strings strings = {lookup, NULL};

/* As the writer must print it: "?" when unknown, cut at 8192 bytes at a character's border. New memory. */
static char *expected_text(enum pf_table table, uint32_t iid)
{
	size_t len;
	const char *t;

	if (iid % 97 == 13)
		return strdup("?");
	t = string_of(table, iid, &len);
	if (len > PF_STRING_MAX) {
		len = PF_STRING_MAX;
		while (len && ((uint8_t)t[len] & 0xc0) == 0x80)
			len--;
	}
	return strndup(t, len);
}

/* --- the model: packs with protobuf-c into `want` --- */

static uint8_t want[1 << 21], got[1 << 21];
static size_t want_len;

/* The trace with this one packet in it, appended to `want`. */
static void want_packet(Whyidle__TracePacket *p)
{
	Whyidle__Trace trace = WHYIDLE__TRACE__INIT;

	trace.n_packet = 1;
	trace.packet = &p;
	assert_true(want_len + whyidle__trace__get_packed_size(&trace) <= sizeof(want));
	want_len += whyidle__trace__pack(&trace, want + want_len);
}

struct model {
	uint64_t last_ns;
	uint8_t seen[3][PF_SEQ_NAMES];
};

static void model_begin(struct model *m, const struct pf_seq *s, uint64_t now_ns, bool lost)
{
	Whyidle__TracePacket p = WHYIDLE__TRACE_PACKET__INIT;
	Whyidle__ClockSnapshot snapshot = WHYIDLE__CLOCK_SNAPSHOT__INIT;
	Whyidle__ClockSnapshot__Clock monotonic = WHYIDLE__CLOCK_SNAPSHOT__CLOCK__INIT;
	Whyidle__ClockSnapshot__Clock delta = WHYIDLE__CLOCK_SNAPSHOT__CLOCK__INIT;
	Whyidle__ClockSnapshot__Clock *clocks[] = {&monotonic, &delta};
	Whyidle__TracePacketDefaults defaults = WHYIDLE__TRACE_PACKET_DEFAULTS__INIT;
	Whyidle__TrackEventDefaults event_defaults = WHYIDLE__TRACK_EVENT_DEFAULTS__INIT;

	monotonic.has_clock_id = delta.has_clock_id = true;
	monotonic.has_timestamp = delta.has_timestamp = true;
	monotonic.clock_id = 3;
	delta.clock_id = 64;
	monotonic.timestamp = delta.timestamp = now_ns;
	delta.has_is_incremental = delta.is_incremental = true;
	snapshot.n_clocks = 2;
	snapshot.clocks = clocks;
	snapshot.has_primary_trace_clock = true;
	snapshot.primary_trace_clock = WHYIDLE__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC;
	defaults.has_timestamp_clock_id = true;
	defaults.timestamp_clock_id = 64;
	if (s->track_uuid) {
		event_defaults.has_track_uuid = true;
		event_defaults.track_uuid = s->track_uuid;
		defaults.track_event_defaults = &event_defaults;
	}
	p.has_trusted_packet_sequence_id = true;
	p.trusted_packet_sequence_id = s->id;
	p.has_sequence_flags = true;
	p.sequence_flags = WHYIDLE__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
	p.clock_snapshot = &snapshot;
	p.trace_packet_defaults = &defaults;
	p.has_previous_packet_dropped = lost;
	p.previous_packet_dropped = 257;
	want_packet(&p);
	memset(m, 0, sizeof(*m));
	m->last_ns = now_ns;
}

/* The interned entries that an event must carry, in the order of its fields. */
struct interned {
	Whyidle__InternedName names[40], *name_list[40], *key_list[40];
	Whyidle__InternedString strings[40], *string_list[40];
	unsigned n, nnames, nkeys, nstrings;
};

static void intern(struct model *m, struct interned *in, enum pf_table table, uint32_t iid)
{
	char *text;

	if (iid == 0 || iid >= PF_SEQ_NAMES || m->seen[table][iid])
		return;
	m->seen[table][iid] = 1;
	text = expected_text(table, iid);
	if (table == PF_STRINGS) {
		Whyidle__InternedString *s = &in->strings[in->n++];

		whyidle__interned_string__init(s);
		s->has_iid = s->has_str = true;
		s->iid = iid;
		s->str.data = (uint8_t *)text;
		s->str.len = strlen(text);
		in->string_list[in->nstrings++] = s;
	} else {
		Whyidle__InternedName *n = &in->names[in->n++];

		whyidle__interned_name__init(n);
		n->has_iid = true;
		n->iid = iid;
		n->name = text;
		if (table == PF_NAMES)
			in->name_list[in->nnames++] = n;
		else
			in->key_list[in->nkeys++] = n;
	}
}

static void interned_free(struct interned *in)
{
	for (unsigned i = 0; i < in->nnames; i++)
		free(in->name_list[i]->name);
	for (unsigned i = 0; i < in->nkeys; i++)
		free(in->key_list[i]->name);
	for (unsigned i = 0; i < in->nstrings; i++)
		free(in->string_list[i]->str.data);
}

static void model_arg(Whyidle__DebugAnnotation *d, const struct pf_arg *a)
{
	whyidle__debug_annotation__init(d);
	if (a->key_iid > 0 && a->key_iid < PF_SEQ_NAMES) {
		d->has_name_iid = true;
		d->name_iid = a->key_iid;
	} else {
		d->name = expected_text(PF_KEYS, a->key_iid);
	}
	switch (a->type) {
	case PF_ARG_UINT:
		d->has_uint_value = true;
		d->uint_value = a->v.u;
		break;
	case PF_ARG_INT:
		d->has_int_value = true;
		d->int_value = a->v.i;
		break;
	case PF_ARG_DOUBLE:
		d->has_double_value = true;
		d->double_value = a->v.d;
		break;
	case PF_ARG_STR_IID:
		if (a->v.iid > 0 && a->v.iid < PF_SEQ_NAMES) {
			d->has_string_value_iid = true;
			d->string_value_iid = a->v.iid;
		} else {
			d->string_value = expected_text(PF_STRINGS, a->v.iid);
		}
		break;
	}
}

static void model_event(struct model *m, const struct pf_seq *s, const struct pf_event *e, unsigned type, int64_t counter)
{
	Whyidle__TracePacket p = WHYIDLE__TRACE_PACKET__INIT;
	Whyidle__TrackEvent t = WHYIDLE__TRACK_EVENT__INIT;
	Whyidle__InternedData data = WHYIDLE__INTERNED_DATA__INIT;
	Whyidle__DebugAnnotation annotations[16], *list[16];
	struct interned in = {0};
	uint64_t flow = e->flow_id, end_flow = e->end_flow_id;

	intern(m, &in, PF_NAMES, e->name_iid);
	for (unsigned i = 0; i < e->nargs; i++)
		intern(m, &in, PF_KEYS, e->args[i].key_iid);
	for (unsigned i = 0; i < e->nargs; i++)
		if (e->args[i].type == PF_ARG_STR_IID)
			intern(m, &in, PF_STRINGS, e->args[i].v.iid);
	data.n_event_names = in.nnames;
	data.event_names = in.name_list;
	data.n_debug_annotation_names = in.nkeys;
	data.debug_annotation_names = in.key_list;
	data.n_debug_annotation_string_values = in.nstrings;
	data.debug_annotation_string_values = in.string_list;

	t.has_type = true;
	t.type = type;
	if (e->name_iid > 0 && e->name_iid < PF_SEQ_NAMES) {
		t.has_name_iid = true;
		t.name_iid = e->name_iid;
	} else if (e->name_iid) {
		t.name = expected_text(PF_NAMES, e->name_iid);
	}
	if (e->track_uuid && e->track_uuid != s->track_uuid) {
		t.has_track_uuid = true;
		t.track_uuid = e->track_uuid;
	}
	t.has_counter_value = type == WHYIDLE__TRACK_EVENT__TYPE__TYPE_COUNTER;
	t.counter_value = counter;
	t.n_flow_ids = flow != 0;
	t.flow_ids = &flow;
	t.n_terminating_flow_ids = end_flow != 0;
	t.terminating_flow_ids = &end_flow;
	t.n_debug_annotations = e->nargs;
	t.debug_annotations = list;
	for (unsigned i = 0; i < e->nargs; i++) {
		model_arg(&annotations[i], &e->args[i]);
		list[i] = &annotations[i];
	}

	p.has_timestamp = true;
	p.timestamp = e->ts_ns - m->last_ns;
	p.has_trusted_packet_sequence_id = true;
	p.trusted_packet_sequence_id = s->id;
	p.track_event = &t;
	p.interned_data = in.n ? &data : NULL;
	want_packet(&p);
	m->last_ns = e->ts_ns;

	free(t.name);
	for (unsigned i = 0; i < e->nargs; i++) {
		free(annotations[i].name);
		free(annotations[i].string_value);
	}
	interned_free(&in);
}

/* --- random input --- */

static uint32_t any_iid(void)
{
	static const uint32_t limits[] = {8, 200, PF_SEQ_NAMES + 2, 100000};

	return (uint32_t)below(limits[below(4)]);
}

static void any_args(struct pf_arg *args, struct pf_event *e)
{
	e->args = args;
	e->nargs = (unsigned)(below(3) ? 0 : below(17));
	for (unsigned i = 0; i < e->nargs; i++) {
		args[i].key_iid = any_iid();
		args[i].type = (enum pf_arg_type)below(4);
		args[i].v.u = any_number();
		if (args[i].type == PF_ARG_STR_IID)
			args[i].v.iid = any_iid();
	}
}

static void any_event(struct pf_event *e, struct pf_arg *args, uint64_t *now_ns)
{
	int64_t step = (int64_t)below(1u << below(30));

	*now_ns += (uint64_t)(below(8) ? step : -step);
	*e = (struct pf_event){
		.ts_ns = *now_ns,
		.name_iid = any_iid(),
		.track_uuid = below(4) ? 0 : any_number(),
		.flow_id = below(4) ? 0 : any_number(),
		.end_flow_id = below(4) ? 0 : any_number(),
	};
	any_args(args, e);
}

static void assert_same_bytes(const struct pf_writer *w)
{
	for (size_t i = 0; i < w->len && i < want_len; i++)
		if (w->buf[i] != want[i])
			fail_msg("byte %zu differs: wrote %02x, protobuf-c has %02x", i, w->buf[i], want[i]);
	assert_int_equal(w->len, want_len);
}

static void writer_equals_protobuf_c_for_random_events(void **state)
{
	static struct model model[3];
	static struct pf_seq seq[3];
	(void)state;

	seed_rng();
	for (unsigned round = 0; round < 300; round++) {
		struct pf_writer w = {.buf = got, .cap = sizeof(got)};
		uint64_t now_ns = any_number() >> 2, snapshot_ns = 0;

		want_len = 0;
		for (unsigned i = 0; i < 3; i++)
			seq[i] = (struct pf_seq){.id = (uint32_t)any_number() | 1, .track_uuid = below(4) ? any_number() : 0};
		for (unsigned n = 0; n < 100 && w.len < sizeof(got) / 2; n++) {
			unsigned i = (unsigned)below(3);
			struct pf_arg args[16];
			struct pf_event e;
			int64_t counter = (int64_t)any_number();

			any_event(&e, args, &now_ns);
			if (!seq[i].open || below(20) == 0) {
				uint64_t at = e.ts_ns > snapshot_ns ? e.ts_ns : snapshot_ns;

				snapshot_ns = at;
				model_begin(&model[i], &seq[i], at, seq[i].lost);
				/* half the time the first event begins the sequence itself */
				if (seq[i].open || below(2))
					assert_int_equal(pf_seq_begin(&w, &seq[i], e.ts_ns), 0);
			}
			switch (below(4)) {
			case 0:
				model_event(&model[i], &seq[i], &e, WHYIDLE__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, 0);
				assert_int_equal(pf_begin(&w, &seq[i], &strings, &e), 0);
				break;
			case 1:
				model_event(&model[i], &seq[i], &e, WHYIDLE__TRACK_EVENT__TYPE__TYPE_SLICE_END, 0);
				assert_int_equal(pf_end(&w, &seq[i], &strings, &e), 0);
				break;
			case 2:
				model_event(&model[i], &seq[i], &e, WHYIDLE__TRACK_EVENT__TYPE__TYPE_INSTANT, 0);
				assert_int_equal(pf_instant(&w, &seq[i], &strings, &e), 0);
				break;
			default:
				e = (struct pf_event){.ts_ns = e.ts_ns, .track_uuid = e.track_uuid};
				model_event(&model[i], &seq[i], &e, WHYIDLE__TRACK_EVENT__TYPE__TYPE_COUNTER, counter);
				assert_int_equal(pf_counter(&w, &seq[i], e.ts_ns, e.track_uuid, counter), 0);
			}
		}
		assert_same_bytes(&w);
		assert_int_equal(w.dropped, 0);
	}
}

/* --- descriptors and what stands alone --- */

static Whyidle__TracePacket on_sequence(uint32_t id)
{
	Whyidle__TracePacket p = WHYIDLE__TRACE_PACKET__INIT;

	p.has_trusted_packet_sequence_id = true;
	p.trusted_packet_sequence_id = id;
	return p;
}

static void writer_equals_protobuf_c_for_processes(void **state)
{
	struct pf_writer w = {.buf = got, .cap = sizeof(got)};
	const char *argv[] = {"python3", "", "train.py", "--lr=0.1"}, *labels[] = {"rank 0", "host a"};
	const struct pf_process process = {
		.uuid = UINT64_MAX, .pid = 1234, .start_ns = 987654321, .name = "python3", .argv = argv, .argc = 4,
		.labels = labels, .nlabels = 2,
	};
	Whyidle__TracePacket p = on_sequence(1);
	Whyidle__TrackDescriptor t = WHYIDLE__TRACK_DESCRIPTOR__INIT;
	Whyidle__ProcessDescriptor d = WHYIDLE__PROCESS_DESCRIPTOR__INIT;
	(void)state;

	want_len = 0;
	p.track_descriptor = &t;
	t.has_uuid = true;
	t.uuid = UINT64_MAX;
	t.process = &d;
	d.has_pid = true;
	d.pid = 1234;
	d.n_cmdline = 4;
	d.cmdline = (char **)argv;
	d.process_name = "python3";
	d.has_start_timestamp_ns = true;
	d.start_timestamp_ns = 987654321;
	d.n_process_labels = 2;
	d.process_labels = (char **)labels;
	want_packet(&p);
	assert_int_equal(pf_process_track(&w, 1, &process), 0);
	assert_same_bytes(&w);
}

static void writer_equals_protobuf_c_for_threads(void **state)
{
	struct pf_writer w = {.buf = got, .cap = sizeof(got)};
	Whyidle__TracePacket p = on_sequence(300);
	Whyidle__TrackDescriptor t = WHYIDLE__TRACK_DESCRIPTOR__INIT;
	Whyidle__ThreadDescriptor d = WHYIDLE__THREAD_DESCRIPTOR__INIT;
	(void)state;

	want_len = 0;
	p.track_descriptor = &t;
	t.has_uuid = true;
	t.uuid = 77;
	t.thread = &d;
	d.has_pid = d.has_tid = true;
	d.pid = -1;
	d.tid = INT64_MIN;
	want_packet(&p);
	assert_int_equal(pf_thread_track(&w, 300, 77, -1, INT64_MIN, NULL), 0);
	d.thread_name = "pt_data_worker";
	want_packet(&p);
	assert_int_equal(pf_thread_track(&w, 300, 77, -1, INT64_MIN, "pt_data_worker"), 0);
	assert_same_bytes(&w);
}

static void writer_equals_protobuf_c_for_plain_tracks(void **state)
{
	struct pf_writer w = {.buf = got, .cap = sizeof(got)};
	const struct pf_track track = {
		.uuid = 5, .parent_uuid = 1ull << 63, .name = "GPU 0", .description = "H100", .child_order = PF_ORDER_EXPLICIT,
		.rank = -3, .no_merge = true,
	};
	const struct pf_track bare = {.uuid = 6, .name = "stream 7"};
	Whyidle__TracePacket p = on_sequence(1), q = on_sequence(1);
	Whyidle__TrackDescriptor t = WHYIDLE__TRACK_DESCRIPTOR__INIT, u = WHYIDLE__TRACK_DESCRIPTOR__INIT;
	(void)state;

	want_len = 0;
	p.track_descriptor = &t;
	t.has_uuid = t.has_parent_uuid = t.has_child_ordering = t.has_sibling_order_rank = t.has_sibling_merge_behavior = true;
	t.uuid = 5;
	t.parent_uuid = 1ull << 63;
	t.name = "GPU 0";
	t.description = "H100";
	t.child_ordering = WHYIDLE__TRACK_DESCRIPTOR__CHILD_TRACKS_ORDERING__EXPLICIT;
	t.sibling_order_rank = -3;
	t.sibling_merge_behavior = WHYIDLE__TRACK_DESCRIPTOR__SIBLING_MERGE_BEHAVIOR__SIBLING_MERGE_BEHAVIOR_NONE;
	want_packet(&p);
	assert_int_equal(pf_track(&w, 1, &track), 0);

	q.track_descriptor = &u;
	u.has_uuid = true;
	u.uuid = 6;
	u.name = "stream 7";
	want_packet(&q);
	assert_int_equal(pf_track(&w, 1, &bare), 0);
	assert_same_bytes(&w);
}

static void writer_equals_protobuf_c_for_counter_tracks(void **state)
{
	struct pf_writer w = {.buf = got, .cap = sizeof(got)};
	(void)state;

	want_len = 0;
	for (unsigned unit = PF_UNIT_NONE; unit <= PF_UNIT_BYTES; unit++) {
		const struct pf_counter_track track = {
			.uuid = 9, .parent_uuid = 8, .name = "cpu ns", .unit = (enum pf_unit)unit,
			.unit_name = unit ? NULL : "GB/s",
		};
		Whyidle__TracePacket p = on_sequence(1);
		Whyidle__TrackDescriptor t = WHYIDLE__TRACK_DESCRIPTOR__INIT;
		Whyidle__CounterDescriptor c = WHYIDLE__COUNTER_DESCRIPTOR__INIT;

		p.track_descriptor = &t;
		t.has_uuid = t.has_parent_uuid = true;
		t.uuid = 9;
		t.parent_uuid = 8;
		t.name = "cpu ns";
		t.counter = &c;
		c.has_unit = unit != 0;
		c.unit = (Whyidle__CounterDescriptor__Unit)unit;
		c.unit_name = unit ? NULL : "GB/s";
		want_packet(&p);
		assert_int_equal(pf_counter_track(&w, 1, &track), 0);
	}
	assert_same_bytes(&w);
}

static void want_clocks(uint64_t monotonic_ns, uint64_t realtime_ns, uint64_t boottime_ns)
{
	const uint64_t values[] = {monotonic_ns, realtime_ns, boottime_ns};
	const uint32_t ids[] = {3, 1, 6};
	Whyidle__TracePacket p = on_sequence(1);
	Whyidle__ClockSnapshot s = WHYIDLE__CLOCK_SNAPSHOT__INIT;
	Whyidle__ClockSnapshot__Clock clocks[3], *list[3];

	p.clock_snapshot = &s;
	s.clocks = list;
	s.has_primary_trace_clock = true;
	s.primary_trace_clock = WHYIDLE__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC;
	for (unsigned i = 0; i < 3; i++) {
		Whyidle__ClockSnapshot__Clock *c = &clocks[i];

		if (!values[i])
			continue;
		whyidle__clock_snapshot__clock__init(c);
		c->has_clock_id = c->has_timestamp = true;
		c->clock_id = ids[i];
		c->timestamp = values[i];
		list[s.n_clocks++] = c;
	}
	want_packet(&p);
}

static void writer_equals_protobuf_c_for_clocks(void **state)
{
	struct pf_writer w = {.buf = got, .cap = sizeof(got)};
	(void)state;

	want_len = 0;
	want_clocks(1000, 1u << 31, 1010);
	assert_int_equal(pf_clocks(&w, 1, 1000, 1u << 31, 1010), 0);
	want_clocks(2000, 0, 0);
	assert_int_equal(pf_clocks(&w, 1, 2000, 0, 0), 0);
	/* read before the last one: moved on, since Perfetto refuses snapshots that go back */
	want_clocks(2000, UINT64_MAX / 2 + 300, 0);
	assert_int_equal(pf_clocks(&w, 1, 1700, UINT64_MAX / 2, 0), 0);
	/* the wall clock was set back: left out until it is past where it was */
	want_clocks(3000, 0, 7);
	assert_int_equal(pf_clocks(&w, 1, 3000, UINT64_MAX / 2 - 5, 7), 0);
	want_clocks(4000, UINT64_MAX / 2 + 301, 0);
	assert_int_equal(pf_clocks(&w, 1, 4000, UINT64_MAX / 2 + 301, 0), 0);
	assert_same_bytes(&w);
}

static void writer_equals_protobuf_c_for_attributes(void **state)
{
	struct pf_writer w = {.buf = got, .cap = sizeof(got)};
	Whyidle__TracePacket p = on_sequence(1);
	Whyidle__TraceAttributes attributes = WHYIDLE__TRACE_ATTRIBUTES__INIT;
	Whyidle__TraceAttributes__Attribute a = WHYIDLE__TRACE_ATTRIBUTES__ATTRIBUTE__INIT, *list[] = {&a};
	(void)state;

	want_len = 0;
	p.trace_attributes = &attributes;
	attributes.n_attribute = 1;
	attributes.attribute = list;
	a.key = "whyidle.rank";
	a.has_long_value = true;
	a.long_value = -1;
	want_packet(&p);
	assert_int_equal(pf_attr_int(&w, 1, "whyidle.rank", -1), 0);
	a.key = "whyidle.host";
	a.has_long_value = false;
	a.string_value = "node7";
	want_packet(&p);
	assert_int_equal(pf_attr_str(&w, 1, "whyidle.host", "node7 and more", 5), 0);
	assert_same_bytes(&w);
}

static void writer_equals_protobuf_c_for_uuid_and_loss(void **state)
{
	struct pf_writer w = {.buf = got, .cap = sizeof(got)};
	const uint32_t ids[] = {2, 65536};
	Whyidle__TracePacket p = WHYIDLE__TRACE_PACKET__INIT, q = WHYIDLE__TRACE_PACKET__INIT;
	Whyidle__TraceUuid uuid = WHYIDLE__TRACE_UUID__INIT;
	Whyidle__TraceStats stats = WHYIDLE__TRACE_STATS__INIT;
	Whyidle__TraceStats__BufferStats buffer = WHYIDLE__TRACE_STATS__BUFFER_STATS__INIT, *buffers[] = {&buffer};
	Whyidle__TraceStats__WriterStats writer[2], *writers[2] = {&writer[0], &writer[1]};
	(void)state;

	want_len = 0;
	p.trace_uuid = &uuid;
	uuid.has_msb = uuid.has_lsb = true;
	uuid.msb = INT64_MIN;
	uuid.lsb = 42;
	want_packet(&p);
	assert_int_equal(pf_trace_uuid(&w, 1ull << 63, 42), 0);

	q.trace_stats = &stats;
	stats.n_buffer_stats = 1;
	stats.buffer_stats = buffers;
	stats.n_writer_stats = 2;
	stats.writer_stats = writers;
	for (unsigned i = 0; i < 2; i++) {
		whyidle__trace_stats__writer_stats__init(&writer[i]);
		writer[i].has_sequence_id = writer[i].has_buffer = true;
		writer[i].sequence_id = ids[i];
	}
	want_packet(&q);
	assert_int_equal(pf_loss(&w, ids, 2), 0);
	assert_same_bytes(&w);
}

/* --- size, room, loss --- */

static void writer_needs_at_most_28_bytes_for_a_bare_slice(void **state)
{
	struct pf_writer w = {.buf = got, .cap = sizeof(got)};
	static struct pf_seq s = {.id = 2, .track_uuid = 1};
	struct pf_event e = {.ts_ns = 1000000, .name_iid = 200};
	size_t before;
	(void)state;

	assert_int_equal(pf_begin(&w, &s, &strings, &e), 0);
	before = w.len;
	/* gaps and lengths up to 2 ms, names beyond the 127th */
	for (unsigned i = 0; i < 1000; i++) {
		e.ts_ns += 2000000;
		assert_int_equal(pf_begin(&w, &s, &strings, &e), 0);
		assert_int_equal(pf_end(&w, &s, NULL, &(struct pf_event){.ts_ns = e.ts_ns += 2000000}), 0);
	}
	assert_true((w.len - before) / 1000 <= 28);
}

struct sink {
	uint8_t *bytes;
	size_t len, cap;
	unsigned calls, refuse_from;	/* refuses from this call on; 0 = never */
	int err;
};

static int flush(struct pf_writer *w)
{
	struct sink *sink = w->ctx;

	sink->calls++;
	if (sink->refuse_from && sink->calls >= sink->refuse_from)
		return sink->err;
	assert_true(sink->len + w->len <= sink->cap);
	memcpy(sink->bytes + sink->len, w->buf, w->len);
	sink->len += w->len;
	w->len = 0;
	return 0;
}

static unsigned count_packets(const uint8_t *bytes, size_t len)
{
	Whyidle__Trace *t = whyidle__trace__unpack(NULL, len, bytes);
	unsigned n;

	assert_non_null(t);
	n = (unsigned)t->n_packet;
	whyidle__trace__free_unpacked(t, NULL);
	return n;
}

static void writer_hands_over_whole_packets_only(void **state)
{
	static uint8_t out[1 << 16];
	(void)state;

	for (size_t cap = 120; cap < 300; cap += 7) {
		uint8_t *buf = malloc(cap);
		struct sink sink = {.bytes = out, .cap = sizeof(out)};
		struct pf_writer w = {.buf = buf, .cap = cap, .full = flush, .ctx = &sink};
		struct pf_seq s = {.id = 2, .track_uuid = 1};
		struct pf_event e = {.ts_ns = 1000000};

		for (unsigned i = 0; i < 200; i++) {
			size_t already = sink.len;

			e.name_iid = 1 + i % 2;
			e.ts_ns += 100;
			assert_int_equal(pf_begin(&w, &s, &strings, &e), 0);
			if (sink.len > already)
				count_packets(out, sink.len);
		}
		assert_int_equal(flush(&w), 0);
		assert_int_equal(count_packets(out, sink.len), w.packets);
		assert_int_equal(w.packets, 201);
		assert_int_equal(w.dropped, 0);
		free(buf);
	}
}

static void writer_drops_whole_and_restarts_the_sequence_with_a_mark(void **state)
{
	uint8_t buf[160];
	struct sink sink = {.refuse_from = 1, .err = -ENOSPC};
	struct pf_writer w = {.buf = buf, .cap = sizeof(buf), .full = flush, .ctx = &sink};
	static struct pf_seq s = {.id = 2, .track_uuid = 1};
	static struct model m;
	struct pf_event e = {.ts_ns = 1000000, .name_iid = 1};
	unsigned kept = 0;
	size_t len;
	(void)state;

	while (pf_begin(&w, &s, &strings, &e) == 0)
		kept++;
	assert_true(kept > 1);
	assert_true(s.lost);
	assert_int_equal(w.dropped, 1);
	assert_int_equal(w.packets, kept + 1);
	assert_int_equal(count_packets(buf, w.len), kept + 1);
	/* still no room: the buffer stays as it is, each event is counted once */
	len = w.len;
	assert_int_equal(pf_begin(&w, &s, &strings, &e), -ENOBUFS);
	assert_int_equal(pf_counter(&w, &s, 5, 6, 7), -ENOBUFS);
	assert_int_equal(w.dropped, 3);
	assert_int_equal(w.len, len);
	/* room again: the mark, then the event with its name once more */
	w.len = 0;
	want_len = 0;
	e.ts_ns += 50;
	model_begin(&m, &s, e.ts_ns, true);
	model_event(&m, &s, &e, WHYIDLE__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, 0);
	assert_int_equal(pf_begin(&w, &s, &strings, &e), 0);
	assert_same_bytes(&w);
	assert_false(s.lost);
	/* and no second mark */
	want_len = w.len = 0;
	e.ts_ns += 50;
	model_event(&m, &s, &e, WHYIDLE__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, 0);
	assert_int_equal(pf_begin(&w, &s, &strings, &e), 0);
	assert_same_bytes(&w);
}

static void writer_marks_loss_when_the_begin_itself_had_no_room(void **state)
{
	uint8_t buf[200];
	struct pf_writer w = {.buf = buf, .cap = 10};
	static struct pf_seq s = {.id = 2, .track_uuid = 1};
	static struct model m;
	(void)state;

	assert_int_equal(pf_seq_begin(&w, &s, 1000), -ENOBUFS);
	assert_int_equal(w.dropped, 1);
	assert_int_equal(w.len, 0);
	w.cap = sizeof(buf);
	want_len = 0;
	model_begin(&m, &s, 2000, true);
	assert_int_equal(pf_seq_begin(&w, &s, 2000), 0);
	assert_same_bytes(&w);
}

static void writer_never_writes_outside_its_buffer(void **state)
{
	(void)state;
	for (size_t cap = 0; cap < 200; cap++) {
		uint8_t *buf = malloc(cap + 2);
		struct pf_writer w = {.buf = buf + 1, .cap = cap};
		struct pf_seq s = {.id = 2, .track_uuid = 1};
		struct pf_arg arg = {.key_iid = 1, .type = PF_ARG_STR_IID, .v.iid = 2};
		struct pf_event e = {.ts_ns = 1, .name_iid = 1, .args = &arg, .nargs = 1};
		const char *argv[] = {"a", "b"};

		buf[0] = buf[cap + 1] = 0xee;
		for (unsigned i = 0; i < 4; i++)
			pf_begin(&w, &s, &strings, &e);
		pf_process_track(&w, 1, &(struct pf_process){.uuid = 1, .pid = 2, .argv = argv, .argc = 2});
		pf_attr_str(&w, 1, "key", "value", 5);
		assert_true(w.len <= cap);
		assert_int_equal(buf[0], 0xee);
		assert_int_equal(buf[cap + 1], 0xee);
		if (w.len)
			count_packets(w.buf, w.len);
		free(buf);
	}
}

static void writer_cuts_a_long_command_line(void **state)
{
	struct pf_writer w = {.buf = got, .cap = 1 << 14};
	static char *argv[5000];
	Whyidle__Trace *t;
	(void)state;

	for (unsigned i = 0; i < 5000; i++)
		argv[i] = "--option=value";
	assert_int_equal(pf_process_track(&w, 1, &(struct pf_process){.uuid = 1, .pid = 2,
			 .argv = (const char *const *)argv, .argc = 5000}), 0);
	t = whyidle__trace__unpack(NULL, w.len, w.buf);
	assert_non_null(t);
	assert_true(t->packet[0]->track_descriptor->process->n_cmdline > 100);
	assert_true(t->packet[0]->track_descriptor->process->n_cmdline < 5000);
	whyidle__trace__free_unpacked(t, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writer_equals_protobuf_c_for_random_events),
		cmocka_unit_test(writer_equals_protobuf_c_for_processes),
		cmocka_unit_test(writer_equals_protobuf_c_for_threads),
		cmocka_unit_test(writer_equals_protobuf_c_for_plain_tracks),
		cmocka_unit_test(writer_equals_protobuf_c_for_counter_tracks),
		cmocka_unit_test(writer_equals_protobuf_c_for_clocks),
		cmocka_unit_test(writer_equals_protobuf_c_for_attributes),
		cmocka_unit_test(writer_equals_protobuf_c_for_uuid_and_loss),
		cmocka_unit_test(writer_needs_at_most_28_bytes_for_a_bare_slice),
		cmocka_unit_test(writer_hands_over_whole_packets_only),
		cmocka_unit_test(writer_drops_whole_and_restarts_the_sequence_with_a_mark),
		cmocka_unit_test(writer_marks_loss_when_the_begin_itself_had_no_room),
		cmocka_unit_test(writer_never_writes_outside_its_buffer),
		cmocka_unit_test(writer_cuts_a_long_command_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
