# SPDX-License-Identifier: Apache-2.0
#
# The software GPU. libsimgpu.so is the device; the others are its faces under NVIDIA's names, with their sonames and
# version nodes, found by each other through $ORIGIN.

SIMGPU_DIR := $(O)/simgpu
SIMGPU_CORE_SRC := $(addprefix examples/simgpu/,clock.c call.c device.c op.c stream.c memory.c kernel.c)
SIMGPU_CUDART_SRC := $(wildcard examples/simgpu/cudart_*.c)
SIMGPU_CUPTI_SRC := $(wildcard examples/simgpu/cupti_*.c)
SIMGPU_CUDA_SRC := $(wildcard examples/simgpu/cuda_*.c)
SIMGPU_NCCL_SRC := $(wildcard examples/simgpu/nccl_*.c)

SIMGPU_LIBS := $(SIMGPU_DIR)/libsimgpu.so $(SIMGPU_DIR)/libcuda.so.1 $(SIMGPU_DIR)/libcudart.so.12 $(if $(SIMGPU_CUPTI_SRC),$(SIMGPU_DIR)/libcupti.so.12) \
	$(if $(SIMGPU_NCCL_SRC),$(SIMGPU_DIR)/libnccl.so.2)

simgpu_obj = $(patsubst %.c,$(O)/%.o,$(1))

$(SIMGPU_DIR)/libsimgpu.so: $(call simgpu_obj,$(SIMGPU_CORE_SRC))
$(SIMGPU_DIR)/libcuda.so.1: $(call simgpu_obj,$(SIMGPU_CUDA_SRC)) $(SIMGPU_DIR)/libsimgpu.so examples/simgpu/cuda.map
$(SIMGPU_DIR)/libcudart.so.12: $(call simgpu_obj,$(SIMGPU_CUDART_SRC)) $(SIMGPU_DIR)/libsimgpu.so examples/simgpu/cudart.map
$(SIMGPU_DIR)/libcupti.so.12: $(call simgpu_obj,$(SIMGPU_CUPTI_SRC)) $(SIMGPU_DIR)/libsimgpu.so examples/simgpu/cupti.map
$(SIMGPU_DIR)/libnccl.so.2: $(call simgpu_obj,$(SIMGPU_NCCL_SRC)) $(SIMGPU_DIR)/libsimgpu.so examples/simgpu/nccl.map

# The link name (libcudart.so) stands beside the library. NVIDIA links the CUDA libraries -Bsymbolic, NCCL not: some of its
# calls to its own functions can be seen by a preload.
$(SIMGPU_LIBS):
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,$(@F) $(if $(filter %libnccl.so.2,$@),,-Wl$(comma)-Bsymbolic) $(addprefix -Wl$(comma)--version-script=,$(filter %.map,$^)) \
		$(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-z,nodelete -Wl,-rpath,'$$ORIGIN' -o $@ $(filter %.o,$^) $(filter %.so,$^) -lm
	$(Q)$(if $(filter %.so,$@),,ln -sf $(@F) $(basename $@))

# For programs that use it: LDLIBS_... += $(SIMGPU_LINK), run-time path relative to the build folder's depth.
SIMGPU_LINK = -L$(SIMGPU_DIR) -Wl,-rpath-link,$(SIMGPU_DIR) -lnccl -lcudart

LDLIBS_simgpu_cudart_test = -L$(SIMGPU_DIR) -lcudart -lsimgpu -Wl,-rpath,'$$ORIGIN/../../simgpu'
LDLIBS_simgpu_cupti_test = -L$(SIMGPU_DIR) -lcupti -lcudart -lsimgpu -Wl,-rpath,'$$ORIGIN/../../simgpu'
LDLIBS_simgpu_nccl_test = -L$(SIMGPU_DIR) -lnccl -lcupti -lcudart -lsimgpu -Wl,-rpath,'$$ORIGIN/../../simgpu'
$(patsubst %.c,$(O)/%,$(wildcard tests/unit/simgpu_*_test.c)): $(SIMGPU_LIBS)
