/* SPDX-License-Identifier: Apache-2.0
 *
 * Where steps begin and end on a device, without anybody having marked them. A rule is learned from the beginning of a run and then
 * applied to all of it, operation by operation.
 *
 *   scaler update      the loss scaler's update kernel, once per optimizer step, at its very end
 *   batch wait         the launching thread takes a batch; the step begins with what it launches next
 *   optimizer kernels  a burst of fused or foreach optimizer kernels
 *   profiler steps     not learned: a profiler's trace says where its steps begin
 *   kernel sequence    a kernel that comes back after always the same number of others
 *
 * The scaler goes before the batch because its kernel is an event of the device itself; a batch is taken by the host, which may run ahead.
 */
#ifndef WHYIDLE_ANALYZER_STEPS_H
#define WHYIDLE_ANALYZER_STEPS_H

#include "analyzer/result.h"
#include "analyzer/timeline.h"

enum steps_kind { STEPS_NONE, STEPS_SCALER, STEPS_BATCH, STEPS_OPTIMIZER, STEPS_KERNEL, STEPS_MARK };

struct steps_rule {
	enum steps_kind kind;
	char kernel[512];		/* STEPS_KERNEL: its name */
	double confidence;
	unsigned warm_steps;		/* full steps at the start that are warm-up */
	int64_t steady_ns;		/* where the first steady step begins, as far as learned; INT64_MAX unknown */
};

const char *steps_rule_name(enum steps_kind kind);	/* "" for STEPS_NONE */

/* ---- applying a rule ---- */

struct steps;
struct steps *steps_open(const struct steps_rule *rule);
/* A batch was taken by `consumer` (STEPS_MARK: its step was marked to begin). In order of time, before operations that start after it. */
void steps_take(struct steps *s, const struct thread *consumer, int64_t at_ns);
/* The next operation in order of start. True: a step ends and the next one begins at *at_ns. */
bool steps_op(struct steps *s, const struct op *op, int64_t *at_ns);
/* Number and length of the steps so far. */
void steps_fill(const struct steps *s, struct step_result *out);
void steps_close(struct steps *s);

/* ---- learning one ---- */

struct steps_learner;
struct steps_learner *steps_learner_open(void);
void steps_learn_take(struct steps_learner *l, const struct thread *consumer, int64_t at_ns);
void steps_learn_op(struct steps_learner *l, const struct op *op);
/* Enough has been seen, more would hardly change the answer. */
bool steps_learned(const struct steps_learner *l);
void steps_decide(const struct steps_learner *l, struct steps_rule *rule);
void steps_learner_close(struct steps_learner *l);

#endif
