/* SPDX-License-Identifier: Apache-2.0
 *
 * A small table of keys and values under a spin lock that is never held over anything but copying.
 */
#include "shim/attr.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/drain.h"
#include "shim/sys.h"
#include "shim/text.h"

#define KEYS 64
#define KEY_ROOM 48
#define VALUE_ROOM 161
#define TRIES 20000

struct attr {
	char key[KEY_ROOM];
	char text[VALUE_ROOM];
	int64_t number;
	bool is_text, dirty;
};

static struct attr table[KEYS];
static unsigned count;
static atomic_flag busy = ATOMIC_FLAG_INIT;

/* Acquire and release pair with each other. It is held for a copy of 200 bytes only; who cannot have it for long (it interrupted
 * the holder itself, in a signal handler) does without. */
static bool lock(void)
{
	unsigned i;

	for (i = 0; i < TRIES; i++) {
		if (!atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
			return true;
		sys6(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	}
	return false;
}

static void unlock(void)
{
	atomic_flag_clear_explicit(&busy, memory_order_release);
}

static struct attr *find(const char *key)
{
	struct text_out o;
	unsigned i;

	for (i = 0; i < count; i++)
		if (strncmp(table[i].key, key, KEY_ROOM - 1) == 0)
			return &table[i];
	if (count == KEYS)
		return NULL;
	o = text_out(table[count].key, KEY_ROOM);
	text_str(&o, key);
	table[count].dirty = true;
	table[count].text[0] = 0;
	table[count].number = INT64_MIN;
	return &table[count++];
}

void drain_attr_int(const char *key, int64_t value)
{
	struct attr *a;

	if (!lock())
		return;
	a = find(key);
	if (a && (a->is_text || a->number != value)) {
		a->number = value;
		a->is_text = false;
		a->dirty = true;
	}
	unlock();
}

void drain_attr_str(const char *key, const char *value)
{
	struct attr *a;

	if (!lock())
		return;
	a = find(key);
	if (a && (!a->is_text || strncmp(a->text, value, VALUE_ROOM - 1) != 0)) {
		struct text_out o = text_out(a->text, VALUE_ROOM);

		text_str(&o, value);
		a->is_text = true;
		a->dirty = true;
	}
	unlock();
}

void attr_write(struct pf_writer *w)
{
	unsigned i;

	for (i = 0; i < KEYS; i++) {
		struct attr a;

		if (!lock())
			return;
		a = table[i];
		a.dirty = a.dirty && i < count;
		table[i].dirty = false;
		unlock();
		if (!a.dirty)
			continue;
		if (a.is_text)
			pf_attr_str(w, DRAIN_SEQ_PROCESS, a.key, a.text, strlen(a.text));
		else
			pf_attr_int(w, DRAIN_SEQ_PROCESS, a.key, a.number);
	}
}

void attr_all_again(void)
{
	unsigned i;

	if (!lock())
		return;
	for (i = 0; i < count; i++)
		table[i].dirty = true;
	unlock();
}

void attr_fork_child(void)
{
	atomic_flag_clear_explicit(&busy, memory_order_relaxed);
	count = 0;
}
