/* SPDX-License-Identifier: Apache-2.0
 *
 * Applying a step rule to the operations of a device, and the statistics of the steps, see steps.h.
 */
#include "analyzer/steps.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"
#include "analyzer/scaler.h"
#include "analyzer/steps_kernel.h"

/* So many lengths are kept one by one; beyond, every second, every fourth ... */
enum { LENGTHS = 1 << 16 };

struct take { const struct thread *consumer; int64_t at_ns; };

struct steps {
	struct steps_rule rule;
	int64_t last_ns, boundaries;
	int64_t *lengths;
	size_t nlengths, cap;
	unsigned stride, skipped;
	struct take *takes;
	size_t ntakes, takes_cap, take_at;
	bool in_burst;
	uint8_t *memo;			/* by text id: 0 not asked yet, 1 no, 2 yes */
	size_t nmemo;
};

const char *steps_rule_name(enum steps_kind kind)
{
	static const char *const names[] = { "", "scaler update", "batch wait", "optimizer kernels", "kernel sequence", "profiler steps" };

	return names[kind];
}

struct steps *steps_open(const struct steps_rule *rule)
{
	struct steps *s = mem_new(1, sizeof(*s));

	s->rule = *rule;
	s->stride = 1;
	return s;
}

void steps_take(struct steps *s, const struct thread *consumer, int64_t at_ns)
{
	if (s->rule.kind != STEPS_BATCH && s->rule.kind != STEPS_MARK)
		return;
	if (s->take_at > 64 && s->take_at * 2 > s->ntakes) {
		memmove(s->takes, s->takes + s->take_at, (s->ntakes - s->take_at) * sizeof(*s->takes));
		s->ntakes -= s->take_at;
		s->take_at = 0;
	}
	s->takes = mem_more(s->takes, s->ntakes, &s->takes_cap, sizeof(*s->takes));
	s->takes[s->ntakes++] = (struct take){consumer, at_ns};
}

static bool named(struct steps *s, const struct text *name, bool (*matches)(const struct steps *s, const char *name))
{
	if (name->id >= s->nmemo) {
		size_t n = name->id + name->id / 2 + 64;

		s->memo = mem_resize(s->memo, n, 1);
		memset(s->memo + s->nmemo, 0, n - s->nmemo);
		s->nmemo = n;
	}
	if (!s->memo[name->id])
		s->memo[name->id] = matches(s, name->text) ? 2 : 1;
	return s->memo[name->id] == 2;
}

static bool is_update(const struct steps *s, const char *name)
{
	return scaler_is_update(name);
}

static bool is_optimizer(const struct steps *s, const char *name)
{
	return steps_is_optimizer(name);
}

static bool is_rule_kernel(const struct steps *s, const char *name)
{
	return strncmp(name, s->rule.kernel, sizeof(s->rule.kernel) - 1) == 0;
}

static bool after_take(struct steps *s, const struct op *op)
{
	bool hit = false;

	while (s->take_at < s->ntakes && s->takes[s->take_at].at_ns <= op->launch_start_ns) {
		if (s->takes[s->take_at].consumer != op->launcher) {
			/* taken by somebody who launches nothing, or another thread's: not this operation's */
			if (s->takes[s->take_at].consumer->process == op->launcher->process && op->launch_start_ns - s->takes[s->take_at].at_ns < 1000000000)
				break;
			s->take_at++;
			continue;
		}
		hit = true;
		s->take_at++;
	}
	return hit;
}

static bool boundary(struct steps *s, const struct op *op, int64_t *at_ns)
{
	bool burst;

	switch (s->rule.kind) {
	case STEPS_SCALER:
		*at_ns = op->end_ns;
		return op->name->op == OP_COMPUTE && named(s, op->name, is_update);
	case STEPS_BATCH:
	case STEPS_MARK:
		*at_ns = op->start_ns;
		return op->launcher && after_take(s, op);
	case STEPS_OPTIMIZER:
		if (op->name->op != OP_COMPUTE)
			return false;
		burst = named(s, op->name, is_optimizer);
		*at_ns = op->start_ns;
		if (burst == s->in_burst)
			return false;
		s->in_burst = burst;
		return burst;
	case STEPS_KERNEL:
		*at_ns = op->start_ns;
		return named(s, op->name, is_rule_kernel);
	case STEPS_NONE:
		break;
	}
	return false;
}

static void keep_length(struct steps *s, int64_t ns)
{
	if (++s->skipped < s->stride)
		return;
	s->skipped = 0;
	if (s->nlengths == LENGTHS) {
		for (size_t i = 0; i < LENGTHS / 2; i++)
			s->lengths[i] = s->lengths[2 * i];
		s->nlengths = LENGTHS / 2;
		s->stride *= 2;
	}
	s->lengths = mem_more(s->lengths, s->nlengths, &s->cap, sizeof(*s->lengths));
	s->lengths[s->nlengths++] = ns;
}

bool steps_op(struct steps *s, const struct op *op, int64_t *at_ns)
{
	int64_t at;

	if (!boundary(s, op, &at) || (s->boundaries && at <= s->last_ns))
		return false;
	if (s->boundaries++ >= 1 + (int64_t)s->rule.warm_steps)
		keep_length(s, at - s->last_ns);
	s->last_ns = at;
	*at_ns = at;
	return true;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

void steps_fill(const struct steps *s, struct step_result *out)
{
	int64_t *sorted;

	memset(out, 0, sizeof(*out));
	out->count = s->boundaries;
	out->rule = steps_rule_name(s->rule.kind);
	out->confidence = s->rule.confidence;
	if (!s->nlengths)
		return;
	sorted = mem_new(s->nlengths, sizeof(*sorted));
	memcpy(sorted, s->lengths, s->nlengths * sizeof(*sorted));
	qsort(sorted, s->nlengths, sizeof(*sorted), by_size);
	out->median_ns = sorted[s->nlengths / 2];
	out->p95_ns = sorted[(s->nlengths - 1) * 95 / 100];
	free(sorted);
}

void steps_close(struct steps *s)
{
	if (!s)
		return;
	free(s->lengths);
	free(s->takes);
	free(s->memo);
	free(s);
}
