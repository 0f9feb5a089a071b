/* SPDX-License-Identifier: Apache-2.0
 *
 * A pull tokenizer for the JSON of PyTorch's profiler, plain or gzip'd. Written for this one shape because of speed: a profiler trace is hundreds of
 * megabytes of text of which a report needs a few numbers per event. A general parser (jansson) builds the whole tree first, some thirty times the
 * memory of what is kept here at a tenth of the speed. This one holds a block of text, whatever the file's length, and passes what nobody
 * asks for by its brackets and quotes alone.
 *
 * The prefix keeps clear of jansson, which the same program writes its reports with. All functions return false (or -1) once something is wrong; jtext_error then says what and where. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_KINETO_JSON_H
#define WHYIDLE_ANALYZER_KINETO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEEPEST = 1024 };

struct jtext;

/* NULL with a sentence in `error`. */
struct jtext *jtext_open_path(const char *path, char *error, size_t len);
struct jtext *jtext_open_memory(const void *data, size_t n, char *error, size_t len);
void jtext_close(struct jtext *j);

/* The next character that is no space, not consumed; -1 = there is none. At the end of the text that is no error yet. */
int jtext_peek(struct jtext *j);
/* Consumes `c`, which must come next. */
bool jtext_take(struct jtext *j, char c);
/* In an object that was entered by jtext_take(j, '{'): 1 and the next key, its colon consumed; 0 at the end of the object, consumed; -1 error. `first`: true
 * before the first call, cleared by it. */
int jtext_key(struct jtext *j, bool *first, char *key, size_t cap);
/* In an array: 1 = an element comes next, 0 at the end, consumed; -1 error. */
int jtext_element(struct jtext *j, bool *first);
/* A string, unescaped, cut to cap - 1 bytes and terminated. *len (may be NULL) = what was kept. */
bool jtext_string(struct jtext *j, char *out, size_t cap, size_t *len);
/* A number or bare word as it is written, cut likewise. */
bool jtext_scalar(struct jtext *j, char *out, size_t cap, size_t *len);
/* Any value. */
bool jtext_skip(struct jtext *j);

bool jtext_failed(const struct jtext *j);
/* The sentence and the place in the (unpacked) text. */
const char *jtext_error(const struct jtext *j, uint64_t *offset);
/* Sets the error, for those who find the meaning wrong. Always false. */
bool jtext_refuse(struct jtext *j, const char *sentence);
uint64_t jtext_offset(const struct jtext *j);

/* Decimal text times 10^shift as an integer, by its digits and never through a double, rounded to the nearest, halves away from 0. False = not a number, or
 * too large. "12.3456" shifted by 3 is 12346; exponents are understood. */
bool jtext_decimal(const char *s, size_t len, int shift, int64_t *out);

#endif
