/* SPDX-License-Identifier: Apache-2.0
 *
 * After the job has ended: who still records, and what kept processes from recording. For the sentences of `whyidle run`. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_RUN_AFTER_H
#define WHYIDLE_ANALYZER_RUN_AFTER_H

#include <stdbool.h>

struct session;

/*
 * Processes that record into the session and still run: left in the background by the job, or of another `whyidle run` into the same directory.
 * Our own ancestors are not counted. Waits up to a fifth of a second for those that are about to end.
 */
unsigned session_still_recording(const struct session *s);

/* True with a sentence in `why` (no newline) when there is a reason, beyond the job itself, for traces to be missing or to end early. */
bool session_trouble(const struct session *s, bool nothing_recorded, char why[512]);

#endif
