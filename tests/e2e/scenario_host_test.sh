#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Scenarios of the training thread itself, and a run with nothing wrong.
exec "$(dirname "$0")/scenarios.sh" healthy overflow checkpoint item-sync tiny-kernels alloc
