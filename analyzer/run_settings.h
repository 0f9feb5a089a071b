/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings in the environment that the recorder will not take as they are written. It cannot say so itself: it may not print into the job.
 */
#ifndef WHYIDLE_ANALYZER_RUN_SETTINGS_H
#define WHYIDLE_ANALYZER_RUN_SETTINGS_H

/* Calls `say` with one sentence (no newline) for each. Reads the environment only. */
void settings_check(void (*say)(const char *sentence));

#endif
