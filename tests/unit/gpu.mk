# SPDX-License-Identifier: Apache-2.0
#
# gpu_write_test stands in for the drain, so it takes single objects of the shim: the archive would bring the drain along with its
# wrappers of libc.
OBJS_gpu_write_test := $(patsubst %,$(O)/shim/%.o,cupti_write cupti_record cupti_clock cupti_lanes strings)
