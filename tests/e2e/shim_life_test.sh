#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The unpleasant things that a traced process may do (tests/progs/shim_life.c): it must end as it would without the shim, and leave the
# trace that it should.
set -u
. "$(dirname "$0")/preload.sh"
[ -x "$BUILD/tests/progs/shim_life" ] && [ -x "$BUILD/tests/tracecat" ] && [ -e "$BUILD/libwhyidle.so" ] || exit 99
exec "${PYTHON:-python3}" "$(dirname "$0")/shim_life.py" "$BUILD"
