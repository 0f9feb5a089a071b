#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A program makes calls of every family and says itself what the trace must hold (tests/progs/shim_calls.c).
set -u
. "$(dirname "$0")/preload.sh"
[ -x "$BUILD/tests/progs/shim_calls" ] && [ -x "$BUILD/tests/tracecat" ] && [ -e "$BUILD/libwhyidle.so" ] || exit 99
exec "${PYTHON:-python3}" "$(dirname "$0")/shim_record.py" "$BUILD"
