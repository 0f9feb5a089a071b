#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every input that once did harm to the reader, or might, and every prefix of each.
exec "$BUILD/tests/fuzz/reader_replay" "$(dirname "$0")/../corpus/bad"
