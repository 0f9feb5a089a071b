/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what a call says about where the program was: "train.py:87 in __getitem__ < torch/utils/data/_utils/fetch.py:54 in fetch < ...", the
 * annotation `at` of trace/vocabulary.md. Pure.
 */
#ifndef WHYIDLE_ANALYZER_WHERE_H
#define WHYIDLE_ANALYZER_WHERE_H

#include <stdbool.h>
#include <stddef.h>

/* Copies the frame that a user would look for: the innermost one of the program's own files; where there is none, the innermost one. */
void where_own(const char *at, char *frame, size_t room);

/* Is it making samples by itself: in a data set's code, or in that of a loader that calls it? Not: waiting for workers that make them. */
bool where_loads(const char *at);

#endif
