#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Each kind of loss scaler against its own log, step by step: precision and recall 1 (0.99 for fused optimizers, where only the kernel's time tells), with
# loss.item(), metrics, the script's own skip of NaN losses and clipping in the way. Two at a time.
set -u
. "$(dirname "$0")/preload.sh"
whyidle=$WHYIDLE
here=$(cd "$(dirname "$0")" && pwd)
[ -x "$BUILD/amp" ] && [ -x "$BUILD/tests/tracecat" ] || { echo 'amp is not built'; exit 77; }
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
unset WHYIDLE_DIR WHYIDLE_LIB LD_PRELOAD

# Sanitizers make the recorder slow: fewer steps, and more room for what it has not yet written.
fewer=
[ -z "${SAN:-}" ] || { fewer='--steps 300'; export WHYIDLE_RING_KB=4096; }

# one NAME LEAST AMP-OPTIONS...
one() {
	name=$1 least=$2
	shift 2
	s=$dir/$name
	"$whyidle" run --sim --no-report -o "$s" -- "$BUILD/amp" --truth "$s.truth" "$@" $fewer >"$s.out" 2>&1 || { cat "$s.out"; echo "FAIL $name: run"; return; }
	"$whyidle" report --json "$s" >"$s.json" 2>"$s.err" || { cat "$s.err"; echo "FAIL $name: report"; return; }
	"$whyidle" annotate "$s" -o "$s.pftrace" 2>"$s.err" || { cat "$s.err"; echo "FAIL $name: annotate"; return; }
	"$BUILD/tests/tracecat" "$s.pftrace" | grep '"check ' >"$s.cat"
	if "$PYTHON" "$here/check_scaler.py" "$s.truth" "$s.cat" "$s.json" "$least" >"$s.out" 2>&1; then
		echo "ok $name: $(cat "$s.out")"
	else
		echo "FAIL $name: $(cat "$s.out")"
	fi
	rm -rf "$s" "$s.pftrace"
}

first() {
	for rate in 1 5 50; do
		one eager-$rate 1 --form eager --steps 2000 --overflow $rate --decoys --step-us 300
	done
	one megatron 1 --form megatron --steps 2000 --overflow 5 --hysteresis 2 --decoys --step-us 300
	one apex 1 --form apex --steps 2000 --overflow 5 --decoys --step-us 300
	one fused-5 0.99 --form fused --steps 2000 --overflow 5 --decoys --step-us 500
	one two 1 --form two --steps 1000 --overflow 20 --decoys --step-us 300
	one old 1 --form foreach --names 1.8 --steps 300 --overflow 10 --decoys --step-us 300 --read-scale
	one none 1 --form none --steps 300 --decoys --step-us 300
}

second() {
	for rate in 1 5 50; do
		one foreach-$rate 1 --form foreach --steps 2000 --overflow $rate --decoys --step-us 300
	done
	one deepspeed 1 --form deepspeed --steps 2000 --overflow 5 --hysteresis 2 --decoys --step-us 300
	one fused-50 0.99 --form fused --steps 2000 --overflow 50 --decoys --step-us 500
	one clip 1 --form clip --steps 1000 --overflow 10 --decoys --step-us 300
	one accumulate 1 --form accumulate --steps 500 --overflow 10 --decoys --step-us 300
	one ema 1 --form eager --names 1.12 --steps 500 --overflow 10 --ema --read-scale --step-us 300
}

first >"$dir/first" &
second >"$dir/second"
wait $!
cat "$dir/first" "$dir/second"
! grep -q '^FAIL' "$dir/first" "$dir/second"
