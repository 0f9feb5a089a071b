/* SPDX-License-Identifier: Apache-2.0
 *
 * Amounts as people read them, and text that is safe to show. Locale is never asked: numbers look the same everywhere.
 */
#ifndef WHYIDLE_ANALYZER_UTIL_H
#define WHYIDLE_ANALYZER_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define AMOUNT_MAX 32

/* "312 ms", "3.21 s", "2 min 05 s": three digits or so. Returns out. */
const char *amount_time(char out[AMOUNT_MAX], int64_t ns);

/* "33.0 %"; "< 0.1 %" for what is there but rounds to nothing. */
const char *amount_share(char out[AMOUNT_MAX], double share);

/* "1.2 GB". */
const char *amount_bytes(char out[AMOUNT_MAX], int64_t bytes);

/* A copy that is valid UTF-8 and holds no control characters (a file name may hold anything, a terminal believes anything). */
char *clean_text(const char *s);

/* Columns that valid UTF-8 takes, counting each character as one. */
size_t text_columns(const char *s);

#endif
