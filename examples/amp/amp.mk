# SPDX-License-Identifier: Apache-2.0
#
# The loss scalers in C, linked as examples/train is.

AMP_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard examples/amp/*.c)) $(O)/examples/train/util.o
TRAIN_PROGS += $(O)/amp

$(O)/amp: $(AMP_OBJ) | $(SIMGPU_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -Wl,--enable-new-dtags -Wl,-rpath,'$$ORIGIN:$$ORIGIN/simgpu' -Wl,-rpath-link,$(O)/simgpu -o $@ $(AMP_OBJ) \
		-Wl,--no-as-needed -L$(O)/simgpu -l:libcudart.so.12 -l:libnccl.so.2 -lm -ldl
