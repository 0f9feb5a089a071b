/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of CUPTI's ABI that simgpu's libcupti.so.12 exports, in our own words: enough to write a client without NVIDIA's headers.
 * Records are not declared: their layout depends on the version (SIMGPU_CUPTI_VERSION) and is read by offset.
 */
#ifndef SIMGPU_CUPTI_H
#define SIMGPU_CUPTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum CUptiResult {
	CUPTI_SUCCESS = 0,
	CUPTI_ERROR_INVALID_PARAMETER = 1,
	CUPTI_ERROR_INVALID_OPERATION = 7,
	CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT = 10,
	CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
	CUPTI_ERROR_NOT_COMPATIBLE = 14,
	CUPTI_ERROR_NOT_INITIALIZED = 15,
	CUPTI_ERROR_QUEUE_EMPTY = 18,
	CUPTI_ERROR_INVALID_KIND = 21,
	CUPTI_ERROR_NOT_SUPPORTED = 27,
	CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
	CUPTI_ERROR_UNKNOWN = 999,
} CUptiResult;

enum {
	CUPTI_ACTIVITY_KIND_MEMCPY = 1,
	CUPTI_ACTIVITY_KIND_MEMSET = 2,
	CUPTI_ACTIVITY_KIND_KERNEL = 3,
	CUPTI_ACTIVITY_KIND_DRIVER = 4,
	CUPTI_ACTIVITY_KIND_RUNTIME = 5,
	CUPTI_ACTIVITY_KIND_DEVICE = 8,
	CUPTI_ACTIVITY_KIND_CONTEXT = 9,
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_ACTIVITY_KIND_OVERHEAD = 17,
	CUPTI_ACTIVITY_KIND_MEMCPY2 = 22,
	CUPTI_ACTIVITY_KIND_CUDA_EVENT = 36,
	CUPTI_ACTIVITY_KIND_STREAM = 37,
	CUPTI_ACTIVITY_KIND_SYNCHRONIZATION = 38,
	CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39,
	CUPTI_ACTIVITY_KIND_GRAPH_TRACE = 51,
	CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1,
	CUPTI_CB_DOMAIN_DRIVER_API = 1,
	CUPTI_CB_DOMAIN_RUNTIME_API = 2,
};

typedef struct simgpu_cupti_subscriber *CUpti_SubscriberHandle;
typedef void (*CUpti_CallbackFunc)(void *user, int domain, uint32_t cbid, const void *data);
typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(void *context, uint32_t stream_id, uint8_t *buffer, size_t size,
						  size_t valid_size);

typedef struct CUpti_SubscriberParams {
	size_t structSize;
	const char *subscriberName;
	char *oldSubscriberName;
	size_t oldSubscriberSize;
} CUpti_SubscriberParams;

CUptiResult cuptiGetVersion(uint32_t *version);
CUptiResult cuptiGetTimestamp(uint64_t *timestamp);
CUptiResult cuptiGetResultString(CUptiResult result, const char **text);
CUptiResult cuptiGetLastError(void);
CUptiResult cuptiFinalize(void);
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *user);
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *user,
			      CUpti_SubscriberParams *params);
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber);
CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, int domain, uint32_t cbid);
CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber, int domain);
CUptiResult cuptiGetCallbackName(int domain, uint32_t cbid, const char **name);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
					   CUpti_BuffersCallbackCompleteFunc complete);
CUptiResult cuptiActivityEnable(int kind);
CUptiResult cuptiActivityEnableAndDump(int kind);
CUptiResult cuptiActivityDisable(int kind);
CUptiResult cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable);
CUptiResult cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable);
CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t enable);
CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t enable);
CUptiResult cuptiActivityRegisterTimestampCallback(uint64_t (*callback)(void));
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, void **record);
CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream_id, size_t *dropped);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityFlushPeriod(uint32_t ms);
CUptiResult cuptiActivitySetAttribute(int attribute, size_t *size, void *value);
CUptiResult cuptiActivityGetAttribute(int attribute, size_t *size, void *value);
CUptiResult cuptiActivityPushExternalCorrelationId(int kind, uint64_t id);
CUptiResult cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last_id);
CUptiResult cuptiSetThreadIdType(int type);
CUptiResult cuptiGetThreadIdType(int *type);

#ifdef __cplusplus
}
#endif

#endif
