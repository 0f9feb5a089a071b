/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss scaler, seen from the device.
 *
 * A window opens with the first unscale kernel and closes with the update of the scale (or, for scalers that update on the host, with the next
 * unscale). Inside, on the stream of the unscale kernels:
 *
 *	applied:	unscale.. [clip..] read-back [gap] optimizer.. update
 *	skipped:	unscale.. [clip..] read-back [gap]             update
 *
 * Between read-back and update stand the optimizer's kernels or none. Some are known by name; others are learned: when windows with as many
 * kernels there are the rule, one with next to none was skipped. Fused optimizers need no read-back and launch the same kernels on
 * a skip, which then return at once: told by their time.
 *
 * Read-backs elsewhere (loss.item(), metrics) open no window; a training script that leaves a step out because of a NaN loss calls neither unscale nor update.
 */
#include "analyzer/scaler.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"

enum kernel_kind { KERNEL_UNSEEN, KERNEL_NOT_COMPUTE, KERNEL_OTHER, KERNEL_UNSCALE, KERNEL_UPDATE, KERNEL_OPTIMIZER, KERNEL_FUSED_OPTIMIZER, KERNEL_CLIP,
	KERNEL_READ_BACK };

enum { RECENT = 32 };		/* windows that later ones are compared with */

struct scaler {
	uint8_t *kinds;		/* by text id */
	size_t nkinds;
	int64_t checks, skips;
	bool updates_seen;	/* it is a scaler that updates on the device */
	bool named_seen;	/* optimizer kernels known by name were seen after a read-back */
	/* the open window */
	bool open, read_back;
	uint32_t stream;
	int64_t unscale_ns, unscale_end_ns, check_ns;
	int64_t named, others;	/* kernels since the (first) read-back: the optimizer's by name; any but clipping */
	int64_t fused_ns;
	int64_t fused;
	/* what the last applied windows looked like */
	int64_t recent_others[RECENT], recent_fused_ns[RECENT];
	unsigned nothers, nfused;
};

struct scaler *scaler_open(void)
{
	return mem_new(1, sizeof(struct scaler));
}

void scaler_close(struct scaler *s)
{
	if (!s)
		return;
	free(s->kinds);
	free(s);
}

bool scaler_is_update(const char *kernel)
{
	return strstr(kernel, "amp_update_scale") != NULL;
}

static bool has(const char *name, const char *part)
{
	return strstr(name, part) != NULL;
}

static enum kernel_kind kind_by_name(const struct text *t)
{
	const char *n = t->text;

	if (t->op == OP_COPY && !strncmp(n, "Memcpy DtoH", 11))
		return KERNEL_READ_BACK;
	if (t->op != OP_COMPUTE)
		return KERNEL_NOT_COMPUTE;
	if (scaler_is_update(n))
		return KERNEL_UPDATE;
	if (has(n, "non_finite_check_and_unscale"))
		return KERNEL_UNSCALE;
	if (has(n, "FusedAdam") || has(n, "FusedSgd") || has(n, "FusedSGD") || has(n, "FusedAdagrad"))
		return KERNEL_FUSED_OPTIMIZER;
	/* clip_grad_norm_ stands between unscale and step, and also runs in a skipped step */
	if (has(n, "LpNorm") || has(n, "LpMax") || has(n, "clip") || (has(n, "multi_tensor_apply") && has(n, "BinaryOpScalarTensor")))
		return KERNEL_CLIP;
	if (has(n, "multi_tensor_apply") || has(n, "multi_tensor_adam") || has(n, "multi_tensor_sgd") || has(n, "AdamFunctor") || has(n, "SGDFunctor"))
		return KERNEL_OPTIMIZER;
	if (has(n, "ptimizer") || has(n, "adam") || has(n, "Adam") || has(n, "sgd") || has(n, "lamb") || has(n, "LAMB") || has(n, "adagrad"))
		return KERNEL_OPTIMIZER;
	return KERNEL_OTHER;
}

static enum kernel_kind kind_of(struct scaler *s, const struct text *t)
{
	if (t->id >= s->nkinds) {
		size_t n = (size_t)t->id + 256;

		s->kinds = mem_resize(s->kinds, n, 1);
		memset(s->kinds + s->nkinds, KERNEL_UNSEEN, n - s->nkinds);
		s->nkinds = n;
	}
	if (s->kinds[t->id] == KERNEL_UNSEEN)
		s->kinds[t->id] = (uint8_t)kind_by_name(t);
	return s->kinds[t->id];
}

static void open_window(struct scaler *s, const struct op *op)
{
	s->open = true;
	s->read_back = false;
	s->stream = op->stream;
	s->unscale_ns = op->start_ns;
	s->unscale_end_ns = op->end_ns;
	s->named = s->others = s->fused = s->fused_ns = 0;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int64_t median(const int64_t *v, unsigned n)
{
	int64_t sorted[RECENT];

	n = n < RECENT ? n : RECENT;
	if (!n)
		return 0;
	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*sorted), by_size);
	return sorted[n / 2];
}

/* Was the window skipped? *sure: by what was in it alone. */
static bool judge(struct scaler *s, bool *sure)
{
	*sure = true;
	if (s->named) {
		s->named_seen = true;
		return false;
	}
	if (s->fused) {
		int64_t usual = median(s->recent_fused_ns, s->nfused);
		bool skipped = s->nfused >= 5 && s->fused_ns * 10 < usual;

		*sure = false;
		if (!skipped)
			s->recent_fused_ns[s->nfused++ % RECENT] = s->fused_ns;
		return skipped;
	}
	if (!s->read_back) {
		/* nobody asked: nothing can be said about it */
		*sure = false;
		return false;
	}
	if (!s->others)
		return true;
	*sure = false;
	if (s->named_seen)
		return true;	/* others ran there (an average of the weights, a metric), the optimizer did not */
	if (s->nothers && s->others * 4 < median(s->recent_others, s->nothers))
		return true;
	s->recent_others[s->nothers++ % RECENT] = s->others;
	return false;
}

static bool close_window(struct scaler *s, int64_t update_ns, int64_t end_ns, struct scaler_step *out)
{
	s->open = false;
	out->unscale_ns = s->unscale_ns;
	out->check_ns = s->read_back ? s->check_ns : s->unscale_end_ns;
	out->update_ns = update_ns;
	out->end_ns = end_ns;
	out->stream = s->stream;
	out->skipped = judge(s, &out->sure);
	s->checks++;
	s->skips += out->skipped;
	return true;
}

/* Clipping may itself read a norm back: what counts is the last read-back before the optimizer, so kernels of clipping in between do not. */
static void see_read_back(struct scaler *s, const struct op *op)
{
	if (op->bytes > 4 || op->bytes == 0 || s->named || s->fused || s->others)
		return;
	s->read_back = true;
	s->check_ns = op->end_ns;
}

/* A scaler that updates on the host leaves the window open: the next unscale closes it. A second unscale soon after the first, without a
 * read-back, belongs to the same step (several optimizers, several groups of tensors). */
static bool see_unscale(struct scaler *s, const struct op *op, struct scaler_step *out)
{
	bool done = false;

	if (s->open && s->read_back && !s->updates_seen && s->named + s->others > 0) {
		/* what follows the read-back here is the next forward, too: only the optimizer's own kernels tell */
		int64_t others = s->others;

		s->others = s->named_seen ? 1 : others;
		done = close_window(s, s->check_ns, s->check_ns, out);
	} else if (s->open) {
		s->unscale_end_ns = op->end_ns;
		return false;
	}
	open_window(s, op);
	return done;
}

bool scaler_op(struct scaler *s, const struct op *op, struct scaler_step *step)
{
	enum kernel_kind kind = kind_of(s, op->name);

	if (kind == KERNEL_UNSCALE)
		return see_unscale(s, op, step);
	if (kind == KERNEL_UPDATE) {
		s->updates_seen = true;
		return s->open && close_window(s, op->start_ns, op->end_ns, step);
	}
	if (!s->open || op->stream != s->stream)
		return false;
	switch (kind) {
	case KERNEL_READ_BACK:
		see_read_back(s, op);
		break;
	case KERNEL_FUSED_OPTIMIZER:
		s->fused++;
		s->fused_ns += op->end_ns - op->start_ns;
		break;
	case KERNEL_OPTIMIZER:
		if (s->read_back)
			s->named++;
		break;
	case KERNEL_OTHER:
		if (s->read_back)
			s->others++;
		break;
	default:
		break;
	}
	return false;
}

int64_t scaler_checks(const struct scaler *s)
{
	return s->checks;
}

int64_t scaler_skips(const struct scaler *s)
{
	return s->skips;
}
