#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The training loop by itself, no whyidle: every scenario runs, its truth is sound, equal runs print equal losses, bad use is answered.
set -u
here=$(dirname "$0")
PYTHON=${PYTHON:-python3}
train=$BUILD/train
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR="$work"
failed=0
bad() { echo "WRONG: $1"; failed=1; }
# Sanitizers cost time: only the sums are checked then.
timing=timing steps=20
[ -z "${SAN:-}" ] || timing='' steps=12

one() { # one SCENARIO RANKS
	echo "== $1, $2 ranks"
	"$train" --scenario "$1" --ranks "$2" --steps $steps --truth "$work/truth.json" >"$work/$1.out" 2>"$work/err" ||
		{ bad "$1 ended with status $?: $(tail -n 3 "$work/err")"; return; }
	[ ! -s "$work/err" ] || bad "$1 printed on stderr: $(tail -n 3 "$work/err")"
	# shellcheck disable=SC2086
	"$PYTHON" "$here/check_train.py" "$work/truth.json" "$2" $steps $timing || failed=1
}

for scenario in healthy slow-storage few-workers remote-data pageable worker-churn late-peer slow-link packet-loss blocked-port overflow \
	checkpoint item-sync tiny-kernels alloc mixed; do
	one $scenario 2
done
one slow-decode 1	# one core a rank
one healthy 1
timing=''
one healthy 4

# Same seed, same losses, whatever the trouble; other seed, other losses.
{ "$train" --scenario healthy --steps $steps --ranks 2 >"$work/a" && "$train" --scenario slow-storage --steps $steps --ranks 2 >"$work/b" &&
	"$train" --scenario healthy --steps $steps --ranks 2 --seed 2 >"$work/c"; } || bad 'a run without --truth fails'
cmp -s "$work/a" "$work/b" || bad 'a slow disk changed the losses'
cmp -s "$work/a" "$work/c" && bad 'the seed does not matter'

# Started by somebody else's launcher, as torchrun does.
(RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 "$train" --scenario healthy --steps 6 --truth "$work/truth.json" >/dev/null &
RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 "$train" --scenario healthy --steps 6 --truth "$work/truth.json" >"$work/launched"
status=$?
wait
exit $status) || bad 'ranks of another launcher fail'
grep -q 'done: 6 steps, 0 skipped' "$work/launched" || bad 'ranks of another launcher do not finish'

for scenario in late-peer slow-link packet-loss blocked-port mixed; do
	"$train" --scenario $scenario --ranks 1 >"$work/out" 2>"$work/err" && bad "$scenario with one rank ran"
	grep -q 'needs --ranks 2' "$work/err" || bad "$scenario with one rank does not say what it needs"
done
"$train" --scenario nonsense 2>/dev/null; [ $? = 2 ] || bad 'unknown scenario: exit status is not 2'
"$train" --steps many 2>/dev/null; [ $? = 2 ] || bad 'wrong number: exit status is not 2'
"$train" --help | grep -q packet-loss || bad '--help does not list the scenarios'
[ -z "$(ls -d "$work"/train-* 2>/dev/null)" ] || bad "folders are left behind: $(ls "$work")"
exit $failed
