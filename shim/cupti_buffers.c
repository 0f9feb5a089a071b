/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs in the host's threads inside CUDA calls, and in CUPTI's: no allocation, no lock, no stdio, no CUPTI call.
 */
#include "shim/cupti_buffers.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#pragma GCC poison malloc calloc realloc free printf fprintf

#define SPARES 512
#define SPARE_BYTES (16u << 10)
#define SLOTS (CUPTI_BUFFERS_MAX + SPARES)

enum state { FREE, HELD, DONE, READING };

struct slot {
	_Atomic uint32_t state;
	size_t valid;			/* written before DONE is stored */
	_Atomic uint64_t since_ns;	/* when it was requested */
};

static struct slot slots[SLOTS];	/* spares behind the pool */
static uint8_t *memory;
static unsigned int pool;
static _Atomic uint64_t exhausted;
static _Atomic uint32_t waiting;	/* about how many are DONE */

int cupti_buffers_init(unsigned int count)
{
	void *m;

	if (memory)
		return 0;
	count = count < 4 ? 4 : count > CUPTI_BUFFERS_MAX ? CUPTI_BUFFERS_MAX : count;
	m = mmap(NULL, (size_t)count * CUPTI_BUFFER_BYTES + SPARES * SPARE_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return -ENOMEM;
	pool = count;
	memory = m;
	return 0;
}

static uint8_t *slot_memory(unsigned int i)
{
	if (i < pool)
		return memory + (size_t)i * CUPTI_BUFFER_BYTES;
	return memory + (size_t)pool * CUPTI_BUFFER_BYTES + (size_t)(i - pool) * SPARE_BYTES;
}

/* -1 = none of ours */
static int slot_of(const uint8_t *buffer)
{
	size_t offset = (size_t)(buffer - memory), spares = (size_t)pool * CUPTI_BUFFER_BYTES;

	if (buffer < memory || offset >= spares + SPARES * SPARE_BYTES)
		return -1;
	if (offset < spares)
		return (int)(offset / CUPTI_BUFFER_BYTES);
	return (int)(pool + (offset - spares) / SPARE_BYTES);
}

static uint64_t now_ns(void)
{
	struct timespec t = {0};

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool take(unsigned int i)
{
	uint32_t expected = FREE;

	/* acquire pairs with the release in cupti_buffers_free: the buffer has been zeroed */
	if (!atomic_compare_exchange_strong_explicit(&slots[i].state, &expected, HELD, memory_order_acquire, memory_order_relaxed))
		return false;
	atomic_store_explicit(&slots[i].since_ns, now_ns(), memory_order_relaxed);
	return true;
}

void cupti_buffers_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	unsigned int i;

	*max_records = 0;
	for (i = 0; i < pool; i++) {
		if (atomic_load_explicit(&slots[i].state, memory_order_relaxed) == FREE && take(i)) {
			*buffer = slot_memory(i);
			*size = CUPTI_BUFFER_BYTES;
			return;
		}
	}
	atomic_fetch_add_explicit(&exhausted, 1, memory_order_relaxed);
	for (; i < pool + SPARES - 1 && !take(i); i++)
		;
	/* The last one is given to everybody who comes when all are out: what lands in it is lost, but CUPTI has its buffer. */
	*buffer = slot_memory(i);
	*size = SPARE_BYTES;
}

bool cupti_buffers_complete(uint8_t *buffer, size_t valid, bool *urgent)
{
	int i = memory ? slot_of(buffer) : -1;

	if (i < 0 || (unsigned int)i >= pool)
		return false;
	slots[i].valid = valid;
	/* release pairs with the exchange in cupti_buffers_next: the records and `valid` are there */
	atomic_store_explicit(&slots[i].state, DONE, memory_order_release);
	*urgent = atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed) + 1 >= pool / 4;
	return true;
}

uint8_t *cupti_buffers_next(size_t *valid)
{
	for (unsigned int i = 0; memory && i < pool; i++) {
		uint32_t expected = DONE;

		if (atomic_compare_exchange_strong_explicit(&slots[i].state, &expected, READING, memory_order_acquire,
							    memory_order_relaxed)) {
			*valid = slots[i].valid;
			atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
			return slot_memory(i);
		}
	}
	return NULL;
}

void cupti_buffers_free(uint8_t *buffer)
{
	int i = memory ? slot_of(buffer) : -1;

	if (i < 0)
		return;
	memset(buffer, 0, (unsigned int)i < pool ? CUPTI_BUFFER_BYTES : SPARE_BYTES);
	/* release pairs with the exchange in take */
	atomic_store_explicit(&slots[i].state, FREE, memory_order_release);
}

uint64_t cupti_buffers_oldest_ns(void)
{
	uint64_t oldest = UINT64_MAX;

	for (unsigned int i = 0; memory && i < pool; i++) {
		uint64_t since = atomic_load_explicit(&slots[i].since_ns, memory_order_relaxed);

		if (atomic_load_explicit(&slots[i].state, memory_order_relaxed) == HELD && since < oldest)
			oldest = since;
	}
	return oldest;
}

bool cupti_buffers_unread(void)
{
	for (unsigned int i = 0; memory && i < pool; i++) {
		uint32_t state = atomic_load_explicit(&slots[i].state, memory_order_acquire);

		if (state == DONE || state == READING)
			return true;
	}
	return false;
}

uint64_t cupti_buffers_exhausted(void)
{
	return atomic_load_explicit(&exhausted, memory_order_relaxed);
}

void cupti_buffers_forget(void)
{
	atomic_store_explicit(&waiting, 0, memory_order_relaxed);
	for (unsigned int i = 0; i < SLOTS; i++)
		atomic_store_explicit(&slots[i].state, FREE, memory_order_relaxed);
}
