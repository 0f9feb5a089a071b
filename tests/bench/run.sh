#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Measures the budgets and prints each beside what was found. Every figure is a ratio or difference taken in this one run.
# BUILD = build folder. Nothing here fails for being slow: it reports.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Every pread is to be recorded, however short.

say() { printf '%-58s %14s   %s\n' "$1" "$2" "$3"; }
pick() { awk -v k="$2" '$1 == k { print $2 }' "$1"; }
calc() { awk "BEGIN { printf \"$1\", $2 }"; }
# The shim, its ring large enough for a round: what is measured is recording, not dropping.
shimmed() { WHYIDLE_THRESHOLD_US=0 WHYIDLE_DIR=$work/session WHYIDLE_RING_KB=1024 LD_PRELOAD=$BUILD/libwhyidle.so "$@"; }

say 'what' 'measured' 'budget'
say '----' '--------' '------'
head -c 65536 /dev/zero >"$work/file"
mkdir -m 700 "$work/session"
"$BUILD/tests/bench/calls" "$work/file" >"$work/bare" || exit 99
shimmed "$BUILD/tests/bench/calls" "$work/file" >"$work/shim" || exit 99
clocks=$(pick "$work/bare" two_clock_reads)
say 'two bare clock reads, ns' "$clocks" '(baseline)'
added=$(calc %.1f "$(pick "$work/shim" pread) - $(pick "$work/bare" pread)")
say 'added to a recorded pread, ns' "$added" "<= $(calc %.1f "2 * $clocks") (2 x two clock reads)"
say 'added to a read of a filtered descriptor, ns' \
	"$(calc %.1f "$(pick "$work/shim" read_device) - $(pick "$work/bare" read_device)")" '<= 15'
say 'added to a recv that returns EAGAIN, ns' \
	"$(calc %.1f "$(pick "$work/shim" recv_eagain) - $(pick "$work/bare" recv_eagain)")" '<= 15'

slices=$("$BUILD/tests/bench/make_trace" "$work/big.pftrace" "${SLICES:-4000000}")
bytes=$(stat -c %s "$work/big.pftrace")
bare=$("$BUILD/tests/bench/make_trace" "$work/bare.pftrace" 1000000 bare)
say 'bytes per slice (begin and end)' "$(calc %.1f "$(stat -c %s "$work/bare.pftrace") / $bare")" '<= 28'
say '  with arrows, targets and bytes, as in a training process' "$(calc %.1f "$bytes / $slices")" '(none)'
rm -f "$work/bare.pftrace"

# timed COMMAND... : seconds and peak KB of the fastest of three runs
timed() {
	"${PYTHON:-python3}" - "$@" <<'P'
import os, resource, subprocess, sys, time
best = None
for _ in range(3):
    start = time.monotonic()
    child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    took = time.monotonic() - start
    cpu = usage.ru_utime + usage.ru_stime
    if status:
        sys.exit("exit status %d: %s" % (status, sys.argv[1:]))
    if best is None or cpu < best[1]:
        best = (took, cpu, usage.ru_maxrss)
print("%.3f %.3f %d" % best)
P
}
figures=$(timed "$BUILD/whyidle" report "$work/big.pftrace") || exit 99
set -- $figures
rate=$(calc %.2f "$slices / $2 / 1e6")
say 'report: million slices a second of one core' "$rate" '(see next lines)'
say "report: peak memory, MB, trace of $(calc %.0f "$bytes / 1e6") MB" "$(calc %.0f "$3 / 1024")" 'flat in the length of the trace'
if [ -d "$BUILD/perfetto/package" ] && command -v node >/dev/null; then
	"$BUILD/tests/bench/make_trace" "$work/small.pftrace" 1000000 >"$work/n"
	loaded=$(node "$here/load.mjs" "$BUILD/perfetto/package" "$work/small.pftrace") || loaded=
	if [ -n "$loaded" ]; then
		their=$(calc %.3f "$(cat "$work/n") / $loaded / 1e6")
		say 'trace_processor (WebAssembly): million slices a second' "$their" '(baseline)'
		say 'report / trace_processor' "$(calc %.1f "$rate / $their") x" '>= 20 x'
	fi
else
	say 'trace_processor (WebAssembly)' 'not measured' 'make perfetto-judge and node are needed'
fi
