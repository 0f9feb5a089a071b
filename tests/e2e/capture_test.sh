#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Capture is complete: each function of libc by which CPython, PyTorch, numpy and what else is installed here of their kind (h5py, pyarrow, lmdb, pillow,
# libcurl, OpenSSL, sqlite, libstdc++) reads, writes, talks or waits, is wrapped or stands in capture_unwrapped.txt with the reason why not.
set -u
here=$(cd "$(dirname "$0")" && pwd)
shim=$BUILD/libwhyidle.so
[ -e "$shim" ] || exit 99
case ${SAN:-} in '') ;; *) echo "a sanitized library exports its runtime's wrappers, too"; exit 77 ;; esac
python=$("$here/../venv.sh" "$BUILD/venv" 2>/dev/null) || python=${PYTHON:-python3}
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT

"$python" - <<'P' >"$tmp/objects" || exit 99
import glob, os, subprocess, sys, sysconfig
found = [os.path.realpath(sys.executable), sysconfig.get_config_var("LIBDIR") + "/" + (sysconfig.get_config_var("INSTSONAME") or "none")]
found += glob.glob(os.path.join(os.path.dirname(os.__file__), "lib-dynload", "*.so"))
for path in set(sys.path):
    for name in ("torch/lib", "numpy", "numpy.libs", "h5py", "h5py.libs", "pyarrow", "lmdb", "PIL", "pillow.libs", "torchvision"):
        found += glob.glob(os.path.join(path, name, "**", "*.so*"), recursive=True)
libraries = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
for line in libraries.splitlines():
    name = line.split()[0] if line.split() else ""
    if name.startswith(("libcurl", "libssl.", "libcrypto.", "libsqlite3", "libhdf5", "liblmdb", "libstdc++")):
        found.append(line.split()[-1])
print("\n".join(sorted({p for p in map(os.path.realpath, found) if os.path.isfile(p)})))
P
[ -s "$tmp/objects" ] || exit 99

# The families, as one pattern for whole names.
stdio='v?f?w?printf|perror|v?f?w?scanf|f?(get|put)w?c|(get|put)(s|char|wchar)|f(get|put)w?s|getline|getdelim|ungetw?c|fseeko?|ftello?|fgetpos|fsetpos|rewind|fflush|fread|fwrite|fopen|fdopen|freopen|fclose|tmpfile|uflow|overflow'
files='open(at)?|creat|close|closefrom|close_range|p?(read|write)v?[0-9v]*|fsync|fdatasync|sync|syncfs|sync_file_range|msync|mmap|mremap|munmap|madvise|posix_fadvise|readahead|f?truncate|(posix_)?fallocate|sendfile|splice|tee|vmsplice|copy_file_range|aio_.*|lio_.*|io_.*|mkstemps?|mkostemps?|memfd_create|flock|lockf|fcntl|ioctl'
names='[fl]?x?stat(at|vfs|fs)?|fstatvfs|fstatfs|f?access(at)?|unlink(at)?|remove|rename(at)?2?|link(at)?|symlink(at)?|readlink(at)?|realpath|mkdir(at)?|rmdir|[fl]?(get|set|list|remove)xattr|(fd)?opendir|readdir|scandir|closedir|rewinddir'
sockets='(send|recv)(to|from|m?msg)?|accept4?|connect|shutdown|socket(pair)?|bind|listen|get(addr|name)info|gethostby(name2?|addr)(_r)?|res_.*'
waits='p?poll|p?select|epoll_.*|eventfd(_read|_write)?|inotify_.*|signalfd|timerfd_.*|sem_.*|pthread_(cond|mutex|rwlock|barrier|spin)[a-z_]*|pthread_[a-z]*join(_np)?|wait(pid|id|[34])?|(clock_)?nanosleep|u?sleep|pause|sig(wait|waitinfo|timedwait|suspend)|sched_yield|msg(snd|rcv)|sem(op|timedop)|shm_open|shmat|mq_.*|syscall'
processes='v?fork|forkpty|posix_spawnp?|exec[lv]p?e?|execve(at)?|fexecve|system|popen|pclose|dup[23]?|pipe2?'

while read -r object; do
	nm -D --undefined-only "$object" 2>/dev/null
done <"$tmp/objects" | sed -n 's/.* U \([A-Za-z0-9_]*\)@.*GLIBC_.*/\1/p' | sort -u |
	grep -E -x "_*(isoc[0-9]+_)?(IO_)?($stdio|$files|$names|$sockets|$waits|$processes)(64)?(_unlocked)?(_chk|_2)?" >"$tmp/imports"
nm -D --defined-only "$shim" | awk '{ print $3 }' | sort -u >"$tmp/wrapped"
comm -23 "$tmp/imports" "$tmp/wrapped" >"$tmp/left"
grep -v '^#' "$here/capture_unwrapped.txt" >"$tmp/list"
cut -f1 "$tmp/list" >"$tmp/patterns"
failed=0
[ "$(wc -l <"$tmp/imports")" -gt 80 ] || { echo "only $(wc -l <"$tmp/imports") imports found: the test looks at nothing"; failed=1; }
awk -F'\t' 'NF != 2 || $2 == "" { print "FAIL: no reason: " $0; bad = 1 } END { exit bad }' "$tmp/list" || failed=1
grep -v -E -x -f "$tmp/patterns" "$tmp/left" | sed 's/^/FAIL: neither wrapped nor on the list: /' >"$tmp/new"
[ -s "$tmp/new" ] && cat "$tmp/new" && failed=1
grep -E -x -f "$tmp/patterns" "$tmp/wrapped" | sed 's/^/FAIL: wrapped, and on the list of what is not: /' >"$tmp/both"
[ -s "$tmp/both" ] && cat "$tmp/both" && failed=1
echo "    $(wc -l <"$tmp/objects") files import $(wc -l <"$tmp/imports") such functions: $(comm -12 "$tmp/imports" "$tmp/wrapped" | wc -l) wrapped, $(wc -l <"$tmp/left") not"
exit $failed
