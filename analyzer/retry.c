/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans without progress, from samples of connections between ranks and from connects that fail.
 *
 * A sample tells the state 10 ms apart at best, and is only written when something changed. So a stall is dated by the last acknowledgement: it begins
 * at the last progress seen before the evidence (or when bytes became outstanding) and ends with the next.
 */
#include "analyzer/retry.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/collective.h"
#include "analyzer/mem.h"
#include "analyzer/retry_span.h"
#include "analyzer/timeline_build.h"

#define MS 1000000ll
#define SAMPLE_NS (10 * MS)
#define RTO_NS (200 * MS)	/* the shortest retransmission timeout */
#define RTO_LEAST_NS (190 * MS)	/* ... as samples show it */
enum { STATE_SYN_SENT = 2, STATE_CLOSE = 7, CA_RECOVERY = 3, CA_LOSS = 4 };

/* One connection between two samples. */
struct flow {
	bool have, outstanding, connecting;
	struct tcp_sample last;
	int64_t progress_ns;		/* when bytes were last acknowledged, or became outstanding */
	int64_t earliest_ns;		/* it cannot have been before */
	int64_t base_retrans, base_dsack, base_rwnd_ms;	/* at that time */
	unsigned evidence;		/* RETRY_*, since then */
	struct retry_span *span;	/* open one */
	int64_t span_retrans, span_dsack;	/* before it */
};

struct retries {
	struct retry_spans spans;
	struct retry_setups setups;
	struct flow *flows;		/* by index in tl->connections */
	unsigned nflows;
	int64_t upto_ns;		/* calls that start before it were looked at */
	const struct connection **ends;	/* hash of both ends, open addressing, a power of two */
	size_t nslots;
	unsigned nends;			/* so many connections are in it */
};

struct retries *retries_open(void)
{
	struct retries *r = mem_new(1, sizeof(*r));

	r->upto_ns = INT64_MIN;
	return r;
}

void retries_close(struct retries *r)
{
	retry_spans_free(&r->spans);
	retry_setups_free(&r->setups);
	free(r->flows);
	free(r->ends);
	free(r);
}

/* ---- which connections are between ranks ---- */

/* "tcp:A:p->B:q": are the ends of `b` those of `a`, the other way round? */
static bool mirrors(const char *a, const char *b)
{
	const char *am = strstr(a, "->"), *bm = strstr(b, "->");
	size_t an, bn;

	if (!am || !bm || !starts_with(a, "tcp:") || !starts_with(b, "tcp:"))
		return false;
	a += 4;
	b += 4;
	an = (size_t)(am - a);
	bn = (size_t)(bm - b);
	return strlen(am + 2) == bn && !memcmp(am + 2, b, bn) && strlen(bm + 2) == an && !memcmp(bm + 2, a, an);
}

static uint64_t ends_hash(const char *text)
{
	const char *mid = strstr(text, "->");
	uint64_t a, b;

	if (!mid || !starts_with(text, "tcp:"))
		return 0;
	a = mem_hash(text + 4, (size_t)(mid - text - 4), 0);
	b = mem_hash(mid + 2, strlen(mid + 2), 0);
	return mem_mix(a + b);		/* the same from either side */
}

static void ends_put(struct retries *r, const struct connection *c)
{
	size_t i = ends_hash(c->target->text) & (r->nslots - 1);

	while (r->ends[i])
		i = (i + 1) & (r->nslots - 1);
	r->ends[i] = c;
}

static void ends_update(struct retries *r, const struct timeline *tl)
{
	if ((size_t)tl->nconnections * 2 > r->nslots) {
		r->nslots = r->nslots ? r->nslots : 256;
		while ((size_t)tl->nconnections * 2 > r->nslots)
			r->nslots *= 2;
		free(r->ends);
		r->ends = mem_new(r->nslots, sizeof(*r->ends));
		r->nends = 0;
	}
	for (; r->nends < tl->nconnections; r->nends++)
		ends_put(r, tl->connections[r->nends]);
}

static bool other_rank(const struct process *a, const struct process *b)
{
	return a != b && a->rank >= 0 && b->rank >= 0 && a->rank != b->rank;
}

/* Is it one of NCCL's by its content, or does its other end belong to a recorded process of another rank? */
static bool is_comm(const struct retries *r, const struct process *p, const struct text *target)
{
	if (!r->nslots || !p)
		return false;
	for (size_t i = ends_hash(target->text) & (r->nslots - 1); r->ends[i]; i = (i + 1) & (r->nslots - 1)) {
		const struct connection *c = r->ends[i];

		if (c->target == target && c->process == p ? c->role != ROLE_OTHER : other_rank(p, c->process) && mirrors(target->text, c->target->text))
			return true;
	}
	return false;
}

bool retry_is_comm(const struct timeline *tl, const struct process *process, const struct text *target)
{
	return tl->causes && target && target->target == TARGET_IS_TCP && is_comm(memory_of(tl)->retries, process, target);
}

/* ---- one connection ---- */

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
	return v < low ? low : v > high ? high : v;
}

static bool is_outstanding(const struct tcp_sample *s)
{
	return s->unacked > 0 || s->notsent > 0;
}

static int64_t long_enough(const struct tcp_sample *s)
{
	int64_t two_rtt = 2 * s->rtt_us * 1000;

	return two_rtt > SAMPLE_NS ? two_rtt : SAMPLE_NS;
}

static void begin_stall(struct flow *f, int64_t at_ns, const struct tcp_sample *s)
{
	f->progress_ns = f->earliest_ns = at_ns;
	f->base_retrans = s->retrans;
	f->base_dsack = s->dsack;
	f->base_rwnd_ms = s->rwnd_ms;
	f->evidence = 0;
}

/* The peer does not read: its window is closed, or that limited the sender for most of the stall. */
static bool peer_does_not_read(const struct flow *f, const struct tcp_sample *s, int64_t stall_ns)
{
	if (s->rto > 0 || s->ca >= CA_LOSS)
		return false;
	return (s->snd_wnd == 0 && s->backoff > 0) || (s->rwnd_ms - f->base_rwnd_ms) * MS * 2 > stall_ns;
}

/* What sample `s` says about the stall that has lasted `stall_ns` at least. */
static unsigned evidence_of(const struct flow *f, const struct tcp_sample *s, int64_t stall_ns)
{
	int64_t genuine = s->retrans - f->base_retrans - (s->dsack - f->base_dsack);
	unsigned found = 0;

	if (s->ca >= CA_LOSS || s->rto > 0)
		found |= RETRY_TIMEOUT;
	if (stall_ns <= long_enough(s) || peer_does_not_read(f, s, stall_ns))
		return found;
	if (genuine > 0)
		found |= RETRY_PROBE;
	if (s->ca == CA_RECOVERY)
		found |= RETRY_RECOVERY;
	return found;
}

static void open_span(struct retries *r, const struct connection *c, struct flow *f, unsigned kinds, int64_t start_ns)
{
	if (!f->span) {
		f->span = retry_span_add(&r->spans, start_ns);
		f->span->process = c->process;
		f->span->target = c->target;
		f->span_retrans = f->base_retrans;
		f->span_dsack = f->base_dsack;
	}
	f->span->kinds |= kinds;
}

/* A timeout that had fired at `by_ns` was armed 200 ms before, or earlier: where bytes came to be outstanding between two samples far apart, this tells
 * better when. */
static int64_t armed(const struct flow *f, int64_t by_ns)
{
	int64_t at = by_ns - RTO_NS;

	if (at >= f->progress_ns)
		return f->progress_ns;
	return at > f->earliest_ns ? at : f->earliest_ns;
}

/* Ends the open span. One whose retransmissions all turn out to be spurious was no loss. */
static void close_span(struct retries *r, struct flow *f, int64_t end_ns, const struct tcp_sample *s)
{
	struct retry_span *span = f->span;
	int64_t genuine = s->retrans - f->span_retrans - (s->dsack - f->span_dsack);

	f->span = NULL;
	span->end_ns = end_ns > span->start_ns ? end_ns : span->start_ns;
	/* repaired within one sampling period after the timer fired: its length tells, no timeout is shorter */
	if ((span->kinds & RETRY_PROBE) && span->end_ns - span->start_ns >= RTO_LEAST_NS)
		span->kinds |= RETRY_TIMEOUT;
	if (genuine > 0)
		span->retrans += genuine;
	else if (!(span->kinds & RETRY_CONNECT))
		retry_span_remove(&r->spans, span);
}

static void step_connecting(struct retries *r, const struct connection *c, struct flow *f, const struct tcp_sample *s)
{
	if (s->state == STATE_SYN_SENT) {
		if (!f->connecting) {
			f->connecting = true;
			f->progress_ns = s->at_ns;
		}
		if (s->retrans > 0 || s->rto > 0) {
			open_span(r, c, f, RETRY_CONNECT, f->progress_ns);
			f->span->retrans = s->retrans > f->span->retrans ? s->retrans : f->span->retrans;
		}
		return;
	}
	f->connecting = false;
	if (f->span)
		close_span(r, f, clamp(s->at_ns - s->last_ack_ms * MS, f->last.at_ns, s->at_ns), s);
	begin_stall(f, s->at_ns, s);
}

static void step_progress(struct retries *r, const struct connection *c, struct flow *f, const struct tcp_sample *s)
{
	const struct tcp_sample *prev = &f->last;
	int64_t when = clamp(s->at_ns - s->last_ack_ms * MS, prev->at_ns, s->at_ns);
	/* nothing moved at least until here: the sampler would have seen it */
	int64_t known = clamp(s->at_ns - SAMPLE_NS - SAMPLE_NS / 4, prev->at_ns, s->at_ns);

	if (f->outstanding && !f->span && known > f->progress_ns) {
		unsigned found = f->evidence | evidence_of(f, s, known - f->progress_ns);

		if (known - f->progress_ns <= SAMPLE_NS)
			found = 0;
		if (found)
			open_span(r, c, f, found, known - f->earliest_ns >= RTO_LEAST_NS ? armed(f, when) : f->progress_ns);
	}
	/* after a timeout the sender goes on repairing what was lost, slowly: part of it, up to the end of the loss state */
	if (f->span && !((f->span->kinds & RETRY_TIMEOUT) && s->ca >= CA_LOSS && is_outstanding(s)))
		close_span(r, f, when, s);
	begin_stall(f, when, s);
}

static void step_stalled(struct retries *r, const struct connection *c, struct flow *f, const struct tcp_sample *s)
{
	if (!is_outstanding(s)) {
		if (f->span)
			close_span(r, f, s->at_ns, s);
		f->outstanding = false;
		begin_stall(f, s->at_ns, s);
		return;
	}
	if (!f->outstanding) {
		/* bytes came to be outstanding since the last sample, at most one period ago */
		f->outstanding = true;
		begin_stall(f, clamp(s->at_ns - SAMPLE_NS, f->last.at_ns, s->at_ns), &f->last);
		f->earliest_ns = f->last.at_ns;
	}
	f->evidence |= evidence_of(f, s, s->at_ns - f->progress_ns);
	if (f->evidence)
		open_span(r, c, f, f->evidence, f->evidence & RETRY_TIMEOUT ? armed(f, s->at_ns - SAMPLE_NS / 2) : f->progress_ns);
}

static void step(struct retries *r, const struct connection *c, struct flow *f, const struct tcp_sample *s)
{
	bool ended = s->state == STATE_CLOSE;

	if (f->connecting || s->state == STATE_SYN_SENT) {
		step_connecting(r, c, f, s);
	} else if (!f->have) {
		begin_stall(f, s->at_ns, s);
	} else if (s->acked > f->last.acked) {
		step_progress(r, c, f, s);
	} else {
		step_stalled(r, c, f, s);
	}
	if (ended && f->span)
		close_span(r, f, s->at_ns, s);
	f->outstanding = is_outstanding(s);
	f->have = !ended;
	f->last = *s;
}

/* Connections that never carried a byte have no role yet: a connect counts when its process is setting up a communicator. */
static bool counts(const struct retries *r, const struct timeline *tl, const struct connection *c, const struct tcp_sample *s)
{
	if (c->role != ROLE_OTHER)
		return true;
	if (s->state == STATE_SYN_SENT)
		return retry_setups_find(&r->setups, c->process, s->at_ns) != NULL;
	return is_comm(r, c->process, c->target);
}

static void advance_connection(struct retries *r, const struct timeline *tl, unsigned index, int64_t to_ns)
{
	const struct connection *c = tl->connections[index];
	struct flow *f = &r->flows[index];
	size_t i = c->nsamples;
	int64_t after = f->have || f->last.at_ns ? f->last.at_ns : INT64_MIN;

	while (i > 0 && c->samples[i - 1].at_ns > after)
		i--;
	for (; i < c->nsamples && c->samples[i].at_ns < to_ns; i++)
		if (f->connecting || f->span || counts(r, tl, c, &c->samples[i]))
			step(r, c, f, &c->samples[i]);
		else
			f->last = c->samples[i];
	/* a process that ended takes its connections with it */
	if (f->span && f->span->end_ns == NS_OPEN && tl->finished)
		f->span->end_ns = c->process->last_ns > f->span->start_ns ? c->process->last_ns : NS_OPEN;
}

/* ---- calls: set-up and failed connects ---- */

static bool failed(const struct slice *s)
{
	enum { EINTR_ = 4, EAGAIN_ = 11, EALREADY_ = 114, EINPROGRESS_ = 115, EISCONN_ = 106 };

	return s->err && s->err != EINTR_ && s->err != EAGAIN_ && s->err != EALREADY_ && s->err != EINPROGRESS_ && s->err != EISCONN_;
}

/* "B:q" of "tcp:A:p->B:q"; of a socket that never connected, what is known. */
static const char *peer_of(const struct slice *s)
{
	const char *mid = s->target ? strstr(s->target->text, "->") : NULL;

	return mid ? mid + 2 : s->target ? s->target->text : "";
}

static void see_connect(struct retries *r, const struct thread *t, const struct slice *s)
{
	const struct retry_setup *setup;
	struct retry_span *span;

	if (s->target && s->target->target != TARGET_IS_TCP)
		return;
	setup = retry_setups_find(&r->setups, t->process, s->start_ns);
	if (!setup)
		return;
	span = retry_spans_failing(&r->spans, t->process, peer_of(s));
	if (!failed(s)) {
		/* through, or on its way (then the samples say how it goes on) */
		if (span && s->end_ns != NS_OPEN)
			span->end_ns = s->end_ns;
		/* a blocking connect that took about a second lost its first SYN */
		if (!span && !s->err && s->end_ns != NS_OPEN && s->end_ns - s->start_ns >= 900 * MS) {
			span = retry_span_add(&r->spans, s->start_ns);
			*span = (struct retry_span){ s->start_ns, s->end_ns, t->process, s->target, RETRY_CONNECT, 1, 0, 0 };
		}
		return;
	}
	if (!span) {
		span = retry_span_add(&r->spans, s->start_ns);
		span->process = t->process;
		span->target = s->target;
		span->kinds = RETRY_CONNECT;
	}
	span->failed++;
	span->err = s->err;
}

static bool sets_up(const struct slice *s)
{
	switch (s->name->class) {
	case CLASS_NCCL_SETUP:
		return true;
	case CLASS_NCCL_COLL:
	case CLASS_NCCL_P2P:
	case CLASS_NCCL_GROUP:
		return s->end_ns == NS_OPEN || s->end_ns - s->start_ns >= MS;
	default:
		return false;
	}
}

static void advance_thread(struct retries *r, const struct thread *t, int64_t from_ns, int64_t to_ns, bool setups)
{
	const uint64_t wanted = setups ? 1ull << CLASS_NCCL_SETUP | 1ull << CLASS_NCCL_COLL | 1ull << CLASS_NCCL_P2P | 1ull << CLASS_NCCL_GROUP
		: 1ull << CLASS_NET_CONNECT;

	if (!timeline_has_class(t, wanted))
		return;
	/* calls that were running at the last look were seen as open, or not at all */
	if (from_ns > INT64_MIN && setups)
		for (const struct slice *s = timeline_call_at(t, from_ns); s; s = timeline_outer(t, s))
			if (sets_up(s))
				retry_setups_add(&r->setups, t, s);
	for (size_t i = timeline_call_index(t, from_ns); i < t->ncalls && t->calls[i].start_ns < to_ns; i++) {
		const struct slice *s = &t->calls[i];

		if (setups && sets_up(s))
			retry_setups_add(&r->setups, t, s);
		else if (!setups && s->name->class == CLASS_NET_CONNECT)
			see_connect(r, t, s);
	}
}

/* An attempt that was given up: what goes on after the set-up call has ended is not a retry. */
static void end_given_up(struct retries *r, int64_t to_ns)
{
	for (size_t i = 0; i < r->spans.n; i++) {
		struct retry_span *span = r->spans.list[i];
		const struct retry_setup *s;

		if (span->end_ns != NS_OPEN || !span->failed)
			continue;
		s = retry_setups_find(&r->setups, span->process, span->start_ns);
		if (s && s->end_ns != NS_OPEN && s->end_ns <= to_ns)
			span->end_ns = s->end_ns;
	}
}

void retries_advance(struct retries *r, const struct timeline *tl)
{
	int64_t to = tl->finished ? INT64_MAX : tl->complete_ns, from = r->upto_ns;

	if (to <= from)
		return;
	ends_update(r, tl);
	for (int pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < tl->nprocesses; i++)
			for (unsigned k = 0; k < tl->processes[i]->nthreads; k++)
				advance_thread(r, tl->processes[i]->threads[k], from, to, pass == 0);
	if (r->nflows < tl->nconnections) {
		r->flows = mem_resize(r->flows, tl->nconnections, sizeof(*r->flows));
		memset(r->flows + r->nflows, 0, (tl->nconnections - r->nflows) * sizeof(*r->flows));
		r->nflows = tl->nconnections;
	}
	for (unsigned i = 0; i < tl->nconnections; i++)
		advance_connection(r, tl, i, to);
	end_given_up(r, to);
	r->upto_ns = to;
	retry_spans_evict(&r->spans, tl->evicted_ns);
	retry_setups_evict(&r->setups, tl->evicted_ns);
}

/* ---- asking ---- */

static bool takes_part(const struct collective *c, const struct process *p)
{
	for (unsigned i = 0; i < c->narrivals; i++)
		if (c->arrivals[i].device->process == p)
			return true;
	return false;
}

bool retry_find(const struct timeline *tl, const struct collective *among, unsigned kinds, int64_t a_ns, int64_t b_ns, int64_t *start_ns, int64_t *end_ns,
	const struct retry_span **which)
{
	const struct retries *r = tl->causes ? memory_of(tl)->retries : NULL;
	bool found = false;

	for (size_t i = 0; r && i < r->spans.n; i++) {
		const struct retry_span *s = r->spans.list[i];

		if (s->start_ns >= b_ns || (found && s->start_ns > *end_ns))
			break;
		if (s->end_ns <= a_ns || s->end_ns <= s->start_ns || !(s->kinds & kinds) || (among && !takes_part(among, s->process)))
			continue;
		if (!found) {
			*start_ns = s->start_ns > a_ns ? s->start_ns : a_ns;
			*end_ns = a_ns;
			if (which)
				*which = s;
			found = true;
		}
		if (s->end_ns > *end_ns)
			*end_ns = s->end_ns < b_ns ? s->end_ns : b_ns;
	}
	return found;
}
