#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Scenarios in which batches come late.
exec "$(dirname "$0")/scenarios.sh" slow-storage few-workers slow-decode remote-data pageable worker-churn
