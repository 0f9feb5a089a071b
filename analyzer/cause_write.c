/* SPDX-License-Identifier: Apache-2.0
 *
 * io.checkpoint and io.other_write: the training thread, or one that it waits for, writes. Bulk data is a checkpoint; logs and images are not, however
 * large. What is bulk: 1 MB to one file (or socket) in one go, a file that is flushed with fsync, or writing after parameters were
 * copied off the device; names decide for small ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"
#include "analyzer/retry.h"
#include "analyzer/timeline_build.h"

#define BULK_BYTES 1000000
#define ONE_GO_NS 1000000000	/* writes to a file that are further apart are not one save */
#define ONE_SAVE_NS 100000000	/* what is lost to one save lies no further apart */
#define LOOK_CALLS 4096

struct seen {
	struct evidence e;
	struct spread save_ns;		/* per episode */
	int64_t save_start_ns, save_end_ns, saves, sync_ns;
	const void *whose;
};

static const char *const log_names[] = { ".log", ".txt", ".csv", ".tsv", ".jsonl", ".png", ".jpg", ".jpeg", ".svg", ".gif", ".mp4", ".wav", ".html" };
static const char *const save_parts[] = { "ckpt", "checkpoint", "safetensors", ".pt", ".pth", ".bin", ".distcp", "model", "optim", ".npz", ".h5", ".msgpack", "state" };

static bool is_log_name(const char *path)
{
	for (unsigned i = 0; i < sizeof(log_names) / sizeof(*log_names); i++)
		if (ends_with(path, log_names[i]))
			return true;
	return strstr(path, "tfevents") || strstr(path, "wandb");
}

static bool is_save_name(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	for (unsigned i = 0; i < sizeof(save_parts) / sizeof(*save_parts); i++)
		if (strstr(base, save_parts[i]))
			return true;
	return false;
}

/* Bytes that `t` writes to `target` in one go around the call, up to BULK_BYTES; *flushed when an fsync of it is among them. */
static int64_t written_in_one_go(const struct thread *t, const struct slice *call, bool *flushed)
{
	int64_t sum = 0, last = call->start_ns;
	size_t at = (size_t)(call - t->calls);

	*flushed = false;
	/* the pipes of a loader, of which every moment would look at thousands of calls */
	if (call->target && timeline_written(call->target) < BULK_BYTES)
		return 0;
	for (size_t i = at, n = 0; i < t->ncalls && n < LOOK_CALLS && sum < BULK_BYTES && t->calls[i].start_ns < last + ONE_GO_NS; i++, n++) {
		const struct slice *s = &t->calls[i];

		if (s->target != call->target)
			continue;
		last = s->end_ns == NS_OPEN ? s->start_ns : s->end_ns;
		*flushed |= s->name->class == CLASS_FD_SYNC;
		if ((s->name->class == CLASS_FD_WRITE || s->name->class == CLASS_NET_WRITE) && s->bytes > 0)
			sum += s->bytes;
	}
	last = call->start_ns;
	for (size_t i = at, n = 0; i-- > 0 && n < LOOK_CALLS && sum < BULK_BYTES && t->calls[i].start_ns > last - ONE_GO_NS; n++) {
		const struct slice *s = &t->calls[i];

		if (s->target != call->target)
			continue;
		last = s->start_ns;
		if ((s->name->class == CLASS_FD_WRITE || s->name->class == CLASS_NET_WRITE) && s->bytes > 0)
			sum += s->bytes;
	}
	return sum;
}

/* Were at least BULK_BYTES copied off the device since shortly before the gap? */
static bool parameters_came_off(const struct moment *m)
{
	int64_t sum = 0;

	if (!m->device)
		return false;
	for (size_t i = timeline_op_index(m->device, m->start_ns), n = 0; i-- > 0 && n < 1024; n++) {
		const struct op *op = &m->device->ops[i];

		if (op->start_ns < m->gap_start_ns - 50000000)
			break;
		if (op->bytes > 0 && op_is(op, "Memcpy DtoH"))
			sum += op->bytes;
		if (sum >= BULK_BYTES)
			return true;
	}
	return false;
}

static bool is_call_of(const struct thread *t, const struct slice *s)
{
	return t && s >= t->calls && s < t->calls + t->ncalls;
}

static bool is_save(const struct moment *m)
{
	const char *path = moment_path(m);
	bool flushed = false;

	if (is_log_name(path))
		return false;
	/* a terminal, or what nobody knows: nothing is kept there */
	if (moment_target(m) == TARGET_IS_DEV || moment_target(m) == TARGET_IS_NONE)
		return moment_class(m) == CLASS_FD_SYNC;
	if (is_call_of(m->thread, m->call) && written_in_one_go(m->thread, m->call, &flushed) >= BULK_BYTES)
		return true;
	return is_save_name(path) || flushed || moment_class(m) == CLASS_FD_SYNC || parameters_came_off(m);
}

/* Closing a file can write it out, too (network filesystems): it belongs to the writes before it. */
static bool closes_written(const struct moment *m)
{
	size_t i;

	if (moment_class(m) != CLASS_FD_CLOSE || moment_target(m) != TARGET_IS_FILE || !is_call_of(m->thread, m->call))
		return false;
	i = (size_t)(m->call - m->thread->calls);
	for (int n = 0; i-- > 0 && n < 64; n++) {
		const struct slice *s = &m->thread->calls[i];

		if (s->target == m->call->target)
			return s->name->class == CLASS_FD_WRITE || s->name->class == CLASS_FD_SYNC;
	}
	return false;
}

/* Opening a file that is written next, too: what was in it is thrown away then, which takes a while for a large one. */
static bool opens_to_write(const struct moment *m)
{
	const struct thread *t = m->thread;

	if (m->loader || moment_class(m) != CLASS_FILE_OPEN || moment_target(m) != TARGET_IS_FILE || !is_call_of(t, m->call))
		return false;
	for (size_t i = (size_t)(m->call - t->calls) + 1, n = 0; i < t->ncalls && n < 64; i++, n++)
		if (t->calls[i].target == m->call->target && t->calls[i].name->class != CLASS_FILE_OPEN)
			return t->calls[i].name->class == CLASS_FD_WRITE;
	return false;
}

static bool writes_out(const struct timeline *tl, const struct moment *m)
{
	enum target_kind k = moment_target(m);

	if (!moment_idle(m) || (!moment_writes(m) && !closes_written(m) && !opens_to_write(m)))
		return false;
	/* who waits there waits for the reader */
	if (moment_feeds_reader(m))
		return false;
	if ((m->loader && k != TARGET_IS_FILE) || moment_fetches_batch(tl, m))
		return false;	/* the loader's own pipes and requests */
	if (k == TARGET_IS_TCP || k == TARGET_IS_UDP)
		return !retry_is_comm(tl, m->thread ? m->thread->process : NULL, m->call->target);
	return true;
}

/* A copy off the device, with nothing beside it, whose thread goes on to write it out before it launches anything else. */
static bool copies_for_save(const struct moment *m)
{
	const struct thread *t = m->op->launcher;
	int64_t bytes = 0;

	/* a flag or a loss that is read back in every step is no parameter */
	if (!t || (m->op->bytes >= 0 && m->op->bytes < 1024) || !op_is(m->op, "Memcpy DtoH"))
		return false;
	for (size_t i = timeline_call_index(t, m->op->launch_start_ns), n = 0; i < t->ncalls && n < 512; i++, n++) {
		const struct slice *s = &t->calls[i];

		if (s->name->class == CLASS_GPU_LAUNCH || s->name->class == CLASS_NCCL_COLL)
			return false;
		if (s->name->class == CLASS_GPU_COPY && s->bytes > 0)
			bytes += s->bytes;
		if (s->name->class == CLASS_FD_WRITE && s->target && s->target->target == TARGET_IS_FILE)
			return (m->op->bytes >= BULK_BYTES || bytes >= BULK_BYTES || s->bytes >= BULK_BYTES || is_save_name(s->target->text)) &&
				!is_log_name(s->target->text);
	}
	return false;
}

static bool claim_checkpoint(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	*until_ns = m->end_ns;
	if (m->state == LOST_EXPOSED_COPY && m->op)
		return copies_for_save(m);
	return writes_out(tl, m) && is_save(m);
}

static bool claim_other(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	*until_ns = m->end_ns;
	return writes_out(tl, m);
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static void end_save(struct seen *s)
{
	if (!s->saves)
		return;
	spread_add(&s->save_ns, s->save_end_ns - s->save_start_ns);
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	const void *whose = m->device ? (const void *)m->device : (const void *)m->waiter;

	evidence_see(&s->e, tl, m);
	if (moment_class(m) == CLASS_FD_SYNC)
		s->sync_ns += m->end_ns - m->start_ns;
	if (!s->saves || whose != s->whose || m->start_ns > s->save_end_ns + ONE_SAVE_NS) {
		end_save(s);
		s->saves++;
		s->whose = whose;
		s->save_start_ns = m->start_ns;
	}
	s->save_end_ns = m->end_ns;
}

static void say_writes(struct seen *s, struct finding *f)
{
	struct evidence *e = &s->e;
	const struct tally_row *row;

	row = tally_top(&e->targets, 0);
	if (row)
		finding_evidence(f, "%s: %s, %s%s", row->name, evidence_part(e, f, row->ns), words_rate(row->bytes, row->ns),
			tally_names(&e->targets) > 1 ? "; the slowest of several" : "");
	row = tally_top(&e->folders, 0);
	if (row && tally_names(&e->targets) > 1)
		finding_evidence(f, "%s in %s", words_count(tally_names(&e->targets), "file", "files"), row->name);
	if (s->sync_ns * 20 > e->ns)
		finding_evidence(f, "%s of it in fsync: the device's own speed, not the page cache's", evidence_part(e, f, s->sync_ns));
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
}

static void explain_checkpoint(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	struct evidence *e = &s->e;

	end_save(s);
	finding_title(f, "%s waits while parameters are saved: %s in %s", words_waiter(r, true), words_ns(f->ns), words_count(s->saves, "save", "saves"));
	finding_evidence(f, "%s written at %s; one save takes %s (median), %s (longest)", words_bytes(e->bytes), words_rate(e->bytes, e->call_ns),
		words_ns(spread_at(&s->save_ns, 0.5)), words_ns(s->save_ns.max));
	say_writes(s, f);
	finding_advice(f, "save in the background: copy the state to pinned memory, let a thread or process write it (torch.distributed.checkpoint.async_save)");
	finding_advice(f, "write to local NVMe first and move it from there; save less often, or every rank its shard in parallel");
}

static void explain_other(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;

	finding_title(f, "%s waits while logs or other files are written: %s", words_waiter(r, true), words_ns(f->ns));
	finding_evidence(f, "%s, %s in all", words_count(s->e.calls, "slow write", "slow writes"), words_bytes(s->e.bytes));
	say_writes(s, f);
	finding_advice(f, "log less often and in larger pieces, without a flush per line; let a thread write images and metrics");
	finding_advice(f, "keep log files on a local disk, not on a network filesystem");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	free(s);
}

const struct cause cause_checkpoint = { LEAF_IO_CHECKPOINT, claim_checkpoint, open_seen, see, explain_checkpoint, close_seen };
const struct cause cause_other_write = { LEAF_IO_OTHER_WRITE, claim_other, open_seen, see, explain_other, close_seen };
