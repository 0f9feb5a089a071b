#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ordinary programs under the shim: output, errors and exit status are what they are without it, recording or switched off.
set -u
. "$(dirname "$0")/preload.sh"
shim=$BUILD/libwhyidle.so python=${PYTHON:-python3}
[ -e "$shim" ] || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
failed=0

# same NAME COMMAND... : run bare, recorded, switched off, and without a usable session directory
same() {
	name=$1
	shift
	mkdir "$tmp/$name" "$tmp/$name/session"
	for how in bare recorded off nowhere; do
		mkdir "$tmp/$name/$how"
		case $how in
		bare) set -- env "$@" ;;
		recorded) shift; set -- env "LD_PRELOAD=$PRELOAD" "WHYIDLE_DIR=$tmp/$name/session" "$@" ;;
		off) shift 3; set -- env "LD_PRELOAD=$PRELOAD" "$@" ;;
		nowhere) shift 2; set -- env "LD_PRELOAD=$PRELOAD" "WHYIDLE_DIR=$tmp/none" "$@" ;;
		esac
		(cd "$tmp/$name/$how" && timeout 120 "$@" >../$how.out 2>../$how.err </dev/null; echo $? >../$how.rc)
		for what in out err rc; do
			if ! cmp -s "$tmp/$name/bare.$what" "$tmp/$name/$how.$what"; then
				echo "FAIL $name: $how differs from bare in $what:"
				diff "$tmp/$name/bare.$what" "$tmp/$name/$how.$what" | head -10
				failed=1
			fi
		done
	done
	ls "$tmp/$name/session"/*.pftrace >/dev/null 2>&1 || { echo "FAIL $name: no trace"; failed=1; }
	[ -e "$tmp/none" ] && { echo "FAIL $name: a session directory was made"; failed=1; }
	echo "$name: exit $(cat "$tmp/$name/bare.rc"), $(ls "$tmp/$name/session" | wc -l) traces"
}

# -I: no user's settings; the interpreter itself, not a launcher script
py=$("$python" -c 'import sys; print(sys.executable)') || exit 99
cat >"$tmp/fds.py" <<'P'
import os
print(sorted(int(f) for f in os.listdir("/proc/self/fd") if int(f) < 800)[:4], os.open("/dev/null", 0))
P
cat >"$tmp/fork.py" <<'P'
import os, sys, time, warnings
warnings.simplefilter("error")
time.sleep(0.1)
for i in range(5):
    pid = os.fork()
    if pid == 0:
        open("/etc/hostname").read()
        os._exit(i)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
cat >"$tmp/pool.py" <<'P'
import multiprocessing as mp, sys
def f(x):
    return x * x
if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        with mp.get_context(how).Pool(2) as p:
            print(how, p.map(f, range(20)))
    q = mp.Queue()
    w = mp.Process(target=q.put, args=(b"x" * 300000,))
    w.start(); print(len(q.get())); w.join(); print(w.exitcode)
P
cat >"$tmp/threads.py" <<'P'
import threading, queue, socket, select, time
q = queue.Queue()
def worker():
    while (x := q.get()) is not None:
        time.sleep(0.001)
ts = [threading.Thread(target=worker) for _ in range(4)]
for t in ts: t.start()
for i in range(100): q.put(i)
for t in ts: q.put(None)
for t in ts: t.join()
a = socket.socket(); a.bind(("127.0.0.1", 0)); a.listen()
b = socket.create_connection(a.getsockname()); c, _ = a.accept()
b.setblocking(False)
try: b.recv(1)
except BlockingIOError as e: print(e)
c.sendall(b"hello"); print(select.select([b], [], [], 5)[0] == [b], b.recv(9))
try: socket.create_connection(("127.0.0.1", 1), 1)
except OSError as e: print(e)
P
cat >"$tmp/spawn.py" <<'P'
import os, subprocess, sys
print(subprocess.run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True))
try: subprocess.run(["/no/such"])
except OSError as e: print(e)
print(os.system("exit 2"), os.popen("echo popen").read())
print(subprocess.run(["cat"], input=b"x" * 200000, capture_output=True).stdout.count(b"x"))
print(os.posix_spawn("/bin/true", ["true"], {}) > 0, os.wait()[1])
sys.exit(5)
P
cat >"$tmp/errors.py" <<'P'
import os, errno
for call in (lambda: open("/no/such/file"), lambda: os.read(999, 1), lambda: os.write(999, b"x"), lambda: os.close(999),
             lambda: os.open("/etc", os.O_WRONLY), lambda: os.waitpid(1, 0), lambda: os.dup(999), lambda: os.close(950),
             lambda: os.pread(999, 1, 0), lambda: os.fsync(999), lambda: os.execv("/no/such", ["x"])):
    try: call(); print("no error")
    except OSError as e: print(e)
P
same python-hello "$py" -I -c 'import time; time.sleep(0.001); print("hello")'
same python-fds "$py" -I "$tmp/fds.py"
same python-fork "$py" -I "$tmp/fork.py"
same python-pool "$py" -I "$tmp/pool.py"
same python-threads "$py" -I "$tmp/threads.py"
same python-spawn "$py" -I "$tmp/spawn.py"
same python-errors "$py" -I "$tmp/errors.py"
same python-raises "$py" -I -c 'import time; time.sleep(0.001); raise SystemExit("bad")'
same bash-pipeline bash -c 'seq 1 20000 | sort -rn | head -5 | tr "\n" " "; echo; for i in 1 2 3; do (echo "sub $i"; exit $i); echo $?; done; cat <(echo substituted); wc -c <<<here; exit 9'
same bash-kill bash -c 'sleep 60 & kill $!; wait $!; echo $?; kill -TERM $$'
same bash-trap bash -c 'trap "echo trapped; exit 4" USR1; (sleep 0.1; kill -USR1 $$) & while :; do sleep 0.05; done'
same dash-redirect sh -c 'exec 3>f; echo three >&3; exec 3>&-; cat f; read x <f; echo "$x"; ls -l /proc/self/fd | grep -c " 9[0-9][0-9] " ; no-such-command; echo $?'
same tar sh -c 'mkdir d; for i in 1 2 3; do echo $i >d/$i; done; tar cf - d | tar tf - | sort; find d -type f | xargs cat'
same cc sh -c "printf 'int main(void){return 3;}' >a.c && ${CC:-cc} a.c -o a && ./a"
same limits sh -c 'ulimit -n 64; ulimit -f 1; head -c 4096 /dev/zero >big; echo $?; ls / | wc -l >n; sleep 0.1; echo done'
exit $failed
