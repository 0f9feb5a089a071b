/* SPDX-License-Identifier: Apache-2.0
 *
 * What CUPTI is asked for at the start, and in which order: version, subscription (learns who else holds it), attributes, callbacks,
 * kinds. On failure attribute `whyidle.gpu` says why.
 */
#ifndef WHYIDLE_SHIM_CUPTI_SETUP_H
#define WHYIDLE_SHIM_CUPTI_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/cupti_abi.h"
#include "trace/calls.h"

/* Constant once set up. */
struct cupti_session {
	struct cupti_functions f;
	cupti_subscriber subscriber;
	uint32_t version;		/* of the API */
	bool apis;			/* API records of the runtime come at all */
	bool records[CALL_COUNT];	/* by which calls they come */
};

typedef void cupti_complete_fn(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* 0, and records begin to come; -EAGAIN when nothing of CUDA is loaded yet; else never. Guard up. */
int cupti_setup(struct cupti_session *s, cupti_complete_fn *complete);

#endif
