/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's environment, checked before the job starts: what it would pass over is said, and what it will do instead.
 */
#include "analyzer/run_settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/settings.h"

#define SENTENCE 512

static const struct {
	const char *name;
	unsigned long otherwise, least, most;
} numbers[] = {
#define SETTING(name, otherwise, least, most) { "WHYIDLE_" #name, otherwise, least, most },
	SETTINGS(SETTING)
#undef SETTING
};

/* Digits only, as the recorder reads them; more than fits counts as very many. */
static bool number(const char *s, unsigned long long *v)
{
	if (s[strspn(s, "0123456789")])
		return false;
	errno = 0;
	*v = strtoull(s, NULL, 10);
	return true;
}

static void check_number(size_t i, void (*say)(const char *))
{
	const char *s = getenv(numbers[i].name);
	char sentence[SENTENCE];
	unsigned long long v;

	if (!s || !*s)
		return;
	if (!number(s, &v))
		snprintf(sentence, sizeof(sentence), "%s=%.60s is no number from %lu to %lu; %lu is used", numbers[i].name, s, numbers[i].least,
			numbers[i].most, numbers[i].otherwise);
	else if (v < numbers[i].least)
		snprintf(sentence, sizeof(sentence), "%s=%.60s is less than %lu, which is used", numbers[i].name, s, numbers[i].least);
	else if (v > numbers[i].most)
		snprintf(sentence, sizeof(sentence), "%s=%.60s is more than %lu, which is used", numbers[i].name, s, numbers[i].most);
	else
		return;
	say(sentence);
}

static void check_gpu(void (*say)(const char *))
{
	const char *gpu = getenv("WHYIDLE_GPU"), *cupti = getenv("WHYIDLE_CUPTI");
	char sentence[SENTENCE];

	if (gpu && *gpu && strcmp(gpu, "on") && strcmp(gpu, "off") && strcmp(gpu, "auto")) {
		snprintf(sentence, sizeof(sentence), "WHYIDLE_GPU=%.60s is neither on, off nor auto; auto is used", gpu);
		say(sentence);
	}
	if (cupti && strchr(cupti, '/') && access(cupti, R_OK)) {
		snprintf(sentence, sizeof(sentence), "WHYIDLE_CUPTI=%.300s: %s", cupti, strerror(errno));
		say(sentence);
	}
}

void settings_check(void (*say)(const char *sentence))
{
	const char *disable = getenv("WHYIDLE_DISABLE");

	if (disable && *disable && strcmp(disable, "0"))
		say("WHYIDLE_DISABLE is set: nothing will be recorded");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		check_number(i, say);
	check_gpu(say);
}
