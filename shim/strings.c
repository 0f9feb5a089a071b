/* SPDX-License-Identifier: Apache-2.0
 *
 * The interned strings of this process. Called from traced threads: no allocation, no lock. Room is claimed by atomic
 * addition, a string becomes findable by one compare-and-swap of its hash slot; a loser of that race uses the winner's number
 * and wastes its own room.
 */
#include "shim/strings.h"

#include <stdatomic.h>
#include <string.h>

#include "shim/sys.h"
#include "trace/calls.h"

#define ARENA_BYTES (2u << 20)
#define PER_TABLE 16384u		/* numbers per table */
#define SLOTS 65536u			/* hash slots, more than 3 * PER_TABLE so that probing ends */
#define MAX_LEN 4096u
#define TABLES 3

struct entry {
	uint32_t offset, len;
};

struct arena {
	_Atomic uint32_t slot[SLOTS];		/* 0 free, else table << 16 | number */
	struct entry entry[TABLES][PER_TABLE];
	char bytes[ARENA_BYTES];
};

static _Atomic(struct arena *) arena;
static atomic_uint used_bytes;
static atomic_uint next_iid[TABLES];
static atomic_ulong refused;

static const char *const key_names[KEY_COUNT] = {
#define K(name) [KEY_##name] = #name,
	STRINGS_KEYS(K)
#undef K
};

static const uint32_t first_iid[TABLES] = { CALL_COUNT, KEY_COUNT, 1 };

static struct arena *arena_get(void)
{
	struct arena *a = atomic_load_explicit(&arena, memory_order_acquire);	/* pairs with the exchange below */
	struct arena *none = NULL;

	if (a)
		return a;
	a = sys_map(sizeof(*a));
	if (!a)
		return NULL;
	if (!atomic_compare_exchange_strong_explicit(&arena, &none, a, memory_order_acq_rel, memory_order_acquire)) {
		sys_unmap(a, sizeof(*a));
		return none;
	}
	return a;
}

static uint32_t hash_bytes(enum pf_table table, const char *p, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)table;
	size_t i;

	for (i = 0; i < len; i++)
		h = (h ^ (uint8_t)p[i]) * 0x100000001b3u;
	return (uint32_t)(h ^ (h >> 32));
}

/* Copies the string into the arena; its number, or 0 when there is no room. */
static uint32_t append(struct arena *a, enum pf_table table, const char *bytes, size_t len)
{
	uint32_t off, iid;

	if (atomic_load_explicit(&used_bytes, memory_order_relaxed) + len > ARENA_BYTES)
		return 0;
	off = atomic_fetch_add_explicit(&used_bytes, (uint32_t)len, memory_order_relaxed);
	if (off + len > ARENA_BYTES || off > ARENA_BYTES)
		return 0;
	if (atomic_load_explicit(&next_iid[table], memory_order_relaxed) >= PER_TABLE)
		return 0;
	iid = first_iid[table] + atomic_fetch_add_explicit(&next_iid[table], 1, memory_order_relaxed);
	if (iid >= PER_TABLE)
		return 0;
	memcpy(a->bytes + off, bytes, len);
	a->entry[table][iid] = (struct entry){ .offset = off, .len = (uint32_t)len };
	return iid;
}

static uint32_t refuse(void)
{
	atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
	return 0;
}

uint32_t strings_intern(enum pf_table table, const char *bytes, size_t len)
{
	struct arena *a = arena_get();
	uint32_t h, mine = 0, i;

	if (!a || len > MAX_LEN)
		return refuse();
	h = hash_bytes(table, bytes, len);
	for (i = 0; i < SLOTS; i++) {
		_Atomic uint32_t *slot = &a->slot[(h + i) % SLOTS];
		uint32_t seen = atomic_load_explicit(slot, memory_order_acquire);	/* pairs with the exchange below */

		if (!seen) {
			if (!mine)
				mine = append(a, table, bytes, len);
			if (!mine)
				return refuse();
			if (atomic_compare_exchange_strong_explicit(slot, &seen, (uint32_t)table << 16 | mine,
								    memory_order_acq_rel, memory_order_acquire))
				return mine;
		}
		if (seen >> 16 == (uint32_t)table) {
			const struct entry *e = &a->entry[table][seen & 0xffff];

			if (e->len == len && memcmp(a->bytes + e->offset, bytes, len) == 0)
				return seen & 0xffff;
		}
	}
	return refuse();
}

/* Numbers reach the drain through a ring (release / acquire), so their bytes are visible to it. */
static const char *lookup(void *ctx, enum pf_table table, uint32_t iid, size_t *len)
{
	struct arena *a = atomic_load_explicit(&arena, memory_order_acquire);
	const char *s = NULL;

	(void)ctx;
	if (table == PF_NAMES && iid < CALL_COUNT)
		s = call_name((enum call)iid);
	else if (table == PF_KEYS && iid < KEY_COUNT)
		s = key_names[iid];
	if (s) {
		*len = strlen(s);
		return s;
	}
	if (!a || iid >= PER_TABLE || iid < first_iid[table])
		return NULL;
	*len = a->entry[table][iid].len;
	return a->bytes + a->entry[table][iid].offset;
}

const struct pf_strings *strings_lookup(void)
{
	static const struct pf_strings table = { .lookup = lookup };

	return &table;
}

uint64_t strings_refused(void)
{
	return atomic_load_explicit(&refused, memory_order_relaxed);
}
