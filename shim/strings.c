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
#define LOOSE_UNITS 131072u		/* of 8 bytes: 1 MB */
#define LOOSE_IID 0x7fffffffu

/* offset << 32 | len. Atomic: the drain also meets numbers that came to it by no ring (a connection's target). */
typedef _Atomic uint64_t entry;

/* A unit of the ring: an entry's first one is its head, the bytes follow. */
struct loose {
	uint32_t tag;		/* low half of the position; stored last */
	uint32_t len;
};

struct arena {
	_Atomic uint32_t slot[SLOTS];		/* 0 free, else table << 16 | number */
	entry entry[TABLES][PER_TABLE];
	char bytes[ARENA_BYTES];
	struct loose loose[LOOSE_UNITS];
};

static _Atomic uint64_t loose_head = 1;		/* units ever given out; position 0 does not exist */
static char shown[MAX_LEN];			/* drain thread's: the loose string asked for last */
static size_t shown_len;

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
	/* release: pairs with the acquire in lookup and in strings_intern */
	atomic_store_explicit(&a->entry[table][iid], (uint64_t)off << 32 | len, memory_order_release);
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
			uint64_t e = atomic_load_explicit(&a->entry[table][seen & 0xffff], memory_order_acquire);

			if ((uint32_t)e == len && memcmp(a->bytes + (e >> 32), bytes, len) == 0)
				return seen & 0xffff;
		}
	}
	return refuse();
}

static uint64_t loose_put(struct arena *a, const char *bytes, size_t len)
{
	uint64_t units = 1 + (len + sizeof(struct loose) - 1) / sizeof(struct loose), at;

	do
		at = atomic_fetch_add_explicit(&loose_head, units, memory_order_relaxed);
	while (at % LOOSE_UNITS + units > LOOSE_UNITS);	/* would wrap: left empty */
	memcpy(&a->loose[at % LOOSE_UNITS + 1], bytes, len);
	a->loose[at % LOOSE_UNITS].len = (uint32_t)len;
	__atomic_store_n(&a->loose[at % LOOSE_UNITS].tag, (uint32_t)at, __ATOMIC_RELEASE);	/* pairs with loose_get */
	return STRINGS_LOOSE | at;
}

uint64_t strings_target(const char *bytes, size_t len)
{
	struct arena *a = arena_get();

	if (!a || len > MAX_LEN)
		return refuse();
	if (atomic_load_explicit(&next_iid[PF_STRINGS], memory_order_relaxed) < STRINGS_FEW) {
		uint32_t iid = strings_intern(PF_STRINGS, bytes, len);

		if (iid)
			return iid;
	}
	return loose_put(a, bytes, len);
}

static uint64_t age(uint64_t target)
{
	return atomic_load_explicit(&loose_head, memory_order_relaxed) - (target & ~STRINGS_LOOSE);
}

bool strings_target_fresh(uint64_t target)
{
	return target && (!(target & STRINGS_LOOSE) || age(target) < LOOSE_UNITS / 2);
}

/* Copies first and looks afterwards whether it was still there: writers do not wait. */
uint32_t strings_target_iid(uint64_t target)
{
	struct arena *a = atomic_load_explicit(&arena, memory_order_acquire);
	uint64_t at = target & ~STRINGS_LOOSE;
	const struct loose *head;

	if (!(target & STRINGS_LOOSE))
		return (uint32_t)target;
	head = &a->loose[at % LOOSE_UNITS];
	if (__atomic_load_n(&head->tag, __ATOMIC_ACQUIRE) != (uint32_t)at || head->len > MAX_LEN)
		return 0;
	shown_len = head->len;
	memcpy(shown, head + 1, shown_len);
	atomic_thread_fence(memory_order_acquire);
	return age(target) < LOOSE_UNITS - 2 * MAX_LEN / sizeof(struct loose) ? LOOSE_IID : 0;
}

static const char *lookup(void *ctx, enum pf_table table, uint32_t iid, size_t *len)
{
	struct arena *a = atomic_load_explicit(&arena, memory_order_acquire);
	const char *s = NULL;
	uint64_t e;

	(void)ctx;
	if (iid == LOOSE_IID) {
		*len = shown_len;
		return shown;
	}
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
	e = atomic_load_explicit(&a->entry[table][iid], memory_order_acquire);	/* pairs with the release in append */
	*len = (uint32_t)e;
	return a->bytes + (e >> 32);
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
