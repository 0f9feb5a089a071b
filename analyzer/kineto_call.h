/* SPDX-License-Identifier: Apache-2.0
 *
 * What names in a profiler trace are in the words of calls.def: HIP's and newer CUDA calls, collectives by their PyTorch name.
 */
#ifndef WHYIDLE_ANALYZER_KINETO_CALL_H
#define WHYIDLE_ANALYZER_KINETO_CALL_H

#include "trace/calls.h"

/* The call of calls.def that works like the runtime or driver call `name`; CALL_NONE = a call that takes no notable time of its own kind. */
enum call kineto_call(const char *name);

/* "nccl:all_reduce", "_allgather_base", "send 0->1" ... -> ncclAllReduce and so on; CALL_NONE = not a collective (init, wait). */
enum call kineto_collective(const char *name);

#endif
