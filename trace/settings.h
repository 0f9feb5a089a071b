/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's settings that are numbers, from the environment: SETTING(NAME, default, least, most). Read by the recorder in the job,
 * which takes the default or the nearest limit without a word, and by `whyidle run`, which says so beforehand.
 */
#ifndef WHYIDLE_TRACE_SETTINGS_H
#define WHYIDLE_TRACE_SETTINGS_H

#define SETTINGS(SETTING)				\
	SETTING(THRESHOLD_US, 20, 0, 1000000)		\
	SETTING(RING_KB, 256, 4, 65536)			\
	SETTING(STACK_MS, 10, 0, 3600000)		\
	SETTING(EXIT_MS, 2000, 0, 600000)

#endif
