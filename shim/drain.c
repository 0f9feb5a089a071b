/* SPDX-License-Identifier: Apache-2.0
 *
 * The drain thread: its loop, its start and stop, and how traced threads rouse it.
 */
#include "shim/drain.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "shim/attr.h"
#include "shim/config.h"
#include "shim/emit.h"
#include "shim/highfd.h"
#include "shim/ident.h"
#include "shim/lane.h"
#include "shim/log.h"
#include "shim/out.h"
#include "shim/probe.h"
#include "shim/pulse.h"
#include "shim/quiesce.h"
#include "shim/sys.h"
#include "shim/tcp.h"
#include "shim/thread.h"

#define PERIOD_NS 50000000u
#define FAST_NS 10000000u
#define SECOND_NS 1000000000u
#define WATCH_NS 100000000u
#define PARK_AFTER 20		/* quiet periods */
#define STOP_LIMIT_NS 100000000u
#define STACK_BYTES (1u << 20)	/* a hook may call CUPTI */
#define MOST_HOOKS 8

_Atomic bool pulse_on;
_Atomic bool pulse_pending;
union pulse_page pulse_page __attribute__((aligned(PULSE_PAGE)));

static pthread_t thread;
static atomic_bool joinable;			/* whoever takes it down joins */
static atomic_uint holders;			/* threads between drain_quiesce and drain_unquiesce */
static atomic_bool stop_asked;
static _Atomic uint32_t wake_word;		/* futex: changed to end the drain's sleep */
static _Atomic uint32_t flush_asked, flush_done;/* tickets; the second is a futex */
static bool can_park;				/* membarrier works */

static _Atomic(void (*)(struct pf_writer *, uint64_t)) hooks[MOST_HOOKS];
static _Atomic(void (*)(void)) child_list[MOST_HOOKS], exit_list[MOST_HOOKS];
static _Atomic(bool (*)(void)) watcher;
static atomic_uint nhooks, nchild, nexit;

/* Drain thread's own: */
static struct pf_seq process_seq;
static uint64_t last_clocks_ns, last_sums_ns;
static uint64_t settled_ns = UINT64_MAX;	/* what ended before is in the file, says the hook that is furthest behind */
static bool file_begun;
static _Atomic uint64_t hook_recorded, hook_dropped;

void pulse_init(void)
{
	sys6(SYS_madvise, SYS_L(&pulse_page), sizeof(pulse_page), MADV_WIPEONFORK, 0, 0, 0);
}

bool drain_enabled(void)
{
	return atomic_load_explicit(&pulse_on, memory_order_relaxed);
}

/* ---- registration */

int drain_hook(void (*fn)(struct pf_writer *, uint64_t))
{
	unsigned i = atomic_fetch_add_explicit(&nhooks, 1, memory_order_relaxed);

	if (i >= MOST_HOOKS)
		return -ENOSPC;
	atomic_store_explicit(&hooks[i], fn, memory_order_release);	/* pairs with run_hooks */
	return 0;
}

static int add_to(_Atomic(void (*)(void)) *list, atomic_uint *n, void (*fn)(void))
{
	unsigned i = atomic_fetch_add_explicit(n, 1, memory_order_relaxed);

	if (i >= MOST_HOOKS)
		return -ENOSPC;
	atomic_store_explicit(&list[i], fn, memory_order_release);	/* pairs with run_list */
	return 0;
}

int drain_on_fork_child(void (*fn)(void))
{
	return add_to(child_list, &nchild, fn);
}

int drain_on_exit(void (*fn)(void))
{
	return add_to(exit_list, &nexit, fn);
}

void drain_watch(bool (*fn)(void))
{
	atomic_store_explicit(&watcher, fn, memory_order_release);	/* pairs with watch */
}

static void run_list(_Atomic(void (*)(void)) *list)
{
	unsigned i;

	for (i = 0; i < MOST_HOOKS; i++) {
		void (*fn)(void) = atomic_load_explicit(&list[i], memory_order_acquire);

		if (fn)
			fn();
	}
}

static bool run_hooks(struct pf_writer *w, uint64_t now)
{
	bool any = false;
	unsigned i;

	for (i = 0; i < MOST_HOOKS; i++) {
		void (*fn)(struct pf_writer *, uint64_t) = atomic_load_explicit(&hooks[i], memory_order_acquire);

		if (!fn)
			continue;
		fn(w, now);
		any = true;
	}
	return any;
}

void drain_run_exit_list(void)
{
	run_list(exit_list);
}

void drain_count_dropped(uint64_t n)
{
	atomic_fetch_add_explicit(&hook_dropped, n, memory_order_relaxed);
}

void drain_settled(uint64_t ns)
{
	settled_ns = ns;
}

void drain_count_recorded(uint64_t n)
{
	atomic_fetch_add_explicit(&hook_recorded, n, memory_order_relaxed);
}

uint64_t drain_thread_track(struct pf_writer *w, int64_t tid)
{
	unsigned i, n = thread_high();

	for (i = 0; i < n; i++) {
		struct thread *t = thread_at(i);

		if (t->tid == tid && atomic_load_explicit(&t->state, memory_order_acquire) == THREAD_LIVE && lane_at(i)) {
			lane_open(w, lane_at(i), i, t->tid, now_ns());
			return lane_at(i)->uuid;
		}
	}
	return lane_foreign(w, (int32_t)tid);
}

/* ---- the loop */

static void begin_file(struct pf_writer *w, uint64_t now)
{
	pf_trace_uuid(w, ident.uuid, drain_uuid("trace", 0, 0));
	pf_clocks(w, DRAIN_SEQ_PROCESS, now, clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_BOOTTIME));
	ident_write(w);
	process_seq.id = DRAIN_SEQ_PROCESS;
	process_seq.track_uuid = ident.uuid;
	pf_seq_begin(w, &process_seq, now);
	ident_attributes();
	attr_all_again();
	last_clocks_ns = now;
	file_begun = true;
}

static void note_sums(void)
{
	struct emit_sums s = emit_sums();

	drain_attr_int("whyidle.recorded", (int64_t)(s.recorded + atomic_load_explicit(&hook_recorded, memory_order_relaxed)));
	drain_attr_int("whyidle.dropped", (int64_t)(s.dropped + atomic_load_explicit(&hook_dropped, memory_order_relaxed)));
	drain_attr_int("whyidle.short", (int64_t)s.shorts);
}

/* The snapshot is a watermark: its reader takes what ended 2 s before it for written. */
static bool may_promise(uint64_t now)
{
	return settled_ns >= now || now - settled_ns < 2 * (uint64_t)SECOND_NS;
}

/* One period. True when something happened; `*fast` when the next should come soon. */
static bool run_period(struct pf_writer *w, bool last, bool *fast)
{
	uint64_t now = now_ns(), before = w->packets;
	bool any = false;

	if (!file_begun)
		begin_file(w, now);
	any |= emit_threads(w, now);
	*fast = tcp_sample(w, &process_seq, &any);
	any |= run_hooks(w, now);
	if (last || now - last_sums_ns >= SECOND_NS) {
		last_sums_ns = now;
		note_sums();
		emit_loss(w);
	}
	attr_write(w);
	if (w->packets != before && (last || (now - last_clocks_ns >= SECOND_NS && may_promise(now)))) {
		pf_clocks(w, DRAIN_SEQ_PROCESS, now, clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_BOOTTIME));
		last_clocks_ns = now;
	}
	out_flush();
	return any;
}

/* True when somebody still wants to watch. */
static bool watch(void)
{
	bool (*fn)(void) = atomic_load_explicit(&watcher, memory_order_acquire);
	static uint64_t last_ns;
	uint64_t now;

	if (!fn)
		return false;
	now = now_ns();
	if (now - last_ns < WATCH_NS)
		return true;
	last_ns = now;
	if (fn())
		return true;
	atomic_store_explicit(&watcher, NULL, memory_order_relaxed);
	return false;
}

/* False when nobody woke us: it was only time to look. */
static bool park(uint64_t limit_ns)
{
	uint32_t running = PULSE_RUNNING;
	unsigned i, n;

	if (!atomic_compare_exchange_strong(&pulse, &running, PULSE_PARKED))
		return true;
	/* Every thread that pushes afterwards sees PARKED: pairs with the plain load in pulse_pushed, at no cost to it. */
	sys6(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0);
	for (i = 0, n = thread_high(); i < n; i++) {
		struct ring *r = atomic_load_explicit(&thread_at(i)->ring, memory_order_acquire);

		if (r && ring_used(r))
			break;
	}
	if (i == n && !atomic_load(&stop_asked) && atomic_load(&flush_asked) == atomic_load(&flush_done))
		sys_futex_wait(&pulse, PULSE_PARKED, limit_ns);
	running = PULSE_PARKED;
	return !atomic_compare_exchange_strong(&pulse, &running, PULSE_RUNNING);
}

static void answer_flush(uint32_t ticket)
{
	atomic_store_explicit(&flush_done, ticket, memory_order_release);	/* pairs with drain_flush */
	sys_futex_wake(&flush_done);
}

static void loop(void)
{
	unsigned quiet = 0;

	while (!atomic_load_explicit(&stop_asked, memory_order_acquire)) {
		uint32_t word = atomic_load_explicit(&wake_word, memory_order_acquire);
		uint32_t ticket = atomic_load_explicit(&flush_asked, memory_order_acquire);
		bool watching, last = ticket != atomic_load_explicit(&flush_done, memory_order_relaxed), fast = false;
		struct pf_writer *w = out_writer();

		if (!w) {
			atomic_store_explicit(&pulse_on, false, memory_order_relaxed);
			break;
		}
		quiet = run_period(w, last, &fast) ? 0 : quiet + 1;
		if (last)
			answer_flush(ticket);
		probe_run();
		watching = watch();
		/* a hook's events (a GPU's) come without anybody waking us */
		if (can_park && quiet >= PARK_AFTER && !fast && !atomic_load_explicit(&nhooks, memory_order_relaxed)) {
			quiet = park(watching ? SECOND_NS : 3600 * (uint64_t)SECOND_NS) ? 0 : PARK_AFTER;
		} else {
			sys_futex_wait(&wake_word, word, fast ? FAST_NS : PERIOD_NS);
		}
	}
}

/* HELD to STOPPED, unless somebody holds. Both who ends the thread and who lets go come here, so neither can miss the other. */
static void let_go(void)
{
	uint32_t held = PULSE_HELD;

	if (!atomic_load(&holders))
		atomic_compare_exchange_strong(&pulse, &held, PULSE_STOPPED);
}

static void join(void)
{
	if (atomic_exchange(&joinable, false))
		pthread_join(thread, NULL);
}

static void *drain_main(void *none)
{
	uint32_t starting = PULSE_STARTING;

	tls.guard = 1;		/* for life */
	prctl(PR_SET_NAME, "whyidle");
	can_park = sys6(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0) == 0;
	atomic_compare_exchange_strong(&pulse, &starting, PULSE_RUNNING);
	loop();
	atomic_store(&pulse, drain_enabled() ? PULSE_HELD : PULSE_FAILED);
	let_go();
	answer_flush(atomic_load(&flush_asked));
	sys_futex_wake(&pulse);
	return none;
}

/* ---- start and stop */

static int create_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, &attr, drain_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -rc;
}

static void start(void)
{
	uint32_t stopped = PULSE_STOPPED;
	int saved = errno, rc, cancel;

	if (!drain_enabled() || !atomic_compare_exchange_strong(&pulse, &stopped, PULSE_STARTING))
		return;
	tls.guard++;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);	/* joining is a cancellation point, the host's call may be none */
	if (ident.pid != sys_pid()) {
		/* forked behind our back: the word was wiped, now the rest */
		drain_fork_child();
		atomic_store(&pulse, PULSE_STARTING);
	}
	join();		/* a thread that was too slow for drain_quiesce has ended since */
	atomic_store(&stop_asked, false);
	atomic_store_explicit(&pulse_pending, false, memory_order_relaxed);
	rc = create_thread();
	atomic_store(&joinable, !rc);
	if (rc) {
		atomic_store(&pulse, PULSE_FAILED);
		atomic_store_explicit(&pulse_on, false, memory_order_relaxed);
		log_once(LOG_NO_THREAD, "no thread can be started here, nothing is recorded", -rc);
	}
	pthread_setcancelstate(cancel, NULL);
	tls.guard--;
	errno = saved;
}

static void wake(void)
{
	uint32_t parked = PULSE_PARKED;

	atomic_fetch_add_explicit(&wake_word, 1, memory_order_release);
	if (atomic_compare_exchange_strong(&pulse, &parked, PULSE_RUNNING))
		sys_futex_wake(&pulse);
	else
		sys_futex_wake(&wake_word);
}

void pulse_half_full(void)
{
	wake();
}

/* Not every place is fit for starting a thread: a fork wants its parent to stay as it is for a while, and mmap may be called
 * from inside an allocator, which thread creation needs. */
static bool fit_to_start(enum call call)
{
	enum call_class c = call_class(call);

	return c != CLASS_PROC && c != CLASS_FILE_MAP;
}

void pulse_rouse(enum call call)
{
	switch (atomic_load(&pulse)) {
	case PULSE_PARKED:
		wake();
		break;
	case PULSE_STOPPED:
		if (fit_to_start(call))
			start();
		else
			atomic_store_explicit(&pulse_pending, true, memory_order_relaxed);
		break;
	default:
		break;
	}
}

void pulse_resume(enum call call)
{
	switch (call_class(call)) {
	case CLASS_FD_WAIT:
	case CLASS_SEM_WAIT:
	case CLASS_COND_WAIT:
	case CLASS_JOIN:
	case CLASS_CHILD_WAIT:
	case CLASS_SLEEP:
	case CLASS_NET_READ:
	case CLASS_NET_CONNECT:
	case CLASS_NET_ACCEPT:
	case CLASS_NCCL_SETUP:
	case CLASS_GPU_SYNC:
		start();
		break;
	default:
		break;
	}
}

void drain_kick(void)
{
	if (!drain_enabled())
		return;
	start();
	wake();
}

/* Gets pulse to HELD (or FAILED), waiting for a thread that runs; false when that takes too long. */
static bool hold(void)
{
	uint64_t until = now_ns() + STOP_LIMIT_NS;

	for (;;) {
		uint32_t seen = atomic_load(&pulse), stopped = PULSE_STOPPED;
		uint64_t now = now_ns();

		if (seen == PULSE_HELD || seen == PULSE_FAILED ||
		    (seen == PULSE_STOPPED && atomic_compare_exchange_strong(&pulse, &stopped, PULSE_HELD)))
			return true;
		if (now >= until)
			return false;
		atomic_store(&stop_asked, true);
		wake();
		sys_futex_wait(&pulse, seen, until - now > 1000000 ? 1000000 : until - now);
	}
}

void drain_quiesce(void)
{
	int saved = errno, cancel;

	tls.guard++;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	atomic_fetch_add(&holders, 1);
	if (hold() && atomic_load(&joinable)) {
		join();
		atomic_store_explicit(&pulse_pending, true, memory_order_relaxed);
	}
	pthread_setcancelstate(cancel, NULL);
	tls.guard--;
	errno = saved;
}

void drain_unquiesce(void)
{
	if (atomic_fetch_sub(&holders, 1) != 1)
		return;
	atomic_store(&stop_asked, false);	/* a thread that was too slow to stop goes on */
	let_go();
}

void drain_fork_child(void)
{
	tls.guard++;
	atomic_store(&joinable, false);
	atomic_store(&holders, 0);
	atomic_store(&pulse, PULSE_STOPPED);
	atomic_store(&pulse_pending, false);
	ident_refresh();
	atomic_store(&stop_asked, false);
	atomic_store(&flush_asked, 0);
	atomic_store(&flush_done, 0);
	file_begun = false;
	last_clocks_ns = last_sums_ns = 0;
	settled_ns = UINT64_MAX;
	hook_recorded = hook_dropped = 0;
	highfd_fork_child();
	out_fork_child();
	thread_fork_child();
	lane_fork_child();
	emit_fork_child();
	tcp_fork_child();
	attr_fork_child();
	run_list(child_list);
	tls.guard--;
}

static bool anything_to_write(void)
{
	return out_is_open() || atomic_load_explicit(&pulse_pending, memory_order_relaxed) ||
	       atomic_load(&pulse) != PULSE_STOPPED;
}

void drain_flush(uint64_t limit_ns)
{
	uint64_t until = now_ns() + limit_ns;
	uint32_t ticket;

	if (!drain_enabled() || !anything_to_write())
		return;
	ticket = atomic_fetch_add(&flush_asked, 1) + 1;
	start();
	wake();
	for (;;) {
		/* acquire: pairs with answer_flush */
		uint32_t done = atomic_load_explicit(&flush_done, memory_order_acquire);
		uint64_t now = now_ns();

		if ((int32_t)(done - ticket) >= 0 || now >= until || atomic_load(&pulse) == PULSE_FAILED)
			return;
		sys_futex_wait(&flush_done, done, until - now);
	}
}
