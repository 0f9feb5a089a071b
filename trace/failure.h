/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills a pf_error: code and one sentence. Always -1, so that `return failure(err, ...)` reads well.
 */
#ifndef WHYIDLE_TRACE_FAILURE_H
#define WHYIDLE_TRACE_FAILURE_H

#include "trace/reader.h"

__attribute__((format(printf, 3, 4))) int failure(struct pf_error *err, enum pf_read_error code, const char *text, ...);
int failure_errno(struct pf_error *err, enum pf_read_error code, int sys_errno, const char *what);

#endif
