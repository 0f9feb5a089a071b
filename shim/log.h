/* SPDX-License-Identifier: Apache-2.0
 *
 * What went wrong with recording, one line per cause, in SESSION/whyidle.log: the host's own output stays untouched.
 */
#ifndef WHYIDLE_SHIM_LOG_H
#define WHYIDLE_SHIM_LOG_H

enum log_cause { LOG_NO_FILE, LOG_NO_ROOM, LOG_NO_THREAD, LOG_CAUSES };

/* Once per cause and process; `err` is positive, 0 for none. Drain thread or a slow path; no allocation. Keeps errno. */
void log_once(enum log_cause cause, const char *what, int err);

#endif
