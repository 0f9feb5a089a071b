# SPDX-License-Identifier: Apache-2.0
#
# whyidle. `make help` lists what there is.
#
# Sources are found by folder: trace/*.c shim/*.c analyzer/*.c examples/train/*.c; a new file needs no line here.
#   tests/unit/NAME_test.c   a cmocka program. shim*_test.c link the shim's objects, simgpu_*_test.c the stand-ins,
#                            all others the analyzer and trace. More for one test: LDLIBS_NAME_test, OBJS_NAME_test in tests/unit/unit.mk
#   tests/e2e/NAME_test.sh   run with BUILD (absolute build folder), CC, PYTHON set; exits 0 passed, 1 failed, 77 skipped, 99 harness broken
#   tests/tools/NAME.c       small programs for tests, built to $(O)/tests/NAME, linked with trace only
#   tests/progs/NAME.c       programs that tests run under the shim, built to $(O)/tests/progs/NAME (-pthread, no objects of ours)

O ?= build
V ?= 0
SAN ?=
WERROR ?= 0
PREFIX ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
ifeq ($(origin CC),default)
CC := gcc
endif
PYTHON ?= python3
PKG_CONFIG ?= pkg-config
PROTOC_C ?= protoc-c
AR ?= ar

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-6s %s\n' '$(1)' '$(2)')

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter -Wno-missing-field-initializers
ifeq ($(WERROR),1)
WARN += -Werror
endif
OPT ?= -O2 -g
ifneq ($(SAN),)
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=undefined)
endif
CPPFLAGS_ALL := -I. -I$(O) -D_GNU_SOURCE -DWHYIDLE_VERSION='"$(VERSION)"' $(CPPFLAGS)
CFLAGS_ALL := -std=gnu17 $(OPT) $(WARN) -fPIC -pthread $(SANFLAGS) $(CFLAGS)
LDFLAGS_ALL := -pthread $(SANFLAGS) $(LDFLAGS)

# ---- libraries that are found, and can be forced with WITH_NAME=0 or 1
have = $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo 1 || echo 0)
WITH_JANSSON ?= $(call have,jansson)
WITH_PROTOBUF_C ?= $(call have,libprotobuf-c)
WITH_CMOCKA ?= $(call have,cmocka)
WITH_ZLIB ?= $(call have,zlib)
LIBS_ANALYZER := -ljansson -lz -lm -lstdc++
LIBS_TRACE := -lz
LIBS_TESTS := -lcmocka -lprotobuf-c -ljansson -lz -lm -lstdc++

# ---- sources
TRACE_HOT_SRC := trace/writer.c trace/calls.c
TRACE_SRC := $(wildcard trace/*.c)
SHIM_SRC := $(wildcard shim/*.c)
ANALYZER_SRC := $(wildcard analyzer/*.c)
TRAIN_SRC := $(wildcard examples/train/*.c)
UNIT_SRC := $(wildcard tests/unit/*_test.c)
TOOL_SRC := $(wildcard tests/tools/*.c)
PROG_SRC := $(wildcard tests/progs/*.c)
E2E := $(wildcard tests/e2e/*_test.sh)

obj = $(patsubst %.c,$(O)/%.o,$(1))
PB := $(O)/trace/whyidle.pb-c
GENERATED := $(PB).h

LIBTRACE := $(O)/libtrace.a
LIBANALYZER := $(O)/libanalyzer.a
LIBSHIM := $(O)/libshim.a
SHIM := $(O)/libwhyidle.so
COMMAND := $(O)/whyidle

.PHONY: all
all: $(SHIM) $(COMMAND)

include $(wildcard examples/simgpu/*.mk examples/train/*.mk examples/amp/*.mk tests/*/*.mk)

all: $(SIMGPU_LIBS) $(TRAIN_PROGS)

# ---- compile
$(O)/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(CFLAGS_$(firstword $(subst /, ,$<))) $(CFLAGS_$(basename $(notdir $<))) -MMD -MP -c -o $@ $<

CFLAGS_shim := -fvisibility=hidden -ftls-model=initial-exec -fno-semantic-interposition
$(call obj,$(TRACE_HOT_SRC)): CFLAGS_trace := -fvisibility=hidden

$(PB).c $(PB).h: trace/whyidle.proto
	$(call say,PROTOC,$<)
	@mkdir -p $(@D)
	$(Q)$(PROTOC_C) --c_out=$(O) $<
$(PB).o: $(PB).c
	$(call say,CC,$<)
	$(Q)$(CC) -I$(O) -O2 -g -fPIC $(SANFLAGS) -w -c -o $@ $<

$(LIBTRACE): $(call obj,$(TRACE_SRC))
$(LIBANALYZER): $(call obj,$(filter-out analyzer/main.c,$(ANALYZER_SRC)))
$(LIBSHIM): $(call obj,$(SHIM_SRC))
$(LIBTRACE) $(LIBANALYZER) $(LIBSHIM):
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(SHIM): $(call obj,$(SHIM_SRC) $(TRACE_HOT_SRC)) $(wildcard shim/shim.map)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,libwhyidle.so $(if $(wildcard shim/shim.map),-Wl$(comma)--version-script=shim/shim.map) \
		-Wl,-z,nodelete -Wl,-z,now $(if $(SAN),,-Wl$(comma)-z$(comma)defs -Wl$(comma)--as-needed) -o $@ $(filter %.o,$^)
comma := ,

$(COMMAND): $(call obj,analyzer/main.c) $(LIBANALYZER) $(LIBTRACE)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ANALYZER)

# ---- tests
UNIT := $(patsubst %.c,$(O)/%,$(UNIT_SRC))
TOOLS := $(patsubst tests/tools/%.c,$(O)/tests/%,$(TOOL_SRC))
PROGS := $(patsubst tests/progs/%.c,$(O)/tests/progs/%,$(PROG_SRC))

unit_libs = $(if $(filter shim%,$(1)),$(LIBSHIM),$(if $(filter simgpu_%,$(1)),,$(LIBANALYZER)))
.SECONDEXPANSION:
$(UNIT): $(O)/%: $(O)/%.o $$(OBJS_$$(notdir $$*)) $$(call unit_libs,$$(notdir $$*)) $(LIBTRACE) $(PB).o
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS_$(notdir $*)) $(LIBS_TESTS)
$(call obj,$(UNIT_SRC)): | $(GENERATED)

$(TOOLS): $(O)/tests/%: $(O)/tests/tools/%.o $(LIBTRACE)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_TRACE) -lm

$(PROGS): $(O)/tests/progs/%: tests/progs/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(filter-out $(SANFLAGS),$(CFLAGS_ALL)) -o $@ $< $(LDLIBS_$*) -pthread

.PHONY: tests unit check
tests: all $(UNIT) $(TOOLS) $(PROGS) $(TEST_EXTRA)
unit: tests
	$(Q)BUILD=$(abspath $(O)) CC="$(CC)" PYTHON="$(PYTHON)" SAN="$(SAN)" tests/run.sh $(UNIT)
check: tests
	$(Q)BUILD=$(abspath $(O)) CC="$(CC)" PYTHON="$(PYTHON)" SAN="$(SAN)" tests/run.sh $(UNIT) $(E2E)

# ---- everything, as .ci/run and the README say
.PHONY: deps test test-all
deps:
	$(Q)tests/deps.sh build
test:
	$(Q)tests/deps.sh test
	$(Q)CC="$(CC)" O="$(O)" $(MAKE) --no-print-directory test-all

# The suite with warnings as errors; then the same tests under clang and under each sanitizer, in folders of their own.
# A build with sanitizers leaves out what measures time or needs PyTorch (E2E_SAN).
E2E_SAN ?= $(if $(findstring thread,$(SAN)),$(E2E_THREAD),$(filter-out %pytorch_test.sh $(E2E_NOT_ADDRESS),$(E2E)))
# Not green under AddressSanitizer yet: a run within a run, and forks in the middle of calls (one of 21 children left no trace).
E2E_NOT_ADDRESS := $(patsubst %,tests/e2e/%_test.sh,cli_run shim_life)
# ThreadSanitizer's runtime takes part in every libc call that the shim wraps and in every fork, and reports on both: recorded jobs are left out there;
# the shim's threads meet in the unit tests.
E2E_THREAD := $(patsubst %,tests/e2e/%_test.sh,train reader_corpus perfetto_writer kineto)
test-all:
	$(Q)O=$(abspath $(O)) tests/suite.sh

# ---- the demo
.PHONY: demo
demo: deps
	$(Q)$(MAKE) --no-print-directory O=$(O) all
	$(Q)BUILD=$(abspath $(O)) examples/demo.sh

.PHONY: bench
bench: tests
	$(Q)BUILD=$(abspath $(O)) PYTHON="$(PYTHON)" tests/bench/run.sh

# ---- install
bindir = $(DESTDIR)$(PREFIX)/bin
libdir = $(DESTDIR)$(PREFIX)/lib/whyidle
docdir = $(DESTDIR)$(PREFIX)/share/doc/whyidle
.PHONY: install uninstall
install: all
	install -d $(bindir) $(libdir) $(docdir)
	install -m 755 $(COMMAND) $(bindir)/whyidle
	install -m 755 $(SHIM) $(libdir)/libwhyidle.so
	install -m 644 README.md trace/vocabulary.md $(docdir)
	$(if $(SIMGPU_LIBS),install -d $(libdir)/simgpu && cp -P $(O)/simgpu/lib*.so* $(libdir)/simgpu)
uninstall:
	rm -f $(bindir)/whyidle
	rm -rf $(libdir) $(docdir)

.PHONY: features
features:
	@echo "compiler     $(CC): $$($(CC) --version | head -n 1)"
	@echo "jansson      $(WITH_JANSSON)   (needed: report)"
	@echo "zlib         $(WITH_ZLIB)   (needed: reading compressed traces)"
	@echo "protobuf-c   $(WITH_PROTOBUF_C)   (needed: tests hold the hand-written writer against it)"
	@echo "cmocka       $(WITH_CMOCKA)   (needed: tests)"

.PHONY: help
help:
	@echo 'make demo         install what is missing, build, profile a simulated 2-rank training job, print why its GPUs were idle'
	@echo 'make test         install everything else and run all tests (gcc, clang, sanitizers, Perfetto, PyTorch)'
	@echo 'make              build: $(COMMAND), $(SHIM), the software GPU and the example training program'
	@echo 'make check        unit and end-to-end tests of this build only;  make unit: the unit tests only'
	@echo 'make bench        measured costs beside their budgets'
	@echo 'make scenarios    each scenario of examples/train against the truth it injected'
	@echo 'make install      to DESTDIR and PREFIX ($(PREFIX));  make uninstall takes it away again'
	@echo 'make features     which libraries were found;  make deps: install what the build needs (Debian)'
	@echo 'make clean'
	@echo
	@echo 'O=folder  build elsewhere      CC=clang   SAN=address,undefined | thread    WERROR=1    V=1 shows commands'

# What a build with sanitizers runs.
.PHONY: check-san
check-san: tests
	$(Q)BUILD=$(abspath $(O)) CC="$(CC)" PYTHON="$(PYTHON)" SAN="$(SAN)" tests/run.sh $(UNIT) $(E2E_SAN)

.PHONY: clean
clean:
	$(Q)rm -rf $(O)

-include $(shell find $(O) -name '*.d' 2>/dev/null)
