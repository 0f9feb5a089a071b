/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the checks of a loss scaler in the operations of one device, which of them skipped the optimizer, by what evidence that is known, and the
 * curve of the scale. GradScaler with any optimizer, Megatron's, DeepSpeed's and Apex's scalers.
 * Streaming, memory does not grow with the number of operations. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_SCALER_H
#define WHYIDLE_ANALYZER_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/scaler_result.h"
#include "analyzer/timeline.h"

struct scaler;

struct scaler_step {
	int64_t number;		/* of the check, from 0 */
	int64_t unscale_ns;	/* start of the first unscale kernel */
	int64_t check_ns;	/* end of the read-back on which the host decided; end of the unscale kernels when it needed none (fused) */
	int64_t update_ns;	/* start of the update of the scale; check_ns for scalers that update on the host */
	int64_t end_ns;		/* end of that update */
	uint32_t stream;
	enum scaler_verdict verdict;
	enum scaler_evidence evidence;
	double confidence;	/* 0..1 */
	bool skipped;		/* verdict is SCALER_SKIPPED: all optimizers were */
	bool sure;		/* false: decided by comparison with other steps */
	double scale;		/* after it; 0 = not known */
	enum scale_known scale_known;
};

struct scaler *scaler_open(void);

/* To be called for each operation of the device, all streams, in order of start. True = a check was decided by it (its own or an earlier one): *step is
 * filled, and scaler_more gives further ones. */
bool scaler_op(struct scaler *s, const struct op *op, struct scaler_step *step);
bool scaler_more(struct scaler *s, struct scaler_step *step);
/* No operation will follow: what is left to decide comes from scaler_more. */
void scaler_finish(struct scaler *s);

int64_t scaler_checks(const struct scaler *s);	/* decided; 0 = no scaler seen */
int64_t scaler_skips(const struct scaler *s);
/* All that is known of it. */
const struct scaler_result *scaler_so_far(const struct scaler *s);
void scaler_close(struct scaler *s);

/* Is it a kernel that a loss scaler's update launches (a step boundary)? */
bool scaler_is_update(const char *kernel);

#endif
