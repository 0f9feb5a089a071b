/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss scaler of a process that trains on the CPU: no operations to look at, but the flag, the constants and the scale of each update, noted by its
 * wrapper. Single-threaded.
 */
#ifndef WHYIDLE_ANALYZER_SCALER_HOST_H
#define WHYIDLE_ANALYZER_SCALER_HOST_H

#include "analyzer/scaler_result.h"
#include "analyzer/timeline.h"

struct scaler_host;

struct scaler_host *scaler_host_open(void);
/* Looks at what the process's threads noted before `until_ns` and was not looked at yet. */
void scaler_host_advance(struct scaler_host *h, const struct process *p, int64_t until_ns);
const struct scaler_result *scaler_host_so_far(const struct scaler_host *h);
void scaler_host_close(struct scaler_host *h);

#endif
