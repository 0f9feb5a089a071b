/* SPDX-License-Identifier: Apache-2.0
 *
 * The scale's curve and the course of the skips, see scaler_scale.h.
 */
#include "analyzer/scaler_scale.h"

#include <math.h>
#include <string.h>

#define DEFAULT_SCALE 65536.0

static void extremes(struct scale *c, struct scaler_result *r)
{
	r->scale_last = c->value;
	r->scale_known = c->known;
	if (!c->value)
		return;
	if (!r->scale_first)
		r->scale_first = r->scale_least = r->scale_most = c->value;
	if (c->value < r->scale_least)
		r->scale_least = c->value;
	if (c->value > r->scale_most)
		r->scale_most = c->value;
}

void scale_read(struct scale *c, struct scaler_result *r, uint64_t address, uint32_t bits)
{
	float value;

	if (!c->address || address != c->result)
		return;
	memcpy(&value, &bits, sizeof(value));
	if (!isfinite(value) || value <= 0)
		return;
	/* the assumed beginning was wrong by a factor: all of the curve was */
	if (c->known == SCALE_ASSUMED && c->value > 0) {
		r->scale_first *= (double)value / c->value;
		r->scale_least *= (double)value / c->value;
		r->scale_most *= (double)value / c->value;
	}
	r->scale_anchors++;
	c->value = (double)value;
	c->lost = false;
	c->known = SCALE_EXACT;
	extremes(c, r);
}

/* True = it grew. */
static bool replay(struct scale *c, struct scaler_result *r, bool overflow, const struct scaler_note *n)
{
	bool grew = false;
	float grown;

	r->constants_known = true;
	r->growth = n->growth;
	r->backoff = n->backoff;
	r->interval = n->interval;
	c->address = n->address;
	c->result = n->result;
	if (c->lost)
		return false;
	if (c->known == SCALE_UNKNOWN) {
		c->value = DEFAULT_SCALE;
		c->known = SCALE_ASSUMED;
		extremes(c, r);
	}
	if (c->known == SCALE_EXACT)
		c->known = SCALE_REPLAYED;
	if (overflow) {
		float lower = (float)(c->value * n->backoff);

		c->unmoved = lower >= (float)c->value;
		c->value = (double)lower;
		c->tracker = 0;
	} else if (++c->tracker >= n->interval) {
		grown = (float)(c->value * n->growth);
		grew = isfinite(grown) && grown > (float)c->value;
		if (isfinite(grown))
			c->value = (double)grown;
		c->tracker = 0;
	}
	extremes(c, r);
	return grew;
}

static void course(struct scale *c, struct scaler_result *r, enum scaler_verdict v, int64_t number, int64_t at_ns)
{
	if (v == SCALER_APPLIED) {
		c->now_skips = 0;
		if (++c->now_applied >= 3)
			c->settled = true;
		return;
	}
	c->now_applied = 0;
	if (++c->now_skips > r->longest_run) {
		r->longest_run = c->now_skips;
		r->longest_run_at = number - c->now_skips + 1;
	}
	if (!c->settled) {
		r->warmup_skips++;
		return;
	}
	if (r->first_skip < 0) {
		r->first_skip = number;
		r->first_skip_ns = at_ns;
	}
	/* the scale grew within the last checks and this one undid it */
	if (c->now_skips == 1 && c->since_growth >= 0 && c->since_growth <= 1)
		r->probe_skips++;
}

void scale_check(struct scale *c, struct scaler_result *r, enum scaler_verdict v, int64_t number, int64_t at_ns, const struct scaler_note *update)
{
	bool overflow = v == SCALER_SKIPPED || v == SCALER_PARTLY, grew = false;

	if (v == SCALER_UNKNOWN) {
		/* the curve is lost until the scale is read back */
		c->lost = true;
		c->known = SCALE_UNKNOWN;
		c->value = 0;
		extremes(c, r);
	} else {
		course(c, r, v, number, at_ns);
	}
	if (update && update->known && v != SCALER_UNKNOWN)
		grew = replay(c, r, overflow, update);
	else if (update && update->known) {
		c->address = update->address;
		c->result = update->result;
	}
	c->since_growth = grew ? 0 : c->since_growth < 0 ? -1 : c->since_growth + 1;
	r->last_run = c->now_skips;
	r->at_minimum = c->unmoved && c->now_skips > 0;
}
