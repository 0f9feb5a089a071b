/* SPDX-License-Identifier: Apache-2.0
 *
 * Packets to items: keeps the state of the trace, and gives out what each packet has to say, one item at a time.
 */
#include "trace/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/clocks.h"
#include "trace/cursor.h"
#include "trace/event.h"
#include "trace/failure.h"
#include "trace/fields.h"
#include "trace/packet.h"
#include "trace/sequences.h"
#include "trace/tracks.h"

#define LOOKS_MAX 16

/* What a reader may keep at most. Far above any trace seen; a bound all the same. */
#define BUDGET ((size_t)1 << 30)
#define NAMES_MAX (1u << 20)
#define STRINGS_MAX (1u << 20)
#define STRING_BYTES_MAX ((size_t)256 << 20)

/* What of the current packet is still to be given out, in this order. */
enum todo {
	TODO_LOSS = 1,
	TODO_CLOCKS = 2,
	TODO_TRACK = 4,
	TODO_EVENT = 8,
	TODO_COMPLETE = 16,		/* the END of an event that was its own BEGIN and END */
	TODO_ATTRIBUTES = 32,
	TODO_STATS = 64,
};

struct pf_reader {
	struct cursor file, bundle;
	char *path;			/* of a regular file, for looking ahead; else NULL */
	unsigned looks;			/* ahead, so far */
	bool in_bundle;
	uint64_t offset;		/* of the packet in work */

	struct packet packet;
	uint32_t todo;
	struct sequence *seq;
	uint64_t lost_packets;
	struct snapshot_times times;
	struct track *described;
	uint64_t complete_end_ns;
	struct pf_track_info *complete_track;
	struct bytes rest;		/* of attributes or stats */
	char *attribute;		/* the string value given out last */

	struct budget budget;
	struct clocks clocks;
	struct sequences sequences;
	struct tracks tracks;
	struct pools pools;
	struct pf_annotation args[EVENT_ARGS_MAX];
	struct pf_error failed;		/* given again once it happened */
};

static struct pf_reader *new_reader(struct pf_error *err)
{
	struct pf_reader *r = calloc(1, sizeof(*r));

	err->offset = 0;
	if (!r) {
		failure(err, PF_ENOMEM, "no memory to read the trace");
		return NULL;
	}
	r->bundle.in.fd = -1;
	r->budget.left = BUDGET;
	pool_init(&r->pools.names, NAMES_MAX, STRING_BYTES_MAX);
	pool_init(&r->pools.keys, NAMES_MAX, STRING_BYTES_MAX);
	pool_init(&r->pools.strings, STRINGS_MAX, STRING_BYTES_MAX);
	return r;
}

/* The rest of opening, once the input is. */
static struct pf_reader *start(struct pf_reader *r, int opened, struct pf_error *err)
{
	if (opened < 0 || cursor_init(&r->file, err) < 0) {
		free(r);
		return NULL;
	}
	if (cursor_check_start(&r->file, err) < 0) {
		pf_reader_close(r);
		return NULL;
	}
	return r;
}

struct pf_reader *pf_reader_open(const char *path, struct pf_error *err)
{
	struct pf_reader *r = new_reader(err);

	r = r ? start(r, input_open_path(&r->file.in, path, err), err) : NULL;
	/* Without memory for it nothing is looked up ahead, and said to be lost instead. */
	if (r && r->file.in.size)
		r->path = strdup(path);
	return r;
}

struct pf_reader *pf_reader_open_memory(const void *data, size_t len, struct pf_error *err)
{
	struct pf_reader *r = new_reader(err);

	return r ? start(r, input_open_memory(&r->file.in, data, len, err), err) : NULL;
}

void pf_reader_close(struct pf_reader *r)
{
	if (!r)
		return;
	cursor_close(&r->file);
	cursor_close(&r->bundle);
	sequences_free(&r->sequences);
	tracks_free(&r->tracks);
	pool_free(&r->pools.names);
	pool_free(&r->pools.keys);
	pool_free(&r->pools.strings);
	free(r->attribute);
	free(r->path);
	free(r);
}

uint64_t pf_reader_offset(const struct pf_reader *r)
{
	/* The window was read from the file but not yet used; of a deflated file only the former is known. */
	return r->file.in.deflated ? r->file.in.consumed : r->file.end_offset - (uint64_t)(r->file.end - r->file.p);
}

uint64_t pf_reader_size(const struct pf_reader *r)
{
	return r->file.in.size;
}

static int malformed(struct pf_error *err, const char *what)
{
	return failure(err, PF_EDAMAGED, "%s of this packet is damaged", what);
}

static int no_memory(const struct pf_reader *r, struct pf_error *err)
{
	if (r->budget.left > BUDGET / 4)
		return failure(err, PF_ENOMEM, "no memory to keep the trace's tracks and names");
	return failure(err, PF_ENOMEM, "the trace has more tracks, names and sequences than %zu MB hold", BUDGET >> 20);
}

static bool has(const struct pf_reader *r, enum part part)
{
	return r->packet.has >> part & 1;
}

/* Loss and the start of a sequence's state. False when the packet can't be understood without what was lost. */
static bool begin_state(struct pf_reader *r)
{
	const struct packet *p = &r->packet;
	struct sequence *s = r->seq;
	bool first = !s->seen;

	s->seen = true;
	/* A tracing service sets the lowest bit on the first packet of every sequence, for want of better knowledge. */
	if (p->dropped && (!first || p->dropped & ~(uint32_t)DROPPED_PRESENT)) {
		r->lost_packets = 0;
		r->todo |= TODO_LOSS;
	}
	if (p->dropped)
		s->valid = false;
	if (p->flags & SEQ_STATE_CLEARED)
		sequence_clear(s);
	if (p->flags & SEQ_NEEDS_STATE && !s->valid) {
		r->lost_packets = 1;
		r->todo = TODO_LOSS;
		return false;
	}
	return true;
}

/* A snapshot that only ties a sequence's own clock to one other is the sequence's affair. */
static bool worth_telling(const struct snapshot_times *t)
{
	unsigned n = !!t->monotonic_ns + !!t->realtime_ns + !!t->boottime_ns;

	return n > (t->has_private ? 1 : 0);
}

/* What a packet changes, in the order in which Perfetto takes it. */
static int apply_state(struct pf_reader *r, struct pf_error *err)
{
	const struct packet *p = &r->packet;
	int rc;

	if (has(r, PART_DEFAULTS) && sequence_defaults(r->seq, p->part[PART_DEFAULTS]) < 0)
		return malformed(err, "the defaults");
	if (has(r, PART_INTERNED)) {
		rc = sequence_interned(r->seq, &r->budget, &r->pools, p->part[PART_INTERNED]);
		if (rc < 0)
			return rc == -2 ? no_memory(r, err) : malformed(err, "the interned data");
	}
	if (has(r, PART_SNAPSHOT)) {
		if (clocks_snapshot(&r->clocks, &r->seq->clocks, p->part[PART_SNAPSHOT], &r->times) < 0)
			return malformed(err, "the clock snapshot");
		if (worth_telling(&r->times))
			r->todo |= TODO_CLOCKS;
	}
	if (has(r, PART_TRACK)) {
		rc = tracks_describe(&r->tracks, &r->budget, &r->pools.names, p->part[PART_TRACK], &r->described);
		if (rc < 0)
			return rc == -2 ? no_memory(r, err) : malformed(err, "the track descriptor");
		r->todo |= TODO_TRACK;
	}
	if (has(r, PART_ATTRIBUTES)) {
		r->rest = p->part[PART_ATTRIBUTES];
		r->todo |= TODO_ATTRIBUTES;
	} else if (has(r, PART_STATS)) {
		r->rest = p->part[PART_STATS];
		r->todo |= TODO_STATS;
	}
	return 0;
}

static int open_bundle(struct pf_reader *r, struct pf_error *err)
{
	struct bytes b = r->packet.part[PART_COMPRESSED];

	if (r->in_bundle)
		return failure(err, PF_EDAMAGED, "a bundle of packets lies in a bundle");
	if (input_open_deflated(&r->bundle.in, b.p, b.len, err) < 0 || cursor_init(&r->bundle, err) < 0)
		return -1;
	r->in_bundle = true;
	return 0;
}

/* Takes the next packet in. 1 = did, 0 = end, -1 = error. */
static int take_packet(struct pf_reader *r, struct pf_error *err)
{
	struct bytes body;
	int rc;

	if (r->in_bundle) {
		uint64_t inner;

		rc = cursor_packet(&r->bundle, &body, &inner, err);
		if (rc < 0) {
			/* The bundle itself is whole, so its end is not the file's. */
			if (err->code == PF_ECUT)
				err->code = PF_EDAMAGED;
			return -1;
		}
		if (rc == 0) {
			cursor_close(&r->bundle);
			r->in_bundle = false;
			return 1;
		}
	} else {
		rc = cursor_packet(&r->file, &body, &r->offset, err);
		if (rc <= 0)
			return rc;
	}
	if (packet_parse(&r->packet, body) < 0)
		return malformed(err, "a field");
	if (has(r, PART_COMPRESSED))
		return open_bundle(r, err) < 0 ? -1 : 1;
	if (r->packet.has_zstd)
		return failure(err, PF_ETOO_NEW, "its packets are compressed with zstd, which is not read here");
	r->seq = sequences_get(&r->sequences, &r->budget, r->packet.seq_id);
	if (!r->seq)
		return no_memory(r, err);
	if (!begin_state(r))
		return 1;
	if ((r->packet.has & ~(1u << PART_EVENT)) && apply_state(r, err) < 0)
		return -1;
	/* Perfetto too drops events that name no sequence. */
	if (has(r, PART_EVENT) && r->packet.seq_id)
		r->todo |= TODO_EVENT;
	return 1;
}

/* An item with nothing in it yet but where it comes from. */
static void start_item(const struct pf_reader *r, struct pf_item *item, enum pf_kind kind)
{
	memset(item, 0, sizeof(*item));
	item->kind = kind;
	item->ts_ns = r->seq->last_ns;
	item->seq = r->seq->id;
	item->name = "";
	item->offset = r->offset;
}

/*
 * A clock may be explained by a snapshot that only follows. Reads on in the file, apart from the reader's own place, until
 * one does. A pipe can't be read twice.
 */
static void look_ahead(struct pf_reader *r, const struct sequence *s, uint32_t clock)
{
	struct pf_reader *ahead;
	struct sequence *same = NULL;
	struct pf_error err;
	bool found = false;

	if (!r->path || r->looks++ >= LOOKS_MAX)
		return;
	ahead = pf_reader_open(r->path, &err);
	if (!ahead)
		return;
	while (!found && take_packet(ahead, &err) > 0) {
		ahead->todo = 0;
		if (!has(ahead, PART_SNAPSHOT))
			continue;
		same = sequences_get(&ahead->sequences, &ahead->budget, s->id);
		found = same && clocks_known(&ahead->clocks, &same->clocks, clock);
	}
	if (found)
		clocks_adopt(&r->clocks, &r->seq->clocks, &ahead->clocks, &same->clocks);
	else
		r->looks = LOOKS_MAX;
	pf_reader_close(ahead);
}

static bool event_time(struct pf_reader *r, struct sequence *s, uint32_t clock, uint64_t timestamp)
{
	if (clocks_convert_near(&r->clocks, &s->clocks, clock, timestamp, &s->last_ns))
		return true;
	if (r->looks >= LOOKS_MAX)
		return false;
	look_ahead(r, s, clock);
	/* An incremental clock was moved on by the first try, and is not known now either. */
	return clocks_known(&r->clocks, &s->clocks, clock) &&
	       clocks_convert(&r->clocks, &s->clocks, clock, timestamp, &s->last_ns);
}

/* An event of sequence s. The item gets what events have; clearing the rest would cost as much as reading it. */
static int give_event(struct pf_reader *r, struct sequence *s, struct bytes event, const uint64_t *timestamp, uint32_t clock,
		      struct pf_item *item, struct pf_error *err)
{
	const struct event_context c = {&r->budget, &r->tracks, &r->pools, r->args};
	uint64_t complete_ns;
	int rc;

	r->seq = s;
	/* Perfetto too drops what lies beyond 2^63: a time before zero, as a rule. */
	if (timestamp && (!event_time(r, s, clock, *timestamp) || s->last_ns > INT64_MAX)) {
		start_item(r, item, PF_LOSS);
		item->lost_packets = 1;
		return 1;
	}
	item->ts_ns = s->last_ns;
	item->seq = s->id;
	item->offset = r->offset;
	rc = event_decode(&c, s, event, item, &complete_ns);
	if (rc < 0)
		return rc == -2 ? no_memory(r, err) : malformed(err, "the event");
	if (rc > 0 && complete_ns != NOT_COMPLETE) {
		r->complete_end_ns = item->ts_ns + complete_ns;
		r->complete_track = item->track;
		r->todo |= TODO_COMPLETE;
	}
	return rc;
}

/* 1 = an attribute, 0 = no more, -1 malformed. */
static int give_attribute(struct pf_reader *r, struct pf_item *item, struct pf_error *err)
{
	struct get_field f, inner;
	const uint8_t *p = r->rest.p, *const end = r->rest.p + r->rest.len;
	int rc;

	while ((rc = get_next(&p, end, &f)) > 0) {
		const struct string *key = NULL;
		struct bytes value = {(const uint8_t *)"", 0};

		if (GET_KEY(&f) != GET_LEN(ATTRIBUTES_ATTRIBUTE))
			continue;
		start_item(r, item, PF_ATTRIBUTE);
		GET_EACH(f.body, &inner, rc) {
			switch (GET_KEY(&inner)) {
			case GET_LEN(ATTRIBUTE_KEY):
				key = pool_put(&r->pools.keys, &r->budget, inner.body);
				break;
			case GET_VARINT(ATTRIBUTE_LONG):
				item->attr_is_int = true;
				item->attr_int = (int64_t)inner.v;
				break;
			case GET_LEN(ATTRIBUTE_STRING):
				value = inner.body;
				break;
			}
		}
		if (rc < 0)
			break;
		free(r->attribute);
		r->attribute = strndup((const char *)value.p, value.len);
		if (!r->attribute)
			return no_memory(r, err);
		item->attr_key = key ? key->text : "";
		item->attr_str = r->attribute;
		r->rest = (struct bytes){p, (size_t)(end - p)};
		return 1;
	}
	return rc < 0 ? malformed(err, "the attributes") : 0;
}

/* What a buffer's or a writer's statistics say about loss. 1 = some was, 0 = none, -1 malformed. */
static int loss_in(const struct get_field *f, struct pf_item *item)
{
	struct get_field inner;
	uint64_t lost = 0, seq_id = 0;
	bool is_writer = f->number == STATS_WRITER, ours = is_writer;
	int rc;

	GET_EACH(f->body, &inner, rc) {
		if (is_writer && GET_KEY(&inner) == GET_VARINT(WRITER_SEQUENCE_ID))
			seq_id = inner.v;
		/* A tracing service lists every writer, with more about it; our writer lists those that lost packets. */
		else if (is_writer && inner.number != WRITER_BUFFER)
			ours = false;
		else if (!is_writer && (GET_KEY(&inner) == GET_VARINT(BUFFER_CHUNKS_OVERWRITTEN) ||
					GET_KEY(&inner) == GET_VARINT(BUFFER_CHUNKS_DISCARDED) ||
					GET_KEY(&inner) == GET_VARINT(BUFFER_WRITER_PACKET_LOSS)))
			lost += inner.v;
	}
	if (rc < 0)
		return -1;
	item->seq = (uint32_t)seq_id;
	item->lost_packets = lost;
	return is_writer ? ours : lost > 0;
}

static int give_stats(struct pf_reader *r, struct pf_item *item, struct pf_error *err)
{
	struct get_field f;
	const uint8_t *p = r->rest.p, *const end = r->rest.p + r->rest.len;
	int rc;

	start_item(r, item, PF_LOSS);
	while ((rc = get_next(&p, end, &f)) > 0) {
		if (GET_KEY(&f) != GET_LEN(STATS_WRITER) && GET_KEY(&f) != GET_LEN(STATS_BUFFER))
			continue;
		rc = loss_in(&f, item);
		r->rest = (struct bytes){p, (size_t)(end - p)};
		if (rc)
			break;
	}
	return rc < 0 ? malformed(err, "the statistics") : rc;
}

/* Gives the next thing that the current packet has. 1 = did, 0 = nothing came of it, -1 = error. */
static int give(struct pf_reader *r, struct pf_item *item, struct pf_error *err)
{
	uint32_t next = r->todo & -r->todo;
	int rc;

	switch (next) {
	case TODO_ATTRIBUTES:
	case TODO_STATS:		/* these give several */
		rc = next == TODO_ATTRIBUTES ? give_attribute(r, item, err) : give_stats(r, item, err);
		if (rc <= 0)
			r->todo &= ~next;
		return rc;
	}
	r->todo &= ~next;
	if (next == TODO_EVENT) {
		const struct packet *p = &r->packet;

		return give_event(r, r->seq, p->part[PART_EVENT], p->has_timestamp ? &p->timestamp : NULL,
				  p->clock_id ? p->clock_id : r->seq->default_clock, item, err);
	}
	start_item(r, item, PF_LOSS);
	switch (next) {
	case TODO_LOSS:
		item->lost_packets = r->lost_packets;
		break;
	case TODO_CLOCKS:
		item->kind = PF_CLOCKS;
		if (r->times.trace_ns)
			item->ts_ns = r->times.trace_ns;
		item->monotonic_ns = r->times.monotonic_ns;
		item->realtime_ns = r->times.realtime_ns;
		item->boottime_ns = r->times.boottime_ns;
		break;
	case TODO_TRACK:
		item->kind = PF_TRACK;
		item->track = &r->described->info;
		item->name = r->described->info.name;
		break;
	case TODO_COMPLETE:
		item->kind = PF_SLICE_END;
		item->ts_ns = r->complete_end_ns;
		item->track = r->complete_track;
		break;
	}
	return 1;
}

/*
 * Most packets are an event with a time in front and a sequence id, in our order of fields, on a sequence known already.
 * They are recognised here, which saves noting down the parts of a packet first. False: take the long way; nothing was changed.
 */
static bool take_plain_event(struct pf_reader *r, struct sequence **s, struct bytes *event, uint64_t *timestamp)
{
	struct cursor *c = r->in_bundle ? &r->bundle : &r->file;
	const uint8_t *p = c->p, *end;
	uint64_t id;

	if (c->end - p < 2 || p[0] != (TRACE_PACKET << 3 | 2) || p[1] & 0x80 || c->end - p < 2 + p[1])
		return false;
	end = p + 2 + p[1];
	p += 2;
	if (*p != (PACKET_TIMESTAMP << 3) || !(p = get_varint_any(p + 1, end, timestamp)))
		return false;
	if (*p != (PACKET_SEQUENCE_ID << 3) || !(p = get_varint(p + 1, end, &id)) || id == 0 || id > UINT32_MAX)
		return false;
	/* The event must reach to the packet's end; its length is one byte since the packet's is. */
	if (end - p < 2 || p[0] != (PACKET_TRACK_EVENT << 3 | 2) || p[1] != end - p - 2)
		return false;
	*s = r->sequences.near[id % SEQUENCES_NEAR];
	if (!*s || (*s)->id != id)
		return false;
	*event = (struct bytes){p + 2, (size_t)(end - p - 2)};
	if (!r->in_bundle)
		r->offset = c->end_offset - (uint64_t)(c->end - c->p);
	c->p = end;
	return true;
}

int pf_reader_next(struct pf_reader *r, struct pf_item *item, struct pf_error *err)
{
	struct sequence *s;
	struct bytes event;
	uint64_t timestamp;
	int rc = 1;

	if (r->failed.code != PF_OK) {
		*err = r->failed;
		return -1;
	}
	while (rc > 0) {
		if (r->todo) {
			rc = give(r, item, &r->failed);
		} else if (take_plain_event(r, &s, &event, &timestamp)) {
			rc = give_event(r, s, event, &timestamp, s->default_clock, item, &r->failed);
		} else {
			rc = take_packet(r, &r->failed);
			continue;
		}
		if (rc > 0)
			return 1;
		if (rc == 0)
			rc = 1;
	}
	if (rc < 0) {
		r->failed.offset = r->offset;
		*err = r->failed;
	}
	return rc;
}
