/* SPDX-License-Identifier: Apache-2.0
 *
 * One event, see kineto_event.h. The hot loop of reading: keys are told apart by length and bytes, args of events that nobody wants are passed by.
 */
#include "analyzer/kineto_event.h"

#include <string.h>

#include "analyzer/kineto_json.h"
#include "analyzer/mem.h"

/* 146 years as ns, beyond which a time stamp is not one; and a month: longer events are the profiler's unfinished ones (their length wraps around). */
#define LATEST_NS 4600000000000000000
#define LONGEST_NS 2678400000000000

static enum kineto_cat cat_of(const char *s)
{
	static const struct { const char *name; enum kineto_cat cat; } cats[] = {
		{"cpu_op", KINETO_CPU}, {"python_function", KINETO_CPU}, {"user_annotation", KINETO_CPU}, {"Operator", KINETO_CPU},
		{"cuda_runtime", KINETO_CALL}, {"cuda_driver", KINETO_CALL}, {"Runtime", KINETO_CALL}, {"Driver", KINETO_CALL},
		{"kernel", KINETO_KERNEL}, {"Kernel", KINETO_KERNEL}, {"gpu_memcpy", KINETO_MEMCPY}, {"Memcpy", KINETO_MEMCPY},
		{"gpu_memset", KINETO_MEMSET}, {"Memset", KINETO_MEMSET}, {"gpu_user_annotation", KINETO_GPU_RANGE}, {"Trace", KINETO_SPAN},
	};
	size_t n = strlen(s);

	for (size_t i = 0; i < sizeof(cats) / sizeof(cats[0]); i++)
		if (strcmp(s, cats[i].name) == 0)
			return cats[i].cat;
	/* hip_runtime, xpu_runtime, mtia_runtime, privateuse1_driver ... */
	if ((n > 8 && !strcmp(s + n - 8, "_runtime")) || (n > 7 && !strcmp(s + n - 7, "_driver")))
		return KINETO_CALL;
	return KINETO_OTHER;
}

static int64_t elem_bytes(const char *s)
{
	static const struct { const char *name; int bytes; } types[] = {
		{"Float8", 1}, {"Float", 4}, {"float", 4}, {"Double", 8}, {"double", 8}, {"Half", 2}, {"BFloat16", 2}, {"Long", 8}, {"long", 8},
		{"Int", 4}, {"int", 4}, {"Short", 2}, {"Byte", 1}, {"Char", 1}, {"Bool", 1},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(s, types[i].name, strlen(types[i].name)) == 0)
			return types[i].bytes;
	return -1;
}

/* The number in a value that is a number, or a string with one in it ("25738", "stream 7"); -1 = none. */
static bool read_number(struct jtext *j, int64_t *out)
{
	char text[64];
	size_t len, at = 0;
	int c = jtext_peek(j);

	*out = -1;
	if (c == '{' || c == '[')
		return jtext_skip(j);
	if (c == '"') {
		if (!jtext_string(j, text, sizeof(text), &len))
			return false;
		while (at < len && (text[at] < '0' || text[at] > '9'))
			at++;
	} else if (!jtext_scalar(j, text, sizeof(text), &len)) {
		return false;
	}
	if (!jtext_decimal(text + at, len - at, 0, out))
		*out = -1;
	return true;
}

/* A string, or the text of a number; "" for anything else. */
static bool read_text(struct jtext *j, char *out, size_t cap)
{
	int c = jtext_peek(j);

	out[0] = '\0';
	if (c == '"')
		return jtext_string(j, out, cap, NULL);
	return c == '{' || c == '[' ? jtext_skip(j) : jtext_scalar(j, out, cap, NULL);
}

/* Microseconds, with decimals or without. */
static bool read_time(struct jtext *j, int64_t *ns, bool *there, bool *impossible)
{
	char text[512];
	size_t len;
	int c = jtext_peek(j);

	if (c == '{' || c == '[')
		return jtext_skip(j);
	if (c == '"' ? !jtext_string(j, text, sizeof(text), &len) : !jtext_scalar(j, text, sizeof(text), &len))
		return false;
	*there = true;
	if (!jtext_decimal(text, len, 3, ns) || *ns > LATEST_NS || *ns < -LATEST_NS)
		*impossible = true;
	return true;
}

static bool read_group(struct jtext *j, struct kineto_event *e, uint64_t salt)
{
	char text[1024];

	if (!read_text(j, text, sizeof(text)))
		return false;
	if (text[0])
		e->group ^= mem_hash(text, strlen(text), salt);
	return true;
}

static bool read_arg(struct jtext *j, struct kineto_event *e, const char *key)
{
	char text[64];

	switch (key[0]) {
	case 'c':
		if (!strcmp(key, "correlation"))
			return read_number(j, &e->correlation);
		break;
	case 'd':
		if (!strcmp(key, "device"))
			return read_number(j, &e->device);
		if (!strcmp(key, "dtype")) {
			if (!read_text(j, text, sizeof(text)))
				return false;
			e->elem_bytes = elem_bytes(text);
			return true;
		}
		break;
	case 's':
		if (!strcmp(key, "stream"))
			return read_number(j, &e->stream);
		break;
	case 'b':
		if (!strcmp(key, "bytes"))
			return read_number(j, &e->bytes);
		break;
	case 'n':
		if (!strcmp(key, "name"))
			return read_text(j, e->label, sizeof(e->label));
		break;
	case 'C':
		if (!strcmp(key, "Collective name"))
			return read_text(j, e->collective, sizeof(e->collective));
		break;
	case 'G':
		if (!strcmp(key, "Group size"))
			return read_number(j, &e->group_size);
		break;
	case 'I':
		if (!strcmp(key, "In msg nelems"))
			return read_number(j, &e->nelems);
		break;
	case 'S':
		if (!strcmp(key, "Seq"))
			return read_number(j, &e->seq);
		break;
	case 'P':
		if (!strcmp(key, "Process Group Name"))
			return read_group(j, e, 1);
		if (!strcmp(key, "Process Group Ranks"))
			return read_group(j, e, 2);
		break;
	default:
		break;
	}
	return jtext_skip(j);
}

static bool read_args(struct jtext *j, struct kineto_event *e)
{
	char key[64];
	bool first = true;
	int got;

	if (jtext_peek(j) != '{')
		return jtext_skip(j);
	jtext_take(j, '{');
	while ((got = jtext_key(j, &first, key, sizeof(key))) == 1)
		if (!read_arg(j, e, key))
			return false;
	return got == 0;
}

/* Of most events, operators and flows, no argument is wanted. They stand last, so that the category is known. */
static bool wants_args(const struct kineto_event *e, bool cat_known)
{
	switch (cat_known ? e->cat : KINETO_CALL) {
	case KINETO_CPU: return !strcmp(e->name, "record_param_comms");
	case KINETO_OTHER: return e->ph == 'M' || !e->ph;
	case KINETO_GPU_RANGE:
	case KINETO_SPAN: return false;
	default: return true;
	}
}

static void clear(struct kineto_event *e)
{
	e->ph = '\0';
	e->cat = KINETO_OTHER;
	e->timed = e->impossible = false;
	e->start_ns = e->end_ns = 0;
	e->pid = e->tid = -1;
	e->correlation = e->device = e->stream = e->bytes = -1;
	e->group_size = e->seq = e->nelems = e->elem_bytes = -1;
	e->group = 0;
	e->collective[0] = e->label[0] = e->name[0] = '\0';
}

bool kineto_event_read(struct jtext *j, struct kineto_event *e)
{
	bool first = true, cat_known = false, has_ts = false, has_dur = false, ok = true;
	int64_t ts = 0, dur = 0;
	char key[32], text[32];
	int got;

	clear(e);
	if (jtext_peek(j) != '{')
		return jtext_skip(j);
	jtext_take(j, '{');
	while (ok && (got = jtext_key(j, &first, key, sizeof(key))) == 1) {
		if (!strcmp(key, "ph")) {
			ok = read_text(j, text, sizeof(text));
			e->ph = text[0];
		} else if (!strcmp(key, "cat")) {
			ok = read_text(j, text, sizeof(text));
			e->cat = cat_of(text);
			cat_known = true;
		} else if (!strcmp(key, "name")) {
			ok = read_text(j, e->name, sizeof(e->name));
		} else if (!strcmp(key, "ts")) {
			ok = read_time(j, &ts, &has_ts, &e->impossible);
		} else if (!strcmp(key, "dur")) {
			ok = read_time(j, &dur, &has_dur, &e->impossible);
		} else if (!strcmp(key, "pid")) {
			ok = read_number(j, &e->pid);
		} else if (!strcmp(key, "tid")) {
			ok = read_number(j, &e->tid);
		} else if (!strcmp(key, "args") && wants_args(e, cat_known)) {
			ok = read_args(j, e);
		} else {
			ok = jtext_skip(j);
		}
	}
	if (!ok || got < 0)
		return false;
	if (e->ph != 'X')
		return true;
	if (!has_ts || ts <= 0 || (has_dur && (dur < 0 || dur > LONGEST_NS)))
		e->impossible = true;
	e->timed = !e->impossible;
	e->start_ns = ts;
	e->end_ns = ts + (e->timed ? dur : 0);
	return true;
}
