/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user asked for, by environment. Runs in the constructor, single-threaded.
 */
#include "shim/config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/sys.h"
#include "trace/settings.h"

struct config config = {
	.threshold_ns = 20000,
	.ring_bytes = 256 * 1024,
	.stack_ns = 10000000u,
	.exit_ns = 2000000000u,
};

/* A decimal number within the limits, or `fallback` when it is none: a typo must not stop the job. */
static uint64_t number(const char *name, uint64_t fallback, uint64_t min, uint64_t max)
{
	const char *s = getenv(name);
	uint64_t v = 0;

	if (!s || !*s)
		return fallback;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return fallback;
		v = v * 10 + (uint64_t)(*s - '0');
		if (v > max)
			return max;
	}
	return v < min ? min : v;
}

static bool is_set(const char *name)
{
	const char *s = getenv(name);

	return s && *s && strcmp(s, "0") != 0;
}

/* Is this program's base name in the comma-separated list? No list means yes. */
static bool only_us(void)
{
	const char *list = getenv("WHYIDLE_ONLY");
	char exe[4096];
	const char *base;
	size_t len;
	long n;

	if (!list || !*list)
		return true;
	n = sys_readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n <= 0)
		return false;
	exe[n] = 0;
	base = strrchr(exe, '/');
	base = base ? base + 1 : exe;
	len = strlen(base);
	while (*list) {
		size_t word = strcspn(list, ",");

		if (word == len && memcmp(list, base, len) == 0)
			return true;
		list += word + (list[word] == ',');
	}
	return false;
}

/* Copies the session directory, absolute. False when there is none or it does not fit. */
static bool read_dir(void)
{
	const char *dir = getenv("WHYIDLE_DIR");
	size_t len, at = 0;

	if (!dir || !*dir)
		return false;
	len = strlen(dir);
	if (*dir != '/') {
		long n = sys6(SYS_getcwd, SYS_L(config.dir), sizeof(config.dir), 0, 0, 0, 0);

		if (n <= 0 || config.dir[0] != '/')
			return false;
		at = strlen(config.dir);
		if (at + 1 < sizeof(config.dir) && config.dir[at - 1] != '/')
			config.dir[at++] = '/';
	}
	if (at + len + 1 > sizeof(config.dir))
		return false;
	memcpy(config.dir + at, dir, len + 1);
	return true;
}

static uint32_t power_of_two_below(uint64_t v)
{
	uint32_t p = 1;

	while ((uint64_t)p * 2 <= v)
		p *= 2;
	return p;
}

void config_read(void)
{
	const char *gpu = getenv("WHYIDLE_GPU");

#define SETTING(name, otherwise, least, most) const uint64_t name = number("WHYIDLE_" #name, otherwise, least, most);
	SETTINGS(SETTING)
#undef SETTING
	config.threshold_ns = THRESHOLD_US * 1000;
	config.ring_bytes = power_of_two_below(RING_KB * 1024);
	config.stack_ns = STACK_MS * 1000000;
	config.exit_ns = EXIT_MS * 1000000;
	if (gpu && strcmp(gpu, "on") == 0)
		config.gpu = CONFIG_GPU_ON;
	else if (gpu && strcmp(gpu, "off") == 0)
		config.gpu = CONFIG_GPU_OFF;
	else
		config.gpu = CONFIG_GPU_AUTO;
	config.enabled = read_dir() && !is_set("WHYIDLE_DISABLE") && only_us();
}
