// SPDX-License-Identifier: Apache-2.0
//
// "Lost" is time in the steady window (from the fourth step to the end of the last one) in which the device computed nothing. Each lost ns goes to
//
//  1. the collective that was at the head of the communication stream: before the last rank's had started, comm.late_peer. After that,
//     without injected loss, comm.transfer. With it, what the collective takes without loss is comm.transfer, the excess comm.retry. What it takes
//     without loss is the median over the same bucket's collectives of the run: bursts hit a minority of them. Where a rank waits for another that
//     is late because its collective before is still held up by losses, that is comm.retry too;
//  2. else the first reason that the rank's own code noted for that time (waits for batches, allocation, checkpoint ...);
//  3. else the stretch from the overflow check to the next forward pass of a skipped step: scaler.skip;
//  4. else nobody: launch gaps, the healthy loop's own small bubbles. Counted as "other_ns".

#include "examples/train/truth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/train/dist.h"
#include "examples/train/observe.h"
#include "examples/train/plan.h"
#include "examples/train/util.h"

enum { WARM_UP = 3, LEAVES = 32 };

struct span {
	int64_t start_ns, end_ns;
};

struct rank_log {
	struct record *records;
	size_t count;
	struct span steady;
	struct span *lost;		/* what is not booked yet; sorted, disjoint */
	size_t nlost, lost_cap;
	struct { int leaf; struct span span; } *booked;
	size_t nbooked, booked_cap;
	int64_t leaf_ns[LEAVES];
	int64_t lost_ns, skipped_compute_ns;
};

static void *more(void *array, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 1024;
	array = realloc(array, *cap * size);
	if (!array)
		die("out of memory");
	return array;
}

static void load(struct rank_log *log, const struct plan *p, int rank)
{
	char *path = text("%s/rank%d.log", p->dir, rank);
	int64_t give_up = now_ns() + 10000000000LL;
	struct stat st;
	int fd;

	while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
		if (now_ns() > give_up)
			die("rank %d left no record of its run", rank);
		usleep(10000);
	}
	if (fstat(fd, &st))
		die("cannot read %s", path);
	log->count = (size_t)st.st_size / sizeof(struct record);
	log->records = malloc((size_t)st.st_size + 1);
	if (!log->records || (st.st_size && read_all(fd, log->records, (size_t)st.st_size) <= 0))
		die("cannot read %s", path);
	close(fd);
	free(path);
}

static void book(struct rank_log *log, int leaf, struct span span)
{
	log->booked = more(log->booked, log->nbooked, &log->booked_cap, sizeof(*log->booked));
	log->booked[log->nbooked].leaf = leaf;
	log->booked[log->nbooked++].span = span;
	log->leaf_ns[leaf] += span.end_ns - span.start_ns;
}

/* Takes `cut` out of what is lost; books it when leaf >= 0. */
static void take(struct rank_log *log, int leaf, struct span cut)
{
	size_t low = 0, high = log->nlost;

	if (cut.end_ns <= cut.start_ns)
		return;
	while (low < high) {	/* first lost span that ends after the cut's start */
		size_t mid = (low + high) / 2;

		if (log->lost[mid].end_ns > cut.start_ns)
			high = mid;
		else
			low = mid + 1;
	}
	for (size_t i = low; i < log->nlost && log->lost[i].start_ns < cut.end_ns; i++) {
		struct span *s = &log->lost[i], both = *s, rest;

		if (both.start_ns < cut.start_ns)
			both.start_ns = cut.start_ns;
		if (both.end_ns > cut.end_ns)
			both.end_ns = cut.end_ns;
		if (both.end_ns <= both.start_ns)
			continue;
		if (leaf >= 0)
			book(log, leaf, both);
		rest = (struct span){ both.end_ns, s->end_ns };
		if (s->start_ns < both.start_ns) {
			s->end_ns = both.start_ns;
			if (rest.end_ns > rest.start_ns) {
				log->lost = more(log->lost, log->nlost, &log->lost_cap, sizeof(*log->lost));
				memmove(&log->lost[i + 2], &log->lost[i + 1], (log->nlost - i - 1) * sizeof(*log->lost));
				log->lost[i + 1] = rest;
				log->nlost++;
			}
		} else {
			*s = rest;	/* may be empty: it is then passed over */
		}
	}
}

static int by_start(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static bool steady(struct rank_log *log)
{
	log->steady = (struct span){ 0, 0 };
	for (size_t i = 0; i < log->count; i++) {
		const struct record *r = &log->records[i];

		if (r->kind == RECORD_STEP && r->step == WARM_UP)
			log->steady.start_ns = r->start_ns;
		if (r->kind == RECORD_COMPUTE && r->end_ns > log->steady.end_ns)
			log->steady.end_ns = r->end_ns;
	}
	if (!log->steady.start_ns)
		log->steady.start_ns = log->steady.end_ns;
	log->lost = more(NULL, 0, &log->lost_cap, sizeof(*log->lost));
	log->lost[0] = log->steady;
	log->nlost = log->steady.end_ns > log->steady.start_ns;
	return log->nlost;
}

static bool is_skipped(const struct rank_log *log, int step)
{
	for (size_t i = 0; i < log->count; i++)
		if (log->records[i].kind == RECORD_STEP && log->records[i].step == step)
			return log->records[i].what;
	return false;
}

/* Removes what was computed. Gaps inside launch-bound stretches are known by their sum only: booked as one span of that length. */
static void compute(struct rank_log *log)
{
	int launch = leaf_index("host.launch");

	for (size_t i = 0; i < log->count; i++) {
		const struct record *r = &log->records[i];
		struct span s = { r->start_ns, r->end_ns };

		if (r->kind != RECORD_COMPUTE)
			continue;
		if (r->what > 0 && r->start_ns >= log->steady.start_ns) {
			take(log, launch, (struct span){ s.end_ns - r->what, s.end_ns });
			log->lost_ns += r->what;
		}
		take(log, -1, s);
		if (r->start_ns >= log->steady.start_ns && is_skipped(log, r->step))
			log->skipped_compute_ns += r->end_ns - r->start_ns - r->what;
	}
}

/* When the losses held up a collective of this rank: what it took beyond the usual. */
struct excess {
	struct span *spans;
	size_t count;
};

static struct excess excesses(const struct rank_log *log, const int64_t *arrived, int64_t sequences)
{
	int64_t *took = malloc(((size_t)sequences + 1) * sizeof(*took)), usual[BUCKETS] = { 0 };
	struct excess e = { malloc(((size_t)sequences + 1) * sizeof(*e.spans)), 0 };

	if (!took || !e.spans)
		die("out of memory");
	for (int bucket = 0; bucket < BUCKETS; bucket++) {
		size_t n = 0;

		for (size_t i = 0; i < log->count; i++)
			if (log->records[i].kind == RECORD_COMM && log->records[i].what % BUCKETS == bucket)
				took[n++] = log->records[i].end_ns - arrived[log->records[i].what];
		qsort(took, n, sizeof(*took), by_value);
		usual[bucket] = n ? took[n / 2] : 0;
	}
	free(took);
	for (size_t i = 0; i < log->count; i++) {
		const struct record *r = &log->records[i];
		int64_t clean;

		if (r->kind != RECORD_COMM)
			continue;
		clean = arrived[r->what] + usual[r->what % BUCKETS];
		if (clean < r->end_ns)
			e.spans[e.count++] = (struct span){ clean, r->end_ns };
	}
	return e;
}

static void collectives(const struct plan *p, struct rank_log *logs, const int64_t *arrived, int64_t sequences)
{
	int late = leaf_index("comm.late_peer"), transfer = leaf_index("comm.transfer"), retry = leaf_index("comm.retry");
	struct excess *excess = calloc((size_t)p->world, sizeof(*excess));

	if (!excess)
		die("out of memory");
	for (int rank = 0; rank < p->world && p->loss_burst_ns; rank++)
		excess[rank] = excesses(&logs[rank], arrived, sequences);
	for (int rank = 0; rank < p->world; rank++) {
		struct rank_log *log = &logs[rank];

		for (size_t i = 0; i < log->count; i++) {
			const struct record *r = &log->records[i];
			int64_t all;

			if (r->kind != RECORD_COMM)
				continue;
			all = arrived[r->what] < r->end_ns ? arrived[r->what] : r->end_ns;
			for (int other = 0; other < p->world; other++)
				for (size_t k = 0; k < excess[other].count; k++) {
					struct span s = excess[other].spans[k];

					if (other != rank && s.start_ns < all && s.end_ns > r->start_ns)
						take(log, retry, (struct span){ s.start_ns > r->start_ns ? s.start_ns : r->start_ns,
										s.end_ns < all ? s.end_ns : all });
				}
			take(log, late, (struct span){ r->start_ns, all });
		}
		for (size_t k = 0; k < excess[rank].count; k++)
			take(log, retry, excess[rank].spans[k]);
		for (size_t i = 0; i < log->count; i++)
			if (log->records[i].kind == RECORD_COMM)
				take(log, transfer, (struct span){ log->records[i].start_ns, log->records[i].end_ns });
	}
	for (int rank = 0; rank < p->world; rank++)
		free(excess[rank].spans);
	free(excess);
}

static void causes(struct rank_log *log, bool skips)
{
	int skip = leaf_index("scaler.skip");

	for (size_t i = 0; i < log->count; i++) {
		const struct record *r = &log->records[i];

		if (r->kind == RECORD_CAUSE && (r->what == skip) == skips)
			take(log, (int)r->what, (struct span){ r->start_ns, r->end_ns });
	}
}

static int64_t total(const struct rank_log *log)
{
	int64_t ns = 0;

	for (size_t i = 0; i < log->nlost; i++)
		ns += log->lost[i].end_ns - log->lost[i].start_ns;
	return ns;
}

static void write_rank(FILE *f, const struct rank_log *log, int rank)
{
	int64_t booked = 0;
	const char *comma = "";
	int steps = 0;

	fprintf(f, "{\"rank\": %d, \"steady\": {\"start_ns\": %lld, \"end_ns\": %lld},\n  \"leaf_ns\": {", rank,
		(long long)log->steady.start_ns, (long long)log->steady.end_ns);
	for (int i = 0; leaf_names[i]; i++)
		if (log->leaf_ns[i]) {
			fprintf(f, "%s\"%s\": %lld", comma, leaf_names[i], (long long)log->leaf_ns[i]);
			comma = ", ";
			booked += log->leaf_ns[i];
		}
	fprintf(f, "},\n  \"lost_ns\": %lld, \"other_ns\": %lld, \"skipped_compute_ns\": %lld, \"skipped_steps\": [", (long long)log->lost_ns,
		(long long)(log->lost_ns - booked), (long long)log->skipped_compute_ns);
	comma = "";
	for (size_t i = 0; i < log->count; i++) {
		const struct record *r = &log->records[i];

		if (r->kind != RECORD_STEP)
			continue;
		steps++;
		if (r->what) {
			fprintf(f, "%s%d", comma, r->step);
			comma = ", ";
		}
	}
	fprintf(f, "], \"steps\": %d,\n  \"intervals\": [", steps);
	for (size_t i = 0; i < log->nbooked; i++)
		fprintf(f, "%s\n    {\"leaf\": \"%s\", \"start_ns\": %lld, \"end_ns\": %lld}", i ? "," : "", leaf_names[log->booked[i].leaf],
			(long long)log->booked[i].span.start_ns, (long long)log->booked[i].span.end_ns);
	fprintf(f, "]}");
}

static void write_all_ranks(const struct plan *p, const struct rank_log *logs)
{
	FILE *f = fopen(p->truth, "w");
	int i;

	if (!f)
		die("cannot write %s: %s", p->truth, strerror(errno));
	fprintf(f, "{\"scenario\": \"%s\", \"injected\": [", p->scenario);
	for (i = 0; p->injected[i]; i++)
		fprintf(f, "%s\"%s\"", i ? ", " : "", p->injected[i]);
	fprintf(f, "], \"ranks\": [\n");
	for (i = 0; i < p->world; i++) {
		write_rank(f, &logs[i], i);
		fprintf(f, i + 1 < p->world ? ",\n" : "\n");
	}
	fprintf(f, "]}\n");
	if (fclose(f))
		die("cannot write %s: %s", p->truth, strerror(errno));
}

void truth_write(const struct plan *p)
{
	struct rank_log *logs = calloc((size_t)p->world, sizeof(*logs));
	int64_t *arrived, sequences = 0;

	if (!logs)
		die("out of memory");
	for (int rank = 0; rank < p->world; rank++) {
		load(&logs[rank], p, rank);
		for (size_t i = 0; i < logs[rank].count; i++)
			if (logs[rank].records[i].kind == RECORD_COMM && logs[rank].records[i].what >= sequences)
				sequences = logs[rank].records[i].what + 1;
	}
	arrived = calloc((size_t)sequences + 1, sizeof(*arrived));
	if (!arrived)
		die("out of memory");
	for (int rank = 0; rank < p->world; rank++)
		for (size_t i = 0; i < logs[rank].count; i++) {
			const struct record *r = &logs[rank].records[i];

			if (r->kind == RECORD_COMM && r->start_ns > arrived[r->what])
				arrived[r->what] = r->start_ns;
		}
	for (int rank = 0; rank < p->world; rank++) {
		struct rank_log *log = &logs[rank];

		qsort(log->records, log->count, sizeof(*log->records), by_start);
		if (!steady(log))
			continue;
		compute(log);
		log->lost_ns += total(log);
	}
	collectives(p, logs, arrived, sequences);
	for (int rank = 0; rank < p->world; rank++) {
		causes(&logs[rank], false);
		causes(&logs[rank], true);
	}
	write_all_ranks(p, logs);
	for (int rank = 0; rank < p->world; rank++) {
		free(logs[rank].records);
		free(logs[rank].lost);
		free(logs[rank].booked);
	}
	free(logs);
	free(arrived);
}
