/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists behind retry.c.
 */
#include "analyzer/retry_span.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"

struct retry_span *retry_span_add(struct retry_spans *s, int64_t start_ns)
{
	struct retry_span *span = mem_new(1, sizeof(*span));
	size_t i = s->n;

	span->start_ns = start_ns;
	span->end_ns = NS_OPEN;
	s->list = mem_more(s->list, s->n, &s->cap, sizeof(*s->list));
	while (i > 0 && s->list[i - 1]->start_ns > start_ns)
		i--;
	memmove(s->list + i + 1, s->list + i, (s->n - i) * sizeof(*s->list));
	s->list[i] = span;
	s->n++;
	return span;
}

void retry_span_remove(struct retry_spans *s, struct retry_span *span)
{
	size_t i = s->n;

	while (i-- > 0)
		if (s->list[i] == span)
			break;
	if (i >= s->n)
		return;
	memmove(s->list + i, s->list + i + 1, (s->n - i - 1) * sizeof(*s->list));
	s->n--;
	free(span);
}

static bool same_peer(const struct text *target, const char *peer)
{
	const char *mid = target ? strstr(target->text, "->") : NULL;

	return !strcmp(mid ? mid + 2 : target ? target->text : "", peer);
}

struct retry_span *retry_spans_failing(const struct retry_spans *s, const struct process *p, const char *peer)
{
	for (size_t i = s->n; i-- > 0;) {
		struct retry_span *span = s->list[i];

		if (span->end_ns == NS_OPEN && span->failed && span->process == p && same_peer(span->target, peer))
			return span;
	}
	return NULL;
}

void retry_spans_evict(struct retry_spans *s, int64_t before_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (s->list[i]->end_ns < before_ns)
			free(s->list[i]);
		else
			s->list[kept++] = s->list[i];
	}
	s->n = kept;
}

void retry_spans_free(struct retry_spans *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->list[i]);
	free(s->list);
	memset(s, 0, sizeof(*s));
}

void retry_setups_add(struct retry_setups *s, const struct thread *t, const struct slice *call)
{
	for (size_t i = s->n; i-- > 0;) {
		if (s->list[i].thread == t && s->list[i].start_ns == call->start_ns) {
			s->list[i].end_ns = call->end_ns;
			return;
		}
	}
	s->list = mem_more(s->list, s->n, &s->cap, sizeof(*s->list));
	s->list[s->n++] = (struct retry_setup){ call->start_ns, call->end_ns, t };
}

const struct retry_setup *retry_setups_find(const struct retry_setups *s, const struct process *p, int64_t at_ns)
{
	for (size_t i = s->n; i-- > 0;)
		if (s->list[i].thread->process == p && s->list[i].start_ns <= at_ns && at_ns < s->list[i].end_ns)
			return &s->list[i];
	return NULL;
}

void retry_setups_evict(struct retry_setups *s, int64_t before_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].end_ns >= before_ns)
			s->list[kept++] = s->list[i];
	s->n = kept;
}

void retry_setups_free(struct retry_setups *s)
{
	free(s->list);
	memset(s, 0, sizeof(*s));
}
