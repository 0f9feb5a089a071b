#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Two majors of libcudart in one process: each caller reaches the one it was linked with, as it would without the shim. And an
# interposer of somebody else's that was preloaded behind us is not passed by.
set -u
. "$(dirname "$0")/preload.sh"
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
for major in 12 13; do
	echo "libcudart.so.$major { global: cuda*; nccl*; local: *; };" >map$major
	cat >cudart$major.c <<EOF
#include <stddef.h>
int cudaMalloc(void **p, size_t n) { return $major; }
int cudaMallocAsync(void **p, size_t n, void *s) { return 100 + $major; }
EOF
	$CC -shared -fPIC cudart$major.c -o libcudart.so.$major -Wl,-soname,libcudart.so.$major -Wl,--version-script=map$major || exit 99
	cat >user$major.c <<EOF
#include <stddef.h>
int cudaMalloc(void **p, size_t n);
int cudaMallocAsync(void **p, size_t n, void *s);
int use$major(void) { return cudaMalloc(0, 0); }
int use_async$major(void) { return cudaMallocAsync(0, 0, 0); }
EOF
	$CC -shared -fPIC user$major.c -o libuser$major.so ./libcudart.so.$major -Wl,-rpath,"$tmp" || exit 99
done
cat >main.c <<'EOF'
#include <dlfcn.h>
#include <stdio.h>
int use12(void);
int main(int argc, char **argv)
{
	void *local = dlopen("./libuser13.so", RTLD_NOW | RTLD_LOCAL);
	int (*use13)(void) = dlsym(local, "use13"), (*use_async13)(void) = dlsym(local, "use_async13");
	for (int i = 0; i < 3; i++)
		printf("%d %d %d\n", use12(), use13(), use_async13());
	return 0;
}
EOF
$CC -w main.c -o main ./libuser12.so -Wl,-rpath,"$tmp" -ldl || exit 99
cat >interposer.c <<'EOF'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
int cudaMalloc(void **p, size_t n) { int (*real)(void **, size_t) = dlsym(RTLD_NEXT, "cudaMalloc"); return 1000 + real(p, n); }
EOF
$CC -w -shared -fPIC interposer.c -o libinterposer.so -ldl || exit 99

failed=0
for preload in '' "$tmp/libinterposer.so"; do
	bare=$(env LD_PRELOAD="$preload" ./main)
	mkdir -p session
	shim=$(env WHYIDLE_DIR="$tmp/session" LD_PRELOAD="$PRELOAD${preload:+:}$preload" ./main)
	echo "$(echo "$bare" | head -n 1) without, $(echo "$shim" | head -n 1) with the shim"
	[ "$bare" = "$shim" ] || failed=1
done
exit $failed
