/* SPDX-License-Identifier: Apache-2.0
 *
 * TrackEvent and DebugAnnotation.
 */
#include "trace/event.h"

#include <math.h>
#include <string.h>

#include "trace/fields.h"

/* What an event says; only what was seen is set. */
struct said {
	uint64_t type, name_iid, track_uuid;
	struct bytes name, legacy;
	bool has_track, has_counter;
	int64_t counter;
};

static int64_t round_double(double d)
{
	if (!(d > -9.2e18 && d < 9.2e18))
		return d > 0 ? INT64_MAX : d < 0 ? INT64_MIN : 0;
	return llround(d);
}

static int keep_name(const struct event_context *c, struct pool *pool, struct bytes b, const char **text, uint32_t *id)
{
	const struct string *s = pool_put(pool, c->budget, b);

	*text = s ? s->text : "(more names than are kept)";
	*id = s ? s->id : 0;
	return 0;
}

static void set_string(const struct event_context *c, struct pf_annotation *a, struct bytes b)
{
	const struct string *s = pool_put(&c->pools->strings, c->budget, b);

	a->type = PF_A_STRING;
	a->v.s.p = s ? s->text : (const char *)b.p;
	a->v.s.len = s ? s->len : b.len;
	a->v.s.id = s ? s->id : 0;
}

/* 1 = filled, 0 = of a type that has no single value (dictionary, array), -1 malformed. */
static int decode_annotation(const struct event_context *c, const struct sequence *s, struct bytes b, struct pf_annotation *a)
{
	struct get_field f;
	const struct string *kept;
	bool has_value = false;
	int rc;

	a->key = "";
	a->key_id = 0;
	GET_EACH(b, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(ANNOTATION_NAME_IID):
			kept = iids_get(&s->keys, s->generation, f.v);
			if (kept) {
				a->key = kept->text;
				a->key_id = kept->id;
			}
			continue;
		case GET_LEN(ANNOTATION_NAME):
			keep_name(c, &c->pools->keys, f.body, &a->key, &a->key_id);
			continue;
		case GET_VARINT(ANNOTATION_BOOL):
			a->type = PF_A_BOOL;
			a->v.u = f.v != 0;
			break;
		case GET_VARINT(ANNOTATION_UINT):
		case GET_VARINT(ANNOTATION_POINTER):
			a->type = PF_A_UINT;
			a->v.u = f.v;
			break;
		case GET_VARINT(ANNOTATION_INT):
			a->type = PF_A_INT;
			a->v.i = (int64_t)f.v;
			break;
		case GET_FIXED64(ANNOTATION_DOUBLE):
			a->type = PF_A_DOUBLE;
			a->v.d = get_double(f.v);
			break;
		case GET_LEN(ANNOTATION_STRING):
		case GET_LEN(ANNOTATION_JSON):
			set_string(c, a, f.body);
			break;
		case GET_VARINT(ANNOTATION_STRING_IID):
			kept = iids_get(&s->strings, s->generation, f.v);
			a->type = PF_A_STRING;
			a->v.s.p = kept ? kept->text : "";
			a->v.s.len = kept ? kept->len : 0;
			a->v.s.id = kept ? kept->id : 0;
			break;
		default:
			continue;
		}
		has_value = true;
	}
	return rc < 0 ? -1 : has_value;
}

/* An old event says its kind in a legacy field, as the letter that Chrome's JSON has. */
static int decode_legacy(struct said *e, uint64_t *complete_ns)
{
	struct get_field f;
	int rc;
	uint64_t phase = 0, duration_us = 0;

	GET_EACH(e->legacy, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(LEGACY_NAME_IID):
			if (!e->name_iid)
				e->name_iid = f.v;
			break;
		case GET_VARINT(LEGACY_PHASE):
			phase = f.v;
			break;
		case GET_VARINT(LEGACY_DURATION_US):
			duration_us = f.v;
			break;
		}
	}
	if (rc < 0)
		return -1;
	if (e->type)
		return 0;
	switch (phase) {
	case 'X':
		*complete_ns = duration_us > INT64_MAX / 1000 ? 0 : duration_us * 1000;
		/* fallthrough */
	case 'B':
		e->type = TYPE_BEGIN;
		break;
	case 'E':
		e->type = TYPE_END;
		break;
	case 'I':
	case 'i':
		e->type = TYPE_INSTANT;
		break;
	}
	return 0;
}

static int parse(const struct event_context *c, const struct sequence *s, struct bytes event, struct said *e, struct pf_item *item)
{
	struct get_field f;
	int rc, got;

	GET_EACH(event, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(EVENT_TYPE):
			e->type = f.v;
			break;
		case GET_VARINT(EVENT_NAME_IID):
			e->name_iid = f.v;
			break;
		case GET_VARINT(EVENT_TRACK_UUID):
			e->track_uuid = f.v;
			e->has_track = true;
			break;
		case GET_LEN(EVENT_ANNOTATIONS):
			if (item->nargs == EVENT_ARGS_MAX)
				break;
			got = decode_annotation(c, s, f.body, &c->args[item->nargs]);
			if (got < 0)
				return -1;
			item->nargs += (unsigned)got;
			break;
		case GET_FIXED64(EVENT_FLOW_IDS):
		case GET_VARINT(EVENT_OLD_FLOW_IDS):
			item->flow_id = item->flow_id ? item->flow_id : f.v;
			break;
		case GET_FIXED64(EVENT_END_FLOW_IDS):
		case GET_VARINT(EVENT_OLD_END_FLOW_IDS):
			item->end_flow_id = item->end_flow_id ? item->end_flow_id : f.v;
			break;
		case GET_LEN(EVENT_NAME):
			e->name = f.body;
			break;
		case GET_VARINT(EVENT_COUNTER_VALUE):
			e->counter = (int64_t)f.v;
			e->has_counter = true;
			break;
		case GET_FIXED64(EVENT_DOUBLE_COUNTER_VALUE):
			e->counter = round_double(get_double(f.v));
			e->has_counter = true;
			break;
		case GET_LEN(EVENT_LEGACY):
			e->legacy = f.body;
			break;
		}
	}
	return rc;
}

static inline struct track *track_of(const struct event_context *c, struct sequence *s, uint64_t uuid)
{
	if (!s->last_track || s->last_track->info.uuid != uuid)
		s->last_track = tracks_get(c->tracks, c->budget, uuid);
	return s->last_track;
}

static int64_t counter_value(struct track *t, int64_t value)
{
	/* Unsigned, since a damaged file may overflow. */
	uint64_t v = (uint64_t)value * (uint64_t)t->unit_multiplier;

	if (t->incremental)
		v += (uint64_t)t->counter_sum;
	t->counter_sum = (int64_t)v;
	return (int64_t)v;
}

static inline void name_by_iid(const struct sequence *s, uint64_t iid, struct pf_item *item)
{
	const struct string *kept = iids_get(&s->names, s->generation, iid);

	if (kept) {
		item->name = kept->text;
		item->name_id = kept->id;
	}
}

/* Most events are the end of a slice, or the beginning of one without arguments, in our order of fields. They are read here, which spares looking at
 * each field for what it might be. 1 = did, 0 = it is another event, nothing was done; -2 without memory. */
static inline int decode_plain(const struct event_context *c, struct sequence *s, struct bytes event, struct pf_item *item)
{
	const uint8_t *p = event.p, *const end = p + event.len;
	struct track *track;
	uint64_t flow, iid = 0;

	if (event.len < 2 || p[0] != GET_VARINT(EVENT_TYPE))
		return 0;
	if (p[1] == TYPE_END && event.len == 2) {
		item->kind = PF_SLICE_END;
	} else {
		if (p[1] != TYPE_BEGIN || event.len < 4 || p[2] != GET_VARINT(EVENT_NAME_IID))
			return 0;
		p = get_varint(p + 3, end, &iid);
		if (!p || (p != end && end - p != 10))
			return 0;
		if (p != end) {
			memcpy(&flow, p + 2, sizeof(flow));
			if (p[0] == (uint8_t)(GET_FIXED64(EVENT_FLOW_IDS) | 0x80) && p[1] == GET_FIXED64(EVENT_FLOW_IDS) >> 7)
				item->flow_id = le64toh(flow);
			else if (p[0] == (uint8_t)(GET_FIXED64(EVENT_END_FLOW_IDS) | 0x80) && p[1] == GET_FIXED64(EVENT_END_FLOW_IDS) >> 7)
				item->end_flow_id = le64toh(flow);
			else
				return 0;
		}
		item->kind = PF_SLICE_BEGIN;
	}
	track = track_of(c, s, s->default_track);
	if (!track)
		return -2;
	item->track = &track->info;
	item->name = "";
	item->name_id = 0;
	if (iid)
		name_by_iid(s, iid, item);
	return 1;
}

static int decode(const struct event_context *c, struct sequence *s, struct bytes event, struct pf_item *item, uint64_t *complete_ns)
{
	struct said e = {0};
	struct track *track;

	if (parse(c, s, event, &e, item) < 0)
		return -1;
	if (e.legacy.p && decode_legacy(&e, complete_ns) < 0)
		return -1;
	switch (e.type) {
	case TYPE_BEGIN:
		item->kind = PF_SLICE_BEGIN;
		break;
	case TYPE_END:
		item->kind = PF_SLICE_END;
		break;
	case TYPE_INSTANT:
		item->kind = PF_INSTANT;
		break;
	case TYPE_COUNTER:
		item->kind = PF_COUNTER;
		if (!e.has_counter)
			return 0;
		break;
	default:
		return 0;
	}
	track = track_of(c, s, e.has_track ? e.track_uuid : s->default_track);
	if (!track)
		return -2;
	item->track = &track->info;
	item->name = "";
	item->name_id = 0;
	if (e.name.p) {
		keep_name(c, &c->pools->names, e.name, &item->name, &item->name_id);
	} else if (e.name_iid) {
		name_by_iid(s, e.name_iid, item);
	}
	if (item->kind == PF_COUNTER)
		item->counter = counter_value(track, e.counter);
	return 1;
}

int event_decode(const struct event_context *c, struct sequence *s, struct bytes event, struct pf_item *item, uint64_t *complete_ns)
{
	int rc;

	*complete_ns = NOT_COMPLETE;
	item->args = c->args;
	item->nargs = 0;
	item->flow_id = item->end_flow_id = 0;
	item->counter = 0;
	rc = decode_plain(c, s, event, item);
	return rc ? rc : decode(c, s, event, item, complete_ns);
}
