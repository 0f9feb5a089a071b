/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment's settings, read once in the constructor, before any thread of ours; constant afterwards.
 */
#ifndef WHYIDLE_SHIM_CONFIG_H
#define WHYIDLE_SHIM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum config_gpu { CONFIG_GPU_AUTO, CONFIG_GPU_ON, CONFIG_GPU_OFF };

struct config {
	bool enabled;			/* WHYIDLE_DIR given, not WHYIDLE_DISABLE, basename fits WHYIDLE_ONLY */
	char dir[512];			/* WHYIDLE_DIR made absolute: the host may change its directory */
	uint64_t threshold_ns;		/* WHYIDLE_THRESHOLD_US, 20 */
	uint32_t ring_bytes;		/* WHYIDLE_RING_KB, 256; a power of two */
	uint64_t stack_ns;		/* WHYIDLE_STACK_MS, 10; 0 = no stacks */
	uint64_t exit_ns;		/* WHYIDLE_EXIT_MS, 2000 */
	enum config_gpu gpu;		/* WHYIDLE_GPU */
};

extern struct config config;

/* Fills `config`. Idempotent. Neither allocates nor prints. */
void config_read(void);

#endif
