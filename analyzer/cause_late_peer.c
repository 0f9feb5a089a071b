/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.late_peer: from the start of its own communication kernel a rank waits for the last rank to start. Needs matched collectives (collective.h);
 * with one rank seen nothing is split off.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/collective.h"
#include "analyzer/mem.h"
#include "analyzer/timeline_build.h"

enum { RANKS = 64 };	/* late ranks told apart by name and number; more are counted together */

struct late { char name[32]; int64_t ns, times, busy_ns; struct spread *by; };
struct seen {
	struct evidence e;
	struct late late[RANKS];
	unsigned nlate;
	struct tally doing;	/* what the late ranks' launching threads did meanwhile, when their GPU was not busy */
	int64_t collectives, last_own_ns;
	const struct device *last_device;
	unsigned seen_ranks, nranks;
	int64_t clock_error_ns;
};

bool moment_last_arrival(const struct timeline *tl, const struct moment *m, struct collective *out, int64_t *arrival_ns)
{
	struct collective c;

	if (!m->op || !m->device || !collective_of(tl, m->device, m->op, &c))
		return false;
	*arrival_ns = c.own.start_ns;
	if (c.last.device != c.own.device && c.last.start_ns - c.own.start_ns > c.clock_error_ns)
		*arrival_ns = c.last.start_ns < c.own.end_ns ? c.last.start_ns : c.own.end_ns;
	if (out)
		*out = c;
	return true;
}

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	int64_t arrival;

	*until_ns = m->end_ns;
	if (m->state != LOST_EXPOSED_COMM || !moment_last_arrival(tl, m, NULL, &arrival) || m->start_ns >= arrival)
		return false;
	if (arrival < *until_ns)
		*until_ns = arrival;
	cut_at_retry(tl, m, until_ns);
	return true;
}

/* Compute of the late rank's device in [a, b), about: overlaps of kernels are counted once as long as they are in order of start. */
static int64_t busy_in(const struct device *d, int64_t a, int64_t b)
{
	size_t i = timeline_op_index(d, a);
	int64_t sum = 0, upto = a;

	for (int n = 0; i > 0 && n < 16; n++)
		i--;
	for (size_t n = 0; i < d->nops && d->ops[i].start_ns < b && n < 65536; i++, n++) {
		const struct op *op = &d->ops[i];
		int64_t from = op->start_ns > upto ? op->start_ns : upto, to = op->end_ns < b ? op->end_ns : b;

		if (op->name->op != OP_COMPUTE || to <= from)
			continue;
		sum += to - from;
		upto = to;
	}
	return sum;
}

static struct late *late_rank(struct seen *s, const struct process *p)
{
	const char *name = process_label(p);
	unsigned i = 0;

	while (i < s->nlate && strcmp(s->late[i].name, name))
		i++;
	if (i == RANKS)
		return &s->late[RANKS - 1];
	if (i == s->nlate) {
		snprintf(s->late[i].name, sizeof(s->late[i].name), "%s", name);
		s->late[i].by = mem_new(1, sizeof(*s->late[i].by));
		s->nlate++;
	}
	return &s->late[i];
}

/* What the launching thread of the late rank was in at `at_ns`: the outermost call, as somebody would say it. */
static const char *doing_at(const struct thread *t, int64_t at_ns)
{
	const struct slice *s = timeline_call_at(t, at_ns), *outer;
	static char text[160];

	if (!s)
		return "no recorded call (Python, or computing on the CPU)";
	while ((outer = timeline_outer(t, s)))
		s = outer;
	if (s->target && (s->target->target == TARGET_IS_PIPE || s->target->target == TARGET_IS_SEM || s->target->target == TARGET_IS_COND ||
	    s->target->target == TARGET_IS_UNIX))
		snprintf(text, sizeof(text), "%s: waiting for another thread or process, such as its data loader", s->name->text);
	else
		snprintf(text, sizeof(text), "%s%s%.120s", s->name->text, s->target ? " on " : "", s->target ? s->target->text : "");
	return text;
}

/* The late rank's kernel of this collective, to find who launched it. */
static const struct op *late_op(const struct arrival *a)
{
	for (size_t i = timeline_op_index(a->device, a->start_ns); i < a->device->nops && a->device->ops[i].start_ns == a->start_ns; i++)
		if (a->device->ops[i].name->op == OP_COMM)
			return &a->device->ops[i];
	return NULL;
}

static void see_doing(struct seen *s, const struct collective *c, int64_t arrival_ns)
{
	const struct op *op = late_op(&c->last);
	int64_t from = c->own.start_ns, step = (arrival_ns - from) / 8;

	if (!op || !op->launcher || step <= 0)
		return;
	for (int i = 0; i < 8; i++)
		tally_add(&s->doing, doing_at(op->launcher, from + i * step + step / 2), step, 0, 1);
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	struct collective c;
	struct late *late;
	int64_t arrival, busy;

	evidence_see(&s->e, tl, m);
	if (!moment_last_arrival(tl, m, &c, &arrival))
		return;
	late = late_rank(s, c.last.device->process);
	late->ns += m->end_ns - m->start_ns;
	if (m->device == s->last_device && c.own.start_ns == s->last_own_ns)
		return;
	s->last_device = m->device;
	s->last_own_ns = c.own.start_ns;
	s->collectives++;
	late->times++;
	busy = busy_in(c.last.device, c.own.start_ns, arrival);
	late->busy_ns += busy;
	if (busy * 2 < arrival - c.own.start_ns)
		see_doing(s, &c, arrival);
	spread_add(late->by, arrival - c.own.start_ns);
	s->seen_ranks = c.narrivals;
	s->nranks = c.nranks;
	if (c.clock_error_ns > s->clock_error_ns)
		s->clock_error_ns = c.clock_error_ns;
}

static int most_waited_for(const void *a, const void *b)
{
	const struct late *x = a, *y = b;

	return x->ns != y->ns ? (x->ns > y->ns ? -1 : 1) : strcmp(x->name, y->name);
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	const struct late *top = &s->late[0];
	const struct tally_row *row;
	int64_t waited;

	(void)r;
	qsort(s->late, s->nlate, sizeof(s->late[0]), most_waited_for);
	if (!s->nlate) {
		finding_title(f, "Ranks wait for the last one to arrive: %s", words_ns(f->ns));
		finding_advice(f, "balance the work per rank");
		return;
	}
	waited = top->by->sum;
	finding_title(f, "%c%s arrives last at collectives, the others wait: %s", top->name[0] - 'a' + 'A', top->name + 1, words_ns(f->ns));
	for (unsigned i = 0; i < s->nlate && i < 4; i++)
		finding_evidence(f, "%s was last in %lld of %s, by %s (median), %s (longest); %s of the waiting", s->late[i].name, (long long)s->late[i].times,
			words_count(s->collectives, "exposed collective", "exposed collectives"), words_ns(spread_at(s->late[i].by, 0.5)),
			words_ns(s->late[i].by->max), words_share(s->late[i].ns, s->e.ns));
	if (waited > 0)
		finding_evidence(f, "while the others waited, %s's GPU was computing for %s of the time", top->name, words_share(top->busy_ns, waited));
	row = tally_top(&s->doing, 0);
	if (row && top->busy_ns * 2 <= waited)
		finding_evidence(f, "its launching thread was then mostly in: %s", row->name);
	if (s->seen_ranks < s->nranks)
		finding_evidence(f, "only %u of %u ranks were recorded: a later one may be among the others", s->seen_ranks, s->nranks);
	if (s->clock_error_ns)
		finding_evidence(f, "clocks of the hosts agree to about %s", words_ns(s->clock_error_ns));
	evidence_say_place(&s->e, f);
	evidence_say_ranks(&s->e, f);
	finding_evidence(f, "a waiting NCCL kernel spins: nvidia-smi shows these GPUs as 100 %% busy");
	if (top->busy_ns * 2 > waited)
		finding_advice(f, "%s computes longer than the others: uneven work (sequence lengths, experts, pipeline stages), or a slower device (clocks, heat, sharing)", top->name);
	else
		finding_advice(f, "%s's GPU is not busy in that time: find its cause among %s's own lost time in this report (data, host, checkpoint ...)", top->name, top->name);
	finding_advice(f, "balance the work per rank (bucket by length, same number of samples); do logging and evaluation on all ranks or on none");
	finding_advice(f, "a faster network does not help here: the bytes are not what is waited for");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	for (unsigned i = 0; i < s->nlate; i++)
		free(s->late[i].by);
	evidence_release(&s->e);
	tally_free(&s->doing);
	free(s);
}

const struct cause cause_late_peer = { LEAF_COMM_LATE_PEER, claim, open_seen, see, explain, close_seen };
