/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. Who calls into CUPTI after its set-up (cupti_setup.c): only the drain thread (flush, next record, dropped), and the
 * exiting thread (the last flush), never both at once: two flushes at a time deadlock.
 */
#include "shim/cupti.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "shim/config.h"
#include "shim/cupti_abi.h"
#include "shim/cupti_buffers.h"
#include "shim/cupti_clock.h"
#include "shim/cupti_record.h"
#include "shim/cupti_setup.h"
#include "shim/cupti_write.h"
#include "shim/drain.h"
#include "shim/span.h"
#include "shim/sys.h"

#define TRIES 16
#define FLUSH_NS 100000000u		/* what a killed job may lose of its GPU records; each flush costs the drain thread, not the job */
#define START_WAIT_NS 10000000000u

_Atomic unsigned int cupti_state;
_Atomic bool cupti_exit_registered;

static struct cupti_session session;	/* constant once CUPTI is active */
static int owner_pid;
static struct cupti_clock cuda_clock;	/* drain thread */
static _Atomic uint64_t spare_lost;	/* records that landed in spare buffers */
static _Atomic uint64_t library_dropped;	/* records that CUPTI says it dropped */
static _Atomic bool flushing;		/* the try-guard around FlushAll */
static _Atomic bool ended;		/* the last flush has begun: the drain thread stays out of CUPTI's flush */
static uint64_t last_flush_ns, settled_ns;	/* drain thread */

/* ---- CUPTI's callbacks: its threads, or the host's inside a CUDA call */

static uint64_t count_records(uint8_t *buffer, size_t valid)
{
	uint8_t *record = NULL;
	uint64_t n = 0;

	while (session.f.ActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK)
		n++;
	return n;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	bool urgent = false;

	(void)context;
	(void)stream;
	(void)size;
	if (!buffer)
		return;
	if (cupti_buffers_complete(buffer, valid, &urgent)) {
		if (urgent)
			drain_kick();
		return;
	}
	atomic_fetch_add_explicit(&spare_lost, valid ? count_records(buffer, valid) : 0, memory_order_relaxed);
	cupti_buffers_free(buffer);
}

/* ---- bringing it up */

static void on_drain(struct pf_writer *w, uint64_t now_ns);
static void on_exit_flush(void);
static void at_exit(void);
static void on_fork_child(void);

static int bring_up(void)
{
	int r = cupti_setup(&session, on_complete);

	if (r)
		return r;
	cupti_clock_init(&cuda_clock, session.f.GetTimestamp);
	cupti_clock_sample(&cuda_clock);
	owner_pid = sys_pid();
	return drain_hook(on_drain) || drain_on_exit(on_exit_flush) ? -1 : 0;
}

/* A call of a statically linked NCCL may come before anything of CUDA is loaded: then a later call tries again. */
static void start_mine(void)
{
	static unsigned int tries;
	unsigned int state;
	sigset_t all, old;
	int r;

	span_guard_up();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);	/* the threads that CUPTI starts must not take the host's signals */
	if (!tries++)
		drain_on_fork_child(on_fork_child);
	r = bring_up();
	state = r == -EAGAIN && tries < TRIES ? CUPTI_FRESH : r ? CUPTI_NONE : CUPTI_ACTIVE;
	/* release pairs with the acquire in cupti_start: tables and functions are there */
	atomic_store_explicit(&cupti_state, state, memory_order_release);
	sys_futex_wake(&cupti_state);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	span_guard_down();
	drain_kick();
}

void cupti_start_slow(void)
{
	unsigned int expected = CUPTI_FRESH;
	uint64_t until;
	int saved = errno;

	if (span_guarded() || !drain_enabled())
		return;
	if (atomic_compare_exchange_strong_explicit(&cupti_state, &expected, CUPTI_STARTING, memory_order_acq_rel,
						    memory_order_acquire)) {
		start_mine();
	} else {
		until = now_ns() + START_WAIT_NS;
		while (atomic_load_explicit(&cupti_state, memory_order_acquire) == CUPTI_STARTING && now_ns() < until)
			sys_futex_wait(&cupti_state, CUPTI_STARTING, 1000000000u);
	}
	errno = saved;
}

static void register_exit(void)
{
	span_guard_up();
	atexit(at_exit);
	span_guard_down();
}

void cupti_start_late(void)
{
	unsigned int expected = CUPTI_FRESH;

	if (!atomic_compare_exchange_strong_explicit(&cupti_state, &expected, CUPTI_STARTING, memory_order_acq_rel, memory_order_acquire))
		return;
	start_mine();
	if (atomic_load_explicit(&cupti_state, memory_order_acquire) != CUPTI_ACTIVE)
		return;
	drain_attr_int("whyidle.gpu.late", 1);
	register_exit();	/* again at the first record: the runtime's own handlers may come after this */
}

bool cupti_records(enum call call)
{
	return atomic_load_explicit(&cupti_state, memory_order_acquire) == CUPTI_ACTIVE && session.apis && session.records[call];
}

/* ---- its records */

static void read_buffer(struct pf_writer *w, uint8_t *buffer, size_t valid, uint64_t now, bool forced)
{
	struct cupti_record r;
	uint8_t *record = NULL;

	while (valid && session.f.ActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK) {
		cupti_record_read(record, session.version, &r);
		cupti_write_add(w, &cuda_clock, &r, now, forced);
		free(r.owned);		/* CUPTI leaves that to its client */
	}
}

static void read_completed(struct pf_writer *w, uint64_t now)
{
	bool forced = atomic_load_explicit(&ended, memory_order_acquire);
	uint8_t *buffer;
	size_t valid;

	while ((buffer = cupti_buffers_next(&valid))) {
		/* no wrapper will do it where none sees a call; a record means that a call has ended */
		if (valid && !atomic_exchange_explicit(&cupti_exit_registered, true, memory_order_relaxed))
			register_exit();
		read_buffer(w, buffer, valid, now, forced);
		cupti_buffers_free(buffer);
	}
	cupti_write_flush(w, now);
}

/* Takes the guard and flushes. False when somebody else is at it. */
static bool flush(uint32_t flag)
{
	size_t dropped = 0;

	if (atomic_exchange_explicit(&flushing, true, memory_order_acquire))
		return false;
	session.f.ActivityFlushAll(flag);
	if (session.f.ActivityGetNumDroppedRecords && !session.f.ActivityGetNumDroppedRecords(NULL, 0, &dropped))
		atomic_fetch_add_explicit(&library_dropped, dropped, memory_order_relaxed);
	atomic_store_explicit(&flushing, false, memory_order_release);
	return true;
}

static void count_losses(void)
{
	static uint64_t counted;
	uint64_t spare = atomic_load_explicit(&spare_lost, memory_order_relaxed);
	uint64_t library = atomic_load_explicit(&library_dropped, memory_order_relaxed);

	if (spare + library == counted)
		return;
	drain_count_dropped(spare + library - counted);
	counted = spare + library;
	drain_attr_int("whyidle.gpu.dropped", (int64_t)library);
	drain_attr_int("whyidle.gpu.buffers_lost", (int64_t)spare);
}

static void tell_counts(void)
{
	const struct cupti_write_counts *c = cupti_write_counts();

	if (c->zero_time)
		drain_attr_int("whyidle.gpu.zero_time", (int64_t)c->zero_time);
	if (c->unfinished)
		drain_attr_int("whyidle.gpu.unfinished", (int64_t)c->unfinished);
	if (c->crowded)
		drain_attr_int("whyidle.gpu.crowded", (int64_t)c->crowded);
	if (c->overhead_ns)
		drain_attr_int("whyidle.gpu.overhead_ns", (int64_t)c->overhead_ns);
	if (cuda_clock.steps)
		drain_attr_int("whyidle.gpu.clock_steps", (int64_t)cuda_clock.steps);
}

static void on_drain(struct pf_writer *w, uint64_t now)
{
	uint64_t oldest;

	if (atomic_load_explicit(&cupti_state, memory_order_acquire) != CUPTI_ACTIVE || sys_pid() != owner_pid)
		return;
	cupti_clock_sample(&cuda_clock);
	read_completed(w, now);		/* room in the pool before the flush asks for it */
	if (now - last_flush_ns >= FLUSH_NS && !atomic_load_explicit(&ended, memory_order_acquire)) {
		last_flush_ns = now;
		if (flush(0)) {
			/* CUPTI keeps a buffer while one of its operations runs: what ended since it asked for that is not here */
			oldest = cupti_buffers_oldest_ns();
			settled_ns = oldest < now ? oldest : now;
		}
	}
	read_completed(w, now);
	count_losses();
	drain_settled(atomic_load_explicit(&ended, memory_order_acquire) ? UINT64_MAX : settled_ns);
	tell_counts();
}

/* ---- the end */

/* In the exiting thread. Nothing here waits for the device. */
static bool last_flush(uint64_t until)
{
	if (atomic_load_explicit(&cupti_state, memory_order_acquire) != CUPTI_ACTIVE || sys_pid() != owner_pid)
		return false;
	if (atomic_exchange_explicit(&ended, true, memory_order_acq_rel))
		return false;
	while (!flush(CUPTI_FLUSH_FORCED)) {
		if (now_ns() >= until)
			return false;
		sys_futex_wait(&cupti_state, CUPTI_ACTIVE, 1000000);
	}
	return true;
}

/* Ends by _exit and the like: the hook's final round reads the buffers, and libcupti is still whole then. */
static void on_exit_flush(void)
{
	last_flush(now_ns() + config.exit_ns / 2);
}

/* Ends by exit(): behind us come libcudart's and libcupti's own handlers, which leave them dead (calls answer 15). So the drain
 * thread must have read the buffers before this returns. */
static void at_exit(void)
{
	uint64_t until = now_ns() + config.exit_ns / 2;

	span_guard_up();
	if (last_flush(until)) {
		drain_kick();
		while (cupti_buffers_unread() && now_ns() < until)
			sys_futex_wait(&cupti_state, CUPTI_ACTIVE, 1000000);
	}
	span_guard_down();
}

void cupti_call_succeeded_slow(void)
{
	if (span_guarded() || atomic_load_explicit(&cupti_state, memory_order_acquire) < CUPTI_ACTIVE)
		return;
	if (atomic_exchange_explicit(&cupti_exit_registered, true, memory_order_relaxed))
		return;
	if (atomic_load_explicit(&cupti_state, memory_order_acquire) == CUPTI_ACTIVE)
		register_exit();
}

/* The driver's way in (CUDA_INJECTION64_PATH): called once while it initialises, also in programs with a static runtime, whose calls no
 * wrapper sees. Harmless when we were preloaded as well. 1 = go on. */
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void)
{
	cupti_start();
	cupti_call_succeeded();
	return 1;
}

/* CUDA and CUPTI are unusable here: nothing of them is ever called again in this process. A parent that had not begun leaves its
 * child free to begin. */
static void on_fork_child(void)
{
	if (atomic_load_explicit(&cupti_state, memory_order_relaxed) == CUPTI_FRESH)
		return;
	atomic_store_explicit(&cupti_state, CUPTI_NONE, memory_order_relaxed);
	cupti_buffers_forget();
	drain_attr_str("whyidle.gpu", "none: forked from a process that uses CUDA");
}
