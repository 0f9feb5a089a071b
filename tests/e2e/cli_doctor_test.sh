#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# whyidle doctor: answers every question, says how to get what is missing, and finds out when nothing can be recorded.
set -u
PYTHON=${PYTHON:-python3}
whyidle=$BUILD/whyidle
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
unset WHYIDLE_DIR WHYIDLE_LIB WHYIDLE_CUPTI LD_PRELOAD

check='
import json, sys
rows = json.load(sys.stdin)
states = {r["check"]: r["state"] for r in rows}
assert len(states) == len(rows) >= 10, states
for r in rows:
    assert r["state"] in ("ok", "note", "missing", "bad") and r["found"], r
    assert r["state"] != "missing" or (r["missing"] and r["how"]), r
for wanted in sys.argv[1:]:
    name, state = wanted.split("=")
    assert states[name] == state, (wanted, states)
'
if [ -z "${SAN:-}" ]; then
	"$whyidle" doctor >text || { cat text; echo 'doctor says that nothing can be recorded'; exit 1; }
	grep -q '^whyidle run records here' text || exit 1
	"$whyidle" doctor --json | "$PYTHON" -c "$check" recorder=ok preload=ok || exit 1
fi
WHYIDLE_LIB=/none.so "$whyidle" doctor >text && { echo 'no recorder, and doctor is content'; exit 1; }
grep -q 'cannot record here' text || exit 1
WHYIDLE_LIB=/none.so "$whyidle" doctor --json | "$PYTHON" -c "$check" recorder=bad preload=bad || exit 1
echo 'not a library' >broken.so
WHYIDLE_LIB=$PWD/broken.so "$whyidle" doctor --json | "$PYTHON" -c "$check" recorder=ok preload=bad || exit 1
WHYIDLE_CUPTI=/none.so "$whyidle" doctor --json | "$PYTHON" -c "$check" CUPTI=missing || exit 1
"$whyidle" doctor something 2>/dev/null
[ $? = 2 ] || exit 1
[ -z "$(ls /tmp/whyidle-doctor-* 2>/dev/null)" ] || { echo 'left something in /tmp'; exit 1; }
