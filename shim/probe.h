/* SPDX-License-Identifier: Apache-2.0
 *
 * Is anybody waiting on this semaphore or condition? libc keeps the number where it can be read, at places that differ between
 * versions; they are found by looking at a semaphore and a condition of our own while a thread of our own waits on them.
 */
#ifndef WHYIDLE_SHIM_PROBE_H
#define WHYIDLE_SHIM_PROBE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

/* False also when it is not known where to look. Traced thread; one load. */
bool probe_sem_waited(const sem_t *sem);
bool probe_cond_waited(const pthread_cond_t *cond);

/* Finds the places, once, when somebody has asked. Drain thread; takes a millisecond. */
void probe_run(void);

#endif
