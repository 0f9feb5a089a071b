/* SPDX-License-Identifier: Apache-2.0
 *
 * No lock, no allocation. See the header for why there is no slope.
 */
#include "shim/cupti_clock.h"

#include <time.h>

#pragma GCC poison malloc calloc realloc free printf fprintf

#define STEP_NS 100000		/* smaller contradictions are drift of an odd clock (WSL), not somebody setting the time */

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t = {0};

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_clock(int (*now)(uint64_t *ns), clockid_t id)
{
	for (int i = 0; i < 8; i++) {
		uint64_t before = clock_ns(id), t = 0, after;

		if (now(&t))
			return false;
		after = clock_ns(id);
		if (t < before || t > after)
			return false;
	}
	return true;
}

void cupti_clock_init(struct cupti_clock *c, int (*now)(uint64_t *ns))
{
	static const clockid_t candidates[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME};
	uint64_t t;

	*c = (struct cupti_clock){.source = CLOCK_REALTIME, .now = now};
	if (!now || now(&t))
		return;
	for (unsigned int i = 0; i < sizeof(candidates) / sizeof(*candidates); i++) {
		if (is_clock(now, candidates[i])) {
			c->source = candidates[i];
			return;
		}
	}
	c->source = CUPTI_CLOCK_CALL;
}

static struct stretch *stretch_at(const struct cupti_clock *c, uint64_t i)
{
	return (struct stretch *)&c->stretches[i % CLOCK_STRETCHES];
}

static int64_t offset_of(const struct stretch *s)
{
	return s->low + (s->high - s->low) / 2;
}

void cupti_clock_add(struct cupti_clock *c, uint64_t mono_before, uint64_t source_ns, uint64_t mono_after)
{
	int64_t low = (int64_t)(source_ns - mono_after), high = (int64_t)(source_ns - mono_before);
	struct stretch *s = c->count ? stretch_at(c, c->count - 1) : NULL;
	int64_t moved = 0;

	if (s && low <= s->high && high >= s->low) {
		s->low = low > s->low ? low : s->low;
		s->high = high < s->high ? high : s->high;
		s->to_ns = mono_before;
		return;
	}
	if (s)
		moved = low + (high - low) / 2 - offset_of(s);
	if (moved > STEP_NS || moved < -STEP_NS)
		c->steps++;
	*stretch_at(c, c->count++) = (struct stretch){mono_before, mono_before, low, high};
}

void cupti_clock_sample(struct cupti_clock *c)
{
	uint64_t best_before = 0, best_source = 0, best_after = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		uint64_t before = clock_ns(CLOCK_MONOTONIC), source = 0, after;

		if (c->source != CUPTI_CLOCK_CALL)
			source = clock_ns(c->source);
		else if (c->now(&source))
			return;
		after = clock_ns(CLOCK_MONOTONIC);
		if (after - before < best_after - best_before) {
			best_before = before;
			best_source = source;
			best_after = after;
		}
	}
	cupti_clock_add(c, best_before, best_source, best_after);
}

/* How far t, mapped by this stretch, falls outside of the time in which the stretch was valid: [from_ns, next_from). */
static uint64_t distance(const struct stretch *s, uint64_t source_ns, uint64_t next_from)
{
	uint64_t t = source_ns - (uint64_t)offset_of(s);

	if ((int64_t)(t - s->from_ns) < 0)
		return s->from_ns - t;
	return (int64_t)(t - next_from) > 0 ? t - next_from : 0;
}

uint64_t cupti_clock_map(const struct cupti_clock *c, uint64_t source_ns)
{
	uint64_t oldest = c->count > CLOCK_STRETCHES ? c->count - CLOCK_STRETCHES : 0, best_distance = UINT64_MAX;
	const struct stretch *best = NULL;

	/* Newest first: where a step back makes a time ambiguous the time on the newer side wins only inside the newer stretch, and
	 * inside the hole between two samples the nearer end does. */
	for (uint64_t i = c->count; i-- > oldest;) {
		const struct stretch *s = stretch_at(c, i);
		uint64_t next_from = i + 1 < c->count ? s->to_ns : INT64_MAX;
		uint64_t d = distance(s, source_ns, next_from);

		if (d < best_distance) {
			best_distance = d;
			best = s;
		}
		if (!d)
			break;
	}
	return best ? source_ns - (uint64_t)offset_of(best) : source_ns;
}
