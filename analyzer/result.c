/* SPDX-License-Identifier: Apache-2.0
 *
 * Frees a result. Its strings and arrays were allocated one by one by whoever filled them in.
 */
#include "analyzer/result.h"

#include <stdlib.h>
#include <string.h>

static void free_strings(char **strings, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		free(strings[i]);
	free(strings);
}

void result_free(struct result *r)
{
	for (unsigned i = 0; i < r->ndevices; i++) {
		free(r->devices[i].host);
		free(r->devices[i].name);
	}
	for (unsigned i = 0; i < r->nhost_only; i++) {
		free(r->host_only[i].host);
		free(r->host_only[i].command);
	}
	for (unsigned i = 0; i < r->nfindings; i++) {
		free(r->findings[i].title);
		free_strings(r->findings[i].evidence, r->findings[i].nevidence);
		free_strings(r->findings[i].advice, r->findings[i].nadvice);
	}
	free(r->devices);
	free(r->host_only);
	free(r->findings);
	free_strings(r->acquittals, r->nacquittals);
	free_strings(r->warnings, r->nwarnings);
	free(r->command);
	free(r->ending);
	free(r->gpu_note);
	memset(r, 0, sizeof(*r));
}
