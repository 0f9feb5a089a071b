#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs tests one after another, each with a time limit, and counts: exit 0 passed, 1 failed, 77 skipped, 99 the harness itself broke.
# What a sanitizer reported to SAN_REPORT.* (tests/e2e/preload.sh) is a failure, too.
# Usage: BUILD=folder tests/run.sh TEST... ; a test's log is BUILD/logs/NAME.log. LIMIT = seconds a test may take (default 300).
set -u
mkdir -p "$BUILD/logs"
passed=0 failed=0 skipped=0 bad=''
for test; do
	name=$(basename "$test")
	log=$BUILD/logs/$name.log
	rm -f "$log".san.*
	export SAN_REPORT="$log.san"
	start=$(date +%s)
	timeout -k 10 "${LIMIT:-300}" "$test" >"$log" 2>&1 </dev/null
	rc=$?
	if ls "$log".san.* >/dev/null 2>&1; then
		echo "exit $rc; sanitizers reported:"
		head -n 30 "$log".san.* | head -n 200
		rc=1
	fi >>"$log"
	took=$(($(date +%s) - start))
	case $rc in
	0) passed=$((passed + 1)); printf 'ok    %s (%ss)\n' "$name" "$took" ;;
	77) skipped=$((skipped + 1)); printf 'skip  %s: %s\n' "$name" "$(tail -n 1 "$log")" ;;
	*)
		failed=$((failed + 1)) bad="$bad $name"
		case $rc in
		124 | 137) why="did not end within ${LIMIT:-300} s" ;;
		99) why='the harness broke' ;;
		*) why="exit $rc" ;;
		esac
		printf 'FAIL  %s: %s (%ss)\n' "$name" "$why" "$took"
		tail -n "${TAIL:-40}" "$log" | sed 's/^/      | /'
		;;
	esac
done
[ -n "$bad" ] && printf 'failed:%s\n' "$bad"
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed -eq 0 ]
