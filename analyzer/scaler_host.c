/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss scaler of a process that trains on the CPU, see scaler_host.h.
 */
#include "analyzer/scaler_host.h"

#include <stdlib.h>

#include "analyzer/mem.h"
#include "analyzer/scaler_scale.h"
#include "analyzer/timeline_build.h"

struct scaler_host {
	struct scaler_result result;
	struct scale scale;
	int64_t seen_ns;
	uint64_t flag_at;		/* the last thing read */
	uint32_t flag_bits;
};

struct scaler_host *scaler_host_open(void)
{
	struct scaler_host *h = mem_new(1, sizeof(*h));

	h->seen_ns = INT64_MIN;
	h->scale.since_growth = -1;
	h->result.first_skip = -1;
	h->result.least_confidence = 1;
	return h;
}

static void see(struct scaler_host *h, const struct scaler_note *n)
{
	struct scaler_result *r = &h->result;
	enum scaler_verdict v;

	if (!n->update) {
		scale_read(&h->scale, r, n->address, n->bits);
		h->flag_at = n->address;
		h->flag_bits = n->bits;
		return;
	}
	/* on a device the kernels tell more: scaler.c */
	if (!n->known || h->flag_at != n->found)
		return;
	v = h->flag_bits ? SCALER_SKIPPED : SCALER_APPLIED;
	r->form = SCALER_FORM_GRADSCALER;
	r->verdicts[v]++;
	r->evidence[SCALER_BY_FLAG]++;
	r->confidence_sum += 1;
	scale_check(&h->scale, r, v, r->checks++, n->start_ns, n);
}

void scaler_host_advance(struct scaler_host *h, const struct process *p, int64_t until_ns)
{
	for (unsigned i = 0; i < p->nthreads; i++) {
		size_t n, at;
		const struct scaler_note *notes = timeline_notes(p->threads[i], &n);

		for (at = n; at && notes[at - 1].start_ns >= h->seen_ns; at--)
			;
		for (; at < n && notes[at].start_ns < until_ns; at++)
			see(h, &notes[at]);
	}
	h->seen_ns = until_ns;
}

const struct scaler_result *scaler_host_so_far(const struct scaler_host *h)
{
	return &h->result;
}

void scaler_host_close(struct scaler_host *h)
{
	free(h);
}
