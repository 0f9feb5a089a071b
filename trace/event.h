/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes one TrackEvent with the state of its sequence. The reader's hot path.
 */
#ifndef WHYIDLE_TRACE_EVENT_H
#define WHYIDLE_TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/get.h"
#include "trace/reader.h"
#include "trace/sequences.h"
#include "trace/tracks.h"

#define EVENT_ARGS_MAX 64		/* further ones are left out */

#define NOT_COMPLETE UINT64_MAX

struct event_context {
	struct budget *budget;
	struct tracks *tracks;
	struct pools *pools;
	struct pf_annotation *args;	/* EVENT_ARGS_MAX of them */
};

/*
 * Fills kind, track, name, counter, args and flows of `item`. 1 = an event, 0 = one of a kind that is not delivered,
 * -1 malformed, -2 without memory. *complete_ns: the duration of an old "complete" event, whose END must follow; else NOT_COMPLETE.
 */
int event_decode(const struct event_context *c, struct sequence *s, struct bytes event, struct pf_item *item, uint64_t *complete_ns);

#endif
