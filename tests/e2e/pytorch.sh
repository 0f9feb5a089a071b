#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A real PyTorch (CPU) under whyidle: the scripts of examples/pytorch print the same and end the same as by themselves, Perfetto loads
# their traces without complaint, and the report names what the training thread waited for.
# Usage: BUILD=folder tests/e2e/pytorch.sh CASE... (the cases stand at the end of this file)
# TORCH_PYTHON = an interpreter with PyTorch, else one is set up in $BUILD/venv. KEEP=folder keeps session and report of the last case.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=$("$here/../venv.sh" "$BUILD/venv") || exit $?
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work/tmp" || exit 99
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
export PYTHONWARNINGS=ignore
failed=''
classify=$root/examples/pytorch/classify.py
ddp=$root/examples/pytorch/ddp.py

bad() {
	echo "WRONG: $1"
	case "$failed " in *" $name "*) ;; *) failed="$failed $name" ;; esac
}

# by_itself KEY COMMAND... : what it prints and its exit status, remembered under KEY
by_itself() {
	key=$1
	shift
	[ -e "$work/plain-$key.status" ] || {
		"$@" >"$work/plain-$key.out" 2>"$work/plain-$key.err"
		echo $? >"$work/plain-$key.status"
	}
}

# under KEY COMMAND... : the same under whyidle, with equal output and status
under() {
	key=$1
	shift
	rm -rf "$work/session" "$work/report.json"
	"$BUILD/whyidle" run --json --report "$work/report.json" -o "$work/session" -- "$@" >"$work/out" 2>"$work/err"
	status=$?
	[ $status = "$(cat "$work/plain-$key.status")" ] ||
		bad "exit status $status, by itself $(cat "$work/plain-$key.status"): $(tail -n 3 "$work/err")"
	cmp -s "$work/plain-$key.out" "$work/out" || bad "prints something else: $(diff "$work/plain-$key.out" "$work/out" | head -n 5)"
	"$root/tests/perfetto/judge.sh" "$work"/session/*.pftrace >"$work/judged" 2>&1
	case $? in
	0) ;;
	77) echo "    not judged: $(tail -n 1 "$work/judged")" ;;
	*) bad "Perfetto complains: $(tail -n 5 "$work/judged")" ;;
	esac
}

report() { # report [options of check_host.py]
	"$python" "$here/check_host.py" "$work/report.json" "$@" || bad 'see above'
}

# 20 batches of 32 images, all in one epoch; decoding an image takes 4 ms longer: 128 ms a batch and worker. Which worker made a batch, and
# how it was started, does not change the losses.
classify() { # classify WORKERS METHOD LEAST-WAIT-MS
	set -- "$1" "$2" "$3" "$python" "$classify" --steps 20 --images 640 --slow-ms 4
	workers=$1 method=$2 least=$3
	shift 3
	by_itself classify "$@" --workers 2 --start-method fork
	under classify "$@" --workers "$workers" --start-method "$method"
	report --wait-ms "$least" 120000 --workers "$workers"
}

for name; do
	echo "== $name"
	case $name in
	# 4 ms are too short to be told whose they are: only reading is seen as waiting for data (data_pytorch_test.sh has longer ones)
	classify-0) classify 0 fork 1 ;;
	classify-2-fork) classify 2 fork 500 ;;
	classify-2-spawn) classify 2 spawn 500 ;;
	classify-2-forkserver) classify 2 forkserver 500 ;;
	classify-4-fork) classify 4 fork 250 ;;
	# files on a slow disk: the report says so, and where they lie
	classify-disk)
		export TMPDIR="$work/tmp" SLOWDISK_DIR="$work/tmp" SLOWDISK_READ_US=2000 LD_PRELOAD="$BUILD/libslowdisk.so"
		by_itself disk "$python" "$classify" --steps 20 --images 640 --workers 2 --start-method fork
		under disk "$python" "$classify" --steps 20 --images 640 --workers 2 --start-method fork
		unset TMPDIR SLOWDISK_DIR LD_PRELOAD
		report --wait-ms 500 120000 --workers 2 --leaf data.storage --mentions "$work/tmp/classify-"
		;;
	ddp)
		by_itself ddp "$python" "$ddp" --steps 20
		under ddp "$python" "$ddp" --steps 20
		report --ranks 2
		;;
	ddp-torchrun)
		by_itself ddp "$python" "$ddp" --steps 20
		under ddp "$python" -m torch.distributed.run --nproc-per-node 2 "$ddp" --steps 20
		report --ranks 2
		;;
	# scripts that fail, fail the same way
	usage)
		by_itself usage "$python" "$classify" --workers none
		under usage "$python" "$classify" --workers none
		;;
	missing)
		by_itself missing "$python" "$work/no-such-script.py"
		under missing "$python" "$work/no-such-script.py"
		;;
	*) echo "there is no case $name"; exit 99 ;;
	esac
done

[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
