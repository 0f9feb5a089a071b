/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: any bytes at all go through the reader, and every byte that it gives out is looked at.
 * With clang: `make fuzz-reader`. Without: tests/fuzz/replay.c runs it over files.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trace/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static volatile uint64_t sink;

static void look_at_track(const struct pf_track_info *t)
{
	sink += strlen(t->name);
	for (unsigned i = 0; i < t->argc; i++)
		sink += strlen(t->argv[i]);
	for (unsigned i = 0; i < t->nlabels; i++)
		sink += strlen(t->labels[i]);
}

static void look_at(const struct pf_item *item)
{
	switch (item->kind) {
	case PF_SLICE_BEGIN:
	case PF_SLICE_END:
	case PF_INSTANT:
	case PF_COUNTER:
		sink += strlen(item->name) + strlen(item->track->name);
		for (unsigned i = 0; i < item->nargs; i++) {
			const struct pf_annotation *a = &item->args[i];

			sink += strlen(a->key);
			for (size_t at = 0; a->type == PF_A_STRING && at < a->v.s.len; at++)
				sink += (uint8_t)a->v.s.p[at];
		}
		break;
	case PF_TRACK:
		look_at_track(item->track);
		break;
	case PF_ATTRIBUTE:
		sink += strlen(item->attr_key) + strlen(item->attr_str);
		break;
	case PF_CLOCKS:
	case PF_LOSS:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct pf_error err = {0};
	struct pf_item item;
	struct pf_reader *r = pf_reader_open_memory(data, len, &err);

	if (r)
		while (pf_reader_next(r, &item, &err) > 0)
			look_at(&item);
	pf_reader_close(r);
	return 0;
}
