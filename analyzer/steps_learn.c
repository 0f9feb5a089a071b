/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning where steps begin from the first part of a run: each rule is tried, the first that holds wins, see steps.h.
 */
#include "analyzer/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"
#include "analyzer/steps_kernel.h"

enum { TRIED = STEPS_OPTIMIZER + 1, ENOUGH = 32, TIMES = 64, TOKENS = 200000, MIN_STEPS = 3 };

struct token { const struct text *name; uint32_t at; };

struct steps_learner {
	struct steps *tried[TRIED];
	int64_t times[TRIED][TIMES];	/* of the first boundaries */
	unsigned ntimes[TRIED];
	/* optimizer bursts: kernels between them, to see whether they are regular */
	uint32_t burst_at[TIMES];
	struct token *tokens;
	int64_t *token_ns;
	size_t ntokens, cap;
	size_t ns_cap;
};

bool steps_is_optimizer(const char *k)
{
	static const char *const words[] = { "FusedAdam", "FusedSgd", "FusedAdagrad", "fused_adam", "fused_sgd", "FusedLamb", "AdamFunctor",
		"AdamCapturable", "SGDFunctor", "LAMBStage", "adamw", "optimizer" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(k, words[i]))
			return true;
	/* foreach optimizers: the functors that only they use in bulk (norms, unscaling and zeroing are not theirs) */
	return strstr(k, "multi_tensor_apply") && (strstr(k, "PointwiseOp") || strstr(k, "TernaryOp") || strstr(k, "BinaryOpListAlpha"));
}

struct steps_learner *steps_learner_open(void)
{
	struct steps_learner *l = mem_new(1, sizeof(*l));

	for (int k = STEPS_SCALER; k < TRIED; k++)
		l->tried[k] = steps_open(&(struct steps_rule){.kind = (enum steps_kind)k});
	return l;
}

void steps_learn_take(struct steps_learner *l, const struct thread *consumer, int64_t at_ns)
{
	steps_take(l->tried[STEPS_BATCH], consumer, at_ns);
}

void steps_learn_op(struct steps_learner *l, const struct op *op)
{
	int64_t at;

	if (l->ntokens < TOKENS && op->name->op != OP_COPY) {
		l->tokens = mem_more(l->tokens, l->ntokens, &l->cap, sizeof(*l->tokens));
		l->token_ns = mem_more(l->token_ns, l->ntokens, &l->ns_cap, sizeof(*l->token_ns));
		l->token_ns[l->ntokens] = op->start_ns;
		l->tokens[l->ntokens] = (struct token){op->name, (uint32_t)l->ntokens};
		l->ntokens++;
	}
	for (int k = STEPS_SCALER; k < TRIED; k++) {
		if (!steps_op(l->tried[k], op, &at) || l->ntimes[k] == TIMES)
			continue;
		if (k == STEPS_OPTIMIZER)
			l->burst_at[l->ntimes[k]] = (uint32_t)l->ntokens;
		l->times[k][l->ntimes[k]++] = at;
	}
}

bool steps_learned(const struct steps_learner *l)
{
	return l->ntimes[STEPS_SCALER] >= ENOUGH || l->ntokens >= TOKENS || (l->ntimes[STEPS_BATCH] >= ENOUGH && !l->ntimes[STEPS_SCALER]);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Share of distances that are within 5 % of the median one. `d` is sorted afterwards. */
static double regularity(uint32_t *d, size_t n, uint32_t *median)
{
	size_t near = 0;

	qsort(d, n, sizeof(*d), by_value);
	*median = d[n / 2];
	for (size_t i = 0; i < n; i++)
		near += (uint64_t)d[i] * 100 >= (uint64_t)*median * 95 && (uint64_t)d[i] * 100 <= (uint64_t)*median * 105;
	return (double)near / (double)n;
}

static void set_rule(struct steps_rule *rule, enum steps_kind kind, double confidence, const int64_t *times, unsigned n)
{
	rule->kind = kind;
	rule->confidence = confidence;
	/* two steps of warm-up, fewer in very short runs */
	rule->warm_steps = n >= 8 ? 2 : n >= 5 ? 1 : 0;
	/* boundary 0 ends what came before the first full step */
	rule->steady_ns = rule->warm_steps < n ? times[rule->warm_steps] : INT64_MAX;
}

static bool optimizer_is_regular(const struct steps_learner *l)
{
	unsigned n = l->ntimes[STEPS_OPTIMIZER];
	uint32_t d[TIMES], median;

	if (n < MIN_STEPS + 1)
		return false;
	for (unsigned i = 0; i + 1 < n; i++)
		d[i] = l->burst_at[i + 1] - l->burst_at[i];
	return regularity(d, n - 1, &median) >= 0.8;
}

/* By name, in order of time: counted, as there are many tokens and few names. */
static struct token *by_name(const struct steps_learner *l)
{
	struct token *sorted = mem_new(l->ntokens, sizeof(*sorted));
	uint32_t *at, names = 0, sum = 0;

	for (size_t i = 0; i < l->ntokens; i++)
		if (l->tokens[i].name->id >= names)
			names = l->tokens[i].name->id + 1;
	at = mem_new(names, sizeof(*at));
	for (size_t i = 0; i < l->ntokens; i++)
		at[l->tokens[i].name->id]++;
	for (uint32_t k = 0; k < names; k++) {
		sum += at[k];
		at[k] = sum - at[k];
	}
	for (size_t i = 0; i < l->ntokens; i++)
		sorted[at[l->tokens[i].name->id]++] = l->tokens[i];
	free(at);
	return sorted;
}

/* The kernel that comes back most rarely of those that come back regularly. */
static bool kernel_rule(const struct steps_learner *l, struct steps_rule *rule)
{
	struct token *sorted = by_name(l);
	uint32_t *d = mem_new(l->ntokens, sizeof(*d)), best = 0, median;
	const struct token *of = NULL;
	size_t nof = 0;
	double share = 0;

	for (size_t i = 0, j; i < l->ntokens; i = j) {
		double r;

		for (j = i + 1; j < l->ntokens && sorted[j].name == sorted[i].name; j++)
			d[j - i - 1] = sorted[j].at - sorted[j - 1].at;
		if (j - i < MIN_STEPS + 1)
			continue;
		r = regularity(d, j - i - 1, &median);
		if (r < 0.8 || median < 3)
			continue;
		if (median > best || (median == best && sorted[i].at < of->at)) {
			best = median;
			of = &sorted[i];
			nof = j - i;
			share = r;
		}
	}
	if (of) {
		int64_t times[TIMES];
		unsigned n = 0;

		for (size_t i = 0; i < nof && n < TIMES; i++)
			times[n++] = l->token_ns[of[i].at];
		set_rule(rule, STEPS_KERNEL, 0.6 * share, times, n);
		snprintf(rule->kernel, sizeof(rule->kernel), "%s", of->name->text);
	}
	free(sorted);
	free(d);
	return of;
}

void steps_decide(const struct steps_learner *l, struct steps_rule *rule)
{
	bool whole = l->ntokens < TOKENS;

	memset(rule, 0, sizeof(*rule));
	rule->steady_ns = INT64_MAX;
	if (l->ntimes[STEPS_SCALER] >= MIN_STEPS)
		set_rule(rule, STEPS_SCALER, 0.95, l->times[STEPS_SCALER], l->ntimes[STEPS_SCALER]);
	else if (l->ntimes[STEPS_BATCH] >= MIN_STEPS)
		set_rule(rule, STEPS_BATCH, 0.9, l->times[STEPS_BATCH], l->ntimes[STEPS_BATCH]);
	else if (whole && l->ntimes[STEPS_SCALER])
		return;		/* one or two steps: what comes back more often is a part of them */
	else if (optimizer_is_regular(l))
		set_rule(rule, STEPS_OPTIMIZER, 0.8, l->times[STEPS_OPTIMIZER], l->ntimes[STEPS_OPTIMIZER]);
	else if (!whole || !l->ntimes[STEPS_BATCH])
		kernel_rule(l, rule);
}

void steps_learner_close(struct steps_learner *l)
{
	if (!l)
		return;
	for (int k = STEPS_SCALER; k < TRIED; k++)
		steps_close(l->tried[k]);
	free(l->tokens);
	free(l->token_ns);
	free(l);
}
