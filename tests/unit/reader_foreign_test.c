/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader on traces that other tools write: made with protobuf-c, in ways that our writer never uses.
 */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace/reader.h"
#include "trace/whyidle.pb-c.h"

static uint8_t trace[1 << 16];
static size_t trace_len;

static void add(Whyidle__TracePacket *p)
{
	Whyidle__Trace t = WHYIDLE__TRACE__INIT;

	t.n_packet = 1;
	t.packet = &p;
	assert_true(trace_len + whyidle__trace__get_packed_size(&t) <= sizeof(trace));
	trace_len += whyidle__trace__pack(&t, trace + trace_len);
}

static Whyidle__TracePacket packet_at(uint64_t timestamp, uint32_t seq)
{
	Whyidle__TracePacket p = WHYIDLE__TRACE_PACKET__INIT;

	p.has_timestamp = true;
	p.timestamp = timestamp;
	p.has_trusted_packet_sequence_id = seq != 0;
	p.trusted_packet_sequence_id = seq;
	return p;
}

/* An event as simple tools write it: name inline, time absolute. clock 0 = none given. */
static void add_event(uint64_t timestamp, uint32_t clock, Whyidle__TrackEvent__Type type, const char *name)
{
	Whyidle__TracePacket p = packet_at(timestamp, 5);
	Whyidle__TrackEvent e = WHYIDLE__TRACK_EVENT__INIT;

	p.has_timestamp_clock_id = clock != 0;
	p.timestamp_clock_id = clock;
	p.track_event = &e;
	e.has_type = e.has_track_uuid = true;
	e.type = type;
	e.track_uuid = 1234;
	e.name = (char *)name;
	add(&p);
}

#define TYPE(name) WHYIDLE__TRACK_EVENT__TYPE__TYPE_##name

struct reading {
	uint32_t id;
	uint64_t value;
	uint64_t unit_ns;		/* 0 = not said */
	bool incremental;
};

static void add_snapshot(uint32_t seq, uint32_t primary, unsigned n, const struct reading *readings)
{
	Whyidle__TracePacket p = WHYIDLE__TRACE_PACKET__INIT;
	Whyidle__ClockSnapshot s = WHYIDLE__CLOCK_SNAPSHOT__INIT;
	Whyidle__ClockSnapshot__Clock clocks[8], *list[8];

	p.has_trusted_packet_sequence_id = true;
	p.trusted_packet_sequence_id = seq;
	p.clock_snapshot = &s;
	s.n_clocks = n;
	s.clocks = list;
	s.has_primary_trace_clock = primary != 0;
	s.primary_trace_clock = (Whyidle__BuiltinClock)primary;
	for (unsigned i = 0; i < n; i++) {
		list[i] = &clocks[i];
		whyidle__clock_snapshot__clock__init(&clocks[i]);
		clocks[i].has_clock_id = clocks[i].has_timestamp = true;
		clocks[i].clock_id = readings[i].id;
		clocks[i].timestamp = readings[i].value;
		clocks[i].has_unit_multiplier_ns = readings[i].unit_ns != 0;
		clocks[i].unit_multiplier_ns = readings[i].unit_ns;
		clocks[i].has_is_incremental = clocks[i].is_incremental = readings[i].incremental;
	}
	add(&p);
}

#define SNAPSHOT(seq, primary, ...) \
	add_snapshot(seq, primary, sizeof((struct reading[]){__VA_ARGS__}) / sizeof(struct reading), (struct reading[]){__VA_ARGS__})

static struct pf_reader *open_trace(void)
{
	struct pf_error err = {0};
	struct pf_reader *r = pf_reader_open_memory(trace, trace_len, &err);

	if (!r)
		fail_msg("%s", err.text);
	return r;
}

/* The next item, which must be of that kind. */
static struct pf_item next(struct pf_reader *r, enum pf_kind kind)
{
	struct pf_item item;
	struct pf_error err = {0};
	int rc = pf_reader_next(r, &item, &err);

	if (rc != 1)
		fail_msg("no item of kind %d: %d %s", kind, rc, err.text);
	assert_int_equal(item.kind, kind);
	return item;
}

static void assert_end(struct pf_reader *r)
{
	struct pf_item item;
	struct pf_error err;

	assert_int_equal(pf_reader_next(r, &item, &err), 0);
	pf_reader_close(r);
}

static int start(void **state)
{
	(void)state;
	trace_len = 0;
	return 0;
}

static void reader_takes_absolute_times_and_inline_names(void **state)
{
	struct pf_reader *r;
	struct pf_item item;
	(void)state;

	add_event(UINT64_C(1) << 40, 0, TYPE(SLICE_BEGIN), "forward");
	add_event((UINT64_C(1) << 40) + 5, 0, TYPE(SLICE_END), NULL);
	add_event((UINT64_C(1) << 40) + 9, 6, TYPE(SLICE_BEGIN), "forward");
	r = open_trace();
	item = next(r, PF_SLICE_BEGIN);
	assert_int_equal(item.ts_ns, UINT64_C(1) << 40);
	assert_string_equal(item.name, "forward");
	assert_int_equal(item.track->uuid, 1234);
	assert_string_equal(item.track->name, "");
	item = next(r, PF_SLICE_END);
	assert_string_equal(item.name, "");
	item = next(r, PF_SLICE_BEGIN);
	assert_int_equal(item.name_id, 1);
	assert_int_equal(item.ts_ns, (UINT64_C(1) << 40) + 9);
	assert_end(r);
}

static void reader_converts_clocks_by_the_latest_snapshot(void **state)
{
	struct pf_reader *r;
	(void)state;

	/* BOOTTIME in it: that is the trace's clock */
	SNAPSHOT(5, 0, {6, 1000}, {3, 400}, {1, 5000000}, {64, 7, 1000});
	add_event(410, 3, TYPE(INSTANT), "a");
	add_event(5000020, 1, TYPE(INSTANT), "b");
	add_event(9, 64, TYPE(INSTANT), "c");
	/* a second one ties MONOTONIC to BOOTTIME anew, and a global clock to MONOTONIC only */
	SNAPSHOT(5, 0, {6, 2000}, {3, 1401});
	SNAPSHOT(5, 0, {3, 1500}, {200, 1});
	add_event(1402, 3, TYPE(INSTANT), "d");
	add_event(3, 200, TYPE(INSTANT), "e");
	r = open_trace();
	assert_int_equal(next(r, PF_CLOCKS).boottime_ns, 1000);
	assert_int_equal(next(r, PF_INSTANT).ts_ns, 1010);
	assert_int_equal(next(r, PF_INSTANT).ts_ns, 1020);
	assert_int_equal(next(r, PF_INSTANT).ts_ns, 3000);
	assert_int_equal(next(r, PF_CLOCKS).monotonic_ns, 1401);
	assert_int_equal(next(r, PF_CLOCKS).monotonic_ns, 1500);
	assert_int_equal(next(r, PF_INSTANT).ts_ns, 2001);
	assert_int_equal(next(r, PF_INSTANT).ts_ns, 2101);
	assert_end(r);
}

static void reader_reports_events_whose_clock_is_never_explained(void **state)
{
	struct pf_reader *r;
	(void)state;

	SNAPSHOT(5, 3, {3, 100}, {6, 200});
	add_event(7, 64, TYPE(INSTANT), "lost");
	add_event(107, 3, TYPE(INSTANT), "kept");
	r = open_trace();
	next(r, PF_CLOCKS);
	assert_int_equal(next(r, PF_LOSS).lost_packets, 1);
	assert_int_equal(next(r, PF_INSTANT).ts_ns, 107);
	assert_end(r);
}

static void reader_looks_ahead_for_the_snapshot_of_a_clock(void **state)
{
	char path[] = "/tmp/whyidle-foreign-XXXXXX";
	struct pf_error err;
	struct pf_reader *r;
	int fd = mkstemp(path);
	(void)state;

	add_event(10, 3, TYPE(INSTANT), "a");
	add_event(3, 70, TYPE(INSTANT), "b");
	add_event(9, 99, TYPE(INSTANT), "never explained");
	SNAPSHOT(5, 0, {6, 1000}, {3, 5}, {70, 1, 10});
	SNAPSHOT(5, 0, {6, 9000}, {3, 8000}, {70, 100, 10});
	assert_true(fd >= 0);
	assert_int_equal(write(fd, trace, trace_len), trace_len);
	close(fd);
	r = pf_reader_open(path, &err);
	unlink(path);
	assert_non_null(r);
	/* gone meanwhile: said to be lost, not guessed */
	assert_int_equal(next(r, PF_LOSS).lost_packets, 1);
	pf_reader_close(r);

	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, trace, trace_len), trace_len);
	close(fd);
	r = pf_reader_open(path, &err);
	assert_non_null(r);
	assert_int_equal(next(r, PF_INSTANT).ts_ns, 1005);
	assert_int_equal(next(r, PF_INSTANT).ts_ns, 1020);
	assert_int_equal(next(r, PF_LOSS).lost_packets, 1);
	next(r, PF_CLOCKS);
	next(r, PF_CLOCKS);
	assert_end(r);
	unlink(path);
}

static void reader_skips_packets_that_need_state_they_do_not_have(void **state)
{
	struct pf_reader *r;
	struct pf_item item;
	Whyidle__TrackEvent e = WHYIDLE__TRACK_EVENT__INIT;
	Whyidle__InternedName name = WHYIDLE__INTERNED_NAME__INIT, *names[] = {&name};
	Whyidle__InternedData data = WHYIDLE__INTERNED_DATA__INIT;
	Whyidle__TracePacket p = packet_at(10, 5);
	(void)state;

	name.has_iid = true;
	name.iid = 7;
	name.name = "seven";
	data.n_event_names = 1;
	data.event_names = names;
	e.has_type = e.has_name_iid = true;
	e.type = TYPE(INSTANT);
	e.name_iid = 7;
	p.track_event = &e;
	p.interned_data = &data;
	p.has_sequence_flags = true;
	p.sequence_flags = 2;
	add(&p);			/* before any start: skipped, its names too */
	p.sequence_flags = 3;
	add(&p);			/* started */
	p.interned_data = NULL;
	p.sequence_flags = 2;
	add(&p);			/* known */
	p.has_previous_packet_dropped = true;
	p.previous_packet_dropped = 1;
	add(&p);			/* something was lost: not known any more */
	p.has_previous_packet_dropped = false;
	add(&p);
	p.has_sequence_flags = false;
	add(&p);			/* needs no state, says it; its name is gone all the same once cleared */
	r = open_trace();
	assert_int_equal(next(r, PF_LOSS).lost_packets, 1);
	assert_string_equal(next(r, PF_INSTANT).name, "seven");
	assert_string_equal(next(r, PF_INSTANT).name, "seven");
	next(r, PF_LOSS);
	next(r, PF_LOSS);
	item = next(r, PF_INSTANT);
	assert_int_equal(item.track->uuid, 0);
	assert_end(r);
}

static void reader_does_not_take_a_services_first_packet_for_loss(void **state)
{
	struct pf_reader *r;
	Whyidle__TrackEvent e = WHYIDLE__TRACK_EVENT__INIT;
	Whyidle__TracePacket p = packet_at(10, 5);
	(void)state;

	e.has_type = true;
	e.type = TYPE(INSTANT);
	p.track_event = &e;
	p.has_sequence_flags = p.has_previous_packet_dropped = true;
	p.sequence_flags = p.previous_packet_dropped = 1;
	add(&p);
	add(&p);
	r = open_trace();
	next(r, PF_INSTANT);
	next(r, PF_LOSS);
	next(r, PF_INSTANT);
	assert_end(r);
}

static void reader_reads_old_kinds_of_events(void **state)
{
	struct pf_reader *r;
	struct pf_item item;
	Whyidle__TrackEvent e = WHYIDLE__TRACK_EVENT__INIT;
	Whyidle__TrackEvent__LegacyEvent legacy = WHYIDLE__TRACK_EVENT__LEGACY_EVENT__INIT;
	Whyidle__TracePacket p = packet_at(1000, 5);
	uint64_t flow = 77, end_flow = 78;
	(void)state;

	p.track_event = &e;
	e.legacy_event = &legacy;
	e.name = "complete";
	legacy.has_phase = legacy.has_duration_us = true;
	legacy.phase = 'X';
	legacy.duration_us = 3;
	add(&p);
	legacy.duration_us = 0;
	add(&p);
	legacy.phase = 'b';		/* asynchronous: not delivered */
	add(&p);
	e.legacy_event = NULL;
	e.has_type = true;
	e.type = TYPE(SLICE_BEGIN);
	e.n_flow_ids_old = e.n_terminating_flow_ids_old = 1;
	e.flow_ids_old = &flow;
	e.terminating_flow_ids_old = &end_flow;
	add(&p);
	r = open_trace();
	assert_string_equal(next(r, PF_SLICE_BEGIN).name, "complete");
	assert_int_equal(next(r, PF_SLICE_END).ts_ns, 4000);
	next(r, PF_SLICE_BEGIN);
	assert_int_equal(next(r, PF_SLICE_END).ts_ns, 1000);
	item = next(r, PF_SLICE_BEGIN);
	assert_int_equal(item.flow_id, 77);
	assert_int_equal(item.end_flow_id, 78);
	assert_end(r);
}

static void reader_reads_counters_of_all_kinds(void **state)
{
	struct pf_reader *r;
	Whyidle__TrackEvent e = WHYIDLE__TRACK_EVENT__INIT;
	Whyidle__TrackDescriptor t = WHYIDLE__TRACK_DESCRIPTOR__INIT;
	Whyidle__CounterDescriptor c = WHYIDLE__COUNTER_DESCRIPTOR__INIT;
	Whyidle__TracePacket p = packet_at(1, 5), d = packet_at(0, 5);
	(void)state;

	d.has_timestamp = false;
	d.track_descriptor = &t;
	t.has_uuid = true;
	t.uuid = 50;
	t.static_name = "bytes";
	t.counter = &c;
	c.has_unit_multiplier = c.has_is_incremental = c.is_incremental = true;
	c.unit_multiplier = 1024;
	add(&d);
	p.track_event = &e;
	e.has_type = e.has_track_uuid = e.has_counter_value = true;
	e.type = TYPE(COUNTER);
	e.track_uuid = 50;
	e.counter_value = 3;
	add(&p);
	e.counter_value = -1;
	add(&p);
	e.track_uuid = 51;
	e.has_counter_value = false;
	e.has_double_counter_value = true;
	e.double_counter_value = -2.6;
	add(&p);
	e.double_counter_value = 1e300;
	add(&p);
	e.double_counter_value = (double)NAN;
	add(&p);
	r = open_trace();
	assert_string_equal(next(r, PF_TRACK).track->name, "bytes");
	assert_int_equal(next(r, PF_COUNTER).counter, 3072);
	assert_int_equal(next(r, PF_COUNTER).counter, 2048);
	assert_int_equal(next(r, PF_COUNTER).counter, -3);
	assert_int_equal(next(r, PF_COUNTER).counter, INT64_MAX);
	assert_int_equal(next(r, PF_COUNTER).counter, 0);
	assert_end(r);
}

static void reader_reads_annotations_of_all_kinds(void **state)
{
	struct pf_reader *r;
	struct pf_item item;
	Whyidle__TrackEvent e = WHYIDLE__TRACK_EVENT__INIT;
	Whyidle__DebugAnnotation a[6], *list[100];
	Whyidle__TracePacket p = packet_at(1, 5);
	(void)state;

	for (unsigned i = 0; i < 6; i++)
		whyidle__debug_annotation__init(&a[i]);
	a[0].name = "flag";
	a[0].has_bool_value = a[0].bool_value = true;
	a[1].name = "address";
	a[1].has_pointer_value = true;
	a[1].pointer_value = UINT64_MAX;
	a[2].name = "json";
	a[2].legacy_json_value = "{}";
	a[3].name = "nothing that has one value";
	a[3].n_dict_entries = 1;
	a[3].dict_entries = list;
	a[4].name = "text";
	a[4].string_value = "{}";
	a[5].name = "half";
	a[5].has_double_value = true;
	a[5].double_value = 0.5;
	p.track_event = &e;
	e.has_type = true;
	e.type = TYPE(INSTANT);
	e.n_debug_annotations = 6;
	e.debug_annotations = list;
	for (unsigned i = 0; i < 6; i++)
		list[i] = &a[i];
	a[3].n_dict_entries = 1;
	a[3].dict_entries = &list[0];
	add(&p);
	/* more than are kept */
	e.n_debug_annotations = 100;
	for (unsigned i = 0; i < 100; i++)
		list[i] = &a[5];
	add(&p);
	r = open_trace();
	item = next(r, PF_INSTANT);
	assert_int_equal(item.nargs, 5);
	assert_int_equal(item.args[0].type, PF_A_BOOL);
	assert_int_equal(item.args[0].v.u, 1);
	assert_int_equal(item.args[1].type, PF_A_UINT);
	assert_true(item.args[1].v.u == UINT64_MAX);
	assert_int_equal(item.args[2].type, PF_A_STRING);
	assert_string_equal(item.args[3].key, "text");
	assert_int_equal(item.args[2].v.s.id, item.args[3].v.s.id);
	assert_int_equal(item.args[3].v.s.len, 2);
	assert_true(item.args[4].v.d == 0.5);
	item = next(r, PF_INSTANT);
	assert_int_equal(item.nargs, 64);
	assert_end(r);
}

static void reader_skips_fields_it_does_not_know(void **state)
{
	/* packet: field 4000 in each wire type around an event that itself has fields 5000 */
	static const uint8_t event[] = {0x48, 0x03, 0xc0, 0xb8, 0x02, 0x01, 0xc1, 0xb8, 0x02, 1, 2, 3, 4, 5, 6, 7, 8,
					0xc2, 0xb8, 0x02, 0x02, 0xff, 0xff, 0xc5, 0xb8, 0x02, 1, 2, 3, 4};
	static const uint8_t unknown[] = {0x80, 0xfa, 0x01, 0x07, 0x81, 0xfa, 0x01, 1, 2, 3, 4, 5, 6, 7, 8,
					  0x82, 0xfa, 0x01, 0x01, 0xee, 0x85, 0xfa, 0x01, 1, 2, 3, 4};
	size_t n = 0;
	struct pf_reader *r;
	(void)state;

	trace[n++] = 0x0a;
	trace[n++] = (uint8_t)(2 * sizeof(unknown) + 4 + sizeof(event));
	memcpy(trace + n, unknown, sizeof(unknown));
	n += sizeof(unknown);
	trace[n++] = 0x50;
	trace[n++] = 0x05;
	trace[n++] = 0x5a;
	trace[n++] = sizeof(event);
	memcpy(trace + n, event, sizeof(event));
	n += sizeof(event);
	memcpy(trace + n, unknown, sizeof(unknown));
	n += sizeof(unknown);
	trace_len = n;
	/* beside packets, too */
	memcpy(trace + n, unknown, sizeof(unknown));
	trace_len += sizeof(unknown);
	add_event(9, 0, TYPE(INSTANT), "after");
	r = open_trace();
	assert_string_equal(next(r, PF_INSTANT).name, "");
	assert_string_equal(next(r, PF_INSTANT).name, "after");
	assert_end(r);
}

static void reader_drops_events_that_name_no_sequence(void **state)
{
	struct pf_reader *r;
	Whyidle__TrackEvent e = WHYIDLE__TRACK_EVENT__INIT;
	Whyidle__TracePacket p = packet_at(1, 0);
	(void)state;

	p.track_event = &e;
	e.has_type = true;
	e.type = TYPE(INSTANT);
	add(&p);
	r = open_trace();
	assert_end(r);
}

static void reader_drops_events_before_time_zero(void **state)
{
	struct pf_reader *r;
	(void)state;

	SNAPSHOT(5, 0, {6, 100}, {3, 200});
	add_event(99, 3, TYPE(INSTANT), "before");
	add_event(100, 3, TYPE(INSTANT), "zero");
	r = open_trace();
	next(r, PF_CLOCKS);
	next(r, PF_LOSS);
	assert_int_equal(next(r, PF_INSTANT).ts_ns, 0);
	assert_end(r);
}

static void reader_takes_iids_of_any_size(void **state)
{
	struct pf_reader *r;
	char text[32];
	(void)state;

	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 1; i <= 300; i++) {
			Whyidle__TrackEvent e = WHYIDLE__TRACK_EVENT__INIT;
			Whyidle__InternedName name = WHYIDLE__INTERNED_NAME__INIT, *names[] = {&name};
			Whyidle__InternedData data = WHYIDLE__INTERNED_DATA__INIT;
			Whyidle__TracePacket p = packet_at(i, 5);

			snprintf(text, sizeof(text), "%u", i);
			name.has_iid = true;
			name.iid = (uint64_t)i << 55 | (uint64_t)i << 12;
			name.name = text;
			data.n_event_names = 1;
			data.event_names = names;
			e.has_type = e.has_name_iid = true;
			e.type = TYPE(INSTANT);
			e.name_iid = name.iid;
			p.track_event = &e;
			p.interned_data = round ? NULL : &data;
			add(&p);
		}
	}
	r = open_trace();
	for (unsigned i = 0; i < 600; i++) {
		snprintf(text, sizeof(text), "%u", 1 + i % 300);
		assert_string_equal(next(r, PF_INSTANT).name, text);
	}
	assert_end(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(reader_takes_absolute_times_and_inline_names, start),
		cmocka_unit_test_setup(reader_converts_clocks_by_the_latest_snapshot, start),
		cmocka_unit_test_setup(reader_reports_events_whose_clock_is_never_explained, start),
		cmocka_unit_test_setup(reader_looks_ahead_for_the_snapshot_of_a_clock, start),
		cmocka_unit_test_setup(reader_skips_packets_that_need_state_they_do_not_have, start),
		cmocka_unit_test_setup(reader_does_not_take_a_services_first_packet_for_loss, start),
		cmocka_unit_test_setup(reader_reads_old_kinds_of_events, start),
		cmocka_unit_test_setup(reader_reads_counters_of_all_kinds, start),
		cmocka_unit_test_setup(reader_reads_annotations_of_all_kinds, start),
		cmocka_unit_test_setup(reader_skips_fields_it_does_not_know, start),
		cmocka_unit_test_setup(reader_drops_events_that_name_no_sequence, start),
		cmocka_unit_test_setup(reader_drops_events_before_time_zero, start),
		cmocka_unit_test_setup(reader_takes_iids_of_any_size, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
