#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Scenarios of examples/train, each once: the injected cause must be found, with the right amount.
# Usage: BUILD=folder tests/e2e/scenarios.sh [NAME...] (all)
# The machine may be busy with other things; a scenario that fails is tried once more, longer, before it counts.
set -u
[ -z "${SAN:-}" ] || { echo 'it measures time, which sanitizers distort'; exit 77; }
here=$(dirname "$0")
[ $# -gt 0 ] || set -- healthy slow-storage few-workers slow-decode remote-data pageable worker-churn late-peer slow-link packet-loss \
	blocked-port overflow checkpoint item-sync tiny-kernels alloc mixed
failed=''
for name; do
	echo "== $name"
	ranks=2
	# decoding keeps one core per rank busy: two ranks want a core more for everything else
	[ "$name" != slow-decode ] || [ "$(nproc)" -gt 2 ] || ranks=1
	PLAIN=0 "$here/scenario.sh" "$name" $ranks 40 || PLAIN=0 "$here/scenario.sh" "$name" $ranks 60 || failed="$failed $name"
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
