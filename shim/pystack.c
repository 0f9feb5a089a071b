/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the calling thread's Python frames, see pystack.h. Runs in the traced thread: no allocation, no lock, no stdio, no call into the
 * interpreter but PyGILState_GetThisThreadState, which reads thread-local storage and is legal without the interpreter's lock.
 */
#include "shim/pystack.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>

#include "shim/pystack_layout.h"
#include "shim/strings.h"
#include "shim/sys.h"
#include "shim/text.h"

#pragma GCC poison malloc calloc realloc free printf fprintf

#define MOST_FRAMES 24
#define MOST_LINKS 64		/* frames looked at, with those that are none of Python's */
#define MOST_TEXT 1200
#define NAME_BYTES 200
#define SEEN 512

struct frame {
	uint64_t code, position;
};

static struct pystack_layout layout;
static void *(*this_thread_state)(void);
static uint64_t code_type, text_type;
static bool ready;

/* Stacks seen before, by a hash of their frames. Lock-free: an entry whose two words do not fit together was half written. */
static struct { _Atomic uint64_t mixed, value; } seen_before[SEEN];

/* Copies what lies at `address` of this process: all of it or false. */
static bool peek(void *to, uint64_t address, size_t len)
{
	struct iovec mine = { to, len }, there = { (void *)(uintptr_t)address, len };

	return sys6(SYS_process_vm_readv, sys_pid(), SYS_L(&mine), 1, SYS_L(&there), 1, 0) == (long)len;
}

static uint64_t word_at(const uint8_t *block, unsigned offset)
{
	uint64_t v;

	memcpy(&v, block + offset, sizeof(v));
	return v;
}

static int number_at(const uint8_t *block, unsigned offset)
{
	int v;

	memcpy(&v, block + offset, sizeof(v));
	return v;
}

static unsigned larger(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

static bool find_layout(void)
{
	const char *(*version)(void);
	const struct pystack_layout *l = NULL;
	const uint64_t *table = dlsym(RTLD_DEFAULT, "_PyRuntime");

	*(void **)&version = dlsym(RTLD_DEFAULT, "Py_GetVersion");
	if (version)
		l = pystack_layout_of(version());
	if (l) {
		layout = *l;
		return true;
	}
	/* too short a read is no danger: what follows in it is larger than any table */
	return table && pystack_layout_from(table, &layout);
}

void pystack_init(void)
{
	static const uint64_t known = 0x57485949444c4531u;
	uint64_t copy = 0;
	int saved = errno;

	*(void **)&this_thread_state = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	if (this_thread_state) {
		code_type = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "PyCode_Type");
		text_type = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "PyUnicode_Type");
		/* where the kernel or a filter forbids the reading, there are no stacks */
		ready = code_type && text_type && find_layout() && peek(&copy, (uint64_t)(uintptr_t)&known, sizeof(copy)) && copy == known;
	}
	if (!ready)
		dlerror();		/* the message is not the host's */
	errno = saved;
}

static uint64_t innermost_frame(uint64_t state)
{
	uint64_t at = state, frame = 0;

	if (layout.state_cframe && !peek(&at, state + layout.state_cframe, sizeof(at)))
		return 0;
	if (!at || !peek(&frame, at + layout.state_frame, sizeof(frame)))
		return 0;
	return frame;
}

static uint64_t position_of(const uint8_t *block)
{
	if (layout.position == POSITION_POINTER)
		return word_at(block, layout.frame_position);
	return (uint64_t)(int64_t)number_at(block, layout.frame_position);
}

static unsigned read_frames(uint64_t at, struct frame *frames)
{
	uint8_t block[128];
	unsigned need = larger(larger(layout.frame_previous, layout.frame_code), larger(layout.frame_position, layout.frame_owner)) + 8, n = 0;

	if (need > sizeof(block))
		return 0;
	for (unsigned links = 0; at && links < MOST_LINKS && n < MOST_FRAMES; links++) {
		if (!peek(block, at, need))
			break;
		at = word_at(block, layout.frame_previous);
		if (layout.frame_owner && block[layout.frame_owner] >= layout.owner_foreign)
			continue;	/* where C code called the interpreter */
		frames[n].code = word_at(block, layout.frame_code) & ~(uint64_t)layout.tagged;
		frames[n++].position = position_of(block);
	}
	return n;
}

static uint64_t hash_frames(const struct frame *frames, unsigned n)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (unsigned i = 0; i < n; i++) {
		h = (h ^ frames[i].code) * 0x9e3779b97f4a7c15u;
		h = (h ^ (h >> 29) ^ frames[i].position) * 0xbf58476d1ce4e5b9u;
	}
	return h | 1;
}

/* ---- one frame as text ---- */

struct bytes {
	uint64_t at, left;
	uint8_t buf[256];
	unsigned next, n;
};

static int next_byte(void *ctx)
{
	struct bytes *b = ctx;

	if (b->next == b->n) {
		b->n = b->left < sizeof(b->buf) ? (unsigned)b->left : sizeof(b->buf);
		if (!b->n || !peek(b->buf, b->at, b->n)) {
			b->n = b->next = 0;
			b->left = 0;
			return -1;
		}
		b->at += b->n;
		b->left -= b->n;
		b->next = 0;
	}
	return b->buf[b->next++];
}

static int line_of(const struct frame *f, const uint8_t *code)
{
	struct bytes table = { 0 };
	uint64_t object = word_at(code, layout.code_table), size;
	int64_t offset = (int64_t)f->position;

	if (!peek(&size, object + 16, sizeof(size)))
		return -1;
	table.at = object + 32;
	table.left = size < 1u << 20 ? size : 0;
	if (layout.position == POSITION_UNITS)
		offset *= 2;
	else if (layout.position == POSITION_POINTER)
		offset = (int64_t)(f->position - f->code - layout.code_code);
	/* -1: nothing of the function has run yet */
	return pystack_line(layout.table, number_at(code, layout.code_first), offset < 0 ? 0 : offset, next_byte, &table);
}

/* The last bytes of an ASCII string, terminated. Others are left out: their characters lie elsewhere. */
static bool read_text(uint64_t object, char *to, size_t room)
{
	uint64_t head[3];
	size_t len;

	if (!peek(head, object, sizeof(head)) || head[1] != text_type || head[2] > 4096)
		return false;
	len = head[2] < room - 1 ? (size_t)head[2] : room - 1;
	if (!peek(to, object + layout.text + (head[2] - len), len))
		return false;
	to[len] = 0;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)to[i] < ' ' || (unsigned char)to[i] >= 127)
			return false;
	return len > 0;
}

static const char *after(const char *path, const char *part)
{
	const char *found = strstr(path, part);

	return found ? found + strlen(part) : NULL;
}

static void put_file(struct text_out *o, const char *path)
{
	const char *rest = after(path, "/site-packages/"), *slash;

	if (!rest)
		rest = after(path, "/dist-packages/");
	if (rest) {
		text_str(o, strchr(rest, '/') ? "" : "site/");
		text_str(o, rest);
		return;
	}
	rest = after(path, "/lib/python3");
	rest = rest ? strchr(rest, '/') : NULL;
	slash = strrchr(path, '/');
	text_str(o, rest ? "python" : "");
	text_str(o, rest ? rest : slash ? slash + 1 : path);
}

static void put_frame(struct text_out *o, const struct frame *f)
{
	uint8_t code[256];
	char text[NAME_BYTES];
	unsigned need = larger(larger(layout.code_file, layout.code_name), larger(layout.code_first, layout.code_table)) + 8;
	int line;

	if (need > sizeof(code) || !peek(code, f->code, need) || word_at(code, 8) != code_type)
		return;
	if (read_text(word_at(code, layout.code_file), text, sizeof(text)))
		put_file(o, text);
	else
		text_str(o, "?");
	line = line_of(f, code);
	text_str(o, ":");
	if (line >= 0)
		text_uint(o, (uint64_t)line);
	else
		text_str(o, "?");
	if (read_text(word_at(code, layout.code_name), text, sizeof(text))) {
		text_str(o, " in ");
		text_str(o, text);
	}
}

/* Whole frames only. */
static uint32_t write_out(const struct frame *frames, unsigned n)
{
	char text[MOST_TEXT];
	struct text_out o = text_out(text, sizeof(text));
	size_t len = 0;

	for (unsigned i = 0; i < n; i++) {
		char *from = o.at;

		text_str(&o, len ? " < " : "");
		put_frame(&o, &frames[i]);
		if (o.at == o.end)
			break;
		if (o.at - from <= 3 && len)
			o.at = from;	/* no code object after all */
		len = (size_t)(o.at - text);
	}
	return len ? strings_intern(PF_STRINGS, text, len) : 0;
}

uint32_t pystack_here(void)
{
	struct frame frames[MOST_FRAMES];
	uint64_t hash, state;
	uint64_t value;
	unsigned n, slot;

	if (!ready)
		return 0;
	state = (uint64_t)(uintptr_t)this_thread_state();
	n = state ? read_frames(innermost_frame(state), frames) : 0;
	if (!n)
		return 0;
	hash = hash_frames(frames, n);
	slot = (unsigned)(hash >> 32) % SEEN;
	value = atomic_load_explicit(&seen_before[slot].value, memory_order_relaxed);
	if ((atomic_load_explicit(&seen_before[slot].mixed, memory_order_relaxed) ^ value) == hash)
		return (uint32_t)value;
	value = write_out(frames, n);
	atomic_store_explicit(&seen_before[slot].mixed, hash ^ value, memory_order_relaxed);
	atomic_store_explicit(&seen_before[slot].value, value, memory_order_relaxed);
	return (uint32_t)value;
}
