#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A runtime that is opened after the start and called by dlsym, so that no wrapper sees a call: it is noticed while the program runs, and where that
# comes too late the report says so. One that is only mapped is left alone, and stays usable in the child of a fork.
set -u
here=$(dirname "$0")/gpu
shim=$BUILD/libwhyidle.so sim=$BUILD/simgpu
[ -e "$sim/libcuda.so.1" ] || { echo "no software GPU here"; exit 77; }
[ -x "$BUILD/tests/tracecat" ] || exit 99
case ${SAN:-} in "") ;; *) echo "the shim is not preloaded under sanitizers here"; exit 77 ;; esac
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
$CC -w "$here/late.c" -o "$tmp/late" -ldl || exit 99
failed=0

# run MODE: prints the last value of whyidle.gpu of each process and the number of copies in the trace
run() {
	mkdir "$tmp/$1"
	timeout 60 env LD_PRELOAD="$shim" WHYIDLE_DIR="$tmp/$1" "$tmp/late" "$sim/libcudart.so.12" "$1" >"$tmp/$1.out" 2>&1
	rc=$?
	[ $rc -eq 0 ] && [ ! -s "$tmp/$1.out" ] || { echo "$1: exit $rc"; cat "$tmp/$1.out"; failed=1; }
	gpu=
	copies=0
	for trace in "$tmp/$1"/*.pftrace; do
		[ -e "$trace" ] || continue
		"$BUILD/tests/tracecat" "$trace" >"$tmp/cat" || failed=1
		gpu="$gpu$(sed -n 's/.*attribute.* whyidle.gpu=//p' "$tmp/cat" | tail -n 1)|"
		copies=$((copies + $(grep -c 'begin "Memcpy HtoD' "$tmp/cat")))
	done
	echo "$1: $gpu $copies copies"
}
fail() {
	echo "FAIL: $*"
	failed=1
}

run quiet
case $gpu in *"called in a way that is not seen"*) ;; *) fail "a program that used CUDA unseen does not say so" ;; esac
"$BUILD/whyidle" report "$tmp/quiet" >"$tmp/report"
tr -s '\n ' '  ' <"$tmp/report" | grep -q "CUDA was loaded later and called in a way that is not seen" || { fail "the report does not say it"; cat "$tmp/report"; }

run sleeps
case $gpu in *cupti*) ;; *) fail "CUDA in use was not noticed" ;; esac
# 100 copies in 500 ms; it is looked for every 100 ms
[ "$copies" -ge 40 ] || fail "only $copies of 100 copies were recorded"
[ "$copies" -le 100 ] || fail "$copies copies of 100 were recorded"

run unused
[ "$gpu" = "|" ] || fail "a runtime that is not used: $gpu"

run child
case $gpu in *cupti*) ;; *) fail "the child's use was not noticed" ;; esac
[ "$copies" -ge 40 ] || fail "only $copies of the child's 100 copies were recorded"
exit $failed
