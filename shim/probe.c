/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test for reading glibc's waiter counts. A layout that does not behave as expected is not read at all.
 */
#include "shim/probe.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "shim/sys.h"
#include "shim/thread.h"

#define UNKNOWN (-1)
#define ABSENT (-2)
#define TRIES 200		/* of 100 us */

static atomic_bool asked;
static bool done;
static atomic_int sem_at = UNKNOWN, cond_at = UNKNOWN;	/* byte offset of the count; release and acquire not needed, it is one word */

static sem_t own_sem;
static pthread_cond_t own_cond;
static pthread_mutex_t own_mutex;
static atomic_int stage;

static uint32_t word_at(const void *object, int offset)
{
	uint32_t v;

	memcpy(&v, (const char *)object + offset, sizeof(v));
	return v;
}

static bool waited(const void *object, atomic_int *where, unsigned shift)
{
	int at = atomic_load_explicit(where, memory_order_relaxed);

	if (at >= 0)
		return word_at(object, at) >> shift != 0;
	if (at == UNKNOWN && !atomic_load_explicit(&asked, memory_order_relaxed))
		atomic_store_explicit(&asked, true, memory_order_relaxed);
	return false;
}

bool probe_sem_waited(const sem_t *sem)
{
	return waited(sem, &sem_at, 0);
}

bool probe_cond_waited(const pthread_cond_t *cond)
{
	return waited(cond, &cond_at, 3);
}

static void deadline(struct timespec *ts)
{
	clock_gettime(CLOCK_REALTIME, ts);
	ts->tv_sec += 1;
}

/* Waits once on each. Bounded: whatever the other side does, it ends within two seconds. */
static void *waiter(void *none)
{
	struct timespec until;

	tls.guard = 1;
	deadline(&until);
	sem_timedwait(&own_sem, &until);
	deadline(&until);
	pthread_mutex_lock(&own_mutex);
	while (atomic_load(&stage) != 2)
		if (pthread_cond_timedwait(&own_cond, &own_mutex, &until) != 0)
			break;
	pthread_mutex_unlock(&own_mutex);
	return none;
}

static void nap(void)
{
	struct timespec ts = { .tv_nsec = 100000 };

	sys6(SYS_nanosleep, SYS_L(&ts), 0, 0, 0, 0, 0);
}

/* The first of these offsets whose word becomes `expected` while the waiter waits. All words must be zero without a waiter. */
static int find(const void *object, const int *offsets, unsigned n, uint32_t expected)
{
	unsigned try, i;

	for (try = 0; try < TRIES; try++, nap())
		for (i = 0; i < n; i++)
			if (word_at(object, offsets[i]) == expected)
				return offsets[i];
	return ABSENT;
}

void probe_run(void)
{
	/* Semaphore, 64 bits: value below, waiters above. Condition: flags in 3 bits below the count; 2.25 to 2.40, then since 2.41. */
	static const int sem_offsets[] = { 4 }, cond_offsets[] = { 36, 28 };
	pthread_t t;
	int where;

	if (done || !atomic_load_explicit(&asked, memory_order_relaxed))
		return;
	done = true;
	if (sizeof(void *) != 8 || sem_init(&own_sem, 0, 0) != 0 || pthread_cond_init(&own_cond, NULL) != 0 ||
	    pthread_mutex_init(&own_mutex, NULL) != 0 || word_at(&own_sem, 4) || word_at(&own_cond, 36) || word_at(&own_cond, 28) ||
	    pthread_create(&t, NULL, waiter, NULL) != 0) {
		atomic_store(&sem_at, ABSENT);
		atomic_store(&cond_at, ABSENT);
		return;
	}
	atomic_store(&sem_at, find(&own_sem, sem_offsets, 1, 1));
	sem_post(&own_sem);
	where = find(&own_cond, cond_offsets, 2, 1 << 3);
	atomic_store(&stage, 2);
	pthread_mutex_lock(&own_mutex);
	pthread_cond_broadcast(&own_cond);
	pthread_mutex_unlock(&own_mutex);
	pthread_join(t, NULL);
	/* And gone with the waiter? */
	atomic_store(&cond_at, where >= 0 && word_at(&own_cond, where) == 0 ? where : ABSENT);
	if (word_at(&own_sem, 4))
		atomic_store(&sem_at, ABSENT);
}
