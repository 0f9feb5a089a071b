#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The demo: a simulated training job on two ranks with three troubles at once, profiled by one command.
# BUILD = build folder; further arguments go to the training program (for instance --scenario healthy).
set -eu
BUILD=${BUILD:-build}
session=${SESSION:-whyidle-demo}
rm -rf "$session"
[ $# -gt 0 ] || set -- --scenario mixed --steps 60 --ranks 2
echo "\$ whyidle run --sim -o $session -- train $*"
"$BUILD/whyidle" run --sim -o "$session" -- "$BUILD/train" "$@"
