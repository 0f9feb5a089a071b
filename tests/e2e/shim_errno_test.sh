#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every wrapped libc function, called with and without the shim: same result, same errno, and errno untouched by a call that succeeds.
set -u
root=$(dirname "$0")/../..
shim=$BUILD/libwhyidle.so prog=$BUILD/tests/progs/shim_errno
. "$(dirname "$0")/preload.sh"
[ -x "$prog" ] && [ -e "$shim" ] || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
failed=0
chmod 777 "$tmp"
cat >"$tmp/rows.c" <<'C'
#define HAND(name, call) ROW name
#define API(ret, name, ...) ROW name
#include "shim/file.def"
#include "shim/net.def"
#include "shim/wait.def"
#include "shim/proc.def"
C
"${CC:-cc}" -E -P -I"$root" "$tmp/rows.c" | grep -o 'ROW [A-Za-z0-9_]*' | cut -c5- | sort -u >"$tmp/rows"
for how in bare recorded every quiet; do
	mkdir -m 777 "$tmp/$how" "$tmp/$how/session"
	case $how in
	bare) set -- ;;
	recorded) set -- "LD_PRELOAD=$PRELOAD" "WHYIDLE_DIR=$tmp/$how/session" ;;
	every) set -- "LD_PRELOAD=$PRELOAD" "WHYIDLE_DIR=$tmp/$how/session" WHYIDLE_THRESHOLD_US=0 ;;
	quiet) set -- "LD_PRELOAD=$PRELOAD" ;;
	esac
	(cd "$tmp/$how" && timeout 60 env "$@" "$prog" >../$how.out 2>../$how.err)
	rc=$?
	[ $rc -eq 0 ] || { echo "FAIL $how: exit $rc"; cat "$tmp/$how.err"; failed=1; }
	diff "$tmp/bare.out" "$tmp/$how.out" >"$tmp/diff" || { echo "FAIL $how differs from bare:"; head -20 "$tmp/diff"; failed=1; }
done
cut -d' ' -f1 "$tmp/bare.out" | sort -u >"$tmp/called"
comm -23 "$tmp/rows" "$tmp/called" >"$tmp/missing"
[ -s "$tmp/missing" ] && { echo "FAIL: rows that are never called here: $(tr '\n' ' ' <"$tmp/missing")"; failed=1; }
comm -13 "$tmp/rows" "$tmp/called" >"$tmp/strange"
[ -s "$tmp/strange" ] && { echo "FAIL: no rows: $(tr '\n' ' ' <"$tmp/strange")"; failed=1; }
echo "$(wc -l <"$tmp/bare.out") calls of $(wc -l <"$tmp/called") functions"
exit $failed
