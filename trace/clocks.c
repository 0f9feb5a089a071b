/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock snapshots and conversion to trace time.
 */
#include "trace/clocks.h"

#include "trace/fields.h"

#define SNAPSHOT_CLOCKS_MAX 64

/* One clock as a snapshot gives it. */
struct reading {
	uint32_t id;
	bool incremental;
	uint64_t ns, unit_ns;
};

static bool is_private(uint32_t id)
{
	return id >= CLOCK_SEQ_FIRST && id <= CLOCK_SEQ_LAST;
}

/* The clock of that id. With `make`, a free slot becomes it; NULL when there is none. */
static struct clock *find(struct clocks *c, struct seq_clocks *seq, uint32_t id, bool make)
{
	struct clock *set = is_private(id) ? seq->clock : c->clock;
	unsigned n = is_private(id) ? CLOCKS_PER_SEQ : CLOCKS_GLOBAL;

	for (unsigned i = 0; i < n; i++) {
		struct clock *clock = &set[(id + i) & (n - 1)];

		if (clock->id == id)
			return clock;
		if (clock->id == 0) {
			if (!make)
				return NULL;
			*clock = (struct clock){.id = id, .unit_ns = 1};
			return clock;
		}
	}
	return NULL;
}

static int parse_reading(struct bytes b, struct reading *r)
{
	struct get_field f;
	int rc;

	*r = (struct reading){.unit_ns = 1};
	GET_EACH(b, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(CLOCK_ID):
			r->id = (uint32_t)f.v;
			break;
		case GET_VARINT(CLOCK_TIMESTAMP):
			r->ns = f.v;
			break;
		case GET_VARINT(CLOCK_IS_INCREMENTAL):
			r->incremental = f.v != 0;
			break;
		case GET_VARINT(CLOCK_UNIT_NS):
			r->unit_ns = f.v ? f.v : 1;
			break;
		}
	}
	r->ns *= r->unit_ns;
	return rc;
}

static int parse(struct bytes b, struct reading *readings, unsigned *n, uint32_t *primary)
{
	struct get_field f;
	int rc;

	*n = 0;
	*primary = 0;
	GET_EACH(b, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_LEN(SNAPSHOT_CLOCKS):
			if (*n < SNAPSHOT_CLOCKS_MAX && parse_reading(f.body, &readings[(*n)++]) < 0)
				return -1;
			break;
		case GET_VARINT(SNAPSHOT_PRIMARY):
			*primary = (uint32_t)f.v;
			break;
		}
	}
	return rc;
}

static const struct reading *reading_of(const struct reading *readings, unsigned n, uint32_t id)
{
	for (unsigned i = 0; i < n; i++)
		if (readings[i].id == id)
			return &readings[i];
	return NULL;
}

/*
 * The first snapshot decides: the clock it calls primary, else BOOTTIME, else MONOTONIC, else the first one that is
 * not private to a sequence.
 */
static uint32_t choose_trace_clock(const struct reading *readings, unsigned n, uint32_t primary)
{
	if (primary)
		return primary;
	if (reading_of(readings, n, BUILTIN_BOOTTIME))
		return BUILTIN_BOOTTIME;
	if (reading_of(readings, n, BUILTIN_MONOTONIC))
		return BUILTIN_MONOTONIC;
	for (unsigned i = 0; i < n; i++)
		if (readings[i].id && !is_private(readings[i].id))
			return readings[i].id;
	return 0;
}

/* What has to be added to `r` for trace time. False when nothing read so far tells. */
static bool offset_of(struct clocks *c, struct seq_clocks *seq, const struct reading *r, int64_t *offset_ns)
{
	const struct clock *clock;

	if (r->id == c->trace_clock) {
		*offset_ns = 0;
		return true;
	}
	clock = find(c, seq, r->id, false);
	if (!clock || !clock->known)
		return false;
	*offset_ns = clock->offset_ns;
	return true;
}

static bool trace_time(struct clocks *c, struct seq_clocks *seq, const struct reading *readings, unsigned n, uint64_t *trace_ns)
{
	const struct reading *best = reading_of(readings, n, c->trace_clock);
	int64_t offset_ns;

	for (unsigned i = 0; i < n && !best; i++)
		if (readings[i].id && offset_of(c, seq, &readings[i], &offset_ns))
			best = &readings[i];
	if (!best || !offset_of(c, seq, best, &offset_ns))
		return false;
	*trace_ns = best->ns + (uint64_t)offset_ns;
	return true;
}

int clocks_snapshot(struct clocks *c, struct seq_clocks *seq, struct bytes snapshot, struct snapshot_times *out)
{
	struct reading readings[SNAPSHOT_CLOCKS_MAX];
	unsigned n;
	uint32_t primary;
	uint64_t trace_ns = 0;
	bool known;

	*out = (struct snapshot_times){0};
	if (parse(snapshot, readings, &n, &primary) < 0)
		return -1;
	if (!c->trace_clock)
		c->trace_clock = choose_trace_clock(readings, n, primary);
	known = trace_time(c, seq, readings, n, &trace_ns);
	for (unsigned i = 0; i < n; i++) {
		const struct reading *r = &readings[i];
		struct clock *clock = r->id ? find(c, seq, r->id, true) : NULL;

		out->has_private |= is_private(r->id);
		if (r->id == BUILTIN_MONOTONIC)
			out->monotonic_ns = r->ns;
		else if (r->id == BUILTIN_REALTIME)
			out->realtime_ns = r->ns;
		else if (r->id == BUILTIN_BOOTTIME)
			out->boottime_ns = r->ns;
		if (!clock)
			continue;
		clock->unit_ns = r->unit_ns;
		clock->incremental = r->incremental && is_private(r->id);
		clock->value_ns = r->ns;
		if (known) {
			clock->offset_ns = (int64_t)(trace_ns - r->ns);
			clock->known = true;
		}
	}
	out->trace_ns = known ? trace_ns : 0;
	return 0;
}

bool clocks_convert(struct clocks *c, struct seq_clocks *seq, uint32_t clock_id, uint64_t timestamp, uint64_t *trace_ns)
{
	struct clock *clock;

	if (clock_id == 0 || clock_id == c->trace_clock) {
		*trace_ns = timestamp;
		return true;
	}
	clock = find(c, seq, clock_id, false);
	if (!clock) {
		/* Perfetto's own timeline, as long as no snapshot says otherwise. */
		*trace_ns = timestamp;
		return clock_id == BUILTIN_BOOTTIME && !c->trace_clock;
	}
	timestamp *= clock->unit_ns;
	if (clock->incremental) {
		timestamp += clock->value_ns;
		clock->value_ns = timestamp;
	}
	*trace_ns = timestamp + (uint64_t)clock->offset_ns;
	return clock->known;
}

bool clocks_known(const struct clocks *c, const struct seq_clocks *seq, uint32_t clock_id)
{
	const struct clock *set = is_private(clock_id) ? seq->clock : c->clock;
	unsigned n = is_private(clock_id) ? CLOCKS_PER_SEQ : CLOCKS_GLOBAL;

	if (clock_id == 0 || clock_id == c->trace_clock)
		return true;
	for (unsigned i = 0; i < n; i++)
		if (set[i].id == clock_id)
			return set[i].known;
	return false;
}

static void adopt(struct clocks *c, struct seq_clocks *seq, const struct clock *set, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct clock *clock;

		if (!set[i].id || !set[i].known || set[i].incremental)
			continue;
		clock = find(c, seq, set[i].id, true);
		if (clock && !clock->known)
			*clock = set[i];
	}
}

void clocks_adopt(struct clocks *to, struct seq_clocks *to_seq, const struct clocks *from, const struct seq_clocks *from_seq)
{
	if (!to->trace_clock)
		to->trace_clock = from->trace_clock;
	adopt(to, to_seq, from->clock, CLOCKS_GLOBAL);
	adopt(to, to_seq, from_seq->clock, CLOCKS_PER_SEQ);
}
