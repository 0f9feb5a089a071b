#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Our numbers and offsets of CUPTI's ABI against every vendor header set that this machine has.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT

cat >"$tmp/check.c" <<'EOF'
#include <cuda.h>
#include <cupti.h>
#include <stddef.h>
/* the header's enumerators and ours have different names; ours come last */
#include "shim/cupti_abi.h"
#define AT(type, field, number) _Static_assert(offsetof(type, field) == (number), #type "." #field)
#define IS(theirs, ours) _Static_assert((int)(theirs) == (int)(ours), #theirs)
#define KERNEL_CHECK(T) AT(T, start, KERNEL_START); AT(T, end, KERNEL_END); AT(T, deviceId, KERNEL_DEVICE); \
	AT(T, contextId, KERNEL_CONTEXT); AT(T, streamId, KERNEL_STREAM); AT(T, correlationId, KERNEL_CORRELATION); \
	AT(T, name, KERNEL_NAME); AT(T, kind, 0)
#define COPY_CHECK(T) AT(T, copyKind, MEMCPY_KIND); AT(T, srcKind, MEMCPY_SRC); AT(T, dstKind, MEMCPY_DST); \
	AT(T, bytes, MEMCPY_BYTES); AT(T, start, MEMCPY_START); AT(T, end, MEMCPY_END); AT(T, deviceId, MEMCPY_DEVICE); \
	AT(T, contextId, MEMCPY_CONTEXT); AT(T, streamId, MEMCPY_STREAM)
#define SET_CHECK(T) AT(T, bytes, MEMSET_BYTES); AT(T, start, MEMSET_START); AT(T, end, MEMSET_END); \
	AT(T, deviceId, MEMSET_DEVICE); AT(T, contextId, MEMSET_CONTEXT); AT(T, streamId, MEMSET_STREAM); \
	AT(T, correlationId, MEMSET_CORRELATION); AT(T, memoryKind, MEMSET_MEMORY)
STRUCTS
AT(CUpti_ActivityAPI, cbid, API_CBID); AT(CUpti_ActivityAPI, start, API_START); AT(CUpti_ActivityAPI, end, API_END);
AT(CUpti_ActivityAPI, threadId, API_TID); AT(CUpti_ActivityAPI, correlationId, API_CORRELATION);
AT(CUpti_ActivityAPI, returnValue, API_RESULT);
IS(CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_MEMCPY); IS(CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_MEMSET);
IS(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER); IS(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME);
IS(CUPTI_ACTIVITY_KIND_DEVICE, CUPTI_DEVICE); IS(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_KERNEL);
IS(CUPTI_ACTIVITY_KIND_OVERHEAD, CUPTI_OVERHEAD); IS(CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_MEMCPY_P2P);
IS(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, CUPTI_ATTR_ZEROED_BUFFERS);
IS(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM, CUPTI_THREAD_ID_SYSTEM);
IS(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, CUPTI_FLUSH_FORCED);
IS(CUPTI_ERROR_NOT_INITIALIZED, 15); IS(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, CUPTI_HELD);
int main(void) { return 0; }
EOF

# The struct versions that this header set has: SUFFIX... of a name
versions() {
	grep -o "^} CUpti_Activity$1[0-9]*;" "$2/cupti_activity.h" "$2/cupti_activity_deprecated.h" 2>/dev/null |
		sed 's/.*} //; s/;//' | sort -u
}
has() {
	grep -q "$1" "$2/cupti_activity.h" "$2/cupti_activity_deprecated.h" 2>/dev/null
}

found=0 failed=0
for header in /usr/local/cuda*/include/cupti.h /usr/local/cuda*/extras/CUPTI/include/cupti.h /opt/cuda/extras/CUPTI/include/cupti.h \
	$(${PYTHON:-python3} -c 'import site,sys
for p in site.getsitepackages() + [site.getusersitepackages()]: print(p)' 2>/dev/null |
		while read -r p; do find "$p/nvidia" -name cupti.h 2>/dev/null; done) ${WHYIDLE_CUPTI_HEADERS:-}; do
	[ -e "$header" ] || continue
	dir=$(dirname "$header")
	structs=$(
		for t in $(versions Kernel "$dir"); do
			case $t in *Kernel | *Kernel2 | *Kernel3) ;; *) echo "KERNEL_CHECK($t);" ;; esac
		done
		for t in $(versions Memcpy "$dir"); do case $t in *Memcpy2) ;; *) echo "COPY_CHECK($t); AT($t, correlationId, MEMCPY_CORRELATION);" ;; esac; done
		for t in $(versions MemcpyPtoP "$dir"); do echo "COPY_CHECK($t); AT($t, correlationId, P2P_CORRELATION);"; done
		for t in $(versions Memset "$dir"); do case $t in *Memset) echo "AT($t, correlationId, MEMSET_CORRELATION);" ;; *) echo "SET_CHECK($t);" ;; esac; done
		for t in $(versions Overhead "$dir"); do
			case $t in
			*Overhead) echo "AT($t, start, OVERHEAD_START); AT($t, end, OVERHEAD_END);" ;;
			*Overhead3) echo "AT($t, start, OVERHEAD_START); AT($t, overheadData, OVERHEAD_DATA); AT($t, overheadKind, OVERHEAD_KIND);" ;;
			esac
		done
		for t in $(versions Device "$dir"); do case $t in *Device) ;; *) echo "AT($t, id, DEVICE_ID); AT($t, name, DEVICE_NAME);" ;; esac; done
		# every number of ours, by the name that the call has there
		sed -n 's/^CBID(\([A-Z]*\), \([0-9]*\), \([A-Za-z0-9_]*\)).*/\1 \2 \3/p' "$root/shim/cupti_cbid.def" |
			while read -r domain number name; do
				lower=$(echo "$domain" | tr A-Z a-z)
				line=$(grep -hE "^ *CUPTI_${domain}_TRACE_CBID_[A-Za-z0-9_]+ *= *$number," "$dir/cupti_${lower}_cbid.h") || continue
				echo "$line" | grep -qE "CBID_$name(_v[0-9]+)?(_ptds|_ptsz)?(_v[0-9]+)? " ||
					echo "#error $domain $number is not $name: $line"
			done
	)
	{
		while IFS= read -r l; do
			if [ "$l" = STRUCTS ]; then printf '%s\n' "$structs"; else printf '%s\n' "$l"; fi
		done <"$tmp/check.c"
	} >"$tmp/filled.c"
	# a wheel has cupti.h alone: cuda.h comes from elsewhere
	cuda=$dir
	[ -e "$cuda/cuda.h" ] || cuda=$(dirname "$(ls /usr/local/cuda*/include/cuda.h 2>/dev/null | head -n 1)")
	[ -e "$cuda/cuda.h" ] || { echo "$dir: no cuda.h to go with it"; continue; }
	found=$((found + 1))
	n=$(grep -o 'CHECK(CUpti\|AT(CUpti' "$tmp/filled.c" | wc -l)
	if ${CC:-gcc} -w -I"$dir" -I"$cuda" -I"$root" -c "$tmp/filled.c" -o "$tmp/check.o" 2>"$tmp/err"; then
		echo "$dir: agrees ($n struct checks)"
	else
		echo "$dir: differs"; head -n 20 "$tmp/err"; failed=1
	fi
done
[ $found -gt 0 ] || { echo "no CUPTI headers on this machine"; exit 77; }
exit $failed
