/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole packets to SESSION/<host>.<pid>.<n>.pftrace, appended. A host that closes all descriptors does not end it: before each
 * write the descriptor is checked to be still our file, and found again by name when it is not.
 */
#include "shim/out.h"

#include <errno.h>
#include <string.h>

#include "shim/config.h"
#include "shim/highfd.h"
#include "shim/ident.h"
#include "shim/log.h"
#include "shim/sys.h"
#include "shim/text.h"

#pragma GCC poison malloc calloc realloc free printf fprintf

#define BLOCK (128 * 1024)
#define MOST_TRIES 16	/* to get hold of the file while the host closes descriptors in a loop */
#define MOST_IMAGES 100000	/* files that one pid may have made, by exec or by reuse of the number */

static char path[800];
static struct highfd file;
static struct pf_writer writer;
static bool open_done, given_up;
static uint64_t written;

static void give_up(enum log_cause cause, const char *what, int err)
{
	given_up = true;
	log_once(cause, what, err < 0 ? -err : err);
}

static void name_file(unsigned n)
{
	struct text_out o = text_out(path, sizeof(path));

	text_str(&o, config.dir);
	text_str(&o, "/");
	text_str(&o, ident.host);
	text_str(&o, ".");
	text_uint(&o, (uint64_t)ident.pid);
	text_str(&o, ".");
	text_uint(&o, n);
	text_str(&o, ".pftrace");
}

static int create(void)
{
	unsigned n;
	int rc = -EEXIST;

	for (n = 0; rc == -EEXIST && n < MOST_IMAGES; n++) {
		name_file(n);
		rc = highfd_open(&file, path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW, 0600);
	}
	return rc;
}

/* The descriptor if it is still the file, else another one by name. A file that was removed meanwhile is not made again. */
static int reach(void)
{
	struct highfd again = { 0 };
	unsigned tries = 0;
	int rc;

	if (highfd_holds(&file))
		return 0;
	highfd_forget(&file);
	do
		rc = highfd_open(&again, path, O_WRONLY | O_APPEND | O_NOFOLLOW, 0);
	while (rc == -EBADF && tries++ < MOST_TRIES);
	if (rc)
		return rc;
	if (again.dev != file.dev || again.ino != file.ino) {
		highfd_close(&again);
		return -ENOENT;
	}
	file = again;
	return 0;
}

/* The last place within `len` where a packet ends: each is 0x0a, a length, a body. */
static size_t whole_packets(const uint8_t *buf, size_t len)
{
	size_t at = 0, end = 0;

	while (at < len && buf[at] == 0x0a) {
		uint64_t body = 0;
		unsigned shift = 0;
		bool whole = false;

		for (at++; at < len && !whole; shift += 7) {
			body |= (uint64_t)(buf[at] & 0x7f) << shift;
			whole = !(buf[at++] & 0x80);
		}
		if (!whole || body > len - at)
			break;
		at += body;
		end = at;
	}
	return end;
}

/* After a write that took only `done` bytes: cut the file where the last whole packet ends. */
static void trim(size_t done)
{
	size_t keep = whole_packets(writer.buf, done);

	if (keep != done)
		sys6(SYS_ftruncate, file.fd, SYS_L(written + keep), 0, 0, 0, 0);
	written += keep;
}

int out_flush(void)
{
	size_t done = 0;
	unsigned tries = 0;
	int rc;

	if (!writer.len)
		return 0;
	rc = given_up ? -EIO : reach();
	while (!rc && done < writer.len) {
		long n = sys_write(file.fd, writer.buf + done, writer.len - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == -EBADF && tries++ < MOST_TRIES)
			rc = reach();	/* closed between the check and the write */
		else if (n != -EINTR)
			rc = n ? (int)n : -EIO;
	}
	if (!rc)
		written += done;
	else if (!given_up)
		trim(done);
	writer.len = 0;
	if (rc && !given_up)
		give_up(LOG_NO_ROOM, "the trace cannot be written any further, recording has stopped", rc);
	return rc;
}

static int make_room(struct pf_writer *w)
{
	(void)w;
	return out_flush();
}

struct pf_writer *out_writer(void)
{
	int rc;

	if (given_up)
		return NULL;
	if (open_done)
		return &writer;
	if (!writer.buf)
		writer.buf = sys_map(BLOCK);
	rc = writer.buf ? create() : -ENOMEM;
	if (rc) {
		give_up(LOG_NO_FILE, "no trace file can be made here, nothing is recorded", rc);
		return NULL;
	}
	writer.cap = BLOCK;
	writer.full = make_room;
	open_done = true;
	return &writer;
}

bool out_is_open(void)
{
	return open_done && !given_up;
}

uint64_t out_bytes(void)
{
	return written;
}

void out_fork_child(void)
{
	writer.len = 0;
	writer.packets = writer.dropped = 0;
	file = (struct highfd){ 0 };	/* the number itself is closed by highfd_fork_child */
	open_done = given_up = false;
	written = 0;
}
