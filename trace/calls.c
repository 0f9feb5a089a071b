/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables behind calls.h, all made from calls.def.
 */
#include "trace/calls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct row {
	const char *name;
	uint8_t len, class;
};

static const struct row rows[CALL_COUNT] = {
	[CALL_NONE] = {"?", 1, CLASS_NONE},
#define CALL(name, class) [CALL_##name] = {#name, sizeof(#name) - 1, CLASS_##class},
#include "trace/calls.def"
#undef CALL
};

/* Open addressing, at most half full; 0 = CALL_NONE = free. */
#define SLOTS 512
_Static_assert(CALL_COUNT <= SLOTS / 2, "the table of names is too small");

static _Atomic(uint16_t) slots[SLOTS];
static atomic_bool filled;

static unsigned hash(const char *name, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)name[i]) * 16777619u;
	return h ^ h >> 15;
}

static unsigned next_slot(unsigned slot)
{
	return (slot + 1) % SLOTS;
}

/*
 * Two threads may fill at once: both store the same calls in the same order, so that a slot found taken holds what this
 * thread would have stored there itself, and nobody looks before one of them is through.
 */
static void fill(void)
{
	for (unsigned call = CALL_NONE + 1; call < CALL_COUNT; call++) {
		unsigned slot = hash(rows[call].name, rows[call].len) % SLOTS, at;

		while ((at = atomic_load_explicit(&slots[slot], memory_order_relaxed)) != CALL_NONE && at != call)
			slot = next_slot(slot);
		atomic_store_explicit(&slots[slot], (uint16_t)call, memory_order_relaxed);
	}
	/* Pairs with the load in call_by_name. */
	atomic_store_explicit(&filled, true, memory_order_release);
}

const char *call_name(enum call call)
{
	return (unsigned)call < CALL_COUNT ? rows[call].name : rows[CALL_NONE].name;
}

enum call_class call_class(enum call call)
{
	return (unsigned)call < CALL_COUNT ? rows[call].class : CLASS_NONE;
}

enum call call_by_name(const char *name, size_t len)
{
	/* Pairs with the store in fill. */
	if (!atomic_load_explicit(&filled, memory_order_acquire))
		fill();
	for (unsigned slot = hash(name, len) % SLOTS;; slot = next_slot(slot)) {
		unsigned call = atomic_load_explicit(&slots[slot], memory_order_relaxed);

		if (call == CALL_NONE)
			return CALL_NONE;
		if (rows[call].len == len && memcmp(rows[call].name, name, len) == 0)
			return (enum call)call;
	}
}
