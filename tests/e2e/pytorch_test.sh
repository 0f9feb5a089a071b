#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A DataLoader-fed classifier under whyidle: no workers, two and four, by fork, spawn and forkserver.
exec "$(dirname "$0")/pytorch.sh" classify-0 classify-2-fork classify-2-spawn classify-2-forkserver classify-4-fork classify-disk
