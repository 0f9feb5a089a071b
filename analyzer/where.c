/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of a stack, see where.h.
 */
#include "analyzer/where.h"

#include <stdio.h>
#include <string.h>

#define BETWEEN " < "

static size_t frame_length(const char *frame)
{
	const char *end = strstr(frame, BETWEEN);

	return end ? (size_t)(end - frame) : strlen(frame);
}

static const char *next_frame(const char *frame)
{
	const char *end = strstr(frame, BETWEEN);

	return end ? end + strlen(BETWEEN) : NULL;
}

/* Files of packages and of the standard library have a folder, what was built in at run time has angle brackets. */
static bool is_own(const char *frame, size_t len)
{
	size_t file = strcspn(frame, ":");

	if (file > len)
		file = len;
	return file && *frame != '<' && *frame != '?' && !memchr(frame, '/', file);
}

void where_own(const char *at, char *frame, size_t room)
{
	const char *found = at;

	for (const char *f = at; f; f = next_frame(f))
		if (is_own(f, frame_length(f))) {
			found = f;
			break;
		}
	snprintf(frame, room, "%.*s", (int)frame_length(found), found);
}

bool where_loads(const char *at)
{
	static const char *const signs[] = { "torch/utils/data/_utils/fetch.py", "webdataset/", "streaming/base/dataset", "torchdata/", " in __getitem__", " in __getitems__" };

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (strstr(at, signs[i]))
			return true;
	return false;
}
