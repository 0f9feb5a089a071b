/* SPDX-License-Identifier: Apache-2.0
 *
 * The bracket around every API call: correlation id, time, and the listener's notice.
 */
#include "examples/simgpu/core.h"

static const struct sg_listener *_Atomic current_listener;
static _Atomic uint32_t last_correlation;
static __thread uint32_t thread_correlation;

void sg_listen(const struct sg_listener *listener)
{
	/* release: pairs with the load in sg_listener */
	atomic_store_explicit(&current_listener, listener, memory_order_release);
}

const struct sg_listener *sg_listener(void)
{
	return atomic_load_explicit(&current_listener, memory_order_acquire);
}

int sg_call_begin(struct sg_call *call, enum sg_domain domain, uint32_t cbid)
{
	int rc = sg_init();

	call->domain = domain;
	call->cbid = cbid;
	call->correlation = 0;
	if (sg_forked())
		return rc;
	call->correlation = atomic_fetch_add_explicit(&last_correlation, 1, memory_order_relaxed) + 1;
	call->start_ns = sg_now();
	thread_correlation = call->correlation;
	return rc;
}

int sg_call_end(struct sg_call *call, int result)
{
	const struct sg_listener *listener = call->correlation ? sg_listener() : NULL;

	if (listener)
		listener->call(call, sg_now(), result);
	thread_correlation = 0;
	return result;
}

uint32_t sg_correlation(void)
{
	return thread_correlation;
}
