/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread's events on their way to the drain: single producer (the traced thread), single consumer (the drain), fixed
 * events, drops when full. The memory is the caller's, zeroed, of a power of two of events.
 */
#ifndef WHYIDLE_SHIM_RING_H
#define WHYIDLE_SHIM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind {
	EVENT_CALL,		/* alone */
	EVENT_CALL_NCCL,	/* followed by a struct event_nccl in the next place */
	EVENT_CALL_STACK,	/* followed by a struct event_stack in the next place */
	EVENT_NOTE,		/* a struct event_note, alone */
};

/* 64 bytes, a cache line. */
struct event {
	uint64_t start_ns, end_ns;
	uint64_t serial;	/* of the thread's in-flight stack: joins an event to a BEGIN already written */
	int64_t bytes;		/* -1 = none */
	uint64_t flow_id;
	uint64_t target;	/* by `target_kind`: string number, address, thread or process id */
	uint32_t n;		/* consecutive calls it stands for */
	int32_t err;
	uint16_t call;
	uint8_t kind;		/* enum event_kind */
	uint8_t target_kind;	/* enum event_target */
	uint8_t quiet;		/* only the end of a BEGIN that was written already, if there is one */
	uint8_t spare[3];
};

enum event_target { EVENT_TARGET_NONE, EVENT_TARGET_STRING, EVENT_TARGET_SEM, EVENT_TARGET_COND, EVENT_TARGET_TID, EVENT_TARGET_PID };

struct event_nccl {
	uint64_t comm, seq;
	uint32_t rank, nranks, peer, root, dtype, op;
	uint64_t spare[3];
};

struct event_stack {
	uint32_t at;		/* number of the interned string that tells where the program was */
	uint32_t spare[15];
};

struct event_note {
	uint64_t start_ns, address, other;	/* other: read-back: since_ns; update: the flag's address */
	uint64_t growth_bits, backoff_bits;
	uint32_t call_ns, bits;			/* bits: of a read-back; the interval of an update */
	uint32_t bytes;
	int32_t result_offset;			/* of the new scale from the old one, where that is another place; in 4 bytes */
	uint8_t what, known;			/* enum span_note_kind */
	uint8_t kind;				/* where struct event has it */
	uint8_t spare[5];
};

_Static_assert(sizeof(struct event_note) == 64 && offsetof(struct event_note, kind) == offsetof(struct event, kind), "told apart by kind");

union ring_place {
	struct event call;
	struct event_nccl nccl;
	struct event_stack stack;
	struct event_note note;
};

_Static_assert(sizeof(union ring_place) == 64, "an event is a cache line");

struct ring {
	_Alignas(64) _Atomic uint64_t head;	/* places ever pushed; written by the producer only */
	uint64_t tail_seen;			/* the producer's copy of tail: spares a cache miss per push */
	_Alignas(64) _Atomic uint64_t tail;	/* places ever taken; written by the consumer only */
	_Alignas(64) uint32_t mask;
	uint32_t bytes;				/* of the whole mapping */
	_Alignas(64) union ring_place place[];
};

/* Bytes to map for a ring of `places` places, a power of two. */
static inline uint32_t ring_bytes(uint32_t places)
{
	return (uint32_t)sizeof(struct ring) + places * (uint32_t)sizeof(union ring_place);
}

/* Makes `mem` (zeroed, ring_bytes(places) long) a ring. */
static inline struct ring *ring_init(void *mem, uint32_t places)
{
	struct ring *r = mem;

	r->mask = places - 1;
	r->bytes = ring_bytes(places);
	return r;
}

/* Producer: room for `n` places (1 or 2)? */
static inline bool ring_has_room(struct ring *r, unsigned n)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	if (head + n - r->tail_seen <= (uint64_t)r->mask + 1)
		return true;
	/* acquire: pairs with the release in ring_take, the consumer has read a place before we write it again */
	r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
	return head + n - r->tail_seen <= (uint64_t)r->mask + 1;
}

/* Producer: the i-th place from the head, to fill before ring_push. Only after ring_has_room. */
static inline union ring_place *ring_place(struct ring *r, unsigned i)
{
	return &r->place[(atomic_load_explicit(&r->head, memory_order_relaxed) + i) & r->mask];
}

/* Producer: publishes `n` filled places. Release: pairs with the acquire in ring_used. */
static inline void ring_push(struct ring *r, unsigned n)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	atomic_store_explicit(&r->head, head + n, memory_order_release);
}

/* Either side: places pushed and not taken yet, a moment's value. Acquire: pairs with the release in ring_push. */
static inline uint64_t ring_used(struct ring *r)
{
	return atomic_load_explicit(&r->head, memory_order_acquire) - atomic_load_explicit(&r->tail, memory_order_relaxed);
}

/* Consumer: the i-th oldest place; only when ring_used() > i. */
static inline const union ring_place *ring_peek(struct ring *r, unsigned i)
{
	return &r->place[(atomic_load_explicit(&r->tail, memory_order_relaxed) + i) & r->mask];
}

/* Consumer: gives `n` places back. Release: pairs with the acquire in ring_has_room. */
static inline void ring_take(struct ring *r, unsigned n)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	atomic_store_explicit(&r->tail, tail + n, memory_order_release);
}

#endif
