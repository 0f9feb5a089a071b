#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# One scenario of examples/train under whyidle, against the truth that it injected.
# Usage: BUILD=folder tests/e2e/scenario.sh NAME [RANKS] [STEPS] [more options of train]
# Also: the program prints the same with and without the recorder, and the same trace gives the same report.
# KEEP=folder keeps session, truth and report there.
set -u
name=$1 ranks=${2:-2} steps=${3:-60}
shift "$(($# < 3 ? $# : 3))"
here=$(dirname "$0")
PYTHON=${PYTHON:-python3}
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work" || exit 99
rm -rf "$work/session"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT

"$BUILD/whyidle" run --sim --json --report "$work/report.json" -o "$work/session" -- \
	"$BUILD/train" --scenario "$name" --ranks "$ranks" --steps "$steps" --truth "$work/truth.json" "$@" \
	>"$work/stdout" 2>"$work/stderr"
status=$?
cat "$work/stderr"
[ $status = 0 ] || { echo "WRONG: train under whyidle ended with status $status"; exit 1; }
"$PYTHON" "$here/check_truth.py" "$work/report.json" "$work/truth.json"
status=$?

"$BUILD/whyidle" report --json "$work/session" >"$work/again1.json" && "$BUILD/whyidle" report --json "$work/session" >"$work/again2.json" ||
	{ echo "WRONG: whyidle report fails on the session"; exit 1; }
cmp "$work/report.json" "$work/again1.json" && cmp "$work/again1.json" "$work/again2.json" ||
	{ echo "WRONG: the same trace gave different reports"; status=1; }
if [ "${JUDGE:-1}" = 1 ]; then
	"$here/../perfetto/judge.sh" "$work"/session/*.pftrace >"$work/judged" 2>&1
	case $? in
	0) ;;
	77) echo "not judged: $(tail -n 1 "$work/judged")" ;;
	*) echo "WRONG: Perfetto complains: $(tail -n 5 "$work/judged")"; status=1 ;;
	esac
fi
if [ "${PLAIN:-1}" = 1 ]; then
	"$BUILD/train" --scenario "$name" --ranks "$ranks" --steps "$steps" "$@" >"$work/plain" || { echo "WRONG: train fails by itself"; exit 1; }
	cmp "$work/plain" "$work/stdout" || { echo "WRONG: train printed something else under whyidle"; status=1; }
fi
exit $status
