/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.retry: the part of exposed communication after the last rank arrived, or of a communicator's set-up on any rank that waits for it, in which a
 * socket between the ranks made no progress because packets were lost or connects refused (retry.h says what counts). Never a late peer, a peer
 * that does not read, or a full link: those show no such span.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/collective.h"
#include "analyzer/mem.h"
#include "analyzer/retry.h"
#include "analyzer/timeline_build.h"

#define ALL_KINDS (RETRY_TIMEOUT | RETRY_PROBE | RETRY_RECOVERY | RETRY_CONNECT)

struct seen {
	struct evidence e;
	struct tally connections, senders;
	int64_t kind_ns[4], setup_ns, retrans, unanswered, spans, failed;
	int32_t err;
	int64_t last_span_ns;
	struct spread length;
	struct rhythm rhythm;
};

/* The communication kernel that ran on `device` before `at_ns`, when it still ran at `from_ns`. */
static const struct op *communication_before(const struct device *device, int64_t at_ns, int64_t from_ns)
{
	for (size_t i = timeline_op_index(device, at_ns), n = 0; i-- > 0 && n < 256; n++) {
		const struct op *op = &device->ops[i];

		if (op->name->op == OP_COMM)
			return op->end_ns > from_ns ? op : NULL;
	}
	return NULL;
}

/* Before the last rank arrived: was it held up in its previous collective by a retry? Then that is the cause, not the rank. */
static bool held_up_part(const struct timeline *tl, const struct moment *m, const struct collective *c, int64_t arrival_ns, int64_t *start_ns, int64_t *end_ns,
	const struct retry_span **which)
{
	int64_t to = arrival_ns < m->end_ns ? arrival_ns : m->end_ns;
	const struct op *before = communication_before(c->last.device, c->last.start_ns, m->start_ns);

	if (!before)
		return false;
	if (before->end_ns < to)
		to = before->end_ns;
	return retry_find(tl, c, ALL_KINDS, m->start_ns, to, start_ns, end_ns, which);
}

bool moment_retry_part(const struct timeline *tl, const struct moment *m, int64_t *start_ns, int64_t *end_ns, const struct retry_span **which)
{
	struct collective c;
	int64_t arrival, from = m->start_ns;

	if (m->state == LOST_EXPOSED_COMM) {
		if (!moment_last_arrival(tl, m, &c, &arrival))
			return retry_find(tl, NULL, ALL_KINDS, m->start_ns, m->end_ns, start_ns, end_ns, which);
		if (from < arrival) {
			if (held_up_part(tl, m, &c, arrival, start_ns, end_ns, which))
				return true;
			from = arrival;
		}
		return from < m->end_ns && retry_find(tl, &c, ALL_KINDS, from, m->end_ns, start_ns, end_ns, which);
	}
	if (!moment_idle(m) || m->loader)
		return false;
	if (moment_in_comm_setup(tl, m))
		return retry_find(tl, NULL, ALL_KINDS, m->start_ns, m->end_ns, start_ns, end_ns, which);
	if (moment_on_socket(m) && retry_is_comm(tl, m->thread ? m->thread->process : NULL, m->call->target))
		return retry_find(tl, NULL, ALL_KINDS, m->start_ns, m->end_ns, start_ns, end_ns, which);
	return false;
}

void cut_at_retry(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	int64_t start, end;

	if (moment_retry_part(tl, m, &start, &end, NULL) && start > m->start_ns && start < *until_ns)
		*until_ns = start;
}

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	int64_t start, end;

	if (!moment_retry_part(tl, m, &start, &end, NULL) || start > m->start_ns)
		return false;
	*until_ns = end;
	return true;
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	int64_t ns = m->end_ns - m->start_ns, start, end;
	const struct retry_span *span = NULL;

	evidence_see(&s->e, tl, m);
	if (m->state != LOST_EXPOSED_COMM)
		s->setup_ns += ns;
	if (!moment_retry_part(tl, m, &start, &end, &span) || !span)
		return;
	for (unsigned k = 0; k < 4; k++)
		if (span->kinds & 1u << k)
			s->kind_ns[k] += ns;
	tally_add(&s->senders, process_label(span->process), ns, 0, 1);
	if (span->target)
		tally_add(&s->connections, span->target->text, ns, 0, 1);
	if (span->start_ns == s->last_span_ns)
		return;
	s->last_span_ns = span->start_ns;
	s->spans++;
	*(span->kinds & RETRY_CONNECT ? &s->unanswered : &s->retrans) += span->retrans;
	s->failed += span->failed;
	if (span->err)
		s->err = span->err;
	if (span->end_ns != NS_OPEN)
		spread_add(&s->length, span->end_ns - span->start_ns);
	rhythm_add(&s->rhythm, tl, span->start_ns, span->end_ns == NS_OPEN ? m->end_ns : span->end_ns, 500000000);
}

static void say_kinds(struct seen *s, struct finding *f)
{
	int64_t recovery = s->kind_ns[1] > s->kind_ns[2] ? s->kind_ns[1] : s->kind_ns[2];

	if (s->kind_ns[0])
		finding_evidence(f, "%s in retransmission timeouts: the sender heard nothing and waited (at least 200 ms each, doubling)",
			evidence_part(&s->e, f, s->kind_ns[0]));
	if (recovery > s->kind_ns[0])
		finding_evidence(f, "%s in loss recovery without progress", evidence_part(&s->e, f, recovery - s->kind_ns[0]));
	if (s->kind_ns[3] && s->failed)
		finding_evidence(f, "%s in connects that failed, and the pauses between them: %s, last with \"%s\"", evidence_part(&s->e, f, s->kind_ns[3]),
			words_count(s->failed, "attempt", "attempts"), strerror(s->err));
	else if (s->kind_ns[3])
		finding_evidence(f, "%s in connects that were not answered: %s had to be repeated", evidence_part(&s->e, f, s->kind_ns[3]),
			words_count(s->unanswered, "request", "requests"));
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	const struct tally_row *row;
	int64_t period = rhythm_period(&s->rhythm);

	(void)r;
	finding_title(f, "Communication retries: the ranks' sockets stood still for %s", words_ns(f->ns));
	say_kinds(s, f);
	finding_evidence(f, "%s without progress, %s (median), %s (longest)%s%s", words_count(s->spans, "span", "spans"),
		words_ns(spread_at(&s->length, 0.5)), words_ns(s->length.max), s->retrans ? "; genuine retransmissions: " : "",
		s->retrans ? words_count(s->retrans, "segment", "segments") : "");
	for (unsigned k = 0; k < 3 && (row = tally_top(&s->connections, k)); k++)
		finding_evidence(f, "%s: %s", row->name, evidence_part(&s->e, f, row->ns));
	row = tally_top(&s->senders, 0);
	if (row)
		finding_evidence(f, "the sender that had to retry: %s (%s); the ranks that receive see nothing of it but waiting", row->name, words_share(row->ns, s->e.ns));
	evidence_say_ranks(&s->e, f);
	if (period)
		finding_evidence(f, "comes regularly, every %s: a timer or a limit on the path, not chance", words_ns(period));
	if (s->kind_ns[3])
		finding_advice(f, "let all ports through between the nodes (security group, firewall): NCCL connects to ephemeral ports, opening only MASTER_PORT or 22 is not enough");
	if (s->kind_ns[3])
		finding_advice(f, "NCCL_SOCKET_IFNAME must name an interface that the other nodes can reach");
	if (s->kind_ns[0] + s->kind_ns[1] + s->kind_ns[2])
		finding_advice(f, "packets are lost between these hosts: check the link, its errors and drops (ethtool -S, nstat), MTU, and rate limits of the network or instance");
	finding_advice(f, "nothing in the script changes this part: not the loader, the batch size or the loss scaler's parameters");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	tally_free(&s->connections);
	tally_free(&s->senders);
	rhythm_free(&s->rhythm);
	free(s);
}

const struct cause cause_retry = { LEAF_COMM_RETRY, claim, open_seen, see, explain, close_seen };
