#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes the Python environment of tests/requirements.txt in folder $1, once; prints its interpreter. Exit status 77: it cannot be made here.
set -u
venv=$1
here=$(dirname "$0")
PYTHON=${PYTHON:-python3}
# An interpreter that has what is needed already will do.
if [ -n "${TORCH_PYTHON:-}" ] && "$TORCH_PYTHON" -c 'import torch, numpy' 2>/dev/null; then
	echo "$TORCH_PYTHON"
	exit 0
fi
if [ ! -e "$venv/complete" ]; then
	rm -rf "$venv"
	"$PYTHON" -m venv "$venv" >&2 || { echo "python3 cannot make a virtual environment (python3-venv is missing?)" >&2; exit 77; }
	pip="$venv/bin/python -m pip --disable-pip-version-check -q install"
	# The CPU build has a name of its own only where pip is told of PyTorch's own index; elsewhere the plain release does, with more to download.
	$pip -r "$here/requirements.txt" >&2 ||
		{ sed 's/+cpu//' "$here/requirements.txt" >"$venv/plain.txt" && $pip -r "$venv/plain.txt" >&2; } ||
		{ echo "pip cannot install PyTorch here" >&2; exit 77; }
	"$venv/bin/python" -c 'import torch' >&2 || { echo "the installed PyTorch does not load" >&2; exit 77; }
	touch "$venv/complete"
fi
echo "$venv/bin/python"
