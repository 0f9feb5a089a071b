/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings seen in a trace, each kept once and numbered from 1; and the tables that lead from a sequence's iid to its string.
 */
#ifndef WHYIDLE_TRACE_INTERN_H
#define WHYIDLE_TRACE_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "trace/budget.h"
#include "trace/get.h"

#define STRING_MAX (64u << 10)		/* longer ones are cut */

struct string {
	uint32_t id, len, hash;
	char text[];			/* terminated */
};

struct pool {
	struct string **slots;
	size_t nslots, count;
	size_t max_count, bytes_left;
	char *chunk;			/* newest first, chained through their first bytes */
	size_t chunk_left;
	char *free_at;
};

void pool_init(struct pool *p, size_t max_count, size_t max_bytes);
void pool_free(struct pool *p);

/* The one copy of these bytes. NULL when the pool is full or there is no memory. Valid until pool_free. */
const struct string *pool_put(struct pool *p, struct budget *b, struct bytes s);

/* From iid to string, for one sequence and table. Forgets everything in one step when the sequence's state is cleared. */
struct iids {
	struct iid_slot { uint64_t iid; const struct string *s; uint32_t generation; } *slots;
	size_t nslots, count;		/* count: slots in use, stale ones included */
};

/* 0, or -1 without memory. */
int iids_set(struct iids *t, struct budget *b, uint32_t generation, uint64_t iid, const struct string *s);
void iids_free(struct iids *t);

static inline struct iid_slot *iids_slot(struct iid_slot *slots, size_t nslots, uint64_t iid)
{
	/* Multiplied, since some writers number from 1 and others use aligned addresses. */
	size_t at = (size_t)(iid * 0x9e3779b97f4a7c15u >> 32) & (nslots - 1);

	while (slots[at].s && slots[at].iid != iid)
		at = (at + 1) & (nslots - 1);
	return &slots[at];
}

/* NULL when it has no string in this generation. */
static inline const struct string *iids_get(const struct iids *t, uint32_t generation, uint64_t iid)
{
	const struct iid_slot *slot;

	if (!t->nslots)
		return NULL;
	slot = iids_slot(t->slots, t->nslots, iid);
	return slot->s && slot->generation == generation ? slot->s : NULL;
}

#endif
