/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's life as the shim sees it. Start, in this order; all of it may run twice and none of it starts a thread or
 * opens a file that stays open:
 *	1 settings from the environment	2 real functions	3 the key for ending threads	4 the table of descriptors
 *	5 the interpreter, identity	6 handlers of fork and exit	7 recording on
 */
#include "shim/life.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "shim/config.h"
#include "shim/cupti_late.h"
#include "shim/drain.h"
#include "shim/fdtab.h"
#include "shim/ident.h"
#include "shim/pulse.h"
#include "shim/pystack.h"
#include "shim/quiesce.h"
#include "shim/rows.h"
#include "shim/sys.h"
#include "shim/thread.h"

static atomic_bool started, ended, forked;

static void fork_prepare(void)
{
	drain_quiesce();
}

static void fork_parent(void)
{
	drain_unquiesce();
}

static void fork_child(void)
{
	drain_fork_child();
	atomic_store_explicit(&ended, false, memory_order_relaxed);
	atomic_store_explicit(&forked, true, memory_order_relaxed);
}

static void at_exit(int status, void *none)
{
	(void)none;
	life_end(status);
}

void life_start(void)
{
	if (atomic_exchange(&started, true))
		return;
	config_read();
	if (!config.enabled)
		return;
	rows_resolve();
	thread_init();
	fdtab_init();
	if (config.stack_ns)
		pystack_init();
	ident_refresh();
	pulse_init();
	if (config.gpu != CONFIG_GPU_OFF)
		cupti_late_init();
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	on_exit(at_exit, NULL);		/* registered before all others, hence run after all others, destructors included */
	atomic_store_explicit(&pulse_on, true, memory_order_release);
}

static __attribute__((constructor)) void constructor(void)
{
	int saved = errno;

	life_start();
	errno = saved;
}

/* Is this process the one whose state lies here? Not in a child that shares our memory, nor in one forked behind our back that
 * has recorded nothing. */
static bool is_us(void)
{
	return drain_enabled() && !tls.vforked && !tls.guard && ident.pid == sys_pid();
}

void life_end(int status)
{
	int saved = errno;

	if (!is_us() || atomic_exchange(&ended, true))
		return;
	tls.guard++;
	drain_run_exit_list();
	drain_attr_str("whyidle.end", atomic_load_explicit(&forked, memory_order_relaxed) ? "fork-child-exit" : "exit");
	drain_attr_int("whyidle.end_status", status);
	drain_flush(config.exit_ns);
	tls.guard--;
	errno = saved;
}

void life_exec(void)
{
	int saved = errno;

	if (!is_us())
		return;
	tls.guard++;
	drain_attr_str("whyidle.end", "exec");
	drain_flush(config.exit_ns);
	tls.guard--;
	errno = saved;
}

void life_exec_failed(void)
{
	int saved = errno;

	if (!is_us())
		return;
	tls.guard++;
	drain_attr_str("whyidle.end", "");
	tls.guard--;
	errno = saved;
}
