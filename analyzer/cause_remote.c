/* SPDX-License-Identifier: Apache-2.0
 *
 * data.remote: a loader, or the training thread itself, waits for a data socket (none that connects ranks).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"

struct seen {
	struct evidence e;
	struct tally peers;		/* "10.0.0.7:443" */
	struct spread rtt_us;
	int64_t connect_ns, connects, failed, genuine_retrans, queued_ns;
	const struct connection *last;
	int64_t last_sample_ns;
};

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	*until_ns = m->end_ns;
	if (!moment_idle(m) || !moment_on_remote(tl, m))
		return false;
	cut_at_batch(m, until_ns);
	return true;
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static const struct connection *connection_of(const struct timeline *tl, const struct process *p, const struct text *target)
{
	for (unsigned i = 0; i < tl->nconnections; i++)
		if (tl->connections[i]->target == target && tl->connections[i]->process == p)
			return tl->connections[i];
	return NULL;
}

/* The connection's samples near the moment: round trip and losses. Looked up once per run of moments on one connection. */
static void see_connection(struct seen *s, const struct timeline *tl, const struct moment *m)
{
	const struct connection *c = s->last;

	if (!c || c->target != m->call->target || c->process != m->thread->process) {
		c = connection_of(tl, m->thread->process, m->call->target);
		s->last = c;
		s->last_sample_ns = 0;
	}
	if (!c || !c->nsamples || c->samples[c->nsamples - 1].at_ns <= s->last_sample_ns)
		return;
	for (size_t i = c->nsamples; i-- > 1 && c->samples[i].at_ns > s->last_sample_ns;) {
		const struct tcp_sample *x = &c->samples[i - 1], *y = &c->samples[i];
		int64_t genuine = y->retrans - x->retrans - (y->dsack - x->dsack);

		if (y->rtt_us > 0)
			spread_add(&s->rtt_us, y->rtt_us);
		if (genuine > 0 && s->last_sample_ns)
			s->genuine_retrans += genuine;
	}
	s->last_sample_ns = c->samples[c->nsamples - 1].at_ns;
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	int64_t ns = m->end_ns - m->start_ns, whole, bytes = 0;
	bool fresh = m->thread != s->e.last_thread || m->call->start_ns != s->e.last_call_ns;
	const char *peer = strstr(moment_path(m), "->");

	evidence_see(&s->e, tl, m);
	whole = m->call->end_ns == NS_OPEN ? 0 : m->call->end_ns - m->call->start_ns;
	if (m->call->bytes > 0 && whole > 0)
		bytes = (int64_t)((double)m->call->bytes * (double)ns / (double)whole);
	tally_add(&s->peers, peer ? peer + 2 : moment_path(m), ns, bytes, fresh);
	if (moment_class(m) == CLASS_NET_CONNECT) {
		s->connect_ns += ns;
		s->connects += fresh;
		s->failed += fresh && m->call->err && m->call->err != 115;
	}
	if (m->batch && m->batch->queued_behind)
		s->queued_ns += ns;
	see_connection(s, tl, m);
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	struct evidence *e = &s->e;
	const struct tally_row *peer = tally_top(&s->peers, 0);

	finding_title(f, "%s waits for data from the network: %s%s%s", words_waiter(r, true), words_ns(f->ns), peer ? " for " : "", peer ? peer->name : "");
	for (unsigned k = 0; k < 3 && (peer = tally_top(&s->peers, k)); k++)
		if (peer->ns * 20 > e->ns)
			finding_evidence(f, "%s: %s in %s, %s received meanwhile, %s", peer->name, evidence_part(e, f, peer->ns),
				words_count(peer->count, "call", "calls"), words_bytes(peer->bytes), words_rate(peer->bytes, peer->ns));
	if (s->rtt_us.n)
		finding_evidence(f, "round trip %s (median), %s (95th percentile); %s", words_ns(spread_at(&s->rtt_us, 0.5) * 1000),
			words_ns(spread_at(&s->rtt_us, 0.95) * 1000), words_count(s->genuine_retrans, "genuine retransmission", "genuine retransmissions"));
	if (s->connects)
		finding_evidence(f, "%s took %s, %lld of them failed", words_count(s->connects, "new connection", "new connections"),
			evidence_part(e, f, s->connect_ns), (long long)s->failed);
	if (e->workers_seen)
		finding_evidence(f, "%s seen over %s", words_count(e->workers_seen, "loader worker", "loader workers"),
			words_count(tally_names(&e->targets), "connection", "connections"));
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	if (s->connect_ns * 5 > e->ns)
		finding_advice(f, "keep connections open between requests (one session or pool per worker): reconnecting costs %s of the wait",
			words_share(s->connect_ns, e->ns));
	finding_advice(f, "more requests at a time: num_workers or prefetch_factor up, or several ranges per object; if the rates above then do not grow, the path is the limit");
	finding_advice(f, "check the route: object storage through a NAT gateway is capped and far; a private endpoint is not. Or copy the data once to local disk");
	if (s->genuine_retrans > 10)
		finding_advice(f, "packets to this peer are lost: look at the link and at limits of the instance's network before tuning the loader");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	tally_free(&s->peers);
	free(s);
}

const struct cause cause_remote = { LEAF_DATA_REMOTE, claim, open_seen, see, explain, close_seen };
