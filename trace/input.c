/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads blocks from a descriptor or memory and inflates them when they are deflated.
 */
#include "trace/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/failure.h"

#define RAW_BLOCK (128u << 10)

enum { WINDOW_GZIP_OR_ZLIB = 15 + 32 };		/* zlib: largest window, header found out by itself */

static ssize_t read_all_signals(int fd, void *buf, size_t len)
{
	ssize_t n;

	do
		n = read(fd, buf, len);
	while (n < 0 && errno == EINTR);
	return n;
}

/* The next raw block, as zlib's input or for the plain reader. Its length, 0 at the end, -1 on error. */
static ssize_t raw_fill(struct input *in, struct pf_error *err)
{
	ssize_t n = read_all_signals(in->fd, in->raw, RAW_BLOCK);

	if (n < 0)
		return failure_errno(err, PF_EIO, errno, "can't read on");
	in->raw_at = 0;
	in->raw_len = (size_t)n;
	return n;
}

static int start_inflating(struct input *in, struct pf_error *err)
{
	if (inflateInit2(&in->z, WINDOW_GZIP_OR_ZLIB) != Z_OK)
		return failure(err, PF_ENOMEM, "no memory to inflate the trace");
	in->deflated = true;
	return 0;
}

static bool is_gzip(const uint8_t *p, size_t len)
{
	return len >= 2 && p[0] == 0x1f && p[1] == 0x8b;
}

int input_open_path(struct input *in, const char *path, struct pf_error *err)
{
	struct stat st;

	/* opening a named pipe would wait for somebody to write it */
	*in = (struct input){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
	if (in->fd < 0)
		return failure_errno(err, PF_EOPEN, errno, "can't be opened");
	fcntl(in->fd, F_SETFL, fcntl(in->fd, F_GETFL) & ~O_NONBLOCK);
	if (fstat(in->fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		close(in->fd);
		return failure_errno(err, PF_EOPEN, EISDIR, "can't be read as a trace");
	}
	if (S_ISREG(st.st_mode))
		in->size = (uint64_t)st.st_size;
	in->raw = malloc(RAW_BLOCK);
	if (!in->raw) {
		close(in->fd);
		return failure(err, PF_ENOMEM, "no memory to read the trace");
	}
	/* A pipe may give its first byte alone. */
	if (raw_fill(in, err) < 0)
		goto fail;
	if (in->raw_len == 1) {
		ssize_t n = read_all_signals(in->fd, in->raw + 1, RAW_BLOCK - 1);

		in->raw_len += n > 0 ? (size_t)n : 0;
	}
	if (is_gzip(in->raw, in->raw_len) && start_inflating(in, err) < 0)
		goto fail;
	return 0;
fail:
	input_close(in);
	return -1;
}

int input_open_memory(struct input *in, const void *data, size_t len, struct pf_error *err)
{
	*in = (struct input){.fd = -1, .memory = data, .memory_len = len, .size = len};
	return is_gzip(data, len) ? start_inflating(in, err) : 0;
}

int input_open_deflated(struct input *in, const void *data, size_t len, struct pf_error *err)
{
	*in = (struct input){.fd = -1, .memory = data, .memory_len = len, .size = len};
	return start_inflating(in, err);
}

static ssize_t read_plain(struct input *in, void *buf, size_t len, struct pf_error *err)
{
	ssize_t n;

	if (in->raw_at < in->raw_len) {		/* what was looked at for the magic number */
		n = (ssize_t)(in->raw_len - in->raw_at);
		if ((size_t)n > len)
			n = (ssize_t)len;
		memcpy(buf, in->raw + in->raw_at, (size_t)n);
		in->raw_at += (size_t)n;
	} else {
		n = read_all_signals(in->fd, buf, len);
		if (n < 0)
			return failure_errno(err, PF_EIO, errno, "can't read on");
	}
	in->consumed += (uint64_t)n;
	return n;
}

/* More deflated bytes for zlib. False at the end of the file. */
static int feed(struct input *in, bool *ended, struct pf_error *err)
{
	*ended = false;
	if (in->z.avail_in)
		return 0;
	if (in->fd < 0) {
		size_t left = in->memory_len - (size_t)in->consumed;
		size_t n = left < RAW_BLOCK ? left : RAW_BLOCK;

		in->z.next_in = (uint8_t *)(uintptr_t)(in->memory + in->consumed);
		in->z.avail_in = (unsigned)n;
	} else {
		if (in->raw_at == in->raw_len && raw_fill(in, err) < 0)
			return -1;
		in->z.next_in = in->raw + in->raw_at;
		in->z.avail_in = (unsigned)(in->raw_len - in->raw_at);
		in->raw_at = in->raw_len;
	}
	in->consumed += in->z.avail_in;
	*ended = in->z.avail_in == 0;
	return 0;
}

static ssize_t read_deflated(struct input *in, void *buf, size_t len, struct pf_error *err)
{
	in->z.next_out = buf;
	in->z.avail_out = len < (1u << 30) ? (unsigned)len : 1u << 30;
	for (;;) {
		unsigned before = in->z.avail_out;
		bool ended;
		int rc;

		if (feed(in, &ended, err) < 0)
			return -1;
		if (in->between_members) {
			/* gzip members may follow one another (`cat a.gz b.gz`), padding zeros may end the file */
			while (in->z.avail_in && *in->z.next_in == 0) {
				in->z.next_in++;
				in->z.avail_in--;
			}
			if (!in->z.avail_in && !ended)
				continue;
			if (ended)
				return 0;
			if (inflateReset2(&in->z, WINDOW_GZIP_OR_ZLIB) != Z_OK)
				return failure(err, PF_ENOMEM, "no memory to inflate the trace");
			in->between_members = false;
		}
		if (ended)
			return failure(err, PF_ECUT, "the compressed data ends in the middle");
		rc = inflate(&in->z, Z_NO_FLUSH);
		if (rc == Z_STREAM_END)
			in->between_members = true;
		else if (rc == Z_MEM_ERROR)
			return failure(err, PF_ENOMEM, "no memory to inflate the trace");
		else if (rc != Z_OK && rc != Z_BUF_ERROR && in->z.avail_out == before)
			return failure(err, PF_EDAMAGED, "the compressed data is damaged (%s)",
				       in->z.msg ? in->z.msg : "no reason given");
		if (in->z.avail_out != before)
			return (ssize_t)(before - in->z.avail_out);
	}
}

ssize_t input_read(struct input *in, void *buf, size_t len, struct pf_error *err)
{
	size_t left;

	if (in->deflated)
		return read_deflated(in, buf, len, err);
	if (in->fd >= 0)
		return read_plain(in, buf, len, err);
	left = in->memory_len - (size_t)in->consumed;
	if (len > left)
		len = left;
	if (len)
		memcpy(buf, in->memory + in->consumed, len);
	in->consumed += len;
	return (ssize_t)len;
}

void input_close(struct input *in)
{
	if (in->deflated)
		inflateEnd(&in->z);
	if (in->fd >= 0)
		close(in->fd);
	free(in->raw);
	*in = (struct input){.fd = -1};
}
