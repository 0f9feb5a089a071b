#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Four ranks over the software NCCL: each call once, under one key for all ranks of a communicator, in order, with the kernels they launched.
set -u
here=$(dirname "$0")/gpu
root=$(dirname "$0")/../..
sim=$BUILD/simgpu
[ -e "$sim/libnccl.so.2" ] || { echo "no software NCCL here"; exit 77; }
[ -x "$BUILD/tests/tracecat" ] || exit 99
. "$(dirname "$0")/preload.sh"
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
failed=0

$CC $SANITIZE -I"$root" -w "$here/collectives.c" -o "$tmp/collectives" -L"$sim" -lnccl -lcudart -lsimgpu -Wl,-rpath,"$sim" -pthread || exit 99
for version in 18 22 130001; do
	mkdir "$tmp/$version"
	timeout 100 env LD_PRELOAD="$PRELOAD" WHYIDLE_DIR="$tmp/$version" SIMGPU_CUPTI_VERSION=$version \
		"$tmp/collectives" >"$tmp/$version.out" 2>"$tmp/err"
	rc=$?
	if [ $rc -ne 0 ] || [ -s "$tmp/err" ]; then
		echo "CUPTI $version: exit $rc"; cat "$tmp/err"; failed=1
		continue
	fi
	"$PYTHON" "$here/check_nccl.py" "$tmp/$version.out" "$BUILD/tests/tracecat" "$tmp/$version"/*.pftrace || failed=1
done
exit $failed
