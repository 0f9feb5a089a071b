# SPDX-License-Identifier: Apache-2.0
#
# For tests that record: sourced, it sets and exports PRELOAD, what to put in LD_PRELOAD for the shim, and RUNTIME, what has to stand before the shim
# in a build with sanitizers (empty in others; `whyidle run` keeps it first). WHYIDLE is the command with that. SANITIZE is for compiling what links
# sanitized libraries.
#
# A program under test is not the sanitizers' to change: it dies of its own signals, may leak, and its stderr stays its own. What the sanitizers
# have to say goes to files beside the test's log, where tests/run.sh finds it: any report fails the test, whatever the process's exit status.
RUNTIME= SANITIZE=
case ${SAN:-} in
*address*) RUNTIME=$(${CC:-gcc} -print-file-name=libasan.so) ;;
*thread*) RUNTIME=$(${CC:-gcc} -print-file-name=libtsan.so) ;;
esac
case ${SAN:-}:$RUNTIME in
:*) ;;
*:/*) RUNTIME=$(readlink -f "$RUNTIME") ;;
*) echo "${CC:-gcc} has no runtime of $SAN that can be preloaded"; exit 77 ;;
esac
PRELOAD=${RUNTIME:+$RUNTIME:}$BUILD/libwhyidle.so
# ThreadSanitizer sees no atomics inside its wrappers of blocking calls, and would take each event that the shim pushes there for a race: the shim first.
case ${SAN:-} in *thread*) PRELOAD=$BUILD/libwhyidle.so:$RUNTIME ;; esac
if [ -n "$RUNTIME" ]; then
	SANITIZE=-fsanitize=$SAN
	common=${SAN_REPORT:+log_path=$SAN_REPORT:}handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0
	ASAN_OPTIONS=$common:detect_leaks=0:use_sigaltstack=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
	UBSAN_OPTIONS=$common:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}
	# Jobs fork while threads run, and go on, and leave threads behind; shim/probe.c looks at what libc writes into a mutex of its own.
	TSAN_OPTIONS=$common:die_after_fork=0:report_thread_leaks=0:report_mutex_bugs=0${TSAN_OPTIONS:+:$TSAN_OPTIONS}
	export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
fi
export PRELOAD RUNTIME
WHYIDLE=$BUILD/whyidle
[ -z "$RUNTIME" ] || WHYIDLE=$(cd "$(dirname "$0")" && pwd)/sanitized.sh
