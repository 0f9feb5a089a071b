#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The command in a build with sanitizers (tests/e2e/preload.sh): it is told of the runtime that has to be first in its job, and may leak nothing
# when there is no job that would inherit the question.
case ${1:-} in
run) export LD_PRELOAD="$RUNTIME" ;;
*) export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=1" ;;
esac
exec "$BUILD/whyidle" "$@"
