# SPDX-License-Identifier: Apache-2.0
#
# The C training loop, linked with the names of NVIDIA's libraries (here: the stand-ins of examples/simgpu) and with the slow disk.

TRAIN_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard examples/train/*.c))
SLOWDISK := $(O)/libslowdisk.so
TRAIN_PROGS := $(O)/train $(SLOWDISK)

$(SLOWDISK): $(O)/examples/train/slowdisk/slowdisk.o
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,libslowdisk.so -o $@ $^ -ldl

# The run path makes the program start without `--sim` too; LD_LIBRARY_PATH comes before it, so that the real libraries can take their place.
$(O)/train: $(TRAIN_OBJ) $(SLOWDISK) | $(SIMGPU_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -Wl,--enable-new-dtags -Wl,-rpath,'$$ORIGIN:$$ORIGIN/simgpu' -Wl,-rpath-link,$(O)/simgpu -o $@ $(TRAIN_OBJ) \
		-Wl,--no-as-needed $(SLOWDISK) -L$(O)/simgpu -l:libcudart.so.12 -l:libnccl.so.2 -lm -ldl
