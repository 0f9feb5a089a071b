/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of cuda.def and nccl.def: each is exported by the library, nothing else of that name is, each answers as if absent when no
 * CUDA or NCCL is there; and the keys of communicators.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/cuda.h"
#include "shim/cuda_abi.h"
#include "shim/cuda_kernels.h"
#include "shim/nccl.h"
#include "shim/nccl_comm.h"
#include "trace/calls.h"

static bool is_row(const char *name)
{
	const char *have;

	for (unsigned int i = 0; (have = cuda_wrapped(i)); i++)
		if (!strcmp(have, name))
			return true;
	for (unsigned int i = 0; (have = nccl_wrapped(i)); i++)
		if (!strcmp(have, name))
			return true;
	return false;
}

static void library_path(char *path)
{
	char self[PATH_MAX] = "";

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	snprintf(path, PATH_MAX, "%s/../../libwhyidle.so", dirname(self));
}

static void exported_names_are_the_rows(void **state)
{
	char path[PATH_MAX], command[PATH_MAX + 64], name[256];
	unsigned int exported = 0, rows = 0;
	FILE *nm;

	library_path(path);
	if (access(path, R_OK))
		skip();
	snprintf(command, sizeof(command), "nm -D --defined-only '%s'", path);
	nm = popen(command, "r");
	assert_non_null(nm);
	while (fscanf(nm, "%*s %*s %255s", name) == 1) {
		if (strncmp(name, "cuda", 4) && strncmp(name, "__cuda", 6) && strncmp(name, "nccl", 4) && strncmp(name, "pnccl", 5) &&
		    strncmp(name, "cupti", 5))
			continue;
		if (!is_row(name))
			fail_msg("%s is exported but no row", name);
		exported++;
	}
	pclose(nm);
	while (cuda_wrapped(rows))
		rows++;
	for (unsigned int i = 0; nccl_wrapped(i); i++)
		rows++;
	assert_int_equal(exported, rows);
}

/* All parameters are words (or structs of words in memory), so that zeroes serve every signature. */
static int call_with_zeroes(void *f)
{
	int (*g)(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long,
		 long, long, long, long) = f;

	return g(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void every_wrapper_answers_without_its_library(void **state)
{
	char path[PATH_MAX];
	const char *name;
	void *library;

	library_path(path);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		skip();
	for (unsigned int i = 0; (name = cuda_wrapped(i)); i++) {
		void *f = dlsym(library, name);

		assert_non_null(f);
		if (strcmp(name, "__cudaRegisterFunction"))
			assert_int_equal(call_with_zeroes(f), CUDA_SYMBOL_MISSING);
		else
			call_with_zeroes(f);
	}
	for (unsigned int i = 0; (name = nccl_wrapped(i)); i++) {
		void *f = dlsym(library, name);

		assert_non_null(f);
		assert_int_equal(call_with_zeroes(f), NCCL_INVALID_USAGE);
	}
}

static void every_row_of_nccl_is_a_call(void **state)
{
	const char *name;

	for (unsigned int i = 0; (name = nccl_wrapped(i)); i++)
		assert_int_not_equal(call_by_name(name, strlen(name)), CALL_NONE);
}

static void kernels_are_found_by_stub(void **state)
{
	static char stubs[20000];

	assert_null(cuda_kernels_name(NULL));
	assert_null(cuda_kernels_name(&stubs[0]));
	for (size_t i = 0; i < sizeof(stubs); i++)
		cuda_kernels_add(&stubs[i], (const char *)&stubs[sizeof(stubs) - 1 - i]);
	for (size_t i = 0; i < sizeof(stubs); i++)
		assert_ptr_equal(cuda_kernels_name(&stubs[i]), &stubs[sizeof(stubs) - 1 - i]);
	cuda_kernels_add(&stubs[5], "again");
	assert_string_equal(cuda_kernels_name(&stubs[5]), "again");
	cuda_kernels_add(&stubs[6], NULL);
	cuda_kernels_add(NULL, "nobody");
	assert_null(cuda_kernels_name(NULL));
}

static void communicator_keys_agree_on_all_ranks(void **state)
{
	static char ranks[3], halves[3];
	struct nccl_unique_id id = {"the same 128 bytes everywhere"}, other = {"the same 128 bytes everywhere"};
	struct nccl_comm_info info;
	uint64_t key = nccl_comm_key_id(&id), split = 0, split_again = 0;

	other.bytes[127] = 1;
	assert_true(key && key != nccl_comm_key_id(&other));
	for (uint32_t r = 0; r < 3; r++)
		nccl_comm_add(&ranks[r], &(struct nccl_comm_info){nccl_comm_key_id(&id), r, 3});
	for (uint32_t r = 0; r < 3; r++) {
		uint64_t first = nccl_comm_key_child(&ranks[r], 0), second = nccl_comm_key_child(&ranks[r], 0);

		assert_true(first && first != second && first != key);
		assert_true(!r || (first == split && second == split_again));
		split = first;
		split_again = second;
		nccl_comm_get(&ranks[r], &info);
		assert_true(info.key == key && info.rank == r && info.nranks == 3);
	}
	assert_true(nccl_comm_key_child(&ranks[0], 1) != nccl_comm_key_child(&ranks[1], 2));
	assert_int_equal(nccl_comm_next(&ranks[0]), 1);
	assert_int_equal(nccl_comm_next(&ranks[0]), 2);
	assert_int_equal(nccl_comm_next(&ranks[1]), 1);
	nccl_comm_get(&halves[0], &info);	/* one we did not see being made */
	assert_true(!info.key && info.rank == UINT32_MAX);
	assert_int_equal(nccl_comm_next(&halves[0]), 1);
	assert_int_equal(nccl_comm_key_child(&halves[0], 0), 0);
	nccl_comm_learn(&halves[0], &(struct nccl_comm_info){0, 1, 2});
	nccl_comm_get(&halves[0], &info);
	assert_true(info.rank == 1 && info.nranks == 2);
}

static void communicators_come_and_go_without_end(void **state)
{
	static char comms[NCCL_COMMS / 2];

	for (int round = 0; round < 10; round++) {
		for (size_t i = 0; i < sizeof(comms); i++) {
			nccl_comm_add(&comms[i], &(struct nccl_comm_info){i + 1, 0, 1});
			assert_int_equal(nccl_comm_next(&comms[i]), 1);
		}
		for (size_t i = 0; i < sizeof(comms); i++) {
			assert_int_equal(nccl_comm_next(&comms[i]), 2);
			nccl_comm_forget(&comms[i]);
		}
	}
	assert_int_equal(nccl_comm_next(&comms[0]), 0);
}

static void element_sizes_are_those_of_nccl(void **state)
{
	static const unsigned int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	for (int i = 0; i < 12; i++)
		assert_int_equal(nccl_dtype_bytes(i), sizes[i]);
	assert_int_equal(nccl_dtype_bytes(-1), 0);
	assert_int_equal(nccl_dtype_bytes(12), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exported_names_are_the_rows),
		cmocka_unit_test(every_wrapper_answers_without_its_library),
		cmocka_unit_test(every_row_of_nccl_is_a_call),
		cmocka_unit_test(kernels_are_found_by_stub),
		cmocka_unit_test(communicator_keys_agree_on_all_ranks),
		cmocka_unit_test(communicators_come_and_go_without_end),
		cmocka_unit_test(element_sizes_are_those_of_nccl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
