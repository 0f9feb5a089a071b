#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# All tests, as `make test` runs them: one build per compiler and sanitizer, each in a folder of its own under $O.
# Ends with one line "N passed, N failed, N skipped" over all of them, and fails when anything failed.
set -u
cd "$(dirname "$0")/.." || exit 99
O=${O:-$PWD/build}
jobs=$(nproc 2>/dev/null || echo 2)
total=0 failures=0 skips=0 broken=''

# one NAME TARGET MAKE-ARGUMENTS... : build, then run the target's tests
one() {
	name=$1 target=$2
	shift 2
	echo "== $name"
	log=$O/logs/suite-$name.log
	mkdir -p "$O/logs"
	if ! make --no-print-directory -j"$jobs" "$@" WERROR=1 tests >"$log" 2>&1; then
		tail -n 40 "$log"
		echo "FAIL  $name does not build"
		failures=$((failures + 1)) broken="$broken $name(build)"
		return
	fi
	make --no-print-directory "$@" WERROR=1 "$target" 2>&1 | tee "$log"
	counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$log" | tail -n 1)
	# shellcheck disable=SC2086
	set -- $counts
	if [ $# != 3 ]; then
		failures=$((failures + 1)) broken="$broken $name(no-result)"
		return
	fi
	total=$((total + $1)) failures=$((failures + $2)) skips=$((skips + $3))
	[ "$2" = 0 ] || broken="$broken $name"
}

one gcc check CC=gcc O="$O"
one clang unit CC=clang O="$O/clang"
one address check-san CC=gcc SAN=address,undefined O="$O/asan"
one thread check-san CC=gcc SAN=thread O="$O/tsan"

[ -z "$broken" ] || echo "failed in:$broken"
echo "$total passed, $failures failed, $skips skipped"
[ $failures = 0 ]
