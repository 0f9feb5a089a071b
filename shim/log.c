/* SPDX-License-Identifier: Apache-2.0
 *
 * A log that can neither allocate nor print into the host's streams.
 */
#include "shim/log.h"

#include <stdatomic.h>

#include "shim/config.h"
#include "shim/sys.h"
#include "shim/text.h"

static atomic_uint said;

void log_once(enum log_cause cause, const char *what, int err)
{
	char path[600], line[256];
	struct text_out p = text_out(path, sizeof(path)), l = text_out(line, sizeof(line));
	int fd;

	if (atomic_fetch_or_explicit(&said, 1u << cause, memory_order_relaxed) & 1u << cause)
		return;
	text_str(&p, config.dir);
	text_str(&p, "/whyidle.log");
	text_str(&l, "pid ");
	text_uint(&l, (uint64_t)sys_pid());
	text_str(&l, ": ");
	text_str(&l, what);
	if (err) {
		text_str(&l, " (errno ");
		text_uint(&l, (uint64_t)err);
		text_str(&l, ")");
	}
	text_str(&l, "\n");
	fd = sys_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		return;
	sys_write(fd, line, (size_t)(l.at - line));
	sys_close(fd);
}
