/* SPDX-License-Identifier: Apache-2.0
 *
 * Small things that every part of the training loop uses: time, ending with a sentence, whole reads and writes.
 */
#ifndef TRAIN_UTIL_H
#define TRAIN_UTIL_H

#include <stddef.h>
#include <stdint.h>

int64_t now_ns(void);			/* CLOCK_MONOTONIC */

/* Sleeps by a bare system call: what a decoder chip or a remote service would keep us waiting for is no libc call. */
void sleep_ns(int64_t ns);

/* Keeps the calling thread on CPU until it has used that much CPU time, working on `bytes`. Returns something that depends on them. */
uint32_t burn_ns(int64_t cpu_ns, const uint8_t *bytes, size_t n);

/* Prints "train: ..." on stderr and ends the process with status 1. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the process with a sentence when a CUDA or NCCL call failed. */
void check(int result, const char *call);
#define CHECK(call) check((int)(call), #call)

/* All n bytes or the end: 1 done, 0 nothing was there any more, -1 error or cut. */
int read_all(int fd, void *buf, size_t n);
int write_all(int fd, const void *buf, size_t n);

char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));	/* malloc'd */

#endif
