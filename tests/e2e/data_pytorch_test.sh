#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Real PyTorch (CPU) starved in known ways (tests/e2e/pytorch/starve.py): what the report says, against the script's own clock.
# KINDS="sleep-0 http-2 ..." picks cases; KEEP=folder keeps session, report and truth of the last one.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/../venv.sh" "$BUILD/venv") || exit $?
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work" || exit 99
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
export PYTHONWARNINGS=ignore
failed=''

run() { # run KIND [options of starve.py]
	kind=$1
	shift
	rm -rf "$work/session" "$work/data" && mkdir "$work/data"
	"$BUILD/whyidle" run --json --report "$work/report.json" -o "$work/session" -- \
		"$python" "$here/pytorch/starve.py" "$kind" "$work/truth.json" "$work/data" "$@" >"$work/out" 2>&1 ||
		{ echo "WRONG: $(tail -n 3 "$work/out")"; failed="$failed $name"; }
}

slow_disk() { # slow_disk KIND ...
	export SLOWDISK_DIR="$work/data" SLOWDISK_READ_US=15000 LD_PRELOAD="$BUILD/libslowdisk.so"
	run "$@"
	unset SLOWDISK_DIR SLOWDISK_READ_US LD_PRELOAD
}

remote() { # the object store is no part of the job
	rm -f "$work/port"
	"$python" "$here/pytorch/starve.py" serve "$work/port" - 2>/dev/null &
	server=$!
	while [ ! -e "$work/port" ] && kill -0 $server 2>/dev/null; do sleep 0.1; done
	run http --compute-ms 2 --port "$(cat "$work/port")" "$@"
	kill $server
	wait $server 2>/dev/null
}

check() {
	"$python" "$here/pytorch/check_data.py" "$work/report.json" "$work/truth.json" "$@" || failed="$failed $name"
}

worker=data.workers+data.preprocess
for name in ${KINDS:-healthy-2 nap-0 sleep-0 sleep-2 sleep-2-spawn sleep-2-forkserver sleep-2-pin cpu-1 cpu-2 one-slow-3 raw-0 raw-2 tar-2 http-0 http-2 checkpoint log}; do
	echo "== $name"
	case $name in
	healthy-2) run none --workers 2; check data.preprocess --silent --workers 2 ;;
	# the training thread's own sleep is no loader's, and the line says where it is
	nap-0) run nap; check host.lock --of sleep --mentions 'in main' ;;
	sleep-0) run sleep; check data.preprocess --mentions 'starve.py:' --mentions 'in __getitem__' --mentions 'num_workers is 0' ;;
	sleep-2) run sleep --slow-ms 60 --workers 2; check $worker --workers 2 --mentions 'in __getitem__' ;;
	sleep-2-*pin) run sleep --slow-ms 60 --workers 2 --pin; check $worker --workers 2 ;;
	sleep-2-*) run sleep --slow-ms 60 --workers 2 --method "${name##*-}"; check $worker --workers 2 --mentions 'in __getitem__' ;;
	cpu-1) run cpu --workers 1 --compute-ms 1; check $worker --workers 1 ;;
	cpu-2) run cpu --workers 2 --compute-ms 1; check $worker --workers 2 ;;
	one-slow-3) run one-slow --workers 3; check $worker --workers 3 ;;
	raw-0) slow_disk raw; check data.storage --mentions "$work/data" --mentions 'num_workers is 0' --mentions 'in __getitem__' ;;
	raw-2) slow_disk raw --workers 2; check data.storage --workers 2 --mentions "$work/data" ;;
	tar-2) slow_disk tar --workers 2; check data.storage --workers 2 --mentions "$work/data" ;;
	http-0) remote; check data.remote --mentions 127.0.0.1: ;;
	http-2) remote --workers 2; check data.remote --workers 2 --mentions 127.0.0.1: ;;
	checkpoint) export SLOWDISK_FSYNC_US=150000; slow_disk checkpoint; unset SLOWDISK_FSYNC_US; check io.checkpoint --of save --mentions model.pt --mentions 'in finish' ;;
	log) export SLOWDISK_WRITE_US=40000; slow_disk log; unset SLOWDISK_WRITE_US; check io.other_write+io.checkpoint --of log --mentions train.log ;;
	*) echo "there is no case $name"; exit 99 ;;
	esac
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
