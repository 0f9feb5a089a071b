# SPDX-License-Identifier: Apache-2.0
"""Holds what whyidle says of each check of a loss scaler against the log of the scaler itself.

usage: check_scaler.py TRUTH TRACECAT_OUTPUT_OF_ANNOTATE REPORT_JSON LEAST [form]
LEAST: precision and recall that are required. The scale's curve must be the scaler's where it is known."""
import json
import re
import sys


def verdicts_of(lines):
    """number of the check -> verdict, from the bands of the timeline"""
    found = {}
    for line in lines:
        m = re.search(r'begin "check (\d+)(:| skipped)([^"]*)"', line)
        if m:
            found[int(m.group(1))] = "unknown" if m.group(2) == ":" else "partly" if "some" in m.group(3) else "skipped"
    return found


def main():
    truth_path, cat_path, report_path, least = sys.argv[1:5]
    with open(truth_path) as f:
        truth = [json.loads(line) for line in f]
    with open(cat_path, errors="replace") as f:
        found = verdicts_of(f)
    with open(report_path) as f:
        report = json.load(f)
    scaler = report["devices"][0]["scaler"]
    checks = [t for t in truth if t["check"] >= 0]
    if not checks:
        if scaler["seen"] or found:
            sys.exit(f"no scaler in the job, but one was seen: {scaler}")
        print("no scaler, none seen")
        return
    if scaler["checks"] != len(checks):
        sys.exit(f"{scaler['checks']} checks seen, there were {len(checks)}; {report['run']['dropped_events']} events were lost, warnings: {report.get('warnings')}")
    hit = false = missed = unknown = 0
    for t in checks:
        said = found.get(t["check"], "applied")
        if said == "unknown":
            unknown += 1
            missed += t["verdict"] != "applied"
        elif said == t["verdict"]:
            hit += said != "applied"
        elif t["verdict"] == "applied":
            false += 1
        else:
            missed += 1
    precision = hit / (hit + false) if hit + false else 1
    recall = hit / (hit + missed) if hit + missed else 1
    print(f"{len(checks)} checks, {hit + missed} not applied: precision {precision:.4f} recall {recall:.4f}, {unknown} unknown, "
          f"confidence {scaler.get('confidence', 0):.3f}, by {scaler.get('evidence')}")
    if precision < float(least) or recall < float(least):
        sys.exit("too few")
    if scaler["skips"] != sum(v == "skipped" for v in found.values()):
        sys.exit("report and timeline do not agree")
    scale = scaler.get("scale")
    if scale and scale["known"] in ("read back", "replayed") and float(least) == 1:
        last = checks[-1]["scale"]
        if abs(scale["last"] - last) > 1e-6 * last:
            sys.exit(f"the scale ended at {last}, said was {scale}")


main()
