/* SPDX-License-Identifier: Apache-2.0
 *
 * The sentence that goes with an error of the reader.
 */
#include "trace/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int failure(struct pf_error *err, enum pf_read_error code, const char *text, ...)
{
	va_list ap;

	err->code = code;
	err->sys_errno = 0;
	va_start(ap, text);
	vsnprintf(err->text, sizeof(err->text), text, ap);
	va_end(ap);
	return -1;
}

int failure_errno(struct pf_error *err, enum pf_read_error code, int sys_errno, const char *what)
{
	failure(err, code, "%s: %s", what, strerror(sys_errno));
	err->sys_errno = sys_errno;
	return -1;
}
