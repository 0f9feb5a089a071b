/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a reader may still take. What it keeps depends on the file (tracks, strings, sequences), so that a damaged
 * or hostile one must not be able to ask for more than this.
 */
#ifndef WHYIDLE_TRACE_BUDGET_H
#define WHYIDLE_TRACE_BUDGET_H

#include <stddef.h>
#include <stdlib.h>

struct budget {
	size_t left;			/* bytes */
};

/* calloc within the budget; NULL when there is no memory or no budget. */
static inline void *budget_calloc(struct budget *b, size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > b->left)
		return NULL;
	p = calloc(n, size);
	if (p)
		b->left -= bytes;
	return p;
}

static inline void budget_free(struct budget *b, void *p, size_t n, size_t size)
{
	if (p)
		b->left += n * size;
	free(p);
}

#endif
