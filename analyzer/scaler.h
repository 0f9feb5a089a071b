/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the checks of a loss scaler (PyTorch's GradScaler and those built like it) in the operations of one device, and which of them skipped
 * the optimizer: unscale kernels, a read-back of at most 4 bytes, then the optimizer's kernels or none, then the update of the scale.
 * Streaming, memory does not grow with the number of operations. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_SCALER_H
#define WHYIDLE_ANALYZER_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/timeline.h"

struct scaler;

struct scaler_step {
	int64_t unscale_ns;	/* start of the first unscale kernel */
	int64_t check_ns;	/* end of the read-back on which the host decided; end of the unscale kernels when it needed none (fused) */
	int64_t update_ns;	/* start of the update of the scale; check_ns for scalers that update on the host */
	int64_t end_ns;		/* end of that update */
	uint32_t stream;
	bool skipped;
	bool sure;		/* false: decided by comparison with other steps */
};

struct scaler *scaler_open(void);

/* To be called for each operation of the device, all streams, in order of start. True = a check was completed by it: *step is filled. */
bool scaler_op(struct scaler *s, const struct op *op, struct scaler_step *step);

int64_t scaler_checks(const struct scaler *s);	/* completed; 0 = no scaler seen */
int64_t scaler_skips(const struct scaler *s);
void scaler_close(struct scaler *s);

/* Is it a kernel that a loss scaler's update launches (a step boundary)? */
bool scaler_is_update(const char *kernel);

#endif
