/* SPDX-License-Identifier: Apache-2.0
 *
 * data.storage: a loader, or the training thread itself, reads a file: in a recorded call, in page faults of a mapped file, or in so
 * many calls too short to be recorded that they make up most of the time.
 */
#include <stdlib.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"
#include "analyzer/mem.h"

/* Faster than this per call, it most likely came from memory; no single disk stream is. */
#define CACHED_BYTES_PER_S 1500000000.0

struct seen { struct evidence e; int64_t own_ns, short_ns, fault_ns, queued_ns, open_ns; bool others; };

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	*until_ns = m->end_ns;
	if (!moment_idle(m) || !moment_on_storage(tl, m))
		return false;
	cut_at_batch(m, until_ns);
	return true;
}

static void *open_seen(void)
{
	return mem_new(1, sizeof(struct seen));
}

static void see(void *state, const struct timeline *tl, const struct moment *m)
{
	struct seen *s = state;
	int64_t ns = m->end_ns - m->start_ns;

	evidence_see(&s->e, tl, m);
	if (!m->loader && moment_on_waiter(m)) {
		s->own_ns += ns;
		s->others = s->others || has_workers(tl, m->waiter->process);
	}
	if (m->activity != ACT_CALL)
		*(m->activity == ACT_OFF_CPU ? &s->fault_ns : &s->short_ns) += ns;
	if (moment_class(m) == CLASS_FILE_OPEN)
		s->open_ns += ns;
	if (m->batch && m->batch->queued_behind)
		s->queued_ns += ns;
}

static void say_where(struct seen *s, struct finding *f)
{
	struct evidence *e = &s->e;
	const struct tally_row *row;
	double rate = e->call_ns > 0 ? (double)e->bytes / ((double)e->call_ns / 1e9) : 0;

	row = tally_top(&e->folders, 0);
	if (row)
		finding_evidence(f, "%s of it in %s: %s at %s", words_share(row->ns, e->ns), row->name,
			words_count(tally_names(&e->targets), "file", "files"), words_rate(row->bytes, row->ns));
	row = tally_top(&e->targets, 0);
	if (row)
		finding_evidence(f, "slowest file: %s, %s in %s, %s", row->name, evidence_part(e, f, row->ns), words_count(row->count, "call", "calls"),
			words_rate(row->bytes, row->ns));
	if (e->each.n)
		finding_evidence(f, "a call takes %s (median), %s (95th percentile), %s (longest)", words_ns(spread_at(&e->each, 0.5)),
			words_ns(spread_at(&e->each, 0.95)), words_ns(e->each.max));
	if (e->bytes > 0)
		finding_evidence(f, rate >= CACHED_BYTES_PER_S ? "at this rate the data most likely comes from the page cache: the cost is the calls, not the disk" :
			"at this rate the data most likely comes from the device or the network, not from the page cache");
}

/* Has it no loader workers at all? */
static bool reads_alone(const struct seen *s, const struct result *r)
{
	for (unsigned i = 0; i < r->nhost_only; i++)
		if (r->host_only[i].workers > 0)
			return false;
	return !s->others && !s->e.workers_seen;
}

static void say_parts(struct seen *s, const struct result *r, struct finding *f)
{
	if (s->open_ns * 5 > s->e.ns)
		finding_evidence(f, "%s of it opening files: many small files", evidence_part(&s->e, f, s->open_ns));
	if (s->short_ns * 20 > s->e.ns)
		finding_evidence(f, "%s of it in file calls shorter than the recording threshold: many small cached reads", evidence_part(&s->e, f, s->short_ns));
	if (s->fault_ns * 20 > s->e.ns)
		finding_evidence(f, "%s of it off the CPU after mapping a file: page faults", evidence_part(&s->e, f, s->fault_ns));
	if (s->own_ns * 2 > s->e.ns)
		finding_evidence(f, "the training thread reads by itself: %s%s", evidence_part(&s->e, f, s->own_ns),
			reads_alone(s, r) ? "; num_workers is 0" : ", not its loader's workers");
	if (s->e.workers_seen)
		finding_evidence(f, "%s seen, %lld CPUs allowed", words_count(s->e.workers_seen, "loader worker", "loader workers"), (long long)s->e.cpus);
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct seen *s = state;
	struct evidence *e = &s->e;
	const struct tally_row *folder = tally_top(&e->folders, 0);
	double rate = e->call_ns > 0 ? (double)e->bytes / ((double)e->call_ns / 1e9) : 0;

	finding_title(f, "%s waits for files: %s reading %s%s", words_waiter(r, true), words_ns(f->ns), folder ? "from " : "storage", folder ? folder->name : "");
	say_where(s, f);
	say_parts(s, r, f);
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	evidence_say_rhythm(e, f);
	if (s->own_ns * 2 > e->ns && reads_alone(s, r))
		finding_advice(f, "DataLoader(..., num_workers=%lld): read ahead in worker processes while the model computes",
			(long long)(e->cpus > 1 ? (e->cpus < 4 ? e->cpus : 4) : 2));
	if (rate >= CACHED_BYTES_PER_S || s->open_ns * 5 > e->ns || s->short_ns * 5 > e->ns)
		finding_advice(f, "fewer, larger files: pack the samples into shards (tar, arrow, LMDB) and read them in megabytes");
	if (rate < CACHED_BYTES_PER_S)
		finding_advice(f, "put this folder on a faster volume, or copy it once to local NVMe or memory; check the volume's throughput and IOPS limit against %s",
			words_rate(e->bytes, e->call_ns));
	if (s->queued_ns * 5 > e->ns && evidence_needed(e) > e->workers_seen)
		finding_advice(f, "more reads at a time may help where the volume allows it: num_workers %lld (now %lld), batches already queue behind each other",
			(long long)evidence_needed(e), (long long)e->workers_seen);
	else if (s->own_ns * 2 <= e->ns)
		finding_advice(f, "more reads at a time hide latency, not a bandwidth limit: try num_workers or prefetch_factor x 2 and see whether the rate above grows");
}

static void close_seen(void *state)
{
	struct seen *s = state;

	evidence_release(&s->e);
	free(s);
}

const struct cause cause_storage = { LEAF_DATA_STORAGE, claim, open_seen, see, explain, close_seen };
