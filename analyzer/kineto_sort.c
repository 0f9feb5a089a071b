/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting with bounded memory, see kineto_sort.h. A merge sort that takes the runs as it finds them: operators of one thread are in order already.
 */
#include "analyzer/kineto_sort.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/mem.h"

enum { BUDGET = 4 << 20, BLOCK = 1 << 16, READ_BACK = 4096 };	/* records: 200 MB, 3 MB, 200 KB */

struct run {
	off_t at;			/* in the temporary file; -1 = in memory */
	size_t n, read;			/* records, read back so far */
	struct kineto_record *block;	/* in memory: all of it */
	size_t have, next;
};

struct kineto_sorter {
	struct kineto_record *tail;	/* what came since the last run was cut off */
	size_t n, cap;
	struct run *runs;
	size_t nruns, runs_cap;
	size_t *heap;			/* runs by their next record */
	size_t nheap;
	bool begun, failed;
};

/* One budget and one temporary file for all: a report may read a thousand ranks. */
static size_t budget = BUDGET, resident;
static int spill_fd = -1;
static off_t spill_end;
static unsigned sorters;

void kineto_sort_budget(size_t records)
{
	budget = records ? records : BUDGET;
}

static int order(const struct kineto_record *a, const struct kineto_record *b)
{
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	if (a->end_ns != b->end_ns)
		return a->end_ns > b->end_ns ? -1 : 1;
	return 0;
}

/* ---- in memory ---- */

static size_t run_end(const struct kineto_record *r, size_t at, size_t n)
{
	for (at++; at < n && order(&r[at - 1], &r[at]) <= 0; at++)
		;
	return at;
}

static void merge_two(const struct kineto_record *r, size_t a, size_t m, size_t b, struct kineto_record *to)
{
	size_t i = a, j = m;

	for (size_t k = a; k < b; k++)
		to[k] = j == b || (i < m && order(&r[i], &r[j]) <= 0) ? r[i++] : r[j++];
}

/* Stable; pairs of runs are merged until one is left. Returns the array that holds the result, `r` or `room`. */
static struct kineto_record *sort(struct kineto_record *r, struct kineto_record *room, size_t n)
{
	for (;;) {
		size_t at = 0, merged = 0;
		struct kineto_record *swap;

		while (at < n) {
			size_t m = run_end(r, at, n), b = m < n ? run_end(r, m, n) : n;

			merge_two(r, at, m, b, room);
			at = b;
			merged++;
		}
		swap = r;
		r = room;
		room = swap;
		if (merged <= 1)
			return r;
	}
}

/* ---- out and back ---- */

static bool open_spill(void)
{
	const char *dir = getenv("TMPDIR");
	char name[4096];

	if (spill_fd >= 0)
		return true;
	snprintf(name, sizeof(name), "%s/whyidle-XXXXXX", dir && *dir ? dir : "/tmp");
	spill_fd = mkostemp(name, O_CLOEXEC);
	if (spill_fd < 0)
		return false;
	unlink(name);
	spill_end = 0;
	return true;
}

static bool write_all(const void *p, size_t n, off_t at)
{
	while (n) {
		ssize_t k = pwrite(spill_fd, p, n, at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		p = (const char *)p + k;
		n -= (size_t)k;
		at += k;
	}
	return true;
}

static bool read_all(void *p, size_t n, off_t at)
{
	while (n) {
		ssize_t k = pread(spill_fd, p, n, at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		p = (char *)p + k;
		n -= (size_t)k;
		at += k;
	}
	return true;
}

/* Sorts what came and makes a run of it; `out`: to the temporary file, when that can be written. */
static void cut_run(struct kineto_sorter *s, bool out)
{
	struct kineto_record *room, *sorted;
	struct run run = {.at = -1, .n = s->n};
	size_t bytes = s->n * sizeof(*s->tail);

	if (!s->n)
		return;
	room = mem_new(s->n, sizeof(*room));
	sorted = sort(s->tail, room, s->n);
	if (out && open_spill() && write_all(sorted, bytes, spill_end)) {
		run.at = spill_end;
		spill_end += (off_t)bytes;
		resident -= s->n;
		free(room);
	} else {
		run.block = sorted;
		run.have = s->n;
		if (sorted == room)
			free(s->tail);
		else
			free(room);
		s->tail = NULL;
		s->cap = 0;
	}
	s->n = 0;
	s->runs = mem_more(s->runs, s->nruns, &s->runs_cap, sizeof(*s->runs));
	s->runs[s->nruns++] = run;
}

struct kineto_sorter *kineto_sorter_open(void)
{
	sorters++;
	return mem_new(1, sizeof(struct kineto_sorter));
}

void kineto_sorter_add(struct kineto_sorter *s, const struct kineto_record *r)
{
	if (s->n == s->cap) {
		if (s->n >= (budget < BLOCK ? budget : BLOCK) && resident >= budget) {
			cut_run(s, true);
		} else if (s->n >= budget / 4 && s->n >= BLOCK) {
			cut_run(s, true);	/* one file alone: runs of a quarter of the budget, sorting needs as much again */
		}
		if (s->n == s->cap)
			s->tail = mem_more(s->tail, s->n, &s->cap, sizeof(*s->tail));
	}
	s->tail[s->n++] = *r;
	resident++;
}

void kineto_sorter_finish(struct kineto_sorter *s)
{
	cut_run(s, resident > budget / 2);
	free(s->tail);
	s->tail = NULL;
	s->cap = 0;
}

static const struct kineto_record *head(const struct run *r)
{
	return &r->block[r->next];
}

/* Has the run a next record? Reads it back when it has to. */
static bool load(struct kineto_sorter *s, struct run *r)
{
	size_t n = r->n - r->read;

	if (r->next < r->have)
		return true;
	if (r->at < 0 || !n)
		return false;
	if (n > READ_BACK)
		n = READ_BACK;
	if (!r->block)
		r->block = mem_new(READ_BACK, sizeof(*r->block));
	if (!read_all(r->block, n * sizeof(*r->block), r->at + (off_t)(r->read * sizeof(*r->block)))) {
		s->failed = true;
		return false;
	}
	r->read += n;
	r->have = n;
	r->next = 0;
	return true;
}

/* Runs are in order of arrival: the earlier one goes first among equals. */
static bool before(const struct kineto_sorter *s, size_t a, size_t b)
{
	int c = order(head(&s->runs[a]), head(&s->runs[b]));

	return c ? c < 0 : a < b;
}

static void sift(struct kineto_sorter *s, size_t at)
{
	for (;;) {
		size_t best = at, kid = 2 * at + 1, swap;

		for (size_t k = kid; k < kid + 2 && k < s->nheap; k++)
			if (before(s, s->heap[k], s->heap[best]))
				best = k;
		if (best == at)
			return;
		swap = s->heap[at];
		s->heap[at] = s->heap[best];
		s->heap[best] = swap;
		at = best;
	}
}

void kineto_sorter_rewind(struct kineto_sorter *s)
{
	free(s->heap);
	s->heap = mem_new(s->nruns, sizeof(*s->heap));
	s->nheap = 0;
	for (size_t i = 0; i < s->nruns; i++) {
		struct run *r = &s->runs[i];

		r->next = r->read = 0;
		r->have = r->at < 0 ? r->n : 0;
		if (load(s, r))
			s->heap[s->nheap++] = i;
	}
	for (size_t i = s->nheap / 2 + 1; i-- > 0;)
		sift(s, i);
	s->begun = false;
}

const struct kineto_record *kineto_sorter_next(struct kineto_sorter *s)
{
	if (s->begun && s->nheap) {
		struct run *r = &s->runs[s->heap[0]];

		r->next++;
		if (!load(s, r))
			s->heap[0] = s->heap[--s->nheap];
		sift(s, 0);
	}
	s->begun = true;
	return s->nheap ? head(&s->runs[s->heap[0]]) : NULL;
}

bool kineto_sorter_failed(const struct kineto_sorter *s)
{
	return s->failed;
}

void kineto_sorter_close(struct kineto_sorter *s)
{
	if (!s)
		return;
	resident -= s->n;
	for (size_t i = 0; i < s->nruns; i++) {
		resident -= s->runs[i].at < 0 ? s->runs[i].n : 0;
		free(s->runs[i].block);
	}
	free(s->runs);
	free(s->heap);
	free(s->tail);
	free(s);
	if (--sorters == 0 && spill_fd >= 0) {
		close(spill_fd);
		spill_fd = -1;
	}
}
