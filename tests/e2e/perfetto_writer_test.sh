#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Perfetto's own parser, our reader and the writer's caller must agree on traces that hold everything the writer can say: nesting
# written inside out, calls cut in the middle, time running backwards in the file, lanes, flows, counters, loss, a cut-off packet,
# two files in one. And the judge must be able to say no.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
perfetto=$here/tests/perfetto
command -v node >/dev/null || { echo 'node is not installed'; exit 77; }
npm=$(sed -n 's/.*"\(@swmansion\/argent\)": "\(.*\)".*/\1@\2/p' "$perfetto/package.json")
"$perfetto/fetch.sh" "$npm" "$BUILD/perfetto" || exit $?
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

judge() {
	node "$perfetto/judge.mjs" "$BUILD/perfetto/package" "$@"
}

"$BUILD/tests/richtrace" "$work" || exit 99
cat "$work/rich.pftrace" "$work/second.pftrace" >"$work/two.pftrace"
head -c -5 "$work/rich.pftrace" >"$work/cut.pftrace"
gzip -c "$work/rich.pftrace" >"$work/rich.pftrace.gz"
judge --reader "$BUILD/tests/tracesum" \
	"$work/rich.pftrace" --expect "$work/rich.json" "$work/rich.pftrace.gz" --expect "$work/rich.json" \
	"$work/loss.pftrace" --expect "$work/loss.json" "$work/two.pftrace" "$work/cut.pftrace" || exit $?

# what it must not let pass
cd "$work" || exit 99
must_fail() {
	what=$1
	shift
	judge "$@" >"$work/said" 2>&1
	rc=$?
	[ $rc = 1 ] && return
	cat "$work/said"
	echo "judge: exit $rc instead of 1 for $what"
	exit 1
}
sed 's/1150, 400/1150, 401/' rich.json >wrong.json
must_fail 'a slice that is 1 ns longer than said' rich.pftrace --expect wrong.json
must_fail 'lost packets' loss.pftrace
# its counter events use a clock that no snapshot has explained
tail -c +200 loss.pftrace >headless.pftrace
must_fail 'a trace without its beginning' headless.pftrace
echo 'no trace' >text.pftrace
must_fail 'a text' text.pftrace
