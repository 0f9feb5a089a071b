#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A job that hangs in CUDA or NCCL and is killed: its trace shows the call that it hung in, as a slice that never ends.
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
$CC $SANITIZE -I"$root" -w "$here/hang.c" -o "$tmp/hang" -L"$sim" -lnccl -lcudart -lsimgpu -Wl,-rpath,"$sim" -pthread || exit 99

# hang HOW SECONDS CALL: CUPTI's own calls (copies) are shown only after a second, since CUPTI shows them when they end
hang() {
	mkdir "$tmp/$1"
	timeout -s KILL "$2" env LD_PRELOAD="$PRELOAD" WHYIDLE_DIR="$tmp/$1" "$tmp/hang" "$1" 2>/dev/null
	"$BUILD/tests/tracecat" "$tmp/$1"/*.pftrace >"$tmp/cat"
	[ $? -le 1 ] || failed=1	# the last packet may be cut
	(cd "$here" && "$PYTHON" -B -c '
import sys
from check import Trace
t = Trace(sys.stdin)
slices = [s for s in t.slices if s["name"] == sys.argv[1]]
print("%s: %d, without end %d" % (sys.argv[1], len(slices), len([s for s in slices if s["end"] is None])))
sys.exit(0 if len(slices) == 1 and slices[0]["end"] is None else 1)' "$3") <"$tmp/cat" || failed=1
}
hang sync 1.5 cudaDeviceSynchronize
hang copy 2.5 cudaMemcpy
hang init 1.5 ncclCommInitRank
exit $failed
