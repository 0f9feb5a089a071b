#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# NVIDIA's own libcudart and libcupti, as far as they go on this machine: the program sees the same answers with the shim as without,
# and the trace says why there is no GPU in it. WHYIDLE_CUDART names further libcudart files.
set -u
here=$(dirname "$0")/gpu
. "$(dirname "$0")/preload.sh"
[ -x "$BUILD/tests/tracecat" ] || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
found=0 failed=0

for cudart in $(ls /usr/local/cuda*/lib64/libcudart.so.[0-9]* 2>/dev/null | grep -E 'so\.[0-9]+$') ${WHYIDLE_CUDART:-}; do
	[ -e "$cudart" ] || continue
	found=$((found + 1))
	rm -rf "$tmp/session" && mkdir "$tmp/session"
	$CC -w "$here/nodriver.c" -o "$tmp/nodriver" "$cudart" -Wl,-rpath,"$(dirname "$cudart")" || exit 99
	timeout 60 "$tmp/nodriver" >"$tmp/bare" 2>&1
	bare=$?
	timeout 60 env LD_PRELOAD="$PRELOAD" WHYIDLE_DIR="$tmp/session" "$tmp/nodriver" >"$tmp/shim" 2>&1
	shim=$?
	if [ $bare -ne $shim ] || ! cmp -s "$tmp/bare" "$tmp/shim"; then
		echo "$cudart: exit $bare without, $shim with the shim"
		diff "$tmp/bare" "$tmp/shim"
		failed=1
	fi
	"$BUILD/tests/tracecat" "$tmp/session"/*.pftrace >"$tmp/cat" || failed=1
	echo "$cudart: $(grep -o 'whyidle.gpu=.*' "$tmp/cat" | tail -n 1)"
	grep -q 'attribute whyidle.gpu="\(cupti\|none: \)' "$tmp/cat" || failed=1
	grep -q 'begin "cudaMalloc" .*errno=' "$tmp/cat" || grep -q 'whyidle.gpu="cupti"' "$tmp/cat" || { echo "no failed cudaMalloc"; failed=1; }
done
[ $found -gt 0 ] || { echo "no libcudart on this machine"; exit 77; }
exit $failed
