/* SPDX-License-Identifier: Apache-2.0
 *
 * The string pool and the iid tables, both open-addressed.
 */
#include "trace/intern.h"

#include <string.h>

#define CHUNK (256u << 10)
#define FIRST_SLOTS 64

void pool_init(struct pool *p, size_t max_count, size_t max_bytes)
{
	*p = (struct pool){.max_count = max_count, .bytes_left = max_bytes};
}

void pool_free(struct pool *p)
{
	while (p->chunk) {
		char *next;

		memcpy(&next, p->chunk, sizeof(next));
		free(p->chunk);
		p->chunk = next;
	}
	free(p->slots);
	*p = (struct pool){0};
}

static uint32_t hash_bytes(struct bytes s)
{
	uint64_t h = s.len * 0x9e3779b97f4a7c15u;

	for (; s.len >= 8; s.p += 8, s.len -= 8) {
		uint64_t word;

		memcpy(&word, s.p, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	for (size_t i = 0; i < s.len; i++)
		h = (h ^ s.p[i]) * 0xff51afd7ed558ccdu;
	return (uint32_t)(h ^ h >> 29);
}

static int grow_pool(struct pool *p, struct budget *b)
{
	size_t nslots = p->nslots ? p->nslots * 2 : FIRST_SLOTS;
	struct string **slots = budget_calloc(b, nslots, sizeof(*slots));

	if (!slots)
		return -1;
	for (size_t i = 0; i < p->nslots; i++) {
		size_t at;

		if (!p->slots[i])
			continue;
		at = p->slots[i]->hash & (nslots - 1);
		while (slots[at])
			at = (at + 1) & (nslots - 1);
		slots[at] = p->slots[i];
	}
	budget_free(b, p->slots, p->nslots, sizeof(*p->slots));
	p->slots = slots;
	p->nslots = nslots;
	return 0;
}

static struct string *new_string(struct pool *p, struct budget *b, struct bytes s)
{
	size_t need = (sizeof(struct string) + s.len + 1 + 7) & ~(size_t)7;
	struct string *copy;

	if (need > p->bytes_left)
		return NULL;
	if (need > p->chunk_left) {
		size_t size = need + sizeof(char *) > CHUNK ? need + sizeof(char *) : CHUNK;
		char *chunk = budget_calloc(b, 1, size);

		if (!chunk)
			return NULL;
		memcpy(chunk, &p->chunk, sizeof(p->chunk));
		p->chunk = chunk;
		p->free_at = chunk + sizeof(char *);
		p->chunk_left = size - sizeof(char *);
	}
	copy = (struct string *)p->free_at;
	p->free_at += need;
	p->chunk_left -= need;
	p->bytes_left -= need;
	copy->len = (uint32_t)s.len;
	if (s.len)
		memcpy(copy->text, s.p, s.len);
	copy->text[s.len] = '\0';
	return copy;
}

const struct string *pool_put(struct pool *p, struct budget *b, struct bytes s)
{
	uint32_t hash;
	size_t at;
	struct string *copy;

	if (s.len > STRING_MAX)
		s.len = STRING_MAX;
	hash = hash_bytes(s);
	if (p->count * 2 >= p->nslots && grow_pool(p, b) < 0)
		return NULL;
	for (at = hash & (p->nslots - 1); p->slots[at]; at = (at + 1) & (p->nslots - 1))
		if (p->slots[at]->hash == hash && p->slots[at]->len == s.len &&
		    (!s.len || memcmp(p->slots[at]->text, s.p, s.len) == 0))
			return p->slots[at];
	if (p->count >= p->max_count)
		return NULL;
	copy = new_string(p, b, s);
	if (!copy)
		return NULL;
	copy->hash = hash;
	copy->id = (uint32_t)++p->count;
	p->slots[at] = copy;
	return copy;
}

/* Makes room, and leaves behind what is of an older generation. */
static int grow_iids(struct iids *t, struct budget *b, uint32_t generation)
{
	size_t live = 0, nslots = FIRST_SLOTS;
	struct iid_slot *slots;

	for (size_t i = 0; i < t->nslots; i++)
		live += t->slots[i].s && t->slots[i].generation == generation;
	while (nslots < live * 4)
		nslots *= 2;
	slots = budget_calloc(b, nslots, sizeof(*slots));
	if (!slots)
		return -1;
	for (size_t i = 0; i < t->nslots; i++)
		if (t->slots[i].s && t->slots[i].generation == generation)
			*iids_slot(slots, nslots, t->slots[i].iid) = t->slots[i];
	budget_free(b, t->slots, t->nslots, sizeof(*t->slots));
	t->slots = slots;
	t->nslots = nslots;
	t->count = live;
	return 0;
}

int iids_set(struct iids *t, struct budget *b, uint32_t generation, uint64_t iid, const struct string *s)
{
	struct iid_slot *slot;

	if (t->count * 2 >= t->nslots && grow_iids(t, b, generation) < 0)
		return -1;
	slot = iids_slot(t->slots, t->nslots, iid);
	t->count += !slot->s;
	*slot = (struct iid_slot){iid, s, generation};
	return 0;
}

void iids_free(struct iids *t)
{
	free(t->slots);
	*t = (struct iids){0};
}
