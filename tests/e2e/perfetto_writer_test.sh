#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Perfetto's own parser, our reader and the writer's caller must agree on traces that hold everything the writer can say: nesting
# written inside out, calls cut in the middle, time running backwards in the file, lanes, flows, counters, loss, a cut-off packet,
# two files in one. And the judge must be able to say no.
set -u
judge=$(cd "$(dirname "$0")/../perfetto" && pwd)/judge.sh
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

"$BUILD/tests/richtrace" "$work" || exit 99
cat "$work/rich.pftrace" "$work/second.pftrace" >"$work/two.pftrace"
head -c -5 "$work/rich.pftrace" >"$work/cut.pftrace"
gzip -c "$work/rich.pftrace" >"$work/rich.pftrace.gz"
"$judge" "$work/rich.pftrace" --expect "$work/rich.json" \
	"$work/rich.pftrace.gz" --expect "$work/rich.json" \
	"$work/loss.pftrace" --expect "$work/loss.json" "$work/two.pftrace" "$work/cut.pftrace" || exit $?

# what it must not let pass: 1 ns more than was recorded, packets lost in silence, a trace without its beginning, a text
cd "$work" || exit 99
sed 's/1150, 400/1150, 401/' rich.json >longer.json
cp rich.pftrace longer.pftrace
cp loss.pftrace silent.pftrace
sed '/stats/d; s/},$/}}/' loss.json >silent.json
tail -c +200 loss.pftrace >headless.pftrace
echo 'no trace' >text.pftrace
"$judge" longer.pftrace --expect longer.json silent.pftrace --expect silent.json headless.pftrace text.pftrace >said 2>&1
rc=$?
cat said
[ $rc = 1 ] || { echo "the judge ended with $rc, not 1"; exit 1; }
for bad in longer silent headless text; do
	grep -q "^$bad.pftrace: " said || { echo "the judge did not complain of $bad"; exit 1; }
done
! grep ': well' said
