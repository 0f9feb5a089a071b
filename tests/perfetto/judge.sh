#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# judge.sh ARGUMENTS-OF-judge.mjs-AFTER-PACKAGE...: for end-to-end tests. Needs BUILD. Fetches Perfetto when it is not there
# yet, and holds every trace against our own reader as well. Exit 0 = all is well, 1 = a complaint, 77 = no Perfetto to be had here.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v node >/dev/null || { echo 'node is not installed: no Perfetto to judge traces with'; exit 77; }
package=$(sed -n 's/.*"\(@swmansion\/argent\)": "\(.*\)".*/\1@\2/p' "$here/package.json")
"$here/fetch.sh" "$package" "$BUILD/perfetto" || exit $?
exec node "$here/judge.mjs" "$BUILD/perfetto/package" --reader "$BUILD/tests/tracesum" "$@"
