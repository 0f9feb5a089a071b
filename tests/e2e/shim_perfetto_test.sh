#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Perfetto's own parser loads what the shim writes, without complaint: ordinary runs, killed ones, forks, and (with the loss shown) full rings.
set -u
here=$(dirname "$0")
shim=$BUILD/libwhyidle.so progs=$BUILD/tests/progs package=$BUILD/perfetto/package
. "$(dirname "$0")/preload.sh"
[ -d "$package" ] && command -v node >/dev/null || { echo "no Perfetto here (make perfetto-judge)"; exit 77; }
[ -x "$progs/shim_calls" ] && [ -x "$BUILD/tests/tracesum" ] || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT

# traced SESSION COMMAND...
traced() {
	session=$tmp/$1
	shift
	mkdir -p "$session"
	(cd "$tmp" && timeout 60 env LD_PRELOAD="$PRELOAD" WHYIDLE_DIR="$session" "$@" >"$tmp/out" 2>&1)
}
for part in files pipes sockets waits; do
	traced well WHYIDLE_THRESHOLD_US=0 "$progs/shim_calls" $part || { cat "$tmp/out"; exit 1; }
done
for mode in threads vfork jumps cancel close-all exec alone; do
	traced well "$progs/shim_life" $mode || { cat "$tmp/out"; exit 1; }
done
traced well timeout -s KILL 0.7 "$progs/shim_life" hang
traced well timeout -s KILL 0.7 "$progs/shim_life" endless
traced lossy WHYIDLE_RING_KB=4 "$progs/shim_life" burst
node "$here/../perfetto/judge.mjs" "$package" --reader "$BUILD/tests/tracesum" "$tmp"/well/*.pftrace >"$tmp/verdict" || { cat "$tmp/verdict"; exit 1; }
# Loss is what Perfetto shows, and all that it shows.
node "$here/../perfetto/judge.mjs" "$package" --allow traced_buf_sequence_packet_loss "$tmp"/lossy/*.pftrace || exit 1
if node "$here/../perfetto/judge.mjs" "$package" "$tmp"/lossy/*.pftrace >"$tmp/shown"; then
	echo "the loss is not shown"
	exit 1
fi
wc -l <"$tmp/verdict"
