/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast half: what happens in the traced thread around every wrapped call. No allocation (but the thread's one ring), no
 * lock, no stdio, no clock but MONOTONIC. errno is left alone because nothing here sets it.
 *
 * The guard is not held over the real call: a thread cancelled in there, or a signal handler that jumps out of it, leaves nothing
 * raised. What it does leave is an entry on the in-flight stack, which the next span of an outer frame takes away.
 */
#include "shim/span.h"

#include <signal.h>

#include "shim/config.h"
#include "shim/drain.h"
#include "shim/pulse.h"
#include "shim/pystack.h"
#include "shim/sys.h"
#include "shim/target.h"
#include "shim/thread.h"

#pragma GCC poison malloc calloc realloc free printf fprintf pthread_mutex_lock pthread_mutex_unlock

#define SHORT_PER_SECOND 20000		/* short events that are written all the same, per thread */
#define BEGUN_NS 40000000u		/* the drain may have shown a call this long already: its end must be written */

static inline void bump(_Atomic uint64_t *counter, uint64_t by)
{
	/* single writer: no read-modify-write needed */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

bool span_guarded(void)
{
	return tls.guard || tls.vforked || tls.resolving;
}

void span_guard_up(void)
{
	tls.guard++;
}

void span_guard_down(void)
{
	tls.guard--;
}

static bool on_alternate_stack(void)
{
	stack_t ss = { .ss_flags = 0 };

	return sys6(SYS_sigaltstack, 0, SYS_L(&ss), 0, 0, 0, 0) == 0 && (ss.ss_flags & SS_ONSTACK);
}

/* Entries whose frame lies deeper than this one were jumped or cancelled out of. A handler on its own stack proves nothing. */
static uint32_t live_depth(struct thread *t, uintptr_t frame)
{
	uint32_t depth = atomic_load_explicit(&t->depth, memory_order_relaxed);
	uint32_t n = depth < THREAD_NEST ? depth : THREAD_NEST;

	if (__builtin_expect(!n || t->inflight[n - 1].frame > frame, 1))
		return depth;
	if (on_alternate_stack())
		return depth;
	while (n && t->inflight[n - 1].frame <= frame)
		n--;
	return n;
}

static void enter(struct thread *t, struct span *s)
{
	uint32_t depth = live_depth(t, (uintptr_t)s);

	s->depth = depth;
	s->serial = ++t->serial;
	if (depth < THREAD_NEST) {
		struct inflight *e = &t->inflight[depth];

		/* release, both: pair with the two acquire loads of inflight_read in emit.c */
		atomic_store_explicit(&e->serial, 0, memory_order_release);
		atomic_thread_fence(memory_order_release);
		atomic_store_explicit(&e->start_ns, s->start_ns, memory_order_relaxed);
		atomic_store_explicit(&e->target, (uint64_t)s->target, memory_order_relaxed);
		atomic_store_explicit(&e->target_kind, s->target_kind, memory_order_relaxed);
		atomic_store_explicit(&e->call, (uint32_t)s->call | (s->quiet ? INFLIGHT_QUIET : 0), memory_order_relaxed);
		e->frame = (uintptr_t)s;
		atomic_store_explicit(&e->serial, s->serial, memory_order_release);
	}
	atomic_store_explicit(&t->depth, depth + 1, memory_order_release);
}

static void leave(struct thread *t, const struct span *s)
{
	if (atomic_load_explicit(&t->depth, memory_order_relaxed) > s->depth)
		/* release: pairs with the drain's acquire of depth; an event pushed before is in the ring by then */
		atomic_store_explicit(&t->depth, s->depth, memory_order_release);
}

static inline void fill(struct span *s, enum call call)
{
	/* Field by field: a memset of this size is a string instruction, dearer than a clock read. */
	s->start_ns = 0;
	s->call = call;
	s->target_kind = TARGET_NONE;
	s->target = 0;
	s->bytes = -1;
	s->always = s->quiet = s->nccl = s->limited = false;
	s->comm = s->seq = s->flow_id = 0;
	s->rank = s->nranks = s->peer = s->root = s->dtype = s->op = SPAN_NONE;
	s->n = 0;
	s->family = SHORT_OTHER;
}

void span_fill(struct span *s, enum call call)
{
	fill(s, call);
}

static inline void open_span(struct span *s)
{
	struct thread *t;

	if (!atomic_load_explicit(&pulse_on, memory_order_relaxed) || span_guarded())
		return;
	t = thread_slot();
	if (__builtin_expect(!t, 0)) {
		thread_homeless();
		return;
	}
	s->start_ns = now_ns();
	enter(t, s);
	pulse_waiting(s->call);
}

void span_begin(struct span *s, enum call call)
{
	fill(s, call);
	open_span(s);
}

void span_begin_at(struct span *s, enum call call, enum span_target kind, intptr_t target)
{
	fill(s, call);
	s->target_kind = kind;
	s->target = target;
	open_span(s);
}

void span_begin_quiet(struct span *s, enum call call)
{
	fill(s, call);
	s->quiet = true;
	open_span(s);
}

void span_name_target(struct span *s)
{
	if (!s->start_ns || s->target_kind != TARGET_FD)
		return;
	/* Only a word that has been made before: a short close is not worth the system calls. */
	s->target = (intptr_t)target_known((int)s->target);
	s->target_kind = TARGET_STRING;
}

void span_cancel(struct span *s)
{
	if (s->start_ns && tls.slot)
		leave(tls.slot, s);
	s->start_ns = 0;
}

/* Errors that are answers, not failures. */
static bool is_failure(enum call call, int err)
{
	if (!err || err == EAGAIN || err == EINTR)
		return false;
	switch (call_class(call)) {
	case CLASS_FD_CLOSE:		/* loops that close every possible descriptor */
	case CLASS_CHILD_WAIT:		/* "no more children" */
		return false;
	case CLASS_FD_WAIT:
	case CLASS_SEM_WAIT:
	case CLASS_COND_WAIT:
		return err != ETIMEDOUT;
	case CLASS_GPU_QUERY:		/* "not ready" */
		return false;
	default:
		return true;
	}
}

static bool within_rate(struct thread *t, uint64_t now)
{
	if (now - t->rate_window_ns >= 1000000000u) {
		t->rate_window_ns = now;
		t->rate_count = 0;
	}
	return t->rate_count++ < SHORT_PER_SECOND;
}

/* Is it to be written? `dur` is its length. */
static bool worth(struct thread *t, const struct span *s, int err, uint64_t end, uint64_t dur)
{
	if (s->quiet || s->family == SHORT_FOLDED)
		return dur >= BEGUN_NS;
	if (dur >= config.threshold_ns)
		return true;
	if (s->always && !s->limited)
		return true;
	return (s->always || is_failure(s->call, err)) && within_rate(t, end);
}

static void fill_event(struct event *e, const struct span *s, uint64_t end, int err)
{
	e->start_ns = s->start_ns;
	e->end_ns = end;
	e->serial = s->serial;
	e->bytes = s->bytes;
	e->flow_id = s->flow_id;
	e->n = s->n;
	e->err = err;
	e->call = (uint16_t)s->call;
	e->kind = s->nccl ? EVENT_CALL_NCCL : EVENT_CALL;
	e->quiet = s->quiet;
	target_of_span(s, &e->target_kind, &e->target);
}

static void fill_nccl(struct event_nccl *x, const struct span *s)
{
	x->comm = s->comm;
	x->seq = s->seq;
	x->rank = s->rank;
	x->nranks = s->nranks;
	x->peer = s->peer;
	x->root = s->root;
	x->dtype = s->dtype;
	x->op = s->op;
}

/* Where the program waited, for a call that is written and waited long; 0 = not told. */
static uint32_t stack_of(const struct span *s, uint64_t dur)
{
	return __builtin_expect(config.stack_ns && dur >= config.stack_ns && !s->nccl && !s->quiet, 0) ? pystack_here() : 0;
}

static void push(struct thread *t, const struct span *s, uint64_t end, int err)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	uint32_t stack = stack_of(s, end - s->start_ns);
	unsigned places = s->nccl || stack ? 2 : 1;
	struct ring *r;

	/* A signal handler that interrupted a push must not push into the middle of it; one that jumped out of a push left a mark
	 * from a deeper frame, which is void. */
	if (tls.pushing && tls.pushing > frame) {
		bump(&t->dropped, 1);
		return;
	}
	tls.pushing = frame;
	atomic_signal_fence(memory_order_seq_cst);
	r = thread_ring(t);
	if (r && ring_has_room(r, places)) {
		fill_event(&ring_place(r, 0)->call, s, end, err);
		if (s->nccl)
			fill_nccl(&ring_place(r, 1)->nccl, s);
		if (stack) {
			ring_place(r, 0)->call.kind = EVENT_CALL_STACK;
			ring_place(r, 1)->stack.at = stack;
		}
		ring_push(r, places);
		t->last_end_ns = end;
	} else {
		bump(&t->dropped, 1);
	}
	atomic_signal_fence(memory_order_seq_cst);
	tls.pushing = 0;
	if (r)
		pulse_pushed(r, s->call);
}

static void fill_note(struct event_note *e, const struct span_note *n)
{
	bool update = n->kind == NOTE_SCALE_UPDATE;

	*e = (struct event_note){
		.start_ns = n->start_ns, .address = n->address, .other = update ? n->found : n->since_ns, .growth_bits = n->growth_bits,
		.backoff_bits = n->backoff_bits, .call_ns = (uint32_t)n->call_ns, .bits = update ? (uint32_t)n->interval : n->bits, .bytes = n->bytes,
		.result_offset = (int32_t)((int64_t)(n->result - n->address) / 4), .what = (uint8_t)n->kind, .known = n->known, .kind = EVENT_NOTE,
	};
	if (!update || !n->known)
		e->result_offset = 0;
}

void span_note(const struct span_note *note)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	struct thread *t = thread_slot();
	struct ring *r;

	if (!t) {
		thread_homeless();
		return;
	}
	if (tls.pushing && tls.pushing > frame) {	/* as in push() */
		bump(&t->dropped, 1);
		return;
	}
	tls.pushing = frame;
	atomic_signal_fence(memory_order_seq_cst);
	r = thread_ring(t);
	if (r && ring_has_room(r, 1)) {
		fill_note(&ring_place(r, 0)->note, note);
		ring_push(r, 1);
	} else {
		bump(&t->dropped, 1);
	}
	atomic_signal_fence(memory_order_seq_cst);
	tls.pushing = 0;
	if (r)
		pulse_pushed(r, CALL_NONE);
}

static void settle(struct thread *t, struct span *s, uint64_t end, int err)
{
	uint64_t dur = end - s->start_ns;

	if (worth(t, s, err, end, dur)) {
		push(t, s, end, err);
	} else if (!s->quiet) {
		bump(&t->shorts, s->n ? s->n : 1);
		bump(&t->short_ns[s->family], dur);
	}
}

void span_end(struct span *s, int err)
{
	struct thread *t;
	uint64_t end;

	if (!s->start_ns)
		return;
	end = now_ns();
	t = thread_slot();	/* another one than at the begin after a fork, or in a thread's last destructors */
	if (!t) {
		thread_homeless();
		return;
	}
	settle(t, s, end, err);
	leave(t, s);
	s->start_ns = 0;
}

void span_since(struct span *s, uint64_t start_ns)
{
	struct thread *t = thread_slot();
	uint32_t depth;
	uint64_t end;

	if (!t) {
		thread_homeless();
		return;
	}
	end = now_ns();
	if (start_ns < t->last_end_ns)
		start_ns = t->last_end_ns;
	depth = atomic_load_explicit(&t->depth, memory_order_relaxed);
	if (depth && depth <= THREAD_NEST) {
		uint64_t outer = atomic_load_explicit(&t->inflight[depth - 1].start_ns, memory_order_relaxed);

		if (start_ns < outer)
			start_ns = outer;
	}
	s->start_ns = start_ns < end ? start_ns : end;
	s->serial = ++t->serial;
	settle(t, s, end, 0);
	s->start_ns = 0;
}
