/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of tracks and the decoding of TrackDescriptor.
 */
#include "trace/tracks.h"

#include <string.h>

#include "trace/fields.h"

#define FIRST_SLOTS 64
#define STRINGS_MAX 256			/* arguments and labels of a process */

static size_t slot_of(uint64_t uuid, size_t nslots)
{
	return (size_t)(uuid * 0x9e3779b97f4a7c15u >> 32) & (nslots - 1);
}

static int grow(struct tracks *t, struct budget *b)
{
	size_t nslots = t->nslots ? t->nslots * 2 : FIRST_SLOTS;
	struct track **slots = budget_calloc(b, nslots, sizeof(struct track *));

	if (!slots)
		return -1;
	for (size_t i = 0; i < t->nslots; i++) {
		size_t at;

		if (!t->slots[i])
			continue;
		at = slot_of(t->slots[i]->info.uuid, nslots);
		while (slots[at])
			at = (at + 1) & (nslots - 1);
		slots[at] = t->slots[i];
	}
	budget_free(b, t->slots, t->nslots, sizeof(struct track *));
	t->slots = slots;
	t->nslots = nslots;
	return 0;
}

struct track *tracks_get(struct tracks *t, struct budget *b, uint64_t uuid)
{
	struct track *track;
	size_t at;

	if (t->count * 2 >= t->nslots && grow(t, b) < 0)
		return NULL;
	for (at = slot_of(uuid, t->nslots); t->slots[at]; at = (at + 1) & (t->nslots - 1))
		if (t->slots[at]->info.uuid == uuid)
			return t->slots[at];
	track = budget_calloc(b, 1, sizeof(*track));
	if (!track)
		return NULL;
	track->info.uuid = uuid;
	track->info.name = "";
	track->unit_multiplier = 1;
	t->slots[at] = track;
	t->count++;
	return track;
}

static const char *keep(struct pool *names, struct budget *b, struct bytes s)
{
	const struct string *kept = pool_put(names, b, s);

	return kept ? kept->text : "(more names than are kept)";
}

/* What one descriptor says, before any of it is believed. */
struct said {
	uint64_t uuid, parent_uuid, start_ns;
	bool has_parent, has_start;
	struct bytes name, process, thread, counter, inner_name;
	struct bytes argv[STRINGS_MAX], labels[STRINGS_MAX];
	unsigned argc, nlabels;
	int64_t pid, tid, multiplier;
	bool incremental;
};

static int parse_process(struct said *s)
{
	struct get_field f;
	int rc;

	GET_EACH(s->process, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(PROCESS_PID):
			s->pid = (int64_t)f.v;
			break;
		case GET_LEN(PROCESS_CMDLINE):
			if (s->argc + s->nlabels < STRINGS_MAX)
				s->argv[s->argc++] = f.body;
			break;
		case GET_LEN(PROCESS_NAME):
			s->inner_name = f.body;
			break;
		case GET_VARINT(PROCESS_START_NS):
			s->start_ns = f.v;
			s->has_start = true;
			break;
		case GET_LEN(PROCESS_LABELS):
			if (s->argc + s->nlabels < STRINGS_MAX)
				s->labels[s->nlabels++] = f.body;
			break;
		}
	}
	return rc;
}

static int parse_thread(struct said *s)
{
	struct get_field f;
	int rc;

	GET_EACH(s->thread, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(THREAD_PID):
			s->pid = (int64_t)f.v;
			break;
		case GET_VARINT(THREAD_TID):
			s->tid = (int64_t)f.v;
			break;
		case GET_LEN(THREAD_NAME):
			s->inner_name = f.body;
			break;
		}
	}
	return rc;
}

static int parse_counter(struct said *s)
{
	struct get_field f;
	int rc;

	GET_EACH(s->counter, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(COUNTER_UNIT_MULTIPLIER):
			s->multiplier = f.v ? (int64_t)f.v : 1;
			break;
		case GET_VARINT(COUNTER_IS_INCREMENTAL):
			s->incremental = f.v != 0;
			break;
		}
	}
	return rc;
}

static int parse(struct bytes b, struct said *s)
{
	struct get_field f;
	int rc;

	GET_EACH(b, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(TRACK_UUID):
			s->uuid = f.v;
			break;
		case GET_VARINT(TRACK_PARENT_UUID):
			s->parent_uuid = f.v;
			s->has_parent = true;
			break;
		case GET_LEN(TRACK_NAME):
		case GET_LEN(TRACK_STATIC_NAME):
		case GET_LEN(TRACK_ATRACE_NAME):
			s->name = f.body;
			break;
		case GET_LEN(TRACK_PROCESS):
			s->process = f.body;
			break;
		case GET_LEN(TRACK_THREAD):
			s->thread = f.body;
			break;
		case GET_LEN(TRACK_COUNTER):
			s->counter = f.body;
			break;
		}
	}
	if (rc < 0 || (s->process.p && parse_process(s) < 0) || (s->thread.p && parse_thread(s) < 0) ||
	    (s->counter.p && parse_counter(s) < 0))
		return -1;
	return 0;
}

/* Replaces argv and labels when the descriptor gives any. The strings themselves stay in the pool. */
static int set_strings(struct track *track, struct budget *b, struct pool *names, const struct said *s)
{
	unsigned n = s->argc + s->nlabels;
	const char **strings;

	if (!n)
		return 0;
	strings = budget_calloc(b, n, sizeof(char *));
	if (!strings)
		return -2;
	for (unsigned i = 0; i < s->argc; i++)
		strings[i] = keep(names, b, s->argv[i]);
	for (unsigned i = 0; i < s->nlabels; i++)
		strings[s->argc + i] = keep(names, b, s->labels[i]);
	budget_free(b, (void *)track->strings, track->nstrings, sizeof(char *));
	track->strings = strings;
	track->nstrings = n;
	track->info.argv = strings;
	track->info.argc = s->argc;
	track->info.labels = strings + s->argc;
	track->info.nlabels = s->nlabels;
	return 0;
}

int tracks_describe(struct tracks *t, struct budget *b, struct pool *names, struct bytes descriptor, struct track **out)
{
	struct said s;
	struct track *track;

	/* The big arrays need no clearing. */
	memset(&s, 0, offsetof(struct said, argv));
	s.argc = s.nlabels = 0;
	s.pid = s.tid = 0;
	s.multiplier = 1;
	s.incremental = false;
	if (parse(descriptor, &s) < 0)
		return -1;
	track = tracks_get(t, b, s.uuid);
	if (!track)
		return -2;
	if (s.has_parent)
		track->info.parent_uuid = s.parent_uuid;
	if (s.name.len)
		track->has_name = true;
	if (s.name.len)
		track->info.name = keep(names, b, s.name);
	else if (s.inner_name.len && !track->has_name)
		track->info.name = keep(names, b, s.inner_name);
	if (s.process.p || s.thread.p)
		track->info.pid = (int32_t)s.pid;
	if (s.process.p)
		track->info.is_process = true;
	if (s.thread.p) {
		track->info.is_thread = true;
		track->info.tid = s.tid;
	}
	if (s.has_start)
		track->info.start_ns = s.start_ns;
	if (s.counter.p) {
		track->info.is_counter = true;
		track->unit_multiplier = s.multiplier;
		track->incremental = s.incremental;
	}
	*out = track;
	return set_strings(track, b, names, &s);
}

void tracks_free(struct tracks *t)
{
	for (size_t i = 0; i < t->nslots; i++) {
		if (t->slots[i])
			free((void *)t->slots[i]->strings);
		free(t->slots[i]);
	}
	free(t->slots);
	*t = (struct tracks){0};
}
