/* SPDX-License-Identifier: Apache-2.0
 *
 * What doctor looks at: one function per question, each answers with what was found, what would be missing in a recording, and how to get it.
 */
#ifndef WHYIDLE_ANALYZER_DOCTOR_CHECK_H
#define WHYIDLE_ANALYZER_DOCTOR_CHECK_H

enum check_state { CHECK_OK, CHECK_INFO, CHECK_MISSING, CHECK_BAD };	/* there; worth knowing; recorded without it; run cannot record */

struct check {
	enum check_state state;
	char *found;			/* allocated, never NULL */
	char *missing;			/* what a recording will lack; allocated or NULL */
	char *how;			/* how to get it; allocated or NULL */
};

/* The questions: CHECK(name, function). */
#define CHECKS(CHECK)				\
	CHECK("recorder", check_recorder)	\
	CHECK("preload", check_preload)		\
	CHECK("disk", check_disk)		\
	CHECK("threads", check_threads)		\
	CHECK("sockets", check_sockets)		\
	CHECK("limits", check_limits)		\
	CHECK("cpus", check_cpus)		\
	CHECK("GPU driver", check_driver)	\
	CHECK("CUPTI", check_cupti)		\
	CHECK("NCCL", check_nccl)		\
	CHECK("software GPU", check_simgpu)

#define CHECK(name, function) struct check function(void);
CHECKS(CHECK)
#undef CHECK

#endif
