/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, groups and meanings of the leaves, and the reasons of unknown time.
 */
#include <string.h>

#include "analyzer/result.h"

static const struct {
	const char *name, *meaning;
	enum leaf_group group;
} leaves[] = {
#define LEAF(id, name, group, meaning) { name, meaning, GROUP_##group },
#include "analyzer/leaf.def"
#undef LEAF
};

static const char *const reasons[] = { [UNKNOWN_DEVICE] = "device", [UNKNOWN_NO_LAUNCH_RECORD] = "no_launch_record",
	[UNKNOWN_EVENTS_LOST] = "events_lost", [UNKNOWN_HOP_LIMIT] = "hop_limit", [UNKNOWN_OFF_CPU] = "off_cpu" };

const char *leaf_name(enum leaf leaf)
{
	return leaves[leaf].name;
}

const char *leaf_meaning(enum leaf leaf)
{
	return leaves[leaf].meaning;
}

enum leaf_group leaf_group(enum leaf leaf)
{
	return leaves[leaf].group;
}

int leaf_by_name(const char *name)
{
	for (int i = 0; i < LEAF_COUNT; i++)
		if (!strcmp(leaves[i].name, name))
			return i;
	return -1;
}

const char *unknown_reason_name(enum unknown_reason r)
{
	return reasons[r];
}
