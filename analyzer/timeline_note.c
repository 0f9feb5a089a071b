/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread's wrappers noted of a loss scaler: found by the time of the launch call, since CUPTI's operations and the wrappers share nothing else.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"
#include "analyzer/timeline_store.h"

/* Between CUPTI's clock, mapped, and the wrapper's. */
#define SLACK_NS 20000

void timeline_add_note(struct thread *t, const struct scaler_note *note)
{
	struct thread_node *n = (struct thread_node *)t;
	size_t i = n->nnotes;

	n->notes = mem_more(n->notes, n->nnotes, &n->notes_cap, sizeof(*n->notes));
	for (; i && n->notes[i - 1].start_ns > note->start_ns; i--)
		n->notes[i] = n->notes[i - 1];
	n->notes[i] = *note;
	n->nnotes++;
}

void timeline_evict_notes(struct thread *t, int64_t before_ns)
{
	struct thread_node *n = (struct thread_node *)t;
	size_t old = 0;

	while (old < n->nnotes && n->notes[old].end_ns < before_ns)
		old++;
	if (old < 64 || old * 2 < n->nnotes)
		return;
	n->nnotes -= old;
	memmove(n->notes, n->notes + old, n->nnotes * sizeof(*n->notes));
}

const struct scaler_note *timeline_scaler_note(const struct thread *t, int64_t launch_ns, bool update)
{
	const struct thread_node *n = (const struct thread_node *)t;
	const struct scaler_note *best = NULL;
	size_t low = 0, high = n->nnotes;
	int64_t least = SLACK_NS + 1;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (n->notes[mid].start_ns <= launch_ns + SLACK_NS)
			low = mid + 1;
		else
			high = mid;
	}
	/* the call that the launch lies in, or nearly: read-backs may follow one another within microseconds */
	for (; low && n->notes[low - 1].start_ns + n->notes[low - 1].call_ns + SLACK_NS >= launch_ns; low--) {
		const struct scaler_note *c = &n->notes[low - 1];
		int64_t end = c->start_ns + c->call_ns, off = launch_ns < c->start_ns ? c->start_ns - launch_ns : launch_ns > end ? launch_ns - end : 0;

		if (c->update == update && off < least) {
			least = off;
			best = c;
		}
	}
	return best;
}

const struct scaler_note *timeline_notes(const struct thread *t, size_t *n)
{
	const struct thread_node *node = (const struct thread_node *)t;

	*n = node->nnotes;
	return node->notes;
}
