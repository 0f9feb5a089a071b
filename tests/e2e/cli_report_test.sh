#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# whyidle report: bad input gets a sentence and the right exit code; text and JSON agree, the same traces give the same report.
set -u
PYTHON=${PYTHON:-python3}
. "$(dirname "$0")/preload.sh"
whyidle=$WHYIDLE
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
unset WHYIDLE_DIR WHYIDLE_LIB WHYIDLE_JSON WHYIDLE_REPORT WHYIDLE_FAIL_IF LD_PRELOAD

failures=0
fault() {
	echo "$*"
	failures=$((failures + 1))
}
status() {			# status EXPECTED WORDS...
	expected=$1
	shift
	"$@" >out 2>err
	found=$?
	[ $found = "$expected" ] || { fault "status of $*: expected $expected, found $found"; cat err; }
}
said() {
	grep -q -e "$1" err || { fault "stderr lacks <$1>:"; cat err; }
}
quiet() {
	[ ! -s out ] || { fault "stdout is not empty:"; cat out; }
}

# ---- bad use
mkdir empty rubbish
echo 'This is no trace.' >rubbish/a.pftrace
head -c 100000 /dev/urandom >random.pftrace
: >nothing.pftrace
status 2 "$whyidle" report
said 'report needs a session directory'
status 2 "$whyidle" report --nonsense x
status 2 "$whyidle" report --fail-if 'idle > 20' empty
said 'compared with a share'
status 2 "$whyidle" report --fail-if 'idel > 20%' empty
status 3 "$whyidle" report missing
said 'missing'
quiet
status 3 "$whyidle" report empty
said 'empty'
quiet
status 3 "$whyidle" report rubbish/a.pftrace
said 'a.pftrace'
quiet
status 3 "$whyidle" report random.pftrace
said 'random.pftrace'
status 3 "$whyidle" report nothing.pftrace
status 3 "$whyidle" report rubbish
status 3 "$whyidle" report /dev/null
for name in a.pftrace a.pftrace.gz a.perfetto-trace a.json a.json.gz; do
	rm -rf pipes && mkdir pipes && mkfifo pipes/$name
	status 3 timeout 20 "$whyidle" report pipes/$name
	said 'is a pipe'
	status 3 timeout 20 "$whyidle" report pipes
	said 'pipes'
	status 3 timeout 20 "$whyidle" annotate -o pipes/out pipes/$name
	said 'is a pipe'
done
if [ "$(id -u)" != 0 ]; then
	: >secret.pftrace && chmod 0 secret.pftrace
	status 3 "$whyidle" report secret.pftrace
	said 'Permission denied'
fi

# ---- a real trace
"$whyidle" run --no-report -o session -- sh -c 'for i in 1 2 3; do sleep 0.1 | cat; done' 2>err || fault "run failed: $(cat err)"
status 0 "$whyidle" report session
[ -s out ] || fault 'no text'
LC_ALL=C grep -q "$(printf '\033')" out && fault 'colour in a pipe'
awk 'length($0) > 100 && !/^Timeline|whyidle annotate/ { exit 1 }' out || fault 'a line is too long'
cp out first.txt
status 0 "$whyidle" report session
cmp -s out first.txt || fault 'the same traces give another text'
# shellcheck disable=SC2046
status 0 "$whyidle" report $(ls -r session/*.pftrace)
sed '/^Timeline/,$d' out >a && sed '/^Timeline/,$d' first.txt >b
cmp -s a b || fault 'the order of the files matters'
status 0 "$whyidle" report --json session
cp out first.json
"$PYTHON" "$here/check_report.py" first.json || fault 'the JSON is not as the schema says'
status 0 "$whyidle" report --json session
cmp -s out first.json || fault 'the same traces give another JSON'
status 0 "$whyidle" report --json --report file.json session
quiet
cmp -s file.json first.json || fault '--report gives another JSON'
status 0 "$whyidle" report --color always -v session
grep -q "$(printf '\033')" out || fault 'no colour when asked for'
status 0 "$whyidle" report --fail-if 'findings > 1000' session
status 1 "$whyidle" report --fail-if 'findings >= 0' session
said 'holds'
status 3 "$whyidle" report --report /no/such/file session
said '/no/such/file'
[ -s out ] || fault 'the summary was thrown away'
if [ -w /dev/full ]; then
	"$whyidle" report session >/dev/full 2>err
	[ $? = 3 ] || fault 'a full disk is not noticed'
fi

# ---- the summary at the end of run: on stderr, JSON too; and a file in the session
status 0 "$whyidle" run -o s2 -- sh -c 'sleep 0.1 | cat; echo output'
[ "$(cat out)" = output ] || fault 'stdout is not the output of the job alone'
[ -s err ] || fault 'no summary on stderr'
"$PYTHON" "$here/check_report.py" s2/report.json || fault 'report.json is not as the schema says'
[ "$(stat -c %a s2/report.json)" = 600 ] || fault 'report.json is readable by others'
status 0 "$whyidle" run --json -o s3 -- sh -c 'sleep 0.1 | cat'
"$PYTHON" "$here/check_report.py" err || fault 'run --json: stderr is no report'
status 0 "$whyidle" run --json --report r.json -o s4 -- sh -c 'sleep 0.1 | cat; echo message >&2'
"$PYTHON" "$here/check_report.py" r.json || fault 'run --json --report: the file is no report'
[ "$(cat err)" = message ] || fault "stderr is not the job's alone"
status 1 "$whyidle" run --fail-if 'findings >= 0' -o s5 -- sh -c 'sleep 0.1 | cat'
status 7 "$whyidle" run --fail-if 'findings >= 0' -o s6 -- sh -c 'sleep 0.1 | cat; exit 7'

# ---- cut files: every prefix is survived, here some
trace=$(ls -S session/*.pftrace | head -1)
size=$(stat -c %s "$trace")
for n in 1 2 3 10 50 $((size / 3)) $((size / 2)) $((size - 1)); do
	mkdir -p cut && head -c "$n" "$trace" >cut/x.1.0.pftrace
	"$whyidle" report cut >out 2>err
	found=$?
	[ $found = 0 ] || [ $found = 3 ] || fault "prefix of $n bytes: status $found"
	[ $found = 0 ] || [ -s err ] || fault "prefix of $n bytes: no sentence"
done

[ $failures -eq 0 ] && echo 'all as it should be'
[ $failures -eq 0 ]
