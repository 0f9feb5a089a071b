#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Where a Python program waited, as recorded without its lock, is what the interpreter itself says: every line of tests/progs/python_stacks.py's output
# is the "at" of one sleep. With each CPython from 3.9 on that is found here. WHYIDLE_STACK_MS sets the length from which on, 0 turns it off.
set -u
. "$(dirname "$0")/preload.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
prog=$root/tests/progs/python_stacks.py
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
failed=0
tried=''
complain() { echo "FAIL: $*"; failed=1; }

record() { # record PYTHON [NAME=VALUE]
	rm -rf "$tmp/session" && mkdir "$tmp/session" || exit 99
	env WHYIDLE_DIR="$tmp/session" LD_PRELOAD="$PRELOAD" ${2:+"$2"} "$1" "$prog" >"$tmp/said" || complain "$1 failed"
	for file in "$tmp"/session/*.pftrace; do
		"$BUILD/tests/tracecat" "$file"
	done | sed -n -e 's/.* at="\([^"]*\)".*/\1/p' | grep -v '^python/' >"$tmp/recorded"
}

for python in "${PYTHON:-python3}" /usr/bin/python3 "$HOME"/.pyenv/versions/*/bin/python3; do
	version=$("$python" -c 'import sys, sysconfig
ok = (3, 9) <= sys.version_info[:2] <= (3, 14) and not sysconfig.get_config_var("Py_GIL_DISABLED")
print(sys.version.split()[0] if ok and sys.implementation.name == "cpython" else "")' 2>/dev/null) || continue
	case "$tried " in *" $version "*) continue ;; esac
	[ -n "$version" ] || continue
	tried="$tried $version"
	record "$python"
	sort "$tmp/said" >"$tmp/a"
	# the program's own long sleep is not among what it says
	grep -v '^python_stacks.py:[0-9]* in <module>$' "$tmp/recorded" | sort >"$tmp/b"
	[ -s "$tmp/a" ] || complain "$version: it said nothing"
	cmp -s "$tmp/a" "$tmp/b" || complain "$version: $(diff "$tmp/a" "$tmp/b" | head -n 6)"
done
[ -n "$tried" ] || exit 77
echo "    CPython$tried"
record "${PYTHON:-python3}" WHYIDLE_STACK_MS=0
[ -s "$tmp/recorded" ] && complain 'stacks although WHYIDLE_STACK_MS is 0'
record "${PYTHON:-python3}" WHYIDLE_STACK_MS=50
[ "$(wc -l <"$tmp/recorded")" = 1 ] || complain "one sleep takes 50 ms, recorded: $(cat "$tmp/recorded")"
exit $failed
