/* SPDX-License-Identifier: Apache-2.0
 *
 * A short way to the cause of the most frequent moments by far: microseconds in which the launching thread itself does nothing but launch, run or wait
 * for a CPU. Of the causes only a few can claim those, and none divides them.
 */
#ifndef WHYIDLE_ANALYZER_CAUSE_PLAIN_H
#define WHYIDLE_ANALYZER_CAUSE_PLAIN_H

#include "analyzer/cause.h"

/* Which process was last found (not) to be a compiler. Starts zeroed. */
struct plain_memory { const struct process *process; const char *command; bool compiles; };

/* The row of causes[] that claims all of `m`, the same that asking them in order finds; -1 = ask them. */
int cause_plain(const struct timeline *tl, const struct moment *m, struct plain_memory *memory);

#endif
