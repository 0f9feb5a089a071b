/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI records of each version, made by hand in their own size and filled with rubbish behind and between the fields we read.
 * Sizes and offsets are numbers here on purpose: this test must not share the decoder's table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shim/cupti_record.h"

static uint8_t *record_new(size_t size, uint32_t kind)
{
	uint8_t *b = malloc(size);	/* exactly: reading behind it is ASan's to find */

	assert_non_null(b);
	memset(b, 0xa5, size);
	memcpy(b, &kind, 4);
	return b;
}

static void put(uint8_t *b, size_t at, uint64_t v, size_t bytes)
{
	memcpy(b + at, &v, bytes);
}

static const char kernel[] = "_Z6kernelPf";

static void kernel_records_of_all_versions_read_alike(void **state)
{
	static const struct {
		uint32_t version;
		size_t size;
	} layouts[] = {{13, 160}, {15, 168}, {17, 176}, {18, 200}, {22, 208}, {130000, 216}};

	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		uint8_t *b = record_new(layouts[i].size, 10);
		struct cupti_record r;

		put(b, 16, 1000, 8);
		put(b, 24, 2500, 8);
		put(b, 40, 3, 4);
		put(b, 44, 1, 4);
		put(b, 48, 17, 4);
		put(b, 92, 4711, 4);
		put(b, 104, (uintptr_t)kernel, 8);
		cupti_record_read(b, layouts[i].version, &r);
		assert_int_equal(r.type, RECORD_OP);
		assert_int_equal(r.start, 1000);
		assert_int_equal(r.end, 2500);
		assert_int_equal(r.device, 3);
		assert_int_equal(r.context, 1);
		assert_int_equal(r.stream, 17);
		assert_int_equal(r.correlation, 4711);
		assert_ptr_equal(r.name, kernel);
		assert_int_equal(r.bytes, -1);
		free(b);
	}
}

static void kernel_without_a_name_is_named(void **state)
{
	uint8_t *b = record_new(208, 10);
	struct cupti_record r;

	put(b, 104, 0, 8);
	cupti_record_read(b, 22, &r);
	assert_string_equal(r.name, "?");
	free(b);
}

static void copy_fields(uint8_t *b, size_t correlation_at)
{
	put(b, 8, 1u << 20, 8);
	put(b, 16, 100, 8);
	put(b, 24, 200, 8);
	put(b, 32, 1, 4);
	put(b, 36, 2, 4);
	put(b, 40, 7, 4);
	put(b, correlation_at, 99, 4);
}

static void check_copy(const struct cupti_record *r, const char *name)
{
	char buf[64];

	assert_int_equal(r->type, RECORD_OP);
	assert_int_equal(r->bytes, 1 << 20);
	assert_int_equal(r->start, 100);
	assert_int_equal(r->end, 200);
	assert_int_equal(r->device, 1);
	assert_int_equal(r->context, 2);
	assert_int_equal(r->stream, 7);
	assert_int_equal(r->correlation, 99);
	assert_null(r->name);
	assert_int_equal(cupti_record_copy_name(r, buf), strlen(name));
	assert_string_equal(buf, name);
}

static void copies_are_named_as_the_pytorch_profiler_does(void **state)
{
	static const size_t sizes[] = {64, 72, 80, 88, 96};
	static const struct {
		uint8_t kind, src, dst;
		const char *name;
	} copies[] = {
		{1, 1, 3, "Memcpy HtoD (Pageable -> Device)"}, {1, 2, 3, "Memcpy HtoD (Pinned -> Device)"},
		{2, 3, 2, "Memcpy DtoH (Device -> Pinned)"},   {8, 3, 3, "Memcpy DtoD (Device -> Device)"},
		{9, 1, 2, "Memcpy HtoH (Pageable -> Pinned)"}, {99, 200, 7, "Memcpy Unknown (Unknown -> Managed Static)"},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (size_t j = 0; j < sizeof(copies) / sizeof(*copies); j++) {
			uint8_t *b = record_new(sizes[i], 1);
			struct cupti_record r;

			copy_fields(b, 44);
			b[4] = copies[j].kind;
			b[5] = copies[j].src;
			b[6] = copies[j].dst;
			cupti_record_read(b, 22, &r);
			check_copy(&r, copies[j].name);
			free(b);
		}
	}
}

static void peer_copies_have_their_correlation_elsewhere(void **state)
{
	static const size_t sizes[] = {72, 80, 88, 96};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint8_t *b = record_new(sizes[i], 22);
		struct cupti_record r;

		copy_fields(b, 60);
		b[4] = 10;
		b[5] = b[6] = 3;
		cupti_record_read(b, 18, &r);
		check_copy(&r, "Memcpy PtoP (Device -> Device)");
		free(b);
	}
}

static void sets_are_read(void **state)
{
	static const size_t sizes[] = {64, 72, 80, 88};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint8_t *b = record_new(sizes[i], 2);
		struct cupti_record r;

		copy_fields(b, 44);
		put(b, 48, 1, 2);
		put(b, 50, 3, 2);
		cupti_record_read(b, 130001, &r);
		check_copy(&r, "Memset (Device)");
		free(b);
	}
}

static void api_records_are_read_and_chosen(void **state)
{
	static const struct {
		uint32_t kind, cbid;
		enum call call;
	} apis[] = {
		{5, 211, CALL_cudaLaunchKernel},   {5, 214, CALL_cudaLaunchKernel}, {5, 31, CALL_cudaMemcpy},
		{5, 41, CALL_cudaMemcpyAsync},	   {5, 505, CALL___cudaLaunchKernel}, {4, 307, CALL_cuLaunchKernel},
		{4, 652, CALL_cuLaunchKernelEx},   {4, 277, CALL_cuMemcpyHtoDAsync}, {4, 211, CALL_NONE},
		{5, 165, CALL_NONE},		   {5, 0, CALL_NONE},		    {5, 1u << 31, CALL_NONE},
	};

	for (size_t i = 0; i < sizeof(apis) / sizeof(*apis); i++) {
		uint8_t *b = record_new(40, apis[i].kind);
		struct cupti_record r;

		put(b, 4, apis[i].cbid, 4);
		put(b, 8, 10, 8);
		put(b, 16, 20, 8);
		put(b, 24, 1, 4);
		put(b, 28, 4242, 4);
		put(b, 32, 77, 4);
		put(b, 36, 2, 4);
		cupti_record_read(b, 22, &r);
		assert_int_equal(r.type, RECORD_API);
		assert_int_equal(r.call, apis[i].call);
		assert_int_equal(r.start, 10);
		assert_int_equal(r.end, 20);
		assert_int_equal(r.tid, 4242);
		assert_int_equal(r.correlation, 77);
		assert_int_equal(r.result, 2);
		free(b);
	}
}

static void overhead_owns_a_block_only_where_the_version_has_one(void **state)
{
	static const struct {
		uint32_t version, overhead;
		size_t size;
		bool owned;
	} cases[] = {{18, 6u << 16, 40, false}, {20, 6u << 16, 48, false}, {22, 6u << 16, 56, true}, {22, 1u << 16, 56, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t *b = record_new(cases[i].size, 17);
		struct cupti_record r;

		put(b, 4, cases[i].overhead, 4);
		put(b, 24, 5, 8);
		put(b, 32, 9, 8);
		if (cases[i].owned)
			put(b, 48, (uintptr_t)state, 8);
		cupti_record_read(b, cases[i].version, &r);
		assert_int_equal(r.type, RECORD_OVERHEAD);
		assert_int_equal(r.end - r.start, 4);
		assert_ptr_equal(r.owned, cases[i].owned ? state : NULL);
		free(b);
	}
}

static void device_names_are_read(void **state)
{
	static const size_t sizes[] = {144, 152, 176, 184};
	static const char name[] = "Some GPU";

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint8_t *b = record_new(sizes[i], 8);
		struct cupti_record r;

		put(b, 112, 5, 4);
		put(b, 136, (uintptr_t)name, 8);
		cupti_record_read(b, 22, &r);
		assert_int_equal(r.type, RECORD_DEVICE);
		assert_int_equal(r.device, 5);
		assert_ptr_equal(r.name, name);
		free(b);
	}
}

static void unknown_kinds_are_left_alone(void **state)
{
	for (uint32_t kind = 0; kind < 80; kind++) {
		struct cupti_record r;
		uint8_t *b;

		if (strchr("\x01\x02\x04\x05\x08\x0a\x11\x16", (int)kind) && kind)
			continue;
		b = record_new(8, kind);
		cupti_record_read(b, 22, &r);
		assert_int_equal(r.type, RECORD_OTHER);
		free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_records_of_all_versions_read_alike),
		cmocka_unit_test(kernel_without_a_name_is_named),
		cmocka_unit_test(copies_are_named_as_the_pytorch_profiler_does),
		cmocka_unit_test(peer_copies_have_their_correlation_elsewhere),
		cmocka_unit_test(sets_are_read),
		cmocka_unit_test(api_records_are_read_and_chosen),
		cmocka_unit_test(overhead_owns_a_block_only_where_the_version_has_one),
		cmocka_unit_test(device_names_are_read),
		cmocka_unit_test(unknown_kinds_are_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
