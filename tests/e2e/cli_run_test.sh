#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# whyidle run is transparent: output, exit status, signals, descriptors, dispositions are the job's own, whatever goes wrong on our side.
# Uses a stand-in for the recorder, so that only the command is judged here (and sanitizer builds need no preloaded runtime).
set -u
PYTHON=${PYTHON:-python3}
whyidle=$BUILD/whyidle
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99

cat >recorder.c <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void leave_a_trace(void)
{
	const char *dir = getenv("WHYIDLE_DIR");
	char path[4096];

	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/x.%d.0.pftrace", dir, getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd >= 0 && !getenv("LEAVE_EMPTY"))
		(void)!write(fd, "x", 1);
	close(fd);
}
END
${CC:-cc} -shared -fPIC -o recorder.so recorder.c || exit 99
WHYIDLE_LIB=$dir/recorder.so
export WHYIDLE_LIB
unset WHYIDLE_DIR LD_PRELOAD

failures=0
is() {				# is WHAT EXPECTED FOUND
	[ "$2" = "$3" ] && return
	printf '%s: expected <%s>, found <%s>\n' "$1" "$2" "$3"
	failures=$((failures + 1))
}
run() {
	"$whyidle" run --no-report "$@"
}
status() {			# status EXPECTED WORDS...
	expected=$1
	shift
	"$@" >/dev/null 2>err
	is "status of $*" "$expected" $?
}
said() {			# the last status' stderr has this
	grep -q -e "$1" err || { printf 'stderr lacks <%s>:\n' "$1"; cat err; failures=$((failures + 1)); }
}

# ---- output and status
is 'command substitution' 'out
put' "$(run -o s1 -- sh -c 'echo out; printf put' 2>/dev/null)"
is 'stdin' 'abc' "$(printf abc | run -o s1 -- cat 2>/dev/null)"
is 'without --' 'word -v' "$(run echo word -v 2>/dev/null)"
rm -rf whyidle-*
for n in 0 1 7 126 127 128 255; do
	status $n run -o s1 -- sh -c "exit $n"
done
status 137 run -o s1 -- sh -c 'kill -KILL $$'
status 143 run -o s1 -- sh -c 'kill -TERM $$'
status 139 run -o s1 -- sh -c 'kill -SEGV $$'
"$PYTHON" - "$whyidle" <<'END' || failures=$((failures + 1))
import signal, subprocess, sys
for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGABRT, signal.SIGPIPE, signal.SIGINT, signal.SIGHUP):
    got = subprocess.run([sys.argv[1], 'run', '--no-report', '-o', 's1', '--', 'sh', '-c', 'kill -%d $$' % sig], stderr=subprocess.DEVNULL).returncode
    if got != -sig:
        sys.exit('killed by %d: the parent sees %d' % (sig, got))
END

# ---- a command that cannot be executed
printf '#!/no/such/interpreter\n' >bad && printf 'echo shebangless' >plain && printf 'x' >noexec && chmod +x bad plain && mkdir folder
status 127 run -o s2 -- no-such-command
said 'no-such-command: command not found'
status 126 run -o s2 -- ./noexec
said 'cannot be executed'
status 126 run -o s2 -- ./folder
status 126 run -o s2 -- ./bad
said 'interpreter'
is 'script without #!' 'shebangless' "$(run -o s3 -- ./plain 2>/dev/null)"
is 'no directory is left behind for a command that never ran' no "$([ -e s2 ] && echo yes || echo no)"

# ---- the session directory
is 'default name' 1 "$(run -- true 2>/dev/null; ls -d whyidle-*-*-* | wc -l)"
is 'mode of the session directory' drwx------ "$(ls -ld whyidle-*-*-* | cut -c1-10)"
run -o a/b/c -- true 2>/dev/null
is 'nested directories are made' 1 "$(ls a/b/c | wc -l)"
run -o a/b/c -- true 2>err
said 'a/b/c already holds 1 trace of an earlier run'
is 'absolute for the job' "$dir/a/b/c" "$(run -o a/b/c -- sh -c 'cd /; echo $WHYIDLE_DIR' 2>/dev/null)"

# ---- what fails on our side does not stop the job
status 5 run -o noexec -- sh -c 'exit 5'
said 'not recording: session directory noexec: Not a directory'
status 5 run -o /proc/none -- sh -c 'exit 5'
said 'not recording'
is 'nothing is preloaded then' '' "$(run -o /proc/none -- sh -c 'echo $LD_PRELOAD$WHYIDLE_DIR' 2>/dev/null)"
status 5 env WHYIDLE_LIB=/none.so "$whyidle" run --no-report -o s4 -- sh -c 'exit 5'
said 'WHYIDLE_LIB=/none.so: No such file'
mkdir 'a b:c' && cp recorder.so 'a b:c/'
WHYIDLE_LIB="$PWD/a b:c/recorder.so" "$whyidle" run --no-report -o 's 5' -- sh -c 'exit 5' 2>err
is 'status with blanks in paths' 5 $?
is 'traces with blanks in paths' 1 "$(ls 's 5' | wc -l)"
status 6 run -o "$(printf '%0600d' 0)" -- sh -c 'exit 6'
said 'File name too long'
status 4 sh -c "'$whyidle' run -o /proc/none -- sh -c 'exit 4' 2>&-"

# ---- limits that the job lives under are ours, too
file_limit() {			# file_limit BLOCKS WORDS... : the shell itself may write no further, hence the pipe
	blocks=$1
	shift
	{ ( ulimit -f "$blocks"; "$@"; echo "$?" >&3 ) 2>&1 | cat >err; } 3>&1 | cat
}
is 'status when no file can be written' 7 "$(file_limit 0 env LEAVE_EMPTY=1 "$whyidle" run -o l1 -- sh -c 'exit 7')"
said 'nothing was recorded: files may not be longer than 0 bytes'
is 'status when only short files can be written' 7 "$(file_limit 1 "$whyidle" run -o l2 -- sh -c 'exit 7')"
said 'files may not be longer than'
is 'nothing half-written is left' '' "$(ls l2 | grep -v pftrace)"
is 'the job gets SIGXFSZ as before' 153 "$(file_limit 0 "$whyidle" run --no-report -o l3 -- "$PYTHON" -c '
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
os.write(os.open("long", os.O_WRONLY | os.O_CREAT), b"x")')"
is 'SIGXFSZ is not ignored in the job' 0 "$(run -o l3 -- sh -c 'grep SigIgn /proc/self/status' 2>/dev/null | "$PYTHON" -c '
import signal, sys
print(int(sys.stdin.read().split()[1], 16) >> signal.SIGXFSZ - 1 & 1)')"
is 'status with few descriptors' 5 "$(sh -c 'ulimit -n 4; exec "$0" run -o l4 -- sh -c "exit 5"' "$whyidle" 2>/dev/null; echo $?)"
is 'output with few descriptors' word "$(sh -c 'ulimit -n 4; exec "$0" run -o l4 -- sh -c "echo word"' "$whyidle" 2>/dev/null)"
status 5 env LEAVE_EMPTY=1 "$whyidle" run --report never -o l5 -- sh -c 'exit 5'
said 'the job ended with status 5 after'
said 'nothing was recorded'
said 'never is not written'

# ---- who goes on after the job
status 0 env LEAVE_EMPTY=1 "$whyidle" run --no-report -o b1 -- sh -c 'sleep 30 >/dev/null 2>&1 & echo $! >background'
said '1 process that records into .*/b1 still runs'
kill "$(cat background)"
status 0 env WHYIDLE_LIB=/lib/x86_64-linux-gnu/libm.so.6 "$whyidle" run -o b2 -- sh -c 'sleep 30 >/dev/null 2>&1 & echo $! >background'
if ! grep -q 'not recording' err; then		# a stand-in that records nothing at first
	said '1 process that records into .*/b2 still runs'
	is 'the directory of who still runs is kept' yes "$([ -d b2 ] && echo yes || echo no)"
fi
kill "$(cat background)"
status 0 run -o b3 -- true
grep -q 'still run' err && { echo 'nobody still runs'; failures=$((failures + 1)); }

# ---- two at once
"$whyidle" run --no-report -o t1 -- sh -c 'touch t1.on; while [ -e t1.on ]; do sleep 0.05; done' 2>first &
until [ -e t1.on ]; do sleep 0.05; done
status 0 run -o t1 -- true
said 'another `whyidle run` records into t1 right now'
status 0 env SLURM_PROCID=1 "$whyidle" run --no-report -o t1 -- true
grep -q 'right now' err && { echo 'ranks of one job belong together'; failures=$((failures + 1)); }
rm t1.on
wait $!
status 0 run -o t1 -- true
grep -q 'right now' err && { echo 'nobody else records any more'; failures=$((failures + 1)); }
status 0 run -o t2 -- "$whyidle" run --no-report -o t2 -- true
grep -q 'right now' err && { echo 'a run within a run is one'; failures=$((failures + 1)); }

# ---- settings that would be passed over
status 0 env WHYIDLE_RING_KB=abc WHYIDLE_THRESHOLD_US=-1 WHYIDLE_STACK_MS=99999999999999999999999 WHYIDLE_EXIT_MS=1e3 WHYIDLE_GPU=maybe \
	WHYIDLE_CUPTI=/none "$whyidle" run --no-report -o e1 -- true
said 'WHYIDLE_RING_KB=abc is no number from 4 to 65536; 256 is used'
said 'WHYIDLE_THRESHOLD_US=-1 is no number from 0 to 1000000; 20 is used'
said 'WHYIDLE_STACK_MS=9*.9 is more than 3600000'
said 'WHYIDLE_EXIT_MS=1e3 is no number'
said 'WHYIDLE_GPU=maybe'
said 'WHYIDLE_CUPTI=/none: No such file'
status 0 env WHYIDLE_RING_KB=1 WHYIDLE_THRESHOLD_US=0 WHYIDLE_STACK_MS= WHYIDLE_GPU=off "$whyidle" run --no-report -o e2 -- true
said 'WHYIDLE_RING_KB=1 is less than 4'
is 'nothing is said of good settings' 1 "$(grep -c WHYIDLE_ err)"
status 0 env WHYIDLE_DISABLE=1 LEAVE_EMPTY=1 "$whyidle" run -o e3 -- true
said 'nothing was recorded: WHYIDLE_DISABLE is set'

# ---- environment
if [ -z "${SAN:-}" ]; then	# a sanitizer wants to be first in front of whyidle itself
	is 'LD_PRELOAD is added to' "$dir/recorder.so:libm.so.6" "$(LD_PRELOAD=libm.so.6 run -o s5 -- sh -c 'echo $LD_PRELOAD' 2>/dev/null)"
	is 'LD_PRELOAD names us once' "$dir/recorder.so" "$(LD_PRELOAD=$dir/recorder.so run -o s5 -- sh -c 'echo $LD_PRELOAD' 2>/dev/null)"
fi
is 'LD_LIBRARY_PATH is left alone' '/x:/y' "$(LD_LIBRARY_PATH=/x:/y run -o s5 -- sh -c 'echo $LD_LIBRARY_PATH' 2>/dev/null)"
if [ -e "$BUILD/simgpu/libcudart.so.12" ]; then
	is '--sim comes first in LD_LIBRARY_PATH' "$BUILD/simgpu:/x" "$(LD_LIBRARY_PATH=/x run --sim -o s5 -- sh -c 'echo $LD_LIBRARY_PATH' 2>/dev/null)"
fi

# ---- wrong usage
status 2 "$whyidle"
status 2 "$whyidle" run
said 'whyidle run -- python train.py'
status 2 "$whyidle" run --
status 2 "$whyidle" run --nonsense -- true
said 'has no option --nonsense'
status 2 "$whyidle" run --fail-if 'idle > lots' -- sh -c 'touch ran'
is 'the job does not run after wrong usage' no "$([ -e ran ] && echo yes || echo no)"
status 2 "$whyidle" run -o '' -- sh -c 'touch ran'
said '--output is given nothing'
is 'nor after an empty directory name' no "$([ -e ran ] && echo yes || echo no)"
status 0 "$whyidle" run --report /no/such/file --fail-if 'lost > 20%' -o s2 -- sh -c :
[ -e s2 ] || said '/no/such/file is not written'
status 0 "$whyidle" --help
status 0 "$whyidle" run --help
status 0 "$whyidle" help run
status 0 "$whyidle" --version
status 2 "$whyidle" help nonsense

# ---- descriptors, signals, processes
cat >state.py <<'END'
import os, signal
print(sorted(int(f) for f in os.listdir('/proc/self/fd')), signal.pthread_sigmask(signal.SIG_BLOCK, []))
print([l for l in open('/proc/self/status') if l.startswith(('SigIgn', 'SigBlk', 'SigCgt'))])
print(os.getpgrp() == os.getpgid(os.getppid()), os.getsid(0))
END
is 'descriptors, masks, group, session' "$("$PYTHON" state.py)" "$(run -o s6 -- "$PYTHON" state.py 2>/dev/null)"
is 'what nohup ignores' "$(nohup "$PYTHON" state.py 2>/dev/null)" "$(nohup "$whyidle" run --no-report -o s6 -- "$PYTHON" state.py 2>/dev/null)"

cat >signals.py <<'END'
# Each signal reaches the job exactly once, sent to whyidle alone or to its group.
import os, signal, subprocess, sys, time
job = '''
import signal, sys, time
def got(sig, frame): print(sig, flush=True)
for sig in (1, 2, 3, 10, 12, 15): signal.signal(sig, got)
print("ready", flush=True)
end = time.time() + 20
while time.time() < end: time.sleep(0.05)
'''
sent = (15, 1, 10, 12, 2, 3)
for group, session in ((False, False), (False, True), (True, True)):
    p = subprocess.Popen([sys.argv[1], 'run', '--no-report', '-o', 's7', '--', sys.executable, '-c', job], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True, start_new_session=session)
    assert p.stdout.readline() == 'ready\n'
    time.sleep(0.2)
    for sig in sent:
        (os.killpg if group else os.kill)(p.pid, sig)
        got = p.stdout.readline()
        if got != '%d\n' % sig:
            sys.exit('sent %d, the job got %r' % (sig, got))
        time.sleep(0.1)
    children = subprocess.run(['ps', '-o', 'pid=,args=', '--ppid', str(p.pid)], capture_output=True, text=True).stdout
    child = [int(l.split()[0]) for l in children.splitlines() if ' -c' in l]
    os.kill(child[0], signal.SIGKILL)
    rest = p.stdout.read()
    if rest or p.wait() != -9:
        sys.exit('then the job got %r, and the parent %d' % (rest, p.returncode))
# Whoever reads the job's output does not wait for us; who outlives the job is not waited for.
start = time.time()
p = subprocess.run([sys.argv[1], 'run', '--no-report', '-o', 's7', '--', 'sh', '-c', 'sleep 30 >/dev/null 2>&1 & echo $!'], stdout=subprocess.PIPE,
                   stderr=subprocess.DEVNULL, text=True)
os.kill(int(p.stdout), signal.SIGKILL)
if time.time() - start > 15:
    sys.exit('waited for a process that the job left behind')
# Started with SIGCHLD ignored, or with a broken stderr.
p = subprocess.run(['sh', '-c', 'trap "" CHLD; "$0" run --no-report -o s7 -- sh -c "exit 9"', sys.argv[1]], stderr=subprocess.DEVNULL)
if p.returncode != 9:
    sys.exit('SIGCHLD ignored: %d' % p.returncode)
r, w = os.pipe()
os.close(r)
p = subprocess.run([sys.argv[1], 'run', '-o', '/proc/none', '--', 'sh', '-c', 'exit 8'], stderr=w)
if p.returncode != 8:
    sys.exit('broken stderr: %d' % p.returncode)
END
"$PYTHON" signals.py "$whyidle" || failures=$((failures + 1))

is 'timeout ends the job' 124 "$(timeout 1 "$whyidle" run --no-report -o s8 -- sleep 20 2>/dev/null; echo $?)"
is 'nobody is left behind' '' "$(ps -eo args= | grep "^$whyidle run" | head -3)"

[ $failures -eq 0 ] && echo 'all as it should be'
[ $failures -eq 0 ]
