/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss scaler, seen from the device and, where the runtime is shared, from what its host read back.
 *
 * A window opens with the first unscale kernel and closes with the update of the scale. Inside, on the stream of the unscale kernels:
 *
 *	applied:	unscale.. [clip..] read-back [gap] optimizer.. update
 *	skipped:	unscale.. [clip..] read-back [gap]             update
 *
 * Several optimizers read back several flags. The value that was read decides, if it is known to be the flag's: its address is the one that the update's
 * launch was given (FLAG), or it stands where a flag stands and is a small whole number (VALUE). Else what stands between read-back and update does: the
 * optimizer's kernels, or none. Some are known by name; others are learned: when windows with as many kernels there are the rule, one with
 * next to none was skipped. Fused optimizers need no read-back and launch the same kernels on a skip, which then return at once: told by their time.
 *
 * Scalers that update on the host have no update kernel: their window ends with the next forward or unscale. DeepSpeed's has no unscale kernel either: its
 * window opens with the read-back of a flag that a MAX all-reduce of one element has just gone over; Apex's with its own scaling kernel.
 *
 * Read-backs elsewhere (loss.item(), metrics) open no window; a training script that leaves a step out because of a NaN loss calls neither unscale nor update.
 */
#include "analyzer/scaler.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/mem.h"
#include "analyzer/scaler_scale.h"

enum kernel_kind { KERNEL_UNSEEN, KERNEL_NOT_COMPUTE, KERNEL_OTHER, KERNEL_UNSCALE, KERNEL_UPDATE, KERNEL_OPTIMIZER, KERNEL_FUSED_OPTIMIZER, KERNEL_CLIP,
	KERNEL_READ_BACK, KERNEL_FORWARD, KERNEL_APEX };

enum { RECENT = 32,		/* windows that later ones are compared with */
	READS = 6,		/* read-backs of a window that are remembered, the last ones */
	HELD = 8,		/* fused windows that wait for something to be compared with */
	OUT = HELD + 4, NOT_FLAGS = 16, LOOSE = 8, LOOK_BACK = 48 };

#define RETURNS_AT_ONCE_NS 8000	/* a fused kernel that did nothing takes no longer */

struct read {
	const struct thread *launcher;
	int64_t launch_ns, end_ns;
	int64_t named, others;	/* kernels behind it, up to the next read-back */
	bool reduced;		/* a MAX all-reduce of one element went before */
};

struct scaler {
	uint8_t *kinds;		/* by text id */
	size_t nkinds;
	bool updates_seen;	/* it is a scaler that updates on the device */
	bool named_seen;	/* optimizer kernels known by name were seen after a read-back */
	bool unscale_seen, reduced_seen;
	unsigned usual_ran;	/* most optimizers that ran in one window */
	/* the open window */
	bool open, forward, apex;
	uint32_t stream;
	int64_t unscale_ns, unscale_end_ns, check_ns;
	struct read reads[READS];
	unsigned nreads;
	int64_t early_named;	/* optimizer kernels by name before any read-back */
	int64_t fused, fused_ns;
	/* what the last windows looked like */
	int64_t recent_others[RECENT], recent_fused_ns[RECENT];
	unsigned nothers, nfused;
	struct { struct scaler_step step; int64_t fused, fused_ns; struct scaler_note note; bool noted; } held[HELD];
	unsigned nheld;
	/* small read-backs of anything since the last check */
	struct { const struct thread *launcher; int64_t launch_ns; } loose[LOOSE];
	unsigned nloose;
	int64_t reduction_ns;		/* start of the last all-reduce that a flag went over */
	uint64_t not_flags[NOT_FLAGS];	/* addresses that other things were read from */
	unsigned nnot_flags;
	struct scaler_step out[OUT];
	unsigned nout, out_at;
	struct scale scale;
	struct scaler_result result;
};

struct scaler *scaler_open(void)
{
	struct scaler *s = mem_new(1, sizeof(*s));

	s->scale.since_growth = -1;
	s->reduction_ns = INT64_MIN;
	s->result.first_skip = -1;
	s->result.least_confidence = 1;
	return s;
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

/* ---- names */

static bool has(const char *name, const char *part)
{
	return strstr(name, part) != NULL;
}

static enum kernel_kind kind_by_name(const struct text *t)
{
	const char *n = t->text;

	if (t->op == OP_COPY)
		return !strncmp(n, "Memcpy DtoH", 11) ? KERNEL_READ_BACK : !strncmp(n, "Memcpy HtoD", 11) ? KERNEL_FORWARD : KERNEL_NOT_COMPUTE;
	if (t->op != OP_COMPUTE)
		return KERNEL_NOT_COMPUTE;
	if (scaler_is_update(n))
		return KERNEL_UPDATE;
	if (has(n, "non_finite_check_and_unscale"))
		return KERNEL_UNSCALE;
	if (has(n, "FusedAdam") || has(n, "FusedSgd") || has(n, "FusedSGD") || has(n, "FusedAdagrad"))
		return KERNEL_FUSED_OPTIMIZER;
	/* amp_C's own multi_tensor_apply_kernel lies in no namespace */
	if (!strncmp(n, "_Z25multi_tensor_apply_kernel", 29) && has(n, "ScaleFunctor"))
		return KERNEL_APEX;
	/* clip_grad_norm_ stands between unscale and step, and also runs in a skipped step */
	if (has(n, "LpNorm") || has(n, "LpMax") || has(n, "L2Norm") || has(n, "NormTwoOps") || has(n, "clip") ||
	    (has(n, "multi_tensor_apply") && has(n, "BinaryOpScalarTensor")))
		return KERNEL_CLIP;
	if (has(n, "multi_tensor_apply") || has(n, "multi_tensor_adam") || has(n, "multi_tensor_sgd") || has(n, "AdamFunctor") || has(n, "SGDFunctor"))
		return KERNEL_OPTIMIZER;
	if (has(n, "ptimizer") || has(n, "adam") || has(n, "Adam") || has(n, "sgd") || has(n, "lamb") || has(n, "LAMB") || has(n, "adagrad"))
		return KERNEL_OPTIMIZER;
	if (has(n, "gemm") || has(n, "GEMM") || has(n, "cutlass") || has(n, "conv") || has(n, "cudnn") || has(n, "flash") || has(n, "layer_norm") ||
	    has(n, "softmax") || has(n, "nll_loss"))
		return KERNEL_FORWARD;
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

/* ---- giving out */

static void give(struct scaler *s, struct scaler_step *step, const struct scaler_note *update)
{
	struct scaler_result *r = &s->result;

	step->number = r->checks++;
	step->skipped = step->verdict == SCALER_SKIPPED;
	step->sure = step->evidence <= SCALER_BY_ORDER && step->verdict != SCALER_UNKNOWN;
	r->verdicts[step->verdict]++;
	r->evidence[step->evidence]++;
	r->confidence_sum += step->confidence;
	if (step->confidence < r->least_confidence)
		r->least_confidence = step->confidence;
	scale_check(&s->scale, r, step->verdict, step->number, step->check_ns, update);
	step->scale = s->scale.value;
	step->scale_known = s->scale.known;
	if (s->nout < OUT)
		s->out[s->nout++] = *step;
}

static void say(struct scaler_step *step, enum scaler_verdict v, enum scaler_evidence e, double confidence)
{
	step->verdict = v;
	step->evidence = e;
	step->confidence = confidence;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* The value at `share` of the way from the least to the most of the last ones. */
static int64_t quantile(const int64_t *v, unsigned n, unsigned percent)
{
	int64_t sorted[RECENT];

	n = n < RECENT ? n : RECENT;
	if (!n)
		return 0;
	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*sorted), by_size);
	return sorted[(n - 1) * percent / 100];
}

/* ---- fused: by time */

/* What the kernels of an applied step take: 0 = not known yet. Skips are short and may be the rule, so it is near the long end. */
static int64_t usual_fused(const struct scaler *s)
{
	/* a few first windows may hold one applied step only */
	int64_t most = quantile(s->recent_fused_ns, s->nfused, s->nfused < RECENT / 2 ? 100 : 90), least = quantile(s->recent_fused_ns, s->nfused, 0);

	return s->nfused >= HELD || (s->nfused >= 2 && most > 4 * least) ? most : 0;
}

static void judge_fused(struct scaler_step *step, int64_t fused, int64_t fused_ns, int64_t usual)
{
	double part = usual > 0 ? (double)fused_ns / (double)usual : 1;
	bool at_once = fused_ns < fused * RETURNS_AT_ONCE_NS;

	if (usual < fused * RETURNS_AT_ONCE_NS && part > 0.5)
		/* all are that short: a small model, or nothing but skips */
		say(step, SCALER_UNKNOWN, SCALER_BY_NONE, 0);
	else if (part < 0.1 && (at_once || part < 0.02))
		say(step, SCALER_SKIPPED, SCALER_BY_DURATION, 0.95);
	else if (part < 0.35 && at_once)
		say(step, SCALER_SKIPPED, SCALER_BY_DURATION, 0.7);
	else
		say(step, SCALER_APPLIED, SCALER_BY_DURATION, part > 0.5 ? 0.95 : 0.7);
}

static void release(struct scaler *s, int64_t usual)
{
	for (unsigned i = 0; i < s->nheld; i++) {
		judge_fused(&s->held[i].step, s->held[i].fused, s->held[i].fused_ns, usual);
		give(s, &s->held[i].step, s->held[i].noted ? &s->held[i].note : NULL);
	}
	s->nheld = 0;
}

static void close_fused(struct scaler *s, struct scaler_step *step, const struct scaler_note *update)
{
	int64_t usual;

	s->result.form = SCALER_FORM_FUSED;
	s->recent_fused_ns[s->nfused++ % RECENT] = s->fused_ns;
	usual = usual_fused(s);
	if (usual) {
		release(s, usual);
		judge_fused(step, s->fused, s->fused_ns, usual);
		give(s, step, update);
		return;
	}
	s->held[s->nheld].step = *step;
	s->held[s->nheld].fused = s->fused;
	s->held[s->nheld].fused_ns = s->fused_ns;
	s->held[s->nheld].noted = update != NULL;
	if (update)
		s->held[s->nheld].note = *update;
	s->nheld++;
}

/* ---- by value */

static const struct scaler_note *note_of(const struct thread *launcher, int64_t launch_ns, bool update)
{
	return launcher ? timeline_scaler_note(launcher, launch_ns, update) : NULL;
}

/* A flag is 0, 1, or a sum of ones; as float, integer or byte. */
static bool flag_value(const struct scaler_note *n, bool *set)
{
	float f;

	*set = n->bits != 0;
	if (n->bytes < 4 || n->bits <= 1)
		return n->bits <= 255;
	memcpy(&f, &n->bits, sizeof(f));
	return f >= 1 && f <= 4096 && f == (float)(int)f;
}

static bool is_not_flag(const struct scaler *s, uint64_t address)
{
	for (unsigned i = 0; i < NOT_FLAGS && i < s->nnot_flags; i++)
		if (s->not_flags[i] == address)
			return true;
	return false;
}

static void learn_not_flag(struct scaler *s, uint64_t address)
{
	if (!is_not_flag(s, address))
		s->not_flags[s->nnot_flags++ % NOT_FLAGS] = address;
}

/* How many flags were read, how many of them set; -1 = no value is known. */
static int read_flags(struct scaler *s, const struct scaler_note *update, int *set, bool *exact)
{
	const struct scaler_note *n[READS] = { 0 };
	bool known = false;
	int flags = 0;

	*set = 0;
	*exact = false;
	for (unsigned i = 0; i < s->nreads; i++) {
		bool value;

		n[i] = note_of(s->reads[i].launcher, s->reads[i].launch_ns, false);
		known |= n[i] != NULL;
		if (n[i] && !flag_value(n[i], &value) && !(update && update->known && n[i]->address == update->found))
			learn_not_flag(s, n[i]->address);
	}
	if (!known)
		return -1;
	for (unsigned i = 0; i < s->nreads; i++) {
		bool value, exactly = n[i] && update && update->known && n[i]->address == update->found;

		if (!n[i] || (!exactly && (!flag_value(n[i], &value) || is_not_flag(s, n[i]->address))))
			continue;
		/* a scaler whose flag is reduced over ranks reads only what was reduced */
		if (s->reduced_seen && !s->updates_seen && !s->reads[i].reduced)
			continue;
		/* without an update kernel nothing but its place tells: right behind the unscale kernels */
		if (!s->updates_seen && !s->reads[i].reduced && i > 0)
			continue;
		/* where one of the flags is known by address, another must at least have run or not run an optimizer */
		flag_value(n[i], &value);
		if (exactly)
			value = n[i]->bits != 0;
		else if (update && update->known && (value ? s->reads[i].named > 0 : s->reads[i].named + s->reads[i].others == 0))
			continue;	/* adding up the flags may follow a set one */
		*exact |= exactly || s->reads[i].reduced;
		flags++;
		*set += value;
	}
	return flags;
}

/* ---- by order */

static void judge_order(struct scaler *s, struct scaler_step *step)
{
	int64_t named = s->early_named, others = 0;
	unsigned ran = 0;

	for (unsigned i = 0; i < s->nreads; i++) {
		named += s->reads[i].named;
		others += s->reads[i].others;
		ran += s->reads[i].named > 0;
	}
	if (ran > s->usual_ran)
		s->usual_ran = ran;
	if (named && s->nreads) {
		s->named_seen = true;
		say(step, ran < s->usual_ran ? SCALER_PARTLY : SCALER_APPLIED, SCALER_BY_ORDER, ran < s->usual_ran ? 0.9 : 0.97);
	} else if (!s->nreads) {
		say(step, SCALER_UNKNOWN, SCALER_BY_NONE, 0);	/* nobody asked */
	} else if (!others) {
		say(step, SCALER_SKIPPED, SCALER_BY_ORDER, s->named_seen || s->nothers ? 0.97 : 0.8);
	} else if (s->named_seen) {
		/* others ran there (an average of the weights, a metric), the optimizer did not */
		say(step, SCALER_SKIPPED, SCALER_BY_COUNT, 0.9);
	} else if (s->nothers && others * 4 < quantile(s->recent_others, s->nothers, 50)) {
		say(step, SCALER_SKIPPED, SCALER_BY_COUNT, 0.85);
	} else {
		s->recent_others[s->nothers++ % RECENT] = others;
		say(step, SCALER_APPLIED, SCALER_BY_COUNT, s->nothers > 5 ? 0.85 : 0.6);
	}
}

static void judge(struct scaler *s, struct scaler_step *step, const struct scaler_note *update)
{
	struct scaler_step by_order = *step;
	int set, flags;
	bool exact;

	judge_order(s, &by_order);
	flags = read_flags(s, update, &set, &exact);
	if (flags <= 0) {
		say(step, by_order.verdict, by_order.evidence, by_order.confidence);
		return;
	}
	say(step, !set ? SCALER_APPLIED : set < flags ? SCALER_PARTLY : SCALER_SKIPPED, exact ? SCALER_BY_FLAG : SCALER_BY_VALUE, exact ? 1 : 0.97);
	if (by_order.evidence == SCALER_BY_ORDER && (by_order.verdict == SCALER_APPLIED) != (set == 0) && by_order.verdict != SCALER_PARTLY) {
		s->result.disagreed++;
		step->confidence -= 0.1;
	}
}

/* ---- windows */

static void open_window(struct scaler *s, const struct op *op)
{
	s->open = true;
	s->forward = s->apex = false;
	s->nreads = 0;
	s->stream = op->stream;
	s->unscale_ns = op->start_ns;
	s->unscale_end_ns = op->end_ns;
	s->early_named = s->fused = s->fused_ns = 0;
}

/* Any small read-back may have been of the scale: those before this update say what it was after the last one. */
static void look_for_the_scale(struct scaler *s)
{
	for (unsigned i = 0; i < s->nloose; i++) {
		const struct scaler_note *n = note_of(s->loose[i].launcher, s->loose[i].launch_ns, false);

		if (n && n->bytes == 4)
			scale_read(&s->scale, &s->result, n->address, n->bits);
	}
	s->nloose = 0;
}

static void close_window(struct scaler *s, const struct scaler_note *update, int64_t update_ns, int64_t end_ns)
{
	struct scaler_step step = {.unscale_ns = s->unscale_ns, .update_ns = update_ns, .end_ns = end_ns, .stream = s->stream,
		.check_ns = s->nreads ? s->check_ns : s->unscale_end_ns};

	s->open = false;
	look_for_the_scale(s);
	if (s->fused && !s->nreads) {
		close_fused(s, &step, update);
		return;
	}
	release(s, usual_fused(s));
	judge(s, &step, update);
	if (s->apex && step.evidence > SCALER_BY_VALUE)
		return;		/* a kernel of that name also clips: without the flag it says nothing */
	if (!s->result.form)
		s->result.form = update_ns != s->check_ns ? SCALER_FORM_GRADSCALER : s->apex ? SCALER_FORM_APEX :
			s->reduced_seen ? SCALER_FORM_REDUCED : SCALER_FORM_HOST;
	give(s, &step, update);
}

/* Has the thread that made this copy just asked for the maximum over all ranks of one element? */
static bool after_reduction(struct scaler *s, const struct op *op)
{
	const struct slice *calls;
	size_t i;

	if (!op->launcher)
		return false;
	calls = op->launcher->calls;
	i = op->launcher->ncalls;
	/* the calls are sorted by start */
	for (size_t low = 0; low < i;) {
		size_t mid = (low + i) / 2;

		if (calls[mid].start_ns < op->launch_start_ns)
			low = mid + 1;
		else
			i = mid;
	}
	for (unsigned n = 0; i && n < LOOK_BACK; n++) {
		const struct slice *c = &calls[--i];

		if (c->nccl && c->name->call == CALL_ncclAllReduce) {
			/* ncclMax; one reduction gives one flag */
			if (c->nccl->op != 2 || c->bytes < 1 || c->bytes > 4 || c->start_ns <= s->reduction_ns)
				return false;
			s->reduction_ns = c->start_ns;
			return true;
		}
		/* whatever was waited for or launched after the reduction must not lie in between */
		if (c->name->class == CLASS_GPU_SYNC && c->end_ns < op->launch_start_ns)
			return false;
	}
	return false;
}

static bool host_scaler(const struct scaler *s)
{
	return s->open && s->nreads && !s->updates_seen;
}

static int64_t ran_in_window(const struct scaler *s)
{
	int64_t n = 0;

	for (unsigned i = 0; i < s->nreads; i++)
		n += s->reads[i].named + s->reads[i].others;
	return n;
}

static void see_read_back(struct scaler *s, const struct op *op)
{
	bool reduced = after_reduction(s, op);
	struct read *r;

	if (reduced && !s->reduced_seen)
		s->reduced_seen = true;
	if (!s->open && reduced && !s->unscale_seen) {
		open_window(s, op);
		s->unscale_end_ns = op->start_ns;
	}
	if (!s->open || op->stream != s->stream || (s->apex && s->early_named))
		return;
	if (s->nreads == READS)
		memmove(s->reads, s->reads + 1, --s->nreads * sizeof(*s->reads));
	r = &s->reads[s->nreads++];
	*r = (struct read){.launcher = op->launcher, .launch_ns = op->launch_start_ns, .end_ns = op->end_ns, .reduced = reduced};
	/* what counts as the moment of the check: the last read-back before the optimizer */
	if (!ran_in_window(s))
		s->check_ns = op->end_ns;
}

/* A second unscale belongs to the same step (several optimizers, several groups of tensors), unless the scaler updates on the host and a forward
 * came in between. */
static void see_unscale(struct scaler *s, const struct op *op)
{
	s->unscale_seen = true;
	if (host_scaler(s) && s->forward)
		close_window(s, NULL, s->check_ns, s->check_ns);
	if (s->open && !s->apex) {
		if (!s->nreads)
			s->unscale_end_ns = op->end_ns;
		return;
	}
	open_window(s, op);
}

static void see_forward(struct scaler *s)
{
	if (!host_scaler(s))
		return;
	s->forward = true;
	/* a value that was read, or kernels that ran, decide it now; else what follows may still tell */
	close_window(s, NULL, s->check_ns, s->check_ns);
}

static void see_kernel(struct scaler *s, const struct op *op, enum kernel_kind kind)
{
	struct read *last = s->nreads ? &s->reads[s->nreads - 1] : NULL;

	switch (kind) {
	case KERNEL_FUSED_OPTIMIZER:
		s->fused++;
		s->fused_ns += op->end_ns - op->start_ns;
		break;
	case KERNEL_OPTIMIZER:
		if (last)
			last->named++;
		else
			s->early_named++;
		break;
	case KERNEL_OTHER:
		if (last)
			last->others++;
		break;
	default:
		break;
	}
}

static bool pop(struct scaler *s, struct scaler_step *step)
{
	if (s->out_at == s->nout) {
		s->out_at = s->nout = 0;
		return false;
	}
	*step = s->out[s->out_at++];
	return true;
}

bool scaler_op(struct scaler *s, const struct op *op, struct scaler_step *step)
{
	enum kernel_kind kind = kind_of(s, op->name);

	switch (kind) {
	case KERNEL_UNSCALE:
		see_unscale(s, op);
		break;
	case KERNEL_UPDATE:
		s->updates_seen = true;
		if (s->open && !s->apex)
			close_window(s, note_of(op->launcher, op->launch_start_ns, true), op->start_ns, op->end_ns);
		break;
	case KERNEL_READ_BACK:
		if (op->bytes < 1 || op->bytes > 4)
			break;
		see_read_back(s, op);
		if (s->nloose < LOOSE && op->launcher) {
			s->loose[s->nloose].launcher = op->launcher;
			s->loose[s->nloose++].launch_ns = op->launch_start_ns;
		}
		break;
	case KERNEL_APEX:
		if (!s->open && !s->unscale_seen && !s->reduced_seen) {
			open_window(s, op);
			s->apex = true;
		}
		break;
	case KERNEL_FORWARD:
		if (s->open && op->stream == s->stream)
			see_forward(s);
		break;
	default:
		if (s->open && op->stream == s->stream)
			see_kernel(s, op, kind);
	}
	return pop(s, step);
}

bool scaler_more(struct scaler *s, struct scaler_step *step)
{
	return pop(s, step);
}

void scaler_finish(struct scaler *s)
{
	look_for_the_scale(s);
	release(s, usual_fused(s));
	if (host_scaler(s) && (s->named_seen || s->reduced_seen || s->apex) && s->result.checks)
		close_window(s, NULL, s->check_ns, s->check_ns);
}

int64_t scaler_checks(const struct scaler *s)
{
	return s->result.checks;
}

int64_t scaler_skips(const struct scaler *s)
{
	return s->result.verdicts[SCALER_SKIPPED];
}

const struct scaler_result *scaler_so_far(const struct scaler *s)
{
	return &s->result;
}

/* ---- words */

const char *scaler_verdict_name(enum scaler_verdict v)
{
	static const char *const names[] = { "applied", "skipped", "partly", "unknown" };

	return names[v];
}

const char *scaler_evidence_name(enum scaler_evidence e)
{
	static const char *const names[] = {
#define E(id, name, meaning) name,
		SCALER_EVIDENCE(E)
#undef E
	};

	return names[e];
}

const char *scaler_evidence_meaning(enum scaler_evidence e)
{
	static const char *const meanings[] = {
#define E(id, name, meaning) meaning,
		SCALER_EVIDENCE(E)
#undef E
	};

	return meanings[e];
}

const char *scaler_form_name(enum scaler_form f)
{
	static const char *const names[] = { "none", "GradScaler", "GradScaler, fused optimizer", "scaler that updates on the host", "scaler that reduces its flag over ranks",
		"Apex amp" };

	return names[f];
}

const char *scale_known_name(enum scale_known k)
{
	static const char *const names[] = { "unknown", "replayed from 65536, the default, which was assumed", "replayed", "read back" };

	return names[k];
}
