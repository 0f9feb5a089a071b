#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The library as the dynamic linker sees it: needs libc alone, exports what the rows name and nothing else, without versions, stays loaded,
# asks for no lazy binding and no dynamic thread-local storage.
set -u
root=$(dirname "$0")/../..
shim=$BUILD/libwhyidle.so
[ -e "$shim" ] || exit 99
case ${SAN:-} in '') ;; *) echo "a sanitized library needs its runtime"; exit 77 ;; esac
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
failed=0
complain() { echo "FAIL: $*"; failed=1; }

readelf -d "$shim" >"$tmp/dynamic" || exit 99
needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$tmp/dynamic")
[ "$needed" = libc.so.6 ] || complain "needs $needed"
grep -q NODELETE "$tmp/dynamic" || complain "may be unloaded"
grep -q BIND_NOW "$tmp/dynamic" || complain "binds lazily"
grep -q STATIC_TLS "$tmp/dynamic" || complain "thread-local storage is not initial-exec"
grep -q TEXTREL "$tmp/dynamic" && complain "has text relocations"
readelf -Ws --dyn-syms "$shim" | grep -q __tls_get_addr && complain "calls __tls_get_addr"

# Rows by the preprocessor: the first (NCCL) or second (all others) argument of API, the first of HAND.
cat >"$tmp/rows.c" <<'C'
#define HAND(name, call) ROW name
#define API(ret, name, ...) ROW name
#include "shim/file.def"
#include "shim/net.def"
#include "shim/wait.def"
#include "shim/proc.def"
#include "shim/cuda.def"
#undef API
#define API(name, ...) ROW name
#include "shim/nccl.def"
C
"${CC:-cc}" -E -P -I"$root" "$tmp/rows.c" | grep -o 'ROW [A-Za-z0-9_]*' | cut -c5- >"$tmp/rows"
# By hand in cuda.c: kernel names and handles; in torch.c: PyTorch's scaler on the CPU.
printf '%s\n' __cudaRegisterFunction __cudaGetKernel _ZN2at6native22_amp_update_scale_cpu_ERNS_6TensorES2_RKS1_ddl >>"$tmp/rows"
sort "$tmp/rows" | uniq -d | sed 's/^/FAIL: two rows: /' >"$tmp/twice"
[ -s "$tmp/twice" ] && cat "$tmp/twice" && failed=1
sort -u "$tmp/rows" >"$tmp/want"
nm -D --defined-only "$shim" | awk '{ print $3 }' | sort -u >"$tmp/have"
grep -q @ "$tmp/have" && complain "exports carry a version: $(grep @ "$tmp/have" | head -3)"
# InitializeInjection* and ncclProfiler_* are entry points, not wrappers.
comm -13 "$tmp/want" "$tmp/have" | grep -v -e '^InitializeInjection' -e '^ncclProfiler_' >"$tmp/extra"
comm -23 "$tmp/want" "$tmp/have" >"$tmp/missing"
[ -s "$tmp/extra" ] && complain "exported without a row: $(tr '\n' ' ' <"$tmp/extra")"
[ -s "$tmp/missing" ] && complain "rows that are not exported: $(tr '\n' ' ' <"$tmp/missing")"
for word in malloc dlopen dlsym pthread_create pthread_mutex_lock; do
	grep -qx $word "$tmp/have" && complain "must not be wrapped: $word"
done
[ "$(wc -l <"$tmp/have")" -gt 150 ] || complain "only $(wc -l <"$tmp/have") exports"
exit $failed
