/* SPDX-License-Identifier: Apache-2.0
 *
 * Read-backs and updates of a loss scaler become notes on the thread's track. The parameters of the update kernel changed with PyTorch's versions:
 * its mangled suffix says which they are, and arguments are looked at only where it is one of those known.
 */
#include "shim/scaler.h"

#include <string.h>

#include "shim/sys.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf

#define UPDATE "_ZN2at6native28amp_update_scale_cuda_kernelE"
#define UPDATES_MAX 8		/* one per library that carries it */

/* Which argument is which; -1 of `scale` = not known. */
struct layout { const char *suffix; int8_t scale, found, result, growth; };	/* growth, backoff and interval follow one another */

static const struct layout layouts[] = {
	{ "PfPiPKfddi", 0, 2, 0, 3 },		/* (float *scale, int *tracker, const float *found, ...) */
	{ "PfPiS1_ddi", 0, 2, 0, 3 },		/* the same before found was const */
	{ "PiPfS2_S2_ddi", 1, 2, 3, 4 },	/* (int *tracker, float *scale, float *found, float *new_scale, ...), up to 1.8 */
	{ "PiPfPKfS2_ddi", 1, 2, 3, 4 },
};

struct update { _Atomic(const void *) stub; _Atomic(const struct layout *) layout; };

static struct update updates[UPDATES_MAX];
_Atomic uint32_t scaler_kernels;
_Thread_local struct scaler_copy scaler_copy;

static const struct layout *layout_of(const char *name)
{
	const char *suffix = name + sizeof(UPDATE) - 1;
	unsigned int i;

	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (strcmp(suffix, layouts[i].suffix) == 0)
			return &layouts[i];
	return NULL;
}

void scaler_register(const void *stub, const char *name)
{
	unsigned int i;

	if (!stub || !name || strncmp(name, UPDATE, sizeof(UPDATE) - 1) != 0)
		return;
	for (i = 0; i < UPDATES_MAX; i++) {
		const void *have = NULL;

		if (!atomic_compare_exchange_strong_explicit(&updates[i].stub, &have, stub, memory_order_relaxed, memory_order_relaxed) && have != stub)
			continue;
		/* release: pairs with the acquire in scaler_launched_slow */
		atomic_store_explicit(&updates[i].layout, layout_of(name), memory_order_release);
		if (!have)
			atomic_fetch_add_explicit(&scaler_kernels, 1, memory_order_release);
		return;
	}
}

static const struct update *find(const void *stub)
{
	unsigned int i;

	for (i = 0; i < UPDATES_MAX; i++)
		if (atomic_load_explicit(&updates[i].stub, memory_order_relaxed) == stub)
			return &updates[i];
	return NULL;
}

static uint64_t bits_of(double d)
{
	uint64_t u;

	memcpy(&u, &d, sizeof(u));
	return u;
}

void scaler_launched_slow(const struct span *s, const void *stub, void **args)
{
	const struct update *u = find(stub);
	const struct layout *l;
	struct span_note note;

	if (!u || !s->start_ns)
		return;
	note = (struct span_note){ .kind = NOTE_SCALE_UPDATE, .start_ns = s->start_ns, .call_ns = now_ns() - s->start_ns };
	/* acquire: pairs with the release in scaler_register */
	l = atomic_load_explicit(&u->layout, memory_order_acquire);
	if (l && args) {
		note.known = true;
		note.address = (uintptr_t)*(void **)args[l->scale];
		note.found = (uintptr_t)*(void **)args[l->found];
		note.result = (uintptr_t)*(void **)args[l->result];
		note.growth_bits = bits_of(*(double *)args[l->growth]);
		note.backoff_bits = bits_of(*(double *)args[l->growth + 1]);
		note.interval = *(int32_t *)args[l->growth + 2];
	}
	span_note(&note);
}

void scaler_copied_slow(const struct span *s, void *dst, const void *src, size_t bytes, void *stream)
{
	if (!s->start_ns || !dst || !bytes)
		return;
	scaler_copy = (struct scaler_copy){ src, dst, stream, s->start_ns, now_ns() - s->start_ns, (uint32_t)bytes };
}

void scaler_synced_slow(void)
{
	struct scaler_copy c = scaler_copy;
	struct span_note note = { .kind = NOTE_READ_BACK, .start_ns = c.start_ns, .call_ns = c.call_ns, .address = (uintptr_t)c.src, .bytes = c.bytes,
		.known = true };

	scaler_copy.dst = NULL;
	note.since_ns = now_ns() - c.start_ns;
	memcpy(&note.bits, c.dst, c.bytes);
	span_note(&note);
}
