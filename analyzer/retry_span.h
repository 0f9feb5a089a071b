/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists behind retry.c: spans, sorted by start, and the calls in which processes set up communicators. Both forget what the window left.
 */
#ifndef WHYIDLE_ANALYZER_RETRY_SPAN_H
#define WHYIDLE_ANALYZER_RETRY_SPAN_H

#include <stddef.h>

#include "analyzer/retry.h"

struct retry_spans { struct retry_span **list; size_t n, cap; };

/* A new open span, zero apart from its start. Stays where it is until it is removed or evicted; open ones are never evicted. */
struct retry_span *retry_span_add(struct retry_spans *s, int64_t start_ns);
void retry_span_remove(struct retry_spans *s, struct retry_span *span);
/* The open span of failed connects by that process to that peer ("B:q"), NULL = none. */
struct retry_span *retry_spans_failing(const struct retry_spans *s, const struct process *p, const char *peer);
void retry_spans_evict(struct retry_spans *s, int64_t before_ns);
void retry_spans_free(struct retry_spans *s);

struct retry_setup { int64_t start_ns, end_ns; const struct thread *thread; };
struct retry_setups { struct retry_setup *list; size_t n, cap; };

/* Adds the call, or renews its end when it is known. */
void retry_setups_add(struct retry_setups *s, const struct thread *t, const struct slice *call);
/* One that `p` was in at at_ns, NULL = none. */
const struct retry_setup *retry_setups_find(const struct retry_setups *s, const struct process *p, int64_t at_ns);
void retry_setups_evict(struct retry_setups *s, int64_t before_ns);
void retry_setups_free(struct retry_setups *s);

#endif
