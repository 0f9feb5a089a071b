#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch's own GradScaler on the CPU, with infinities at known steps: the report counts the skips that get_scale() shows, and knows the scale.
# TORCH_PYTHON = an interpreter with PyTorch, else one is set up in $BUILD/venv.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/../venv.sh" "$BUILD/venv") || exit $?
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
unset WHYIDLE_DIR WHYIDLE_LIB LD_PRELOAD

cat >loop.py <<'P'
import json
import sys

import torch

if not hasattr(torch.amp, "GradScaler"):
    sys.exit(77)
torch.manual_seed(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=7)
skips = 0
for i in range(60):
    loss = model(torch.randn(8, 64)).square().mean() * (float("inf") if i % 9 == 4 else 1)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    before = scaler.get_scale()
    scaler.update()
    optimizer.zero_grad()
    skips += scaler.get_scale() < before
json.dump({"skips": skips, "scale": scaler.get_scale()}, open("truth", "w"))
P
"$BUILD/whyidle" run --json --report report.json -o session -- "$python" loop.py 2>err
rc=$?
[ $rc = 77 ] && { echo 'this PyTorch has no scaler for the CPU'; exit 77; }
[ $rc = 0 ] || { cat err; exit 1; }
"$python" - <<'P'
import json

truth = json.load(open("truth"))
report = json.load(open("report.json"))
s = report["host_only"]["ranks"][0]["scaler"]
print(truth, s)
assert s["checks"] == 60 and s["skips"] == truth["skips"]
assert s["scale"]["known"] == "read back" and s["scale"]["last"] == truth["scale"]
assert s["scale"]["growth_interval"] == 7 and s["scale"]["backoff_factor"] == 0.5
assert any("loss scaler skipped" in w for w in report["run"].get("warnings", report.get("warnings", [])))
P
