/* SPDX-License-Identifier: Apache-2.0
 *
 * whyidle annotate: all processes of a session in one timeline, with what the analysis found drawn beside the GPUs: steps, and what each lost
 * stretch was lost to.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/analysis.h"
#include "analyzer/cause.h"
#include "analyzer/cli.h"
#include "analyzer/feed.h"
#include "analyzer/kineto.h"
#include "analyzer/mem.h"
#include "analyzer/merge.h"
#include "analyzer/scaler.h"
#include "analyzer/timeline_build.h"

/* What is drawn for one device. */
struct lane {
	const struct device *device;
	struct merge_track *steps, *states, *causes, *scaler, *scale_track;
	uint64_t group;
	double scale;			/* as drawn last */
	int64_t step_from_ns, nsteps;
	bool skipped;			/* the step that is open */
	/* a stretch that the next one may continue */
	int64_t from_ns, until_ns;
	enum leaf leaf;
	enum lost_state state;
	char *note;
};

struct drawing {
	struct merge *merge;
	struct lane **lanes;
	size_t nlanes, cap;
};

static struct lane *lane_of(struct drawing *d, const struct device *device)
{
	char *name;
	uint64_t process, group;
	struct lane *l;

	for (size_t i = 0; i < d->nlanes; i++)
		if (d->lanes[i]->device == device)
			return d->lanes[i];
	d->lanes = mem_more(d->lanes, d->nlanes, &d->cap, sizeof(*d->lanes));
	l = d->lanes[d->nlanes++] = mem_new(1, sizeof(*l));
	l->device = device;
	process = merge_process(d->merge, device->process->host, device->process->pid);
	name = mem_format("whyidle: GPU %d", device->id);
	l->group = group = merge_group(d->merge, process, name);
	free(name);
	l->steps = merge_track(d->merge, group, "steps", 0);
	l->states = merge_track(d->merge, group, "lost as", 1);
	l->causes = merge_track(d->merge, group, "lost to", 2);
	return l;
}

static void on_step(void *ctx, const struct device *device, int64_t at_ns)
{
	struct drawing *d = ctx;
	struct lane *l = lane_of(d, device);
	char *name;

	if (l->step_from_ns) {
		name = mem_format("step %lld%s", (long long)l->nsteps++, l->skipped ? " (skipped)" : "");
		merge_slice(d->merge, l->steps, name, l->step_from_ns, at_ns, NULL);
		free(name);
	}
	l->step_from_ns = at_ns;
	l->skipped = false;
}

static void on_skip(void *ctx, const struct device *device, int64_t at_ns)
{
	lane_of(ctx, device)->skipped = true;
}

/* A band from the first look at the gradients to the update, for each step that did not change the weights; and the scale, where it is known. */
static void on_check(void *ctx, const struct device *device, const struct scaler_step *s)
{
	struct drawing *d = ctx;
	struct lane *l = lane_of(d, device);
	char *name, *note;

	if (!l->scaler)
		l->scaler = merge_track(d->merge, l->group, "loss scaler", 3);
	if (s->verdict != SCALER_APPLIED) {
		name = s->verdict == SCALER_UNKNOWN ? mem_format("check %lld: cannot tell", (long long)s->number) :
			mem_format("check %lld %s", (long long)s->number, s->verdict == SCALER_PARTLY ? "skipped by some optimizers" : "skipped");
		note = mem_format("known by: %s, confidence %.2f%s", scaler_evidence_meaning(s->evidence), s->confidence,
			s->scale_known == SCALE_ASSUMED ? "; the scale is replayed from an assumed 65536" : "");
		merge_slice(d->merge, l->scaler, name, s->unscale_ns, s->end_ns > s->unscale_ns ? s->end_ns : s->unscale_ns + 1, note);
		free(name);
		free(note);
	}
	if (s->scale > 0 && s->scale != l->scale) {
		if (!l->scale_track)
			l->scale_track = merge_counter_track(d->merge, l->group, "loss scale");
		merge_counter(d->merge, l->scale_track, s->end_ns, s->scale < 9e18 ? (int64_t)s->scale : INT64_MAX);
		l->scale = s->scale;
	}
}

static void draw_stretch(struct drawing *d, struct lane *l)
{
	static const char *const states[] = { [LOST_IDLE] = "idle", [LOST_EXPOSED_COMM] = "exposed communication", [LOST_EXPOSED_COPY] = "exposed copy" };

	if (l->until_ns > l->from_ns) {
		merge_slice(d->merge, l->states, states[l->state], l->from_ns, l->until_ns, NULL);
		merge_slice(d->merge, l->causes, leaf_name(l->leaf), l->from_ns, l->until_ns, l->note);
	}
	free(l->note);
	l->note = NULL;
}

/* Where the walk ended: what one would look at next. */
static char *note_of(const struct moment *m)
{
	if (!m->thread)
		return NULL;
	return mem_format("pid %d, thread %lld%s%s%s%s", m->thread->process->pid, (long long)m->thread->tid, m->call ? ": " : "",
		m->call ? m->call->name->text : "", m->call && m->call->target ? " " : "", m->call && m->call->target ? m->call->target->text : "");
}

static void on_lost(void *ctx, const struct moment *m, enum leaf leaf)
{
	struct drawing *d = ctx;
	struct lane *l;

	if (!m->device)
		return;
	l = lane_of(d, m->device);
	if (l->until_ns == m->start_ns && l->leaf == leaf && l->state == m->state) {
		l->until_ns = m->end_ns;
		return;
	}
	draw_stretch(d, l);
	l->from_ns = m->start_ns;
	l->until_ns = m->end_ns;
	l->leaf = leaf;
	l->state = m->state;
	l->note = note_of(m);
}

/* ---- the command */

static int complain(const char *why)
{
	fprintf(stderr, "whyidle: %s\n", why);
	return EXIT_IO;
}

/* The processes' own files, one after another, on one clock. */
static int merge_files(struct merge *m, const struct cli *cli)
{
	struct timeline *tl = timeline_new();
	char why[640];
	struct feed *f = feed_open((const char *const *)cli->operands, (unsigned)cli->noperands, tl, why, sizeof(why));
	int rc = f ? EXIT_DONE : complain(why);

	for (size_t i = 0; f && i < feed_nfiles(f) && rc == EXIT_DONE; i++) {
		int64_t offset_ns;
		const char *path = feed_path(f, i, &offset_ns);
		int got;

		if (kineto_is_json(path)) {
			snprintf(why, sizeof(why), "%s is a profiler's trace: annotate puts recordings of `whyidle run` together; https://ui.perfetto.dev opens it as it is",
				path);
			rc = complain(why);
			break;
		}
		got = merge_file(m, path, offset_ns, why);
		if (got < 0)
			rc = complain(why);
		else if (got > 0)
			fprintf(stderr, "whyidle: %s; what came before it is in\n", why);
	}
	feed_close(f);
	kineto_forget();
	timeline_free(tl);
	return rc;
}

static int draw(struct merge *m, const struct cli *cli)
{
	struct drawing d = { .merge = m };
	struct analysis_watch watch = { on_lost, on_step, on_skip, on_check, &d };
	struct analysis_options opt = { .watch = &watch };
	struct analysis_error err;
	struct result r;
	int rc = EXIT_DONE;

	if (analysis_run((const char *const *)cli->operands, (unsigned)cli->noperands, &opt, &r, &err))
		rc = complain(err.text);
	else
		result_free(&r);
	for (size_t i = 0; i < d.nlanes; i++) {
		draw_stretch(&d, d.lanes[i]);
		free(d.lanes[i]);
	}
	free(d.lanes);
	return rc;
}

/* A merged file in a session directory would be taken for one more process there. */
static bool lies_in(const char *file, const char *directory)
{
	char *slash, *folder = mem_copy(file);
	struct stat a, b;
	bool in;

	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = 0;
	in = !stat(slash ? folder : ".", &a) && !stat(directory, &b) && S_ISDIR(b.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
	free(folder);
	return in;
}

int cmd_annotate(const struct cli *cli)
{
	const char *out = cli_value(cli, OPTION_out, NULL);
	struct merge *m;
	char why[512];
	int rc;

	if (!cli->noperands || !out) {
		fprintf(stderr, "whyidle: annotate needs a session and a file to write: whyidle annotate PATH -o OUT.pftrace\n");
		return EXIT_USAGE;
	}
	for (int i = 0; i < cli->noperands; i++) {
		if (lies_in(out, cli->operands[i])) {
			fprintf(stderr, "whyidle: %s would lie among the traces of %s and be taken for one of them: write it somewhere else\n", out,
				cli->operands[i]);
			return EXIT_USAGE;
		}
	}
	m = merge_open(out, why);
	if (!m)
		return complain(why);
	rc = merge_files(m, cli);
	if (rc == EXIT_DONE)
		rc = draw(m, cli);
	if (merge_close(m, rc == EXIT_DONE, why))
		rc = complain(why);
	if (rc == EXIT_DONE)
		fprintf(stderr, "whyidle: %s: open it at https://ui.perfetto.dev (Open trace file)\n", out);
	return rc;
}
