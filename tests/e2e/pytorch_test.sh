#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A real PyTorch (CPU) under whyidle: the scripts of examples/pytorch print the same, end the same, and the report names what the training thread waited for.
# TORCH_PYTHON = an interpreter with PyTorch, else one is set up in $BUILD/venv. CASES = a selection.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
python=$("$here/../venv.sh" "$BUILD/venv") || exit $?
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
judge=${JUDGE:-$root/tests/perfetto/judge.sh}
export PYTHONWARNINGS=ignore
failed=''

# both NAME COMMAND... : by itself and under whyidle, with the same output and exit status
both() {
	name=$1
	shift
	case " ${CASES:-$name} " in *" $name "*) ;; *) return 1 ;; esac
	echo "== $name"
	"$@" >"$work/plain.out" 2>"$work/plain.err"
	plain=$?
	rm -rf "$work/session"
	"$BUILD/whyidle" run --json --report "$work/report.json" -o "$work/session" -- "$@" >"$work/out" 2>"$work/err"
	status=$?
	[ $status = $plain ] || bad "exit status $status, by itself $plain: $(tail -n 3 "$work/err")"
	cmp -s "$work/plain.out" "$work/out" || bad "prints something else: $(diff "$work/plain.out" "$work/out" | head -n 5)"
	[ -x "$judge" ] && { "$judge" "$work"/session/*.pftrace >"$work/judged" 2>&1 || bad "Perfetto complains: $(tail -n 5 "$work/judged")"; }
	return 0
}

bad() {
	echo "WRONG: $1"
	case $failed in *" $name"*) ;; *) failed="$failed $name" ;; esac
}

report() { # report [options of check_host.py]
	"$python" "$here/check_host.py" "$work/report.json" "$@" || bad 'see above'
}

classify=$root/examples/pytorch/classify.py
ddp=$root/examples/pytorch/ddp.py

# 30 batches of 32 images; one image takes 4 ms longer: 128 ms a batch and worker.
for workers in 0 2 4; do
	for method in fork spawn forkserver; do
		case $workers$method in 0spawn | 0forkserver | 4spawn | 4forkserver) continue ;; esac
		least=$((30 * 128 / (workers > 0 ? workers : 1) / 2))
		both "classify-$workers-$method" "$python" "$classify" --steps 30 --workers $workers --start-method $method --slow-ms 4 &&
			report --wait-ms $least 60000 --workers $workers
	done
done

# The same from a slow disk: the report names it, and where the files lie.
mkdir -p "$work/tmp"
both classify-disk env LD_PRELOAD="$BUILD/libslowdisk.so" SLOWDISK_DIR="$work/tmp" SLOWDISK_READ_US=2000 TMPDIR="$work/tmp" \
	"$python" "$classify" --steps 30 --workers 2 --start-method fork &&
	report --wait-ms 900 60000 --leaf data.storage --mentions "$work/tmp/classify-"

both ddp "$python" "$ddp" --steps 30 && report --ranks 2
both ddp-torchrun "$python" -m torch.distributed.run --nproc-per-node 2 "$ddp" --steps 20 --workers 1 && report --ranks 2

# A script that fails, fails the same way.
both usage "$python" "$classify" --workers none
both missing "$python" "$work/no-such-script.py"

[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
