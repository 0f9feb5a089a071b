# SPDX-License-Identifier: Apache-2.0
BENCH_PROGS := $(O)/tests/bench/calls $(O)/tests/bench/make_trace
$(O)/tests/bench/calls: tests/bench/calls.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -O2 -D_GNU_SOURCE -Wall -Wextra -pthread -o $@ $<
$(O)/tests/bench/make_trace: $(O)/tests/bench/make_trace.o $(O)/libtrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_TRACE) -lm
bench: $(BENCH_PROGS)
