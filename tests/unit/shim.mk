# SPDX-License-Identifier: Apache-2.0
#
# ThreadSanitizer's runtime calls mmap and its kin before it is ready, and these are ours in a program that the shim is linked into: the wrappers
# themselves, up to where a span begins, are compiled without it.
ifneq ($(findstring thread,$(SAN)),)
$(foreach f,wrap_file wrap_net wrap_wait wrap_proc rows resolve vfork,$(eval CFLAGS_$(f) := -fno-sanitize=thread))
CFLAGS_emit := -Wno-tsan
endif
