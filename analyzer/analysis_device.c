/* SPDX-License-Identifier: Apache-2.0
 *
 * One device through the whole analysis, see analysis_device.h.
 */
#include "analyzer/analysis_device.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/analysis.h"
#include "analyzer/mem.h"
#include "analyzer/scaler.h"
#include "analyzer/states.h"
#include "analyzer/timeline_build.h"
#include "analyzer/walk.h"

/* Books are kept so far behind what is complete: a skipped step is known as such only when its scale is updated. */
#define BEHIND_NS 1000000000
enum { LAUNCHERS = 8 };

struct device_run {
	const struct timeline *tl;
	const struct batches *batches;
	struct device *device;
	const struct analysis_watch *watch;
	struct states *states;
	struct ledger *ledger;
	struct scaler *scaler;
	struct steps *steps;
	struct walk walk;
	struct loader_facts facts;	/* as of the last advance */
	int64_t seen_ns, booked_ns;	/* operations that start before were looked at, booked */
	bool any_op, last_op_said;
	size_t marks;			/* of the timeline that were looked at */
	int64_t skip_from_ns, skip_end_ns;	/* a skipped step whose next forward has not come; 0 none */
	struct { struct thread *thread; int64_t n; } launchers[LAUNCHERS];
};

static void on_compute(void *ctx, int64_t a, int64_t b)
{
	ledger_compute(((struct device_run *)ctx)->ledger, a, b);
}

static void on_moment(void *ctx, struct moment *m)
{
	ledger_book(((struct device_run *)ctx)->ledger, m);
}

static void prepare(struct device_run *d)
{
	d->walk.base = (struct moment){.device = d->device};
	/* what the device needs per batch: its own computing, so that waiting does not make it look slow */
	d->walk.batches_ns = ledger_compute_ns(d->ledger);
	d->walk.batches_taken = d->facts.taken > 1 ? d->facts.taken : 0;
}

static void on_exposed(void *ctx, enum op_kind kind, int64_t a, int64_t b, const struct op *op)
{
	struct device_run *d = ctx;

	(void)kind;
	prepare(d);
	walk_exposed(&d->walk, a, b, op);
}

static struct thread *usual_launcher(const struct device_run *d)
{
	int best = 0;

	for (int i = 1; i < LAUNCHERS; i++)
		if (d->launchers[i].n > d->launchers[best].n)
			best = i;
	return d->launchers[best].thread;
}

static void on_gap(void *ctx, int64_t a, int64_t b, const struct op *op)
{
	struct device_run *d = ctx;

	prepare(d);
	if (!op) {
		d->last_op_said = true;
		ledger_last_op(d->ledger, a);
	}
	ledger_gap(d->ledger, a, b);
	if (a < d->tl->evicted_ns && d->tl->evicted_ns < b) {
		/* a gap longer than the window: what its beginning was is forgotten */
		d->walk.base.state = LOST_IDLE;
		d->walk.base.gap_start_ns = a;
		d->walk.base.gap_end_ns = b;
		d->walk.base.start_ns = a;
		d->walk.base.end_ns = d->tl->evicted_ns;
		d->walk.base.activity = ACT_OFF_CPU;
		ledger_book(d->ledger, &(struct moment){.device = d->device, .state = LOST_IDLE, .gap_start_ns = a, .gap_end_ns = b, .start_ns = a,
			.end_ns = d->tl->evicted_ns, .activity = ACT_OFF_CPU});
		a = d->tl->evicted_ns;
	}
	walk_gap(&d->walk, a, b, op, usual_launcher(d));
}

static const struct states_calls calls = { on_compute, on_exposed, on_gap };

struct device_run *device_run_open(const struct timeline *tl, const struct batches *batches, struct ledger_evidence *evidence, struct device *device,
	const struct steps_rule *rule)
{
	struct device_run *d = mem_new(1, sizeof(*d));
	int64_t start = device->process->first_ns;
	bool has_steps = rule->kind != STEPS_NONE;

	/* an operation of before the recorder's first own event belongs to the run */
	if (device->nops && device->ops[0].start_ns < start)
		start = device->ops[0].start_ns;
	d->tl = tl;
	d->batches = batches;
	d->device = device;
	d->watch = evidence->watch;
	d->scaler = scaler_open();
	d->steps = steps_open(rule);
	d->ledger = ledger_open(tl, evidence, start, rule->warm_steps, has_steps ? rule->steady_ns : INT64_MIN, has_steps);
	if (device->process->profiled)
		ledger_excerpt(d->ledger);
	d->states = states_open(&calls, d, start);
	d->seen_ns = d->booked_ns = INT64_MIN;
	d->walk = (struct walk){.tl = tl, .batches = batches, .emit = on_moment, .ctx = d};
	return d;
}

void device_run_take(struct device_run *d, const struct thread *consumer, int64_t at_ns)
{
	steps_take(d->steps, consumer, at_ns);
}

static void count_launcher(struct device_run *d, struct thread *t)
{
	for (int i = 0; i < LAUNCHERS; i++) {
		if (d->launchers[i].thread && d->launchers[i].thread != t)
			continue;
		d->launchers[i].thread = t;
		d->launchers[i].n++;
		return;
	}
}

static void checked(struct device_run *d, const struct scaler_step *step)
{
	if (d->watch && d->watch->check)
		d->watch->check(d->watch->ctx, d->device, step);
	ledger_cut(d->ledger, step->skipped ? CUT_SCALER_SKIPPED : CUT_SCALER_APPLIED, step->end_ns);
	if (!step->skipped)
		return;
	if (d->watch && d->watch->skip)
		d->watch->skip(d->watch->ctx, d->device, step->check_ns);
	if (d->skip_from_ns)
		ledger_skipped(d->ledger, d->skip_from_ns, step->check_ns);
	d->skip_from_ns = step->check_ns;
	d->skip_end_ns = step->end_ns;
}

static void look(struct device_run *d, const struct op *op)
{
	struct scaler_step step;
	int64_t at;

	if (!d->any_op) {
		d->any_op = true;
		ledger_cut(d->ledger, CUT_FIRST_OP, op->start_ns);
	}
	if (op->launcher)
		count_launcher(d, op->launcher);
	if (steps_op(d->steps, op, &at)) {
		ledger_cut(d->ledger, CUT_STEP, at);
		if (d->watch && d->watch->step)
			d->watch->step(d->watch->ctx, d->device, at);
	}
	for (bool more = scaler_op(d->scaler, op, &step); more; more = scaler_more(d->scaler, &step))
		checked(d, &step);
	/* the next forward ends what the skip cost */
	if (d->skip_from_ns && op->name->op == OP_COMPUTE && op->start_ns >= d->skip_end_ns) {
		ledger_skipped(d->ledger, d->skip_from_ns, op->start_ns);
		d->skip_from_ns = 0;
	}
}

static size_t first_op(const struct device_run *d, int64_t at_ns)
{
	return at_ns == INT64_MIN ? 0 : timeline_op_index(d->device, at_ns);
}

void device_run_advance(struct device_run *d)
{
	int64_t complete = d->tl->complete_ns, to;
	size_t i;

	if (!batches_facts(d->batches, d->device->process, &d->facts))
		d->facts.taken = 0;
	for (; d->marks < d->tl->nmarks && d->tl->marks[d->marks].at_ns < complete; d->marks++)
		if (d->tl->marks[d->marks].thread->process == d->device->process)
			steps_take(d->steps, d->tl->marks[d->marks].thread, d->tl->marks[d->marks].at_ns);
	for (i = first_op(d, d->seen_ns); i < d->device->nops && d->device->ops[i].start_ns < complete; i++)
		look(d, &d->device->ops[i]);
	d->seen_ns = complete;
	if (d->tl->finished) {
		struct scaler_step step;

		scaler_finish(d->scaler);
		while (scaler_more(d->scaler, &step))
			checked(d, &step);
	}
	if (d->tl->finished && d->skip_from_ns) {
		ledger_skipped(d->ledger, d->skip_from_ns, INT64_MAX);
		d->skip_from_ns = 0;
	}
	to = d->tl->finished ? complete : complete - BEHIND_NS;
	if (to <= d->booked_ns || !d->any_op)
		return;
	i = first_op(d, d->booked_ns);
	d->booked_ns = to;
	if (d->tl->finished)
		to = d->device->nops ? d->device->ops[d->device->nops - 1].start_ns : states_settled(d->states);
	states_advance(d->states, d->device->ops + i, timeline_op_index(d->device, d->booked_ns) - i, to);
}

int64_t device_run_needs(const struct device_run *d)
{
	return states_settled(d->states);
}

int device_run_finish(struct device_run *d, struct device_result *out, char *error, size_t error_len)
{
	const struct process *p = d->device->process;
	int64_t end = p->last_ns, last = states_last_end(d->states), from;

	if (last > end)
		end = last;
	from = states_settled(d->states);
	if (end < from)
		end = from;
	states_finish(d->states, end);
	if (!d->last_op_said)
		ledger_last_op(d->ledger, end);
	memset(out, 0, sizeof(*out));
	out->rank = p->rank;
	out->host = mem_copy(p->host);
	out->name = mem_copy(d->device->name ? d->device->name : "");
	out->device = d->device->id;
	out->pid = p->pid;
	steps_fill(d->steps, &out->steps);
	out->scaler_checks = scaler_checks(d->scaler);
	out->scaler_skips = scaler_skips(d->scaler);
	out->scaler_seen = out->scaler_checks > 0;
	out->scaler = *scaler_so_far(d->scaler);
	out->steps.skipped = out->scaler_skips;
	return ledger_close(d->ledger, end, last == INT64_MIN ? end : last, out->windows, error, error_len);
}

const struct ledger_sums *device_run_sums(const struct device_run *d)
{
	return ledger_counted(d->ledger);
}

const struct device *device_run_device(const struct device_run *d)
{
	return d->device;
}

void device_run_close(struct device_run *d)
{
	if (!d)
		return;
	states_close(d->states);
	ledger_free(d->ledger);
	scaler_close(d->scaler);
	steps_close(d->steps);
	free(d);
}
