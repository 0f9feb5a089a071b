#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A program on the software GPU under the shim: every kernel, copy and set is in the trace once, with its stream, bytes and the call that
# launched it, in each record layout, however the runtime was loaded and however the program ends.
set -u
here=$(dirname "$0")/gpu
root=$(dirname "$0")/../..
shim=$BUILD/libwhyidle.so sim=$BUILD/simgpu
[ -e "$sim/libcupti.so.12" ] || { echo "no software GPU here"; exit 77; }
[ -x "$BUILD/tests/tracecat" ] || exit 99
. "$(dirname "$0")/preload.sh"
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
failed=0

link="-L$sim -lcudart -lsimgpu -Wl,-rpath,$sim -pthread"
$CC $SANITIZE -I"$root" -w "$here/work.c" -o "$tmp/work" $link || exit 99
$CC $SANITIZE -I"$root" -w -shared -fPIC -DAS_LIBRARY "$here/work.c" -o "$tmp/work.so" $link || exit 99
$CC $SANITIZE -w "$here/host.c" -o "$tmp/host" -ldl || exit 99

# run NAME MODE-OF-CHECK ENVIRONMENT... -- COMMAND...
run() {
	name=$1 check=$2
	shift 2
	environment=
	while [ "$1" != -- ]; do environment="$environment $1" && shift; done
	shift
	mkdir "$tmp/$name"
	timeout 60 env LD_PRELOAD="${preload-$PRELOAD}" WHYIDLE_DIR="$tmp/$name" $environment "$@" >"$tmp/$name.out" 2>"$tmp/$name.err"
	rc=$?
	if [ $rc -ne 0 ] || [ -s "$tmp/$name.err" ]; then
		echo "$name: exit $rc"; cat "$tmp/$name.err"; failed=1
		return
	fi
	echo "$name:"
	child=$(sed -n 's/^child|//p' "$tmp/$name.out")
	for trace in "$tmp/$name"/*.pftrace; do
		mode=$check
		case $trace in *."${child:-none}".*) mode=child ;; esac
		"$BUILD/tests/tracecat" "$trace" >"$tmp/cat" || failed=1
		"$PYTHON" "$here/check.py" "$tmp/$name.out" $mode <"$tmp/cat" || failed=1
	done
}

for version in 18 22 130001; do
	run version-$version cupti SIMGPU_CUPTI_VERSION=$version -- "$tmp/work"
done
run private cupti SIMGPU_CUPTI_VERSION=22 -- "$tmp/host" "$tmp/work.so"
run few-buffers cupti WHYIDLE_CUPTI_BUFFERS=4 -- "$tmp/work"
run long-kernel cupti A=b -- "$tmp/work" long
run longer-kernel cupti A=b -- "$tmp/work" longer
run fork cupti A=b -- "$tmp/work" fork
run end-by-_exit cupti A=b -- "$tmp/work" _exit
run unfinished cupti A=b -- "$tmp/work" unfinished
run missing-function cupti A=b -- "$tmp/work" missing
run held wrappers SIMGPU_CUPTI_BUSY=1 -- "$tmp/work"
run off wrappers WHYIDLE_GPU=off -- "$tmp/work"
run injected wrappers CUDA_INJECTION64_PATH=/opt/tool/libtool.so -- "$tmp/work"
run injected-on cupti CUDA_INJECTION64_PATH=/opt/tool/libtool.so WHYIDLE_GPU=on -- "$tmp/work"
preload=$RUNTIME
run by-the-driver injected INJECT="$shim" -- "$tmp/host" "$tmp/work.so"
unset preload
run both-ways cupti INJECT="$shim" -- "$tmp/host" "$tmp/work.so"
run bad-path wrappers WHYIDLE_CUPTI=/nowhere/libcupti.so -- "$tmp/work"

# More launches than four buffers hold: what is not in the trace is counted.
mkdir "$tmp/storm"
$CC $SANITIZE -O2 -I"$root" -w "$here/storm.c" -o "$tmp/storm.bin" $link || exit 99
timeout 100 env LD_PRELOAD="$PRELOAD" WHYIDLE_DIR="$tmp/storm" WHYIDLE_CUPTI_BUFFERS=4 SIMGPU_LAUNCH_US=0 "$tmp/storm.bin" 2 40000 >/dev/null || failed=1
"$BUILD/tests/tracecat" "$tmp/storm"/*.pftrace >"$tmp/cat" || failed=1
there=$(grep -c 'begin "_Z5stormv"\|begin "\(cu\|cuda\)LaunchKernel"' "$tmp/cat")
dropped=$(sed -n 's/.*attribute whyidle.dropped=//p' "$tmp/cat" | tail -n 1)
echo "storm: $there events of 160000 there, $dropped dropped"
[ $((there + dropped)) -ge 160000 ] || { echo "lost without being counted"; failed=1; }

# Perfetto's own parser has nothing to complain about.
if command -v node >/dev/null && [ -f "$BUILD/perfetto/package/done" ]; then
	node "$root/tests/perfetto/judge.mjs" "$BUILD/perfetto/package" --allow traced_buf_sequence_packet_loss "$tmp"/*/*.pftrace || failed=1
else
	echo "not judged by Perfetto: make perfetto-judge fetches it"
fi
exit $failed
