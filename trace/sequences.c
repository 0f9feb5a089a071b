/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sequences, their defaults and their interned data.
 */
#include "trace/sequences.h"

#include "trace/fields.h"

#define FIRST_SLOTS 64

static size_t slot_of(uint32_t id, size_t nslots)
{
	return (size_t)(id * 0x9e3779b97f4a7c15u >> 32) & (nslots - 1);
}

static int grow(struct sequences *s, struct budget *b)
{
	size_t nslots = s->nslots ? s->nslots * 2 : FIRST_SLOTS;
	struct sequence **slots = budget_calloc(b, nslots, sizeof(struct sequence *));

	if (!slots)
		return -1;
	for (size_t i = 0; i < s->nslots; i++) {
		size_t at;

		if (!s->slots[i])
			continue;
		at = slot_of(s->slots[i]->id, nslots);
		while (slots[at])
			at = (at + 1) & (nslots - 1);
		slots[at] = s->slots[i];
	}
	budget_free(b, s->slots, s->nslots, sizeof(struct sequence *));
	s->slots = slots;
	s->nslots = nslots;
	return 0;
}

struct sequence *sequences_get(struct sequences *s, struct budget *b, uint32_t id)
{
	struct sequence **near = &s->near[id % SEQUENCES_NEAR];
	size_t at;

	if (*near && (*near)->id == id)
		return *near;
	if (s->count * 2 >= s->nslots && grow(s, b) < 0)
		return NULL;
	for (at = slot_of(id, s->nslots); s->slots[at]; at = (at + 1) & (s->nslots - 1))
		if (s->slots[at]->id == id)
			return *near = s->slots[at];
	s->slots[at] = budget_calloc(b, 1, sizeof(struct sequence));
	if (!s->slots[at])
		return NULL;
	s->slots[at]->id = id;
	s->slots[at]->generation = 1;
	s->count++;
	return *near = s->slots[at];
}

void sequences_free(struct sequences *s)
{
	for (size_t i = 0; i < s->nslots; i++) {
		if (s->slots[i]) {
			iids_free(&s->slots[i]->names);
			iids_free(&s->slots[i]->keys);
			iids_free(&s->slots[i]->strings);
		}
		free(s->slots[i]);
	}
	free(s->slots);
	*s = (struct sequences){0};
}

void sequence_clear(struct sequence *s)
{
	s->generation++;
	s->valid = true;
	s->default_clock = 0;
	s->default_track = 0;
}

static int parse_event_defaults(struct sequence *s, struct bytes b)
{
	struct get_field f;
	int rc;

	GET_EACH(b, &f, rc)
		if (GET_KEY(&f) == GET_VARINT(DEFAULTS_EVENT_TRACK_UUID))
			s->default_track = f.v;
	return rc;
}

int sequence_defaults(struct sequence *s, struct bytes defaults)
{
	struct get_field f;
	int rc;

	s->default_clock = 0;
	s->default_track = 0;
	GET_EACH(defaults, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(DEFAULTS_CLOCK_ID):
			s->default_clock = (uint32_t)f.v;
			break;
		case GET_LEN(DEFAULTS_TRACK_EVENT):
			if (parse_event_defaults(s, f.body) < 0)
				return -1;
			break;
		}
	}
	return rc;
}

static int intern(struct sequence *s, struct budget *b, struct iids *iids, struct pool *pool, struct bytes entry)
{
	struct get_field f;
	uint64_t iid = 0;
	struct bytes value = {(const uint8_t *)"", 0};
	const struct string *kept;
	int rc;

	GET_EACH(entry, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(ENTRY_IID):
			iid = f.v;
			break;
		case GET_LEN(ENTRY_VALUE):
			value = f.body;
			break;
		}
	}
	if (rc < 0)
		return -1;
	kept = pool_put(pool, b, value);
	if (!kept)
		return -2;
	return iids_set(iids, b, s->generation, iid, kept) < 0 ? -2 : 0;
}

int sequence_interned(struct sequence *s, struct budget *b, struct pools *pools, struct bytes interned)
{
	struct get_field f;
	int rc, bad = 0;

	GET_EACH(interned, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_LEN(INTERNED_EVENT_NAMES):
			bad = intern(s, b, &s->names, &pools->names, f.body);
			break;
		case GET_LEN(INTERNED_ANNOTATION_NAMES):
			bad = intern(s, b, &s->keys, &pools->keys, f.body);
			break;
		case GET_LEN(INTERNED_ANNOTATION_STRINGS):
			bad = intern(s, b, &s->strings, &pools->strings, f.body);
			break;
		}
		if (bad)
			return bad;
	}
	return rc;
}
