/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the steady part of a run without GPU activity begins, see host_window.h.
 */
#include "analyzer/host_window.h"

#include <stdlib.h>

#include "analyzer/mem.h"

enum { MIN_TAKES = 4 };		/* three full steps */

void host_takes_add(struct host_takes *t, const struct process *p, int64_t at_ns)
{
	size_t i = 0;

	while (i < t->n && t->of[i].process != p)
		i++;
	if (i == t->n) {
		t->of = mem_more(t->of, t->n, &t->cap, sizeof(*t->of));
		t->of[i].process = p;
		t->of[t->n++].n = 0;
	}
	if (t->of[i].n < HOST_FIRST_TAKES)
		t->of[i].at_ns[t->of[i].n++] = at_ns;
}

int64_t host_takes_steady_ns(const struct host_takes *t, const struct process *p)
{
	unsigned warm;

	for (size_t i = 0; i < t->n; i++) {
		if (t->of[i].process != p)
			continue;
		/* as for devices: two steps of warm-up, fewer in very short runs */
		warm = t->of[i].n >= 8 ? 2 : t->of[i].n >= 5 ? 1 : 0;
		return t->of[i].n >= MIN_TAKES && t->of[i].at_ns[t->of[i].n - 1] > t->of[i].at_ns[warm] ? t->of[i].at_ns[warm] : INT64_MIN;
	}
	return INT64_MIN;
}

void host_takes_free(struct host_takes *t)
{
	free(t->of);
}
