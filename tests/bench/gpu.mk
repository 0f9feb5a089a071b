# SPDX-License-Identifier: Apache-2.0
BENCH_PROGS += $(O)/tests/bench/gpu_records $(O)/tests/bench/gpu_calls
GPU_RECORDS_OBJ := $(patsubst %,$(O)/%.o,tests/bench/gpu_records shim/cupti_write shim/cupti_record shim/cupti_clock shim/cupti_lanes \
	shim/strings trace/writer trace/calls)
$(O)/tests/bench/gpu_records: $(GPU_RECORDS_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^
$(O)/tests/bench/gpu_calls: $(O)/tests/bench/gpu_calls.o | $(SIMGPU_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ -L$(O)/simgpu -lcudart -Wl,-rpath,'$$ORIGIN/../../simgpu'
bench: $(O)/tests/bench/gpu_records $(O)/tests/bench/gpu_calls
