/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding by offset. Never reads behind a field that the record's kind promises: the tail differs from version to version.
 */
#include "shim/cupti_record.h"

#include <stdbool.h>
#include <string.h>

#include "shim/cupti_abi.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf

static uint16_t get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void *get_pointer(const uint8_t *p)
{
	void *v;

	memcpy(&v, p, sizeof(v));
	return v;
}

#define CBID_LIMIT 1024

static const uint16_t runtime_calls[CBID_LIMIT] = {
#define CBID_RUNTIME(number, call) [number] = CALL_##call,
#define CBID_DRIVER(number, call)
#define CBID(domain, number, call) CBID_##domain(number, call)
#include "shim/cupti_cbid.def"
#undef CBID_RUNTIME
#undef CBID_DRIVER
};

static const uint16_t driver_calls[CBID_LIMIT] = {
#define CBID_RUNTIME(number, call)
#define CBID_DRIVER(number, call) [number] = CALL_##call,
#include "shim/cupti_cbid.def"
#undef CBID_RUNTIME
#undef CBID_DRIVER
#undef CBID
};

enum call cupti_record_call(int kind, uint32_t cbid)
{
	if (cbid >= CBID_LIMIT)
		return CALL_NONE;
	return (enum call)(kind == CUPTI_RUNTIME ? runtime_calls[cbid] : kind == CUPTI_DRIVER ? driver_calls[cbid] : CALL_NONE);
}

static void read_kernel(const uint8_t *b, struct cupti_record *r)
{
	r->start = get64(b + KERNEL_START);
	r->end = get64(b + KERNEL_END);
	r->device = get32(b + KERNEL_DEVICE);
	r->context = get32(b + KERNEL_CONTEXT);
	r->stream = get32(b + KERNEL_STREAM);
	r->correlation = get32(b + KERNEL_CORRELATION);
	r->name = get_pointer(b + KERNEL_NAME);
	if (!r->name)
		r->name = "?";
}

/* MEMCPY and MEMCPY2 differ in where the correlation is; MEMSET has the same layout from `bytes` to `correlation`. */
static void read_copy(const uint8_t *b, struct cupti_record *r, unsigned int correlation_at)
{
	_Static_assert((int)MEMCPY_BYTES == MEMSET_BYTES && (int)MEMCPY_STREAM == MEMSET_STREAM &&
		       (int)MEMCPY_CORRELATION == MEMSET_CORRELATION, "one reader for both");
	r->bytes = (int64_t)get64(b + MEMCPY_BYTES);
	r->start = get64(b + MEMCPY_START);
	r->end = get64(b + MEMCPY_END);
	r->device = get32(b + MEMCPY_DEVICE);
	r->context = get32(b + MEMCPY_CONTEXT);
	r->stream = get32(b + MEMCPY_STREAM);
	r->correlation = get32(b + correlation_at);
}

static void read_memcpy(const uint8_t *b, struct cupti_record *r, bool peer)
{
	read_copy(b, r, peer ? P2P_CORRELATION : MEMCPY_CORRELATION);
	r->copy_kind = b[MEMCPY_KIND] ? b[MEMCPY_KIND] : peer ? 10 : UINT8_MAX;
	r->src = b[MEMCPY_SRC];
	r->dst = b[MEMCPY_DST];
}

static void read_memset(const uint8_t *b, struct cupti_record *r)
{
	uint16_t memory = get16(b + MEMSET_MEMORY);

	read_copy(b, r, MEMSET_CORRELATION);
	r->dst = memory > UINT8_MAX ? 0 : (uint8_t)memory;
}

static void read_api(const uint8_t *b, struct cupti_record *r, int kind)
{
	r->call = cupti_record_call(kind, get32(b + API_CBID));
	r->start = get64(b + API_START);
	r->end = get64(b + API_END);
	r->tid = get32(b + API_TID);
	r->correlation = get32(b + API_CORRELATION);
	r->result = (int)get32(b + API_RESULT);
}

static void read_overhead(const uint8_t *b, struct cupti_record *r, uint32_t api_version)
{
	r->start = get64(b + OVERHEAD_START);
	r->end = get64(b + OVERHEAD_END);
	if (api_version >= CUPTI_API_OVERHEAD_DATA && get32(b + OVERHEAD_KIND) == CUPTI_OVERHEAD_COMMAND_BUFFER_FULL)
		r->owned = get_pointer(b + OVERHEAD_DATA);
}

void cupti_record_read(const uint8_t *b, uint32_t api_version, struct cupti_record *r)
{
	uint32_t kind = get32(b);

	memset(r, 0, sizeof(*r));
	r->bytes = -1;
	switch (kind) {
	case CUPTI_KERNEL:
		r->type = RECORD_OP;
		read_kernel(b, r);
		break;
	case CUPTI_MEMCPY:
	case CUPTI_MEMCPY_P2P:
		r->type = RECORD_OP;
		read_memcpy(b, r, kind == CUPTI_MEMCPY_P2P);
		break;
	case CUPTI_MEMSET:
		r->type = RECORD_OP;
		read_memset(b, r);
		break;
	case CUPTI_RUNTIME:
	case CUPTI_DRIVER:
		r->type = RECORD_API;
		read_api(b, r, (int)kind);
		break;
	case CUPTI_OVERHEAD:
		r->type = RECORD_OVERHEAD;
		read_overhead(b, r, api_version);
		break;
	case CUPTI_DEVICE:
		r->type = RECORD_DEVICE;
		r->device = get32(b + DEVICE_ID);
		r->name = get_pointer(b + DEVICE_NAME);
		break;
	default:
		r->type = RECORD_OTHER;
	}
}

static const char *copy_word(unsigned int kind)
{
	static const char *const words[] = {[1] = "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};

	return kind < sizeof(words) / sizeof(*words) && words[kind] ? words[kind] : "Unknown";
}

static const char *memory_word(unsigned int kind)
{
	static const char *const words[] = {"Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static",
					    "Managed Static"};

	return kind < sizeof(words) / sizeof(*words) ? words[kind] : "Unknown";
}

size_t cupti_record_copy_name(const struct cupti_record *r, char *buf)
{
	char *end = buf;

	if (!r->copy_kind) {
		end = stpcpy(stpcpy(end, "Memset ("), memory_word(r->dst));
	} else {
		end = stpcpy(stpcpy(stpcpy(end, "Memcpy "), copy_word(r->copy_kind)), " (");
		end = stpcpy(stpcpy(stpcpy(end, memory_word(r->src)), " -> "), memory_word(r->dst));
	}
	*end++ = ')';
	*end = '\0';
	return (size_t)(end - buf);
}
