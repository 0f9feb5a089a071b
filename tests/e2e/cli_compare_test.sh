#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# whyidle compare: single precision against mixed precision of the same loop; usage; exit codes.
set -u
whyidle=$BUILD/whyidle
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
unset WHYIDLE_DIR WHYIDLE_LIB LD_PRELOAD

fail() {
	echo "$*"
	exit 1
}
"$whyidle" compare only-one 2>err
[ $? = 2 ] && grep -q 'BEFORE AFTER' err || fail 'one session: wrong status or sentence'
"$whyidle" compare no such 2>err
[ $? = 3 ] && [ -s err ] || fail 'missing sessions: wrong status or no sentence'
"$whyidle" compare --fail-if-slower much no such 2>err
[ $? = 2 ] && grep -q percentage err || fail 'no percentage: wrong status or sentence'
[ -z "${SAN:-}" ] || { echo 'no recording in a sanitizer build'; exit 0; }
[ -x "$BUILD/amp" ] || { echo 'amp is not built'; exit 77; }

"$whyidle" run --sim --no-report -o fp32 -- "$BUILD/amp" --form none --steps 300 --step-us 4000 >/dev/null 2>err || fail "run: $(cat err)"
"$whyidle" run --sim --no-report -o amp -- "$BUILD/amp" --form foreach --steps 300 --step-us 2000 >/dev/null 2>err || fail "run: $(cat err)"
"$whyidle" compare fp32 amp >out || fail 'compare: wrong status'
cat out
head -n 1 out | grep -q 'A step got [0-9]* % shorter; kernels got [45][0-9] % shorter' || fail 'the verdict is not that kernels got half as long'
grep -q 'loss scaler: 0 of 300 steps skipped, it costs 0.0 %: not your problem' out || fail 'the scaler is not acquitted'
"$whyidle" compare --fail-if-slower 20% fp32 amp >/dev/null || fail 'faster, and said to be slower'
"$whyidle" compare --fail-if-slower 20% amp fp32 >/dev/null 2>err
[ $? = 1 ] && grep -q 'longer than before' err || fail 'slower: wrong status or no sentence'
"$whyidle" compare --json fp32 amp >json || fail 'JSON: wrong status'
"$PYTHON" - <<'P' || fail 'JSON does not hold what the text says'
import json
j = json.load(open("json"))
assert j["schema"] == "whyidle.compare/1" and j["per_step"]
assert j["after"]["compute_ns"] < 0.6 * j["before"]["compute_ns"]
assert j["after"]["scaler_checks"] == 300 and j["before"]["scaler_checks"] == 0
P
