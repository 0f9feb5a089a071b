#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# whyidle report on traces of PyTorch's profiler. First small ones made here; then real ones with figures computed by others, which lie beside the
# checkout (../shared/corpus) and are not part of it: without them that part is skipped.
set -u
PYTHON=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
unset WHYIDLE_DIR WHYIDLE_JSON WHYIDLE_REPORT WHYIDLE_FAIL_IF
exec "$PYTHON" "$here/check_kineto.py" "$BUILD/whyidle" "$here/../../../shared/corpus"
