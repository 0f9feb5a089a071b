/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.transfer: the rest of exposed communication, when all ranks seen have arrived and nothing is retried: bytes on their way, or a receiver or a
 * rank that was not recorded. Also waits for a socket between ranks without a GPU (gloo).
 */
#include <stdlib.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/collective.h"
#include "analyzer/mem.h"
#include "analyzer/retry.h"

enum { SIZES = 32 };	/* sizes of collectives told apart for the estimate; further ones are left out */

struct size { const struct text *call; int64_t bytes; struct spread *took; };
struct seen {
	struct evidence e;
	struct size sizes[SIZES];
	unsigned nsizes, seen_ranks, nranks;
	int64_t collectives, bytes, whole_ns, alone, unmatched;
	int64_t last_own_ns;
	const struct device *last_device;
	unsigned tcp;
};

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	*until_ns = m->end_ns;
	if (m->state == LOST_EXPOSED_COMM) {
		cut_at_retry(tl, m, until_ns);
		return true;
	}
	if (!moment_idle(m) || m->loader || !moment_on_socket(m) || !retry_is_comm(tl, m->thread ? m->thread->process : NULL, m->call->target))
		return false;
	cut_at_retry(tl, m, until_ns);
	return true;
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static void see_size(struct seen *s, const struct collective *c, int64_t took_ns)
{
	unsigned i = 0;

	while (i < s->nsizes && (s->sizes[i].call != c->call || s->sizes[i].bytes != c->bytes))
		i++;
	if (i == SIZES)
		return;
	if (i == s->nsizes)
		s->sizes[s->nsizes++] = (struct size){ c->call, c->bytes, mem_new(1, sizeof(struct spread)) };
	spread_add(s->sizes[i].took, took_ns);
}

static unsigned tcp_connections(const struct timeline *tl)
{
	unsigned n = 0;

	for (unsigned i = 0; i < tl->nconnections; i++)
		n += tl->connections[i]->role == ROLE_NCCL;
	return n;
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	struct collective c;
	int64_t arrival;

	evidence_see(&s->e, tl, m);
	s->tcp = tcp_connections(tl);
	if (m->state != LOST_EXPOSED_COMM || !m->op)
		return;
	if (m->device == s->last_device && m->op->start_ns == s->last_own_ns)
		return;
	s->last_device = m->device;
	s->last_own_ns = m->op->start_ns;
	s->collectives++;
	if (!moment_last_arrival(tl, m, &c, &arrival)) {
		s->unmatched++;
		return;
	}
	s->alone += c.narrivals < 2;
	s->seen_ranks = c.narrivals;
	s->nranks = c.nranks;
	s->bytes += c.bytes;
	s->whole_ns += c.own.end_ns - arrival;
	see_size(s, &c, c.own.end_ns - arrival);
}

/* What would be saved if each took no longer than the fastest twentieth of its kind. */
static int64_t excess(const struct seen *s)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < s->nsizes; i++) {
		const struct spread *t = s->sizes[i].took;
		int64_t least = spread_at(t, 0.05) * t->n;

		if (t->n >= 10 && t->sum > least)
			sum += t->sum - least;
	}
	return sum;
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	int64_t over = excess(s);

	if (r->ndevices || !r->nhost_only)
		finding_title(f, "Communication that nothing hides: %s of transfers with no kernel beside them", words_ns(f->ns));
	else
		finding_title(f, "Training waits for the other ranks: %s in sockets between them", words_ns(f->ns));
	if (s->bytes && s->whole_ns)
		finding_evidence(f, "%s, %s on average, %s after the last rank had arrived", words_count(s->collectives, "exposed collective", "exposed collectives"),
			words_bytes(s->bytes / s->collectives), words_rate(s->bytes, s->whole_ns));
	else if (s->collectives)
		finding_evidence(f, "%s", words_count(s->collectives, "exposed collective", "exposed collectives"));
	for (unsigned i = 0; i < s->nsizes && i < 2; i++)
		finding_evidence(f, "%s of %s: %s (median), %s (5th percentile), %s (longest)", s->sizes[i].call ? s->sizes[i].call->text : "collective",
			words_bytes(s->sizes[i].bytes), words_ns(spread_at(s->sizes[i].took, 0.5)), words_ns(spread_at(s->sizes[i].took, 0.05)),
			words_ns(s->sizes[i].took->max));
	if (s->alone && s->alone * 2 > s->collectives)
		finding_evidence(f, "only one rank was recorded: waiting for others is in here; an estimate of it, over the fastest 5 %%: %s", words_ns(over));
	else if (s->seen_ranks < s->nranks)
		finding_evidence(f, "only %u of %u ranks were recorded: waiting for the others is in here", s->seen_ranks, s->nranks);
	if (s->unmatched)
		finding_evidence(f, "%s could not be matched to a call: no late rank can be told there", words_count(s->unmatched, "kernel", "kernels"));
	if (s->tcp)
		finding_evidence(f, "the bytes go over TCP (%s), no retransmission explains the time", words_count(s->tcp, "connection", "connections"));
	evidence_say_ranks(&s->e, f);
	if (s->tcp)
		finding_advice(f, "check that the fast network is used: NCCL_SOCKET_IFNAME, NCCL_IB_DISABLE unset, NCCL_DEBUG=INFO says which transport was chosen; more sockets per peer: NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD");
	finding_advice(f, "hide it behind the backward pass: smaller first bucket (DDP bucket_cap_mb), gradient_as_bucket_view, no synchronisation before the last bucket");
	finding_advice(f, "send less: half-precision gradients (bf16 compression hook), or accumulate gradients over several batches with no_sync()");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	for (unsigned i = 0; i < s->nsizes; i++)
		free(s->sizes[i].took);
	evidence_release(&s->e);
	free(s);
}

const struct cause cause_transfer = { LEAF_COMM_TRANSFER, claim, open_seen, see, explain, close_seen };
