/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs once per process, in the thread that makes its first CUDA call, with the guard up.
 */
#include "shim/cupti_setup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/config.h"
#include "shim/cupti_buffers.h"
#include "shim/cupti_find.h"
#include "shim/cupti_write.h"
#include "shim/drain.h"
#include "shim/resolve.h"

static void on_callback(void *user, int domain, uint32_t cbid, const void *data)
{
	(void)user;
	(void)domain;
	(void)cbid;
	(void)data;
}

static void note(const char *what, int code)
{
	char text[160];

	if (code)
		snprintf(text, sizeof(text), "none: %s (%d)", what, code);
	else
		snprintf(text, sizeof(text), "none: %s", what);
	drain_attr_str("whyidle.gpu", text);
}

static void note_subscribe_failure(int code, const char *holder)
{
	char text[128], path[64];

	if (code == CUPTI_HELD) {
		snprintf(text, sizeof(text), "CUPTI is held by %.64s", holder && *holder ? holder : "another profiler");
		note(text, code);
	} else if (code == CUPTI_NOT_INITIALIZED || code == CUPTI_UNKNOWN) {
		note(resolve_loaded("libcuda.so", path, sizeof(path)) == -ENOENT ? "no driver" : "CUPTI cannot use the driver", code);
	} else {
		note("cuptiSubscribe failed", code);
	}
}

/* Holds CUPTI against later clients, and finds out about earlier ones. Without it a second client would silently take our
 * buffers away. The newer call is only used to learn the holder's name. */
static int subscribe(struct cupti_session *s)
{
	char holder[128] = "";
	struct cupti_subscribe_params params = {sizeof(params), "whyidle", holder, sizeof(holder)};
	int r = s->f.Subscribe(&s->subscriber, on_callback, NULL);

	if (r == CUPTI_HELD && s->f.Subscribe_v2 && !s->f.Subscribe_v2(&s->subscriber, on_callback, NULL, &params))
		r = CUPTI_OK;	/* let go in between */
	holder[sizeof(holder) - 1] = '\0';
	if (r)
		note_subscribe_failure(r, holder);
	return r;
}

static void set_attributes(const struct cupti_functions *f)
{
	uint8_t zeroed = 1;
	size_t size = sizeof(zeroed);

	if (f->SetThreadIdType)
		f->SetThreadIdType(CUPTI_THREAD_ID_SYSTEM);
	/* our buffers are zero when handed out: CUPTI need not clear them on the host's thread */
	if (f->ActivitySetAttribute)
		f->ActivitySetAttribute(CUPTI_ATTR_ZEROED_BUFFERS, &size, &zeroed);
}

/* Only the calls of cupti_cbid.def, when this version can choose; else the kinds whole, and the decoder chooses. A call counts as
 * recorded by CUPTI when one of its numbers could be enabled (no version knows all). */
static void enable_apis(struct cupti_session *s)
{
	bool chosen = s->f.ActivityEnableRuntimeApi && s->f.ActivityEnableDriverApi;
	bool runtime = true, driver = true;

	if (chosen) {
#define TRY_RUNTIME(number, call) \
	if (!s->f.ActivityEnableRuntimeApi(number, 1)) \
		s->records[CALL_##call] = true;
#define TRY_DRIVER(number, call) \
	if (!s->f.ActivityEnableDriverApi(number, 1)) \
		s->records[CALL_##call] = true;
#define CBID(domain, number, call) TRY_##domain(number, call)
#include "shim/cupti_cbid.def"
#undef CBID
	}
	chosen = chosen && s->records[CALL_cudaLaunchKernel] && s->records[CALL_cuLaunchKernel];
	if (!chosen) {
		runtime = !s->f.ActivityEnable(CUPTI_RUNTIME);
		driver = !s->f.ActivityEnable(CUPTI_DRIVER);
#define MARK_RUNTIME(call) s->records[CALL_##call] = runtime;
#define MARK_DRIVER(call) s->records[CALL_##call] = driver;
#define CBID(domain, number, call) MARK_##domain(call)
#include "shim/cupti_cbid.def"
#undef CBID
	}
	/* 12.x has no number for it: its __cudaLaunchKernel jumps to cudaLaunchKernel, and is recorded as that */
	s->records[CALL___cudaLaunchKernel] |= s->records[CALL_cudaLaunchKernel];
	s->apis = runtime;
}

static int enable_kinds(struct cupti_session *s)
{
	int r = s->f.ActivityEnable(CUPTI_KERNEL);

	if (r) {
		note("CUPTI refuses kernel records", r);
		return r;
	}
	r = s->f.ActivityEnable(CUPTI_MEMCPY);
	if (!r)
		s->f.ActivityEnable(CUPTI_MEMCPY_P2P);	/* gives nothing unless MEMCPY is on */
	s->f.ActivityEnable(CUPTI_MEMSET);
	s->f.ActivityEnable(CUPTI_OVERHEAD);
	s->f.ActivityEnable(CUPTI_DEVICE);
	enable_apis(s);
	return 0;
}

static unsigned int wanted_buffers(void)
{
	const char *s = getenv("WHYIDLE_CUPTI_BUFFERS");
	long n = s ? strtol(s, NULL, 10) : 0;

	return n > 0 && n <= CUPTI_BUFFERS_MAX ? (unsigned int)n : CUPTI_BUFFERS_DEFAULT;
}

/* A tool that the driver will inject (nsys) needs CUPTI for itself, and comes after us. */
static bool left_to_others(void)
{
	const char *tool = getenv("CUDA_INJECTION64_PATH"), *base;

	if (config.gpu == CONFIG_GPU_ON || !tool || !*tool)
		return false;
	base = strrchr(tool, '/');
	return strncmp(base ? base + 1 : tool, "libwhyidle", 10);
}

/* Finds CUPTI, unless the settings or its age forbid it. */
static int find(struct cupti_session *s)
{
	char why[128] = "";
	int r;

	if (config.gpu == CONFIG_GPU_OFF) {
		note("switched off by WHYIDLE_GPU=off", 0);
		return -1;
	}
	if (left_to_others()) {
		note("left to the tool of CUDA_INJECTION64_PATH (WHYIDLE_GPU=on takes it)", 0);
		return -1;
	}
	r = cupti_find(&s->f, why, sizeof(why));
	if (r) {
		note(why, 0);
		return r;
	}
	r = s->f.GetVersion(&s->version);
	if (!r && s->version >= CUPTI_OLDEST_API)
		return 0;
	snprintf(why, sizeof(why), "CUPTI API %u is older than %d (CUDA 11.0)", s->version, CUPTI_OLDEST_API);
	note(r ? "cuptiGetVersion failed" : why, r);
	return -1;
}

int cupti_setup(struct cupti_session *s, cupti_complete_fn *complete)
{
	int r = find(s);

	if (r)
		return r;
	if (subscribe(s))
		return -1;
	if (cupti_buffers_init(wanted_buffers()) || cupti_write_init()) {
		note("no memory for CUPTI's buffers", 0);
		goto unsubscribe;
	}
	set_attributes(&s->f);
	r = s->f.ActivityRegisterCallbacks(cupti_buffers_request, complete);
	if (r) {
		note("cuptiActivityRegisterCallbacks failed", r);
		goto unsubscribe;
	}
	if (enable_kinds(s))
		goto unsubscribe;
	drain_attr_str("whyidle.gpu", "cupti");
	drain_attr_int("whyidle.gpu.cupti_api", s->version);
	return 0;

unsubscribe:
	s->f.Unsubscribe(s->subscriber);
	return -1;
}
