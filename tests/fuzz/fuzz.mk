# SPDX-License-Identifier: Apache-2.0
#
# $(O)/tests/fuzz/reader_replay runs the fuzz target over files (part of `make tests`, with any compiler and sanitizer).
# make fuzz-reader [SECONDS=60] looks for new ones with clang's libFuzzer; what it finds lies in $(O)/fuzz and belongs,
# once it is mended, into tests/corpus/bad.

SECONDS ?= 60
FUZZ_REPLAY := $(O)/tests/fuzz/reader_replay
TEST_EXTRA += $(FUZZ_REPLAY)

$(FUZZ_REPLAY): $(O)/tests/fuzz/reader_fuzz.o $(O)/tests/fuzz/replay.o $(O)/libtrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_TRACE) -lm

.PHONY: fuzz-reader
fuzz-reader: $(O)/tests/richtrace
	@mkdir -p $(O)/fuzz/corpus
	$(Q)clang -std=gnu17 -g -O1 -D_GNU_SOURCE -I. -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-o $(O)/fuzz/reader tests/fuzz/reader_fuzz.c $(TRACE_SRC) -lz -lm
	$(Q)$(O)/tests/richtrace $(O)/fuzz/corpus && rm -f $(O)/fuzz/corpus/*.json
	$(Q)cd $(O)/fuzz && ./reader -max_total_time=$(SECONDS) -rss_limit_mb=3000 -timeout=10 -max_len=65536 corpus $(CURDIR)/tests/corpus/bad
