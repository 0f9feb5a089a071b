/* SPDX-License-Identifier: Apache-2.0
 *
 * startup: before the first and after the last step; inside the loop: device and module set-up, libraries and code being loaded, compilers.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/cause_moment.h"
#include "analyzer/cause_seen.h"
#include "analyzer/cause_words.h"

/* Child processes that a framework waits for while it compiles. */
static const char *const compilers[] = { "ptxas", "nvcc", "cicc", "nvlink", "triton", "cc1plus", "g++", "c++", "gcc", "clang", "/cc ", "/ld ", "inductor" };

static const char *const code_files[] = { ".py", ".pyc", ".so", ".cubin", ".ptx", ".fatbin", ".hsaco" };

bool process_compiles(const struct process *p)
{
	for (unsigned i = 0; p && p->command && i < sizeof(compilers) / sizeof(*compilers); i++)
		if (strstr(p->command, compilers[i]))
			return true;
	return false;
}

static const struct process *child_waited_for(const struct timeline *tl, const struct slice *s)
{
	int pid;

	if (s->name->class != CLASS_CHILD_WAIT || !s->target || !starts_with(s->target->text, "pid:"))
		return NULL;
	pid = atoi(s->target->text + 4);
	for (unsigned i = 0; i < tl->nprocesses; i++)
		if (tl->processes[i]->pid == pid)
			return tl->processes[i];
	return NULL;
}

static bool compiles(const struct timeline *tl, const struct moment *m)
{
	if (m->thread && process_compiles(m->thread->process))
		return true;
	return m->activity == ACT_CALL && m->call && process_compiles(child_waited_for(tl, m->call));
}

static bool loads_code(const struct moment *m)
{
	const char *path = moment_path(m);

	if (m->loader || !moment_reads_file(m))
		return false;
	for (unsigned i = 0; i < sizeof(code_files) / sizeof(*code_files); i++)
		if (ends_with(path, code_files[i]))
			return true;
	return strstr(path, ".so.") != NULL;
}

static bool claim(const struct timeline *tl, const struct moment *m, int64_t *until_ns)
{
	*until_ns = m->end_ns;
	if (m->outside_steps) {
		cut_at_retry(tl, m, until_ns);
		return true;
	}
	if (!moment_idle(m))
		return false;
	return moment_class(m) == CLASS_GPU_SETUP || loads_code(m) || compiles(tl, m);
}

static void explain(void *state, const struct result *r, struct finding *f)
{
	struct evidence *e = state;
	const struct tally_row *row;

	(void)r;
	finding_title(f, "Starting, loading code or compiling took %s", words_ns(f->ns));
	for (unsigned k = 0; k < 3 && (row = tally_top(&e->targets, k)); k++)
		if (row->ns * 20 > e->ns)
			finding_evidence(f, "%s: %s", row->name, evidence_part(e, f, row->ns));
	row = tally_top(&e->names, 0);
	if (row && row->ns * 20 > e->ns)
		finding_evidence(f, "mostly in %s (%s)", row->name, evidence_part(e, f, row->ns));
	evidence_say_place(e, f);
	evidence_say_ranks(e, f);
	finding_advice(f, "long runs pay this once; when jobs are short or restart often, keep compile caches and the environment on a fast local disk");
	finding_advice(f, "inside the training loop: keep input shapes fixed (padding to a few sizes), so that nothing is compiled or tuned anew");
}

const struct cause cause_startup = { LEAF_STARTUP, claim, evidence_open, evidence_see, explain, evidence_close };
