#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Scenarios of communication, and three troubles at once.
exec "$(dirname "$0")/scenarios.sh" late-peer slow-link packet-loss blocked-port mixed
