/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices of calls. Most are written whole when their event is taken from the ring; a call that has been running for 50 ms gets
 * its BEGIN at once, found on the thread's in-flight stack, and its END from the event that follows.
 */
#include "shim/emit.h"

#include <string.h>

#include "shim/lane.h"
#include "shim/span.h"
#include "shim/strings.h"
#include "shim/sys.h"
#include "shim/target.h"
#include "shim/thread.h"

#pragma GCC poison malloc calloc realloc free printf fprintf

#define SHOWN_AFTER_NS 50000000u
#define MOST_ARGS 12

/* An in-flight entry as read, and whether its event has been met in this pass. */
struct glimpse {
	uint64_t serial, start_ns, target;
	uint32_t call, target_kind;
	bool ended;
};

struct pass {
	struct pf_writer *w;
	struct lane *lane;
	uint64_t now;
	struct glimpse seen[THREAD_NEST];
	unsigned nseen;
};

static struct emit_sums sums;
static uint64_t gone_dropped, gone_shorts;	/* of threads whose slots were recycled */
static uint32_t lossy[64];
static unsigned nlossy;
static bool loss_fresh;

static void inflight_read(struct pass *p, struct thread *t)
{
	/* acquire: pairs with the release in leave(); the event of what is gone from the stack is in the ring */
	uint32_t depth = atomic_load_explicit(&t->depth, memory_order_acquire), i;

	p->nseen = 0;
	for (i = 0; i < depth && i < THREAD_NEST; i++) {
		struct inflight *e = &t->inflight[i];
		struct glimpse *g = &p->seen[p->nseen];

		/* acquire: pairs with the release of serial in enter() */
		g->serial = atomic_load_explicit(&e->serial, memory_order_acquire);
		g->start_ns = atomic_load_explicit(&e->start_ns, memory_order_relaxed);
		g->target = atomic_load_explicit(&e->target, memory_order_relaxed);
		g->call = atomic_load_explicit(&e->call, memory_order_relaxed);
		g->target_kind = atomic_load_explicit(&e->target_kind, memory_order_relaxed);
		g->ended = false;
		atomic_thread_fence(memory_order_acquire);	/* pairs with the fence in enter() */
		if (!g->serial || atomic_load_explicit(&e->serial, memory_order_relaxed) != g->serial)
			break;
		p->nseen++;
	}
}

static void add_uint(struct pf_arg *a, unsigned *n, enum strings_key key, uint64_t v)
{
	a[(*n)++] = (struct pf_arg){ .key_iid = key, .type = PF_ARG_UINT, .v.u = v };
}

static void add_int(struct pf_arg *a, unsigned *n, enum strings_key key, int64_t v)
{
	a[(*n)++] = (struct pf_arg){ .key_iid = key, .type = PF_ARG_INT, .v.i = v };
}

static void add_target(struct pf_arg *a, unsigned *n, uint8_t kind, uint64_t value)
{
	uint32_t iid = target_iid(kind, value);

	if (iid)
		a[(*n)++] = (struct pf_arg){ .key_iid = KEY_target, .type = PF_ARG_STR_IID, .v.iid = iid };
}

static void add_unless_none(struct pf_arg *a, unsigned *n, enum strings_key key, uint32_t v)
{
	if (v != SPAN_NONE)
		add_uint(a, n, key, v);
}

static void add_nccl(struct pf_arg *a, unsigned *n, const struct event_nccl *x)
{
	if (x->comm)
		add_uint(a, n, KEY_comm, x->comm);
	if (x->seq)
		add_uint(a, n, KEY_seq, x->seq);
	add_unless_none(a, n, KEY_nranks, x->nranks);
	add_unless_none(a, n, KEY_rank, x->rank);
	add_unless_none(a, n, KEY_peer, x->peer);
	add_unless_none(a, n, KEY_root, x->root);
	add_unless_none(a, n, KEY_dtype, x->dtype);
	add_unless_none(a, n, KEY_op, x->op);
}

static unsigned event_args(const struct event *e, const union ring_place *x, struct pf_arg *a)
{
	unsigned n = 0;

	add_target(a, &n, e->target_kind, e->target);
	if (e->bytes >= 0)
		add_int(a, &n, KEY_bytes, e->bytes);
	if (e->err)
		add_int(a, &n, KEY_errno, e->err);
	if (e->kind == EVENT_CALL_NCCL)
		add_nccl(a, &n, &x->nccl);
	else if (e->kind == EVENT_CALL_STACK)
		a[n++] = (struct pf_arg){ .key_iid = KEY_at, .type = PF_ARG_STR_IID, .v.iid = x->stack.at };
	if (e->n > 1)
		add_uint(a, &n, KEY_n, e->n);
	return n;
}

/* Takes the serial off the list of open BEGINs; false when it is not there. */
static bool end_begun(struct lane *l, uint64_t serial)
{
	unsigned i;

	for (i = 0; i < l->nbegun; i++) {
		if (l->begun[i] != serial)
			continue;
		memmove(&l->begun[i], &l->begun[i + 1], (l->nbegun - i - 1) * sizeof(l->begun[0]));
		l->nbegun--;
		return true;
	}
	return false;
}

static void write_event(struct pass *p, const struct event *e, const union ring_place *x)
{
	struct pf_arg args[MOST_ARGS + 2];
	struct pf_event ev = { .ts_ns = e->start_ns, .name_iid = e->call, .flow_id = e->flow_id, .args = args };
	bool begun = end_begun(p->lane, e->serial);
	unsigned i;

	for (i = 0; i < p->nseen; i++)
		if (p->seen[i].serial == e->serial)
			p->seen[i].ended = true;
	if (e->quiet && !begun)
		return;
	ev.nargs = event_args(e, x, args);
	if (!begun) {
		pf_begin(p->w, &p->lane->seq, strings_lookup(), &ev);
		ev = (struct pf_event){ .ts_ns = e->end_ns };
	}
	ev.ts_ns = e->end_ns;
	ev.name_iid = 0;
	pf_end(p->w, &p->lane->seq, strings_lookup(), &ev);
	sums.recorded++;
}

static double double_of(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

/* What the words mean: trace/vocabulary.md. */
static void write_note(struct pass *p, const struct event_note *e)
{
	static const char read_back[] = "scaler read-back", update[] = "scaler update";
	bool is_update = e->what == NOTE_SCALE_UPDATE;
	struct pf_arg a[MOST_ARGS];
	struct pf_event ev = { .args = a };
	float value;

	ev.name_iid = is_update ? strings_intern(PF_NAMES, update, sizeof(update) - 1) : strings_intern(PF_NAMES, read_back, sizeof(read_back) - 1);
	ev.ts_ns = e->start_ns + (is_update ? 0 : e->other);
	add_uint(a, &ev.nargs, KEY_call_ns, e->call_ns);
	if (!is_update)
		add_uint(a, &ev.nargs, KEY_since_ns, e->other);
	if (e->known) {
		add_uint(a, &ev.nargs, KEY_address, e->address);
		if (is_update) {
			add_uint(a, &ev.nargs, KEY_found, e->other);
			add_uint(a, &ev.nargs, KEY_result, e->address + (uint64_t)((int64_t)e->result_offset * 4));
			a[ev.nargs++] = (struct pf_arg){ .key_iid = KEY_growth, .type = PF_ARG_DOUBLE, .v.d = double_of(e->growth_bits) };
			a[ev.nargs++] = (struct pf_arg){ .key_iid = KEY_backoff, .type = PF_ARG_DOUBLE, .v.d = double_of(e->backoff_bits) };
			add_int(a, &ev.nargs, KEY_interval, (int32_t)e->bits);
		} else {
			add_int(a, &ev.nargs, KEY_bytes, e->bytes);
			add_uint(a, &ev.nargs, KEY_bits, e->bits);
			memcpy(&value, &e->bits, sizeof(value));
			if (e->bytes == 4 && value - value == 0)	/* for whoever reads the timeline; only what is finite */
				a[ev.nargs++] = (struct pf_arg){ .key_iid = KEY_value, .type = PF_ARG_DOUBLE, .v.d = (double)value };
		}
	}
	pf_instant(p->w, &p->lane->seq, strings_lookup(), &ev);
	sums.recorded++;
}

static bool drain_ring(struct pass *p, struct ring *r)
{
	uint64_t used = ring_used(r);
	bool any = used > 0;

	while (used) {
		const struct event *e = &ring_peek(r, 0)->call;
		unsigned places = e->kind == EVENT_CALL || e->kind == EVENT_NOTE ? 1 : 2;

		if (e->kind == EVENT_NOTE)
			write_note(p, &ring_peek(r, 0)->note);
		else
			write_event(p, e, places == 2 ? ring_peek(r, 1) : NULL);
		ring_take(r, places);
		used -= places;
	}
	return any;
}

static bool still_there(const struct pass *p, uint64_t serial)
{
	unsigned i;

	for (i = 0; i < p->nseen; i++)
		if (p->seen[i].serial == serial)
			return true;
	return false;
}

/* BEGINs whose call is over and whose event never came (dropped, cancelled, jumped out of): they end now. */
static void end_orphans(struct pass *p)
{
	struct lane *l = p->lane;
	unsigned i = l->nbegun;

	while (i--) {
		struct pf_event ev = { .ts_ns = p->now };

		if (still_there(p, l->begun[i]))
			continue;
		end_begun(l, l->begun[i]);
		pf_end(p->w, &l->seq, strings_lookup(), &ev);
	}
}

static bool is_begun(const struct lane *l, uint64_t serial)
{
	unsigned i;

	for (i = 0; i < l->nbegun; i++)
		if (l->begun[i] == serial)
			return true;
	return false;
}

static bool due(const struct pass *p, const struct glimpse *g)
{
	uint64_t after = g->call & INFLIGHT_QUIET ? SPAN_QUIET_NS : SHOWN_AFTER_NS;

	return !g->ended && p->now >= g->start_ns + after && !is_begun(p->lane, g->serial);
}

static void begin_one(struct pass *p, const struct glimpse *g)
{
	struct pf_arg args[2];
	struct pf_event ev = { .ts_ns = g->start_ns, .name_iid = g->call & ~INFLIGHT_QUIET, .args = args };
	uint64_t value;
	uint8_t kind;

	target_of_inflight(g->target_kind, g->target, &kind, &value);
	add_target(args, &ev.nargs, kind, value);
	if (pf_begin(p->w, &p->lane->seq, strings_lookup(), &ev) == 0)
		p->lane->begun[p->lane->nbegun++] = g->serial;
}

static bool any_due(const struct pass *p)
{
	unsigned i;

	for (i = 0; i < p->nseen; i++)
		if (due(p, &p->seen[i]))
			return true;
	return false;
}

static void begin_due(struct pass *p)
{
	unsigned i;

	for (i = 0; i < p->nseen && p->lane->nbegun < THREAD_NEST; i++)
		if (due(p, &p->seen[i]))
			begin_one(p, &p->seen[i]);
}

static void note_loss(struct lane *l, uint64_t dropped, uint64_t now, struct pf_writer *w)
{
	unsigned i;

	l->dropped_seen = dropped;
	l->seq.lost = true;
	pf_seq_begin(w, &l->seq, now);
	loss_fresh = true;
	for (i = 0; i < nlossy; i++)
		if (lossy[i] == l->seq.id)
			return;
	if (nlossy < sizeof(lossy) / sizeof(lossy[0]))
		lossy[nlossy++] = l->seq.id;
}

static bool thread_sums(struct pass *p, struct thread *t)
{
	uint64_t dropped = atomic_load_explicit(&t->dropped, memory_order_relaxed);
	bool changed = false;
	unsigned f;

	if (dropped != p->lane->dropped_seen)
		note_loss(p->lane, dropped, p->now, p->w);
	for (f = 0; f < SHORT_FAMILIES; f++)
		changed |= meter_set(p->w, p->lane, METER_SHORT + f,
				     atomic_load_explicit(&t->short_ns[f], memory_order_relaxed), p->now);
	sums.dropped += dropped;
	sums.shorts += atomic_load_explicit(&t->shorts, memory_order_relaxed);
	return changed;
}

static bool emit_thread(struct pf_writer *w, unsigned slot, struct thread *t, uint64_t now)
{
	/* acquire: pairs with the release in thread_gone; a DONE thread pushes no more */
	uint32_t state = atomic_load_explicit(&t->state, memory_order_acquire);
	struct pass p = { .w = w, .lane = lane_at(slot), .now = now };
	struct ring *r;
	bool any = false;

	if (state == THREAD_FREE || !p.lane)
		return false;
	inflight_read(&p, t);
	r = atomic_load_explicit(&t->ring, memory_order_acquire);	/* pairs with ring_map */
	if (!p.lane->described && !(r && ring_used(r)) && !any_due(&p)) {
		/* It has not recorded anything: no track for it, its sums count all the same. */
		sums.dropped += atomic_load_explicit(&t->dropped, memory_order_relaxed);
		sums.shorts += atomic_load_explicit(&t->shorts, memory_order_relaxed);
	} else {
		lane_open(w, p.lane, slot, t->tid, now);
		if (r && drain_ring(&p, r)) {
			any = true;
			p.lane->active_ns = now;
		}
		end_orphans(&p);
		begin_due(&p);
		any |= thread_sums(&p, t);
		if (state == THREAD_LIVE)
			any |= lane_sample(w, p.lane, now);
	}
	if (state == THREAD_DONE) {
		gone_dropped += atomic_load_explicit(&t->dropped, memory_order_relaxed);
		gone_shorts += atomic_load_explicit(&t->shorts, memory_order_relaxed);
		lane_close(p.lane);
		thread_recycle(t);
	}
	return any;
}

bool emit_threads(struct pf_writer *w, uint64_t now)
{
	unsigned i, n = thread_high();
	bool any = false;

	sums.dropped = gone_dropped;
	sums.shorts = gone_shorts;
	for (i = 0; i < n; i++)
		any |= emit_thread(w, i, thread_at(i), now);
	return any;
}

struct emit_sums emit_sums(void)
{
	struct emit_sums all = sums;

	all.dropped += thread_homeless_count();
	return all;
}

void emit_loss(struct pf_writer *w)
{
	if (loss_fresh)
		pf_loss(w, lossy, nlossy);
	loss_fresh = false;
}

void emit_fork_child(void)
{
	memset(&sums, 0, sizeof(sums));
	gone_dropped = gone_shorts = 0;
	nlossy = 0;
	loss_fresh = false;
}
