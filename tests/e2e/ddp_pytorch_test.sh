#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Data-parallel training over gloo under whyidle, started by the script itself and by torchrun; and scripts that fail.
exec "$(dirname "$0")/pytorch.sh" ddp ddp-torchrun usage missing
