/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation that does not fail quietly.
 */
#include "analyzer/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
	if (p)
		return p;
	fputs("whyidle: out of memory; free some, or analyse fewer trace files at once\n", stderr);
	exit(3);
}

void *mem_new(size_t n, size_t size)
{
	return must(calloc(n ? n : 1, size));
}

void *mem_resize(void *p, size_t n, size_t size)
{
	if (size && n > SIZE_MAX / size)
		return must(NULL);
	return must(realloc(p, n && size ? n * size : 1));
}

char *mem_copy(const char *s)
{
	return s ? must(strdup(s)) : NULL;
}

void *mem_more(void *p, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return p;
	*cap = *cap ? *cap + *cap / 2 + 1 : 16;
	return mem_resize(p, *cap, size);
}

char *mem_format(const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	return must(s);
}
