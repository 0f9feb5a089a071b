/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as people say them: "1.24 s", "87 MB/s", "14 %". Each returns one of 32 rotating static buffers: use it at once.
 */
#ifndef WHYIDLE_ANALYZER_CAUSE_WORDS_H
#define WHYIDLE_ANALYZER_CAUSE_WORDS_H

#include <stdbool.h>
#include <stdint.h>

struct result;

const char *words_ns(int64_t ns);
const char *words_bytes(int64_t bytes);
const char *words_rate(int64_t bytes, int64_t ns);	/* "87 MB/s" */
const char *words_share(int64_t part, int64_t whole);	/* "14 %" */
const char *words_count(int64_t n, const char *one, const char *many);	/* "1 file", "12 files" */

/* Who waits: "the GPU", or "training" where no GPU work was recorded. */
const char *words_waiter(const struct result *r, bool begins_sentence);

#endif
