/* SPDX-License-Identifier: Apache-2.0
 *
 * libcupti's entry points.
 */
#include "examples/simgpu/cupti_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_KIND = 55, PER_CBID_SINCE = 23, ATTRIBUTES = 16, ATTR_PER_THREAD_BUFFER = 9 };

struct simgpu_cupti_subscriber {
	char name[64];
};

static struct simgpu_cupti_subscriber only_subscriber;
static _Atomic bool subscribed;
static _Atomic uint64_t attributes[ATTRIBUTES];
static _Atomic int thread_id_type;
static __thread CUptiResult last_error;

/* The answer of a library that found no usable driver. */
static CUptiResult unusable(void)
{
	if (sg_forked())
		return CUPTI_ERROR_NOT_INITIALIZED;
	if (!sg_init())
		return CUPTI_SUCCESS;
	return cupti_version() >= 130000 ? CUPTI_ERROR_UNKNOWN : CUPTI_ERROR_NOT_INITIALIZED;
}

static bool busy(void)
{
	const char *text = getenv("SIMGPU_CUPTI_BUSY");

	return text && *text && strcmp(text, "0");
}

static CUptiResult say(int result)
{
	if (result)
		last_error = (CUptiResult)result;
	return (CUptiResult)result;
}

CUptiResult cuptiGetLastError(void)
{
	CUptiResult error = last_error;

	last_error = CUPTI_SUCCESS;
	return error;
}

CUptiResult cuptiGetVersion(uint32_t *version)
{
	if (!version)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	*version = cupti_version();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	if (!timestamp)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	*timestamp = sg_realtime();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	static const struct {
		int code;
		const char *text;
	} names[] = {
		{ 0, "CUPTI_SUCCESS" },
		{ 1, "CUPTI_ERROR_INVALID_PARAMETER" },
		{ 7, "CUPTI_ERROR_INVALID_OPERATION" },
		{ 10, "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT" },
		{ 12, "CUPTI_ERROR_MAX_LIMIT_REACHED" },
		{ 14, "CUPTI_ERROR_NOT_COMPATIBLE" },
		{ 15, "CUPTI_ERROR_NOT_INITIALIZED" },
		{ 18, "CUPTI_ERROR_QUEUE_EMPTY" },
		{ 21, "CUPTI_ERROR_INVALID_KIND" },
		{ 27, "CUPTI_ERROR_NOT_SUPPORTED" },
		{ 39, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" },
		{ 999, "CUPTI_ERROR_UNKNOWN" },
	};

	if (!text)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (names[i].code == (int)result) {
			*text = names[i].text;
			return CUPTI_SUCCESS;
		}
	}
	*text = "<unknown>";
	return say(CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult cuptiFinalize(void)
{
	if (sg_forked())
		return say(CUPTI_ERROR_NOT_INITIALIZED);
	atomic_store(&cupti_kinds, 0);
	atomic_store(&subscribed, false);
	return CUPTI_SUCCESS;
}

static CUptiResult subscribe(CUpti_SubscriberHandle *out, const char *name, char *holder, size_t holder_bytes)
{
	CUptiResult rc = unusable();
	const char *by = busy() ? "simulated profiler" : only_subscriber.name;

	if (rc)
		return say(rc);
	if (!out)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	if (busy() || atomic_exchange(&subscribed, true)) {
		if (holder && holder_bytes)
			snprintf(holder, holder_bytes, "CUPTI for %s", by);
		return say(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	}
	snprintf(only_subscriber.name, sizeof(only_subscriber.name), "%s", name ? name : "unknown");
	*out = &only_subscriber;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *user)
{
	(void)callback, (void)user;
	return subscribe(subscriber, NULL, NULL, 0);
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *user,
			      CUpti_SubscriberParams *params)
{
	(void)callback, (void)user;
	if (cupti_version() < 130000)
		return say(CUPTI_ERROR_NOT_SUPPORTED);
	if (!params || params->structSize < sizeof(*params))
		return subscribe(subscriber, NULL, NULL, 0);
	return subscribe(subscriber, params->subscriberName, params->oldSubscriberName, params->oldSubscriberSize);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
	CUptiResult rc = unusable();

	if (rc)
		return say(rc);
	if (subscriber != &only_subscriber || !atomic_exchange(&subscribed, false))
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	return CUPTI_SUCCESS;
}

/* API callbacks are not simulated; a client that only wants activity records asks for none. */
CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, int domain, uint32_t cbid)
{
	(void)domain, (void)cbid;
	if (subscriber != &only_subscriber)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	return say(enable ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS);
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber, int domain)
{
	return cuptiEnableCallback(enable, subscriber, domain, 0);
}

CUptiResult cuptiGetCallbackName(int domain, uint32_t cbid, const char **name)
{
	static const struct {
		int domain;
		uint32_t cbid;
		const char *name;
	} names[] = {
#define CBID(dom, number, name, suffix) { CUPTI_CB_DOMAIN_##dom##_API, number, #name #suffix },
#include "examples/simgpu/cbid.def"
#undef CBID
		{ CUPTI_CB_DOMAIN_DRIVER_API, 442, "cuLaunchKernel_ptsz" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 652, "cuLaunchKernelEx" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 653, "cuLaunchKernelEx_ptsz" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 17, "cuCtxSynchronize" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 121, "cuEventSynchronize" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 126, "cuStreamSynchronize" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 440, "cuStreamSynchronize_ptsz" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 295, "cuStreamWaitEvent" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 436, "cuStreamWaitEvent_ptsz" },
	};

	if (!name)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (names[i].domain == domain && names[i].cbid == cbid) {
			*name = names[i].name;
			return CUPTI_SUCCESS;
		}
	}
	return say(CUPTI_ERROR_INVALID_PARAMETER);
}

/* Accepted without a driver and when another tool holds CUPTI. */
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
					   CUpti_BuffersCallbackCompleteFunc complete)
{
	if (sg_forked())
		return say(CUPTI_ERROR_NOT_INITIALIZED);
	if (!request || !complete)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	buffers_set_callbacks(request, complete);
	return CUPTI_SUCCESS;
}

static CUptiResult enable(int kind, bool dump)
{
	CUptiResult rc = unusable();

	if (rc)
		return say(rc);
	if (busy())
		return say(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	if (kind <= 0 || kind > LAST_KIND)
		return say(CUPTI_ERROR_INVALID_KIND);
	if (cupti_version() >= 130000 && !atomic_load(&attributes[ATTR_PER_THREAD_BUFFER]))
		buffers_per_thread(true);
	cupti_listen();
	atomic_fetch_or(&cupti_kinds, (uint64_t)1 << kind);
	if (buffers_have_callbacks() && (dump || kind == CUPTI_ACTIVITY_KIND_DEVICE))
		cupti_dump((uint32_t)kind);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(int kind)
{
	return enable(kind, false);
}

CUptiResult cuptiActivityEnableAndDump(int kind)
{
	return enable(kind, true);
}

CUptiResult cuptiActivityDisable(int kind)
{
	CUptiResult rc = unusable();

	if (rc)
		return say(rc);
	if (kind <= 0 || kind > LAST_KIND)
		return say(CUPTI_ERROR_INVALID_KIND);
	atomic_fetch_and(&cupti_kinds, ~((uint64_t)1 << kind));
	return CUPTI_SUCCESS;
}

static CUptiResult enable_api(bool runtime, uint32_t cbid, uint8_t on)
{
	CUptiResult rc = unusable();

	if (rc)
		return say(rc);
	if (cupti_version() < PER_CBID_SINCE)
		return say(CUPTI_ERROR_NOT_SUPPORTED);
	if (!cbid || cbid >= API_MAX)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	cupti_listen();
	atomic_store(&cupti_api_filter[runtime][cbid], on ? API_ON : API_OFF);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on)
{
	return enable_api(true, cbid, on);
}

CUptiResult cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on)
{
	return enable_api(false, cbid, on);
}

CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t on)
{
	(void)on;	/* query records, which it governs, are never made here */
	return say(cupti_version() >= 130000 ? unusable() : CUPTI_ERROR_NOT_SUPPORTED);
}

CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t on)
{
	(void)on;
	return say(unusable());
}

/* Its own time source would be wrong here in every version; the client is told so. */
CUptiResult cuptiActivityRegisterTimestampCallback(uint64_t (*callback)(void))
{
	(void)callback;
	return say(CUPTI_ERROR_NOT_COMPATIBLE);
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, void **record)
{
	uint8_t *at = buffer;
	size_t bytes;
	uint32_t kind;

	if (!record)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	if (!buffer)
		return say(valid_bytes ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_ERROR_MAX_LIMIT_REACHED);
	if (*record) {
		at = *record;
		memcpy(&kind, at, sizeof(kind));
		at += record_bytes(kind);
	}
	if (at >= buffer + valid_bytes)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	memcpy(&kind, at, sizeof(kind));
	bytes = record_bytes(kind);
	if (!bytes || bytes > (size_t)(buffer + valid_bytes - at))
		return say(CUPTI_ERROR_INVALID_KIND);
	*record = at;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream_id, size_t *dropped)
{
	CUptiResult rc = unusable();

	(void)context, (void)stream_id;
	if (rc)
		return say(rc);
	if (!dropped)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	*dropped = buffers_dropped();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	CUptiResult rc = unusable();

	if (rc)
		return say(rc);
	if (!buffers_have_callbacks())
		return say(CUPTI_ERROR_INVALID_OPERATION);
	buffers_flush(flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	return CUPTI_SUCCESS;
}

/* The worker delivers full buffers at once whatever the period is. */
CUptiResult cuptiActivityFlushPeriod(uint32_t ms)
{
	(void)ms;
	return say(unusable());
}

CUptiResult cuptiActivitySetAttribute(int attribute, size_t *size, void *value)
{
	CUptiResult rc = unusable();
	uint64_t number = 0;

	if (rc)
		return say(rc);
	if (!size || !value || attribute < 0 || attribute >= ATTRIBUTES)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	if (attribute == ATTR_PER_THREAD_BUFFER && cupti_version() < 21)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	memcpy(&number, value, *size < sizeof(number) ? *size : sizeof(number));
	if (attribute == ATTR_PER_THREAD_BUFFER) {
		buffers_per_thread(number & 0xff);
		number = number & 0xff ? 1 : 1 << 8;	/* set, if to 0 */
	}
	atomic_store(&attributes[attribute], number);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetAttribute(int attribute, size_t *size, void *value)
{
	CUptiResult rc = unusable();
	uint64_t number;

	if (rc)
		return say(rc);
	if (!size || !value || attribute < 0 || attribute >= ATTRIBUTES)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	number = atomic_load(&attributes[attribute]);
	if (attribute == ATTR_PER_THREAD_BUFFER)
		number = number ? number & 1 : cupti_version() >= 130000;
	memcpy(value, &number, *size < sizeof(number) ? *size : sizeof(number));
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(int kind, uint64_t id)
{
	CUptiResult rc = unusable();

	return say(rc ? (int)rc : cupti_external_push(kind, id));
}

CUptiResult cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last_id)
{
	CUptiResult rc = unusable();

	return say(rc ? (int)rc : cupti_external_pop(kind, last_id));
}

CUptiResult cuptiSetThreadIdType(int type)
{
	CUptiResult rc = unusable();

	if (rc)
		return say(rc);
	if (type < 0 || type > 1)
		return say(CUPTI_ERROR_INVALID_PARAMETER);
	atomic_store(&thread_id_type, type);
	atomic_store(&cupti_system_tid, type == 1);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetThreadIdType(int *type)
{
	CUptiResult rc = unusable();

	if (rc)
		return say(rc);
	*type = atomic_load(&thread_id_type);
	return CUPTI_SUCCESS;
}
