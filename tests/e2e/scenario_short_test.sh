#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A few steps of scenarios that touch everything (forked workers, sockets, a fault in the network, retries): job, recorder and analysis end well in every
# kind of build. What is said is not judged here: sanitizers distort time. The job prints what it prints without the recorder.
set -u
. "$(dirname "$0")/preload.sh"
[ -x "$BUILD/train" ] && [ -e "$BUILD/simgpu/libnccl.so.2" ] || { echo 'train is not built'; exit 77; }
PYTHON=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
for scenario in mixed worker-churn packet-loss remote-data overflow; do
	s=$work/$scenario
	"$BUILD/train" --scenario $scenario --steps 15 --ranks 2 >"$s.plain" || { echo "$scenario: train ended with status $?"; failed=1; }
	"$WHYIDLE" run --sim --no-report -o "$s" -- "$BUILD/train" --scenario $scenario --steps 15 --ranks 2 >"$s.out" 2>"$s.err" ||
		{ echo "$scenario: run ended with status $?"; cat "$s.err"; failed=1; }
	cmp "$s.plain" "$s.out" || failed=1
	"$WHYIDLE" report --json "$s" >"$s.json" 2>"$s.err" || { echo "$scenario: report ended with status $?"; cat "$s.err"; failed=1; }
	"$PYTHON" "$here/check_report.py" "$s.json" || { echo "$scenario: the JSON is not as the schema says"; failed=1; }
	"$WHYIDLE" report "$s" >"$s.txt" 2>"$s.err" || { echo "$scenario: report ended with status $?"; cat "$s.err"; failed=1; }
done
exit $failed
