#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that are missing for `build` (the tools and the command), or for `test` (everything).
# Says what it installs; needs root or sudo only when something is missing.
set -u
want=${1:-build}
missing=''

need() { # need PACKAGE TEST...
	package=$1
	shift
	"$@" >/dev/null 2>&1 || missing="$missing $package"
}
# A header and library that really compile: pkg-config may know what gcc cannot find, and some have no .pc file.
header() { printf '#include <stddef.h>\n#include <stdint.h>\n#include <stdarg.h>\n#include <setjmp.h>\n#include <%s>\nint main(void){return 0;}\n' "$1" | ${CC:-gcc} -xc - -o /dev/null; }

need gcc command -v gcc
need g++ sh -c 'command -v g++'
need pkg-config command -v pkg-config
need libc6-dev header stdio.h
need protobuf-c-compiler command -v protoc-c
need libprotobuf-c-dev header protobuf-c/protobuf-c.h
need libjansson-dev header jansson.h
need zlib1g-dev header zlib.h
if [ "$want" = test ]; then
	need libcmocka-dev header cmocka.h
	need clang command -v clang
	need libunwind-dev header libunwind.h
	need nodejs command -v node
	need npm command -v npm
	need python3 command -v python3
	need python3-venv python3 -c 'import venv, ensurepip'
	need procps command -v ps
	need iproute2 command -v ip
	need strace command -v strace
	need binutils command -v readelf
	need curl command -v curl
	need git command -v git
fi
[ -z "$missing" ] && exit 0

echo "installing:$missing"
sudo=''
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || {
		echo "not root, and there is no sudo: run this as root, then try again:"
		echo "  apt-get install$missing"
		exit 1
	}
	sudo=sudo
fi
command -v apt-get >/dev/null || {
	echo "there is no apt-get here: install what these Debian packages hold, then try again:$missing"
	exit 1
}
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null 2>&1 ||
	{ $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null; } ||
	{ echo "apt-get could not install:$missing"; exit 1; }
