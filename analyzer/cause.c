/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of causes, and what they share. The order of the table decides where two could claim the same moment:
 *
 * - The profiler itself and start-up come first: they are no property of the training loop. Retries pierce start-up: a refused connection is
 *   never normal, and a job that hangs in its first connect has nothing else to tell.
 * - Allocation, checkpoints and communication come before data: these are calls with unambiguous arguments on the waiting thread itself,
 *   whereas some loader thread is waiting for something all the time.
 * - Data comes before the scaler, the sync bubble and the host: an external wait explains the host's silence; a sync or Python in the same stretch
 *   is secondary.
 */
#include "analyzer/cause.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/cause_moment.h"
#include "analyzer/collective.h"
#include "analyzer/mem.h"
#include "analyzer/retry.h"

const struct cause *const causes[] = {
	&cause_profiler,
	&cause_retry,
	&cause_startup,
	&cause_alloc,
	&cause_checkpoint,
	&cause_other_write,
	&cause_setup,
	&cause_late_peer,
	&cause_transfer,
	&cause_pageable,
	&cause_worker_start,
	&cause_handoff,
	&cause_storage,
	&cause_remote,
	&cause_workers,
	&cause_preprocess,
	&cause_scaler,
	&cause_sync,
	&cause_lock,
	&cause_descheduled,
	&cause_compute,
	&cause_launch,
	&cause_copy,
	&cause_unknown,
	NULL
};

int causes_open(struct timeline *tl)
{
	struct causes_memory *memory = mem_new(1, sizeof(*memory));

	memory->collectives = collectives_open();
	memory->retries = retries_open();
	tl->causes = memory;
	return 0;
}

void causes_advance(struct timeline *tl)
{
	struct causes_memory *memory = tl->causes;

	if (!memory)
		return;
	collectives_advance(memory->collectives, tl);
	retries_advance(memory->retries, tl);
}

void causes_close(struct timeline *tl)
{
	struct causes_memory *memory = tl->causes;

	if (!memory)
		return;
	collectives_close(memory->collectives);
	retries_close(memory->retries);
	free(memory);
	tl->causes = NULL;
}

static void append(char ***lines, unsigned *n, const char *fmt, va_list ap)
{
	char *line;

	if (vasprintf(&line, fmt, ap) < 0)
		return;
	*lines = mem_resize(*lines, *n + 1, sizeof(**lines));
	(*lines)[(*n)++] = line;
}

void finding_title(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	free(f->title);
	va_start(ap, fmt);
	if (vasprintf(&f->title, fmt, ap) < 0)
		f->title = NULL;
	va_end(ap);
}

void finding_evidence(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	append(&f->evidence, &f->nevidence, fmt, ap);
	va_end(ap);
}

void finding_advice(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	append(&f->advice, &f->nadvice, fmt, ap);
	va_end(ap);
}
