#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a report with what tests/e2e/pytorch/starve.py measured by itself. Exit status 1 when they disagree.

Usage: check_data.py REPORT.json TRUTH.json LEAF[+LEAF...] [--of data|save|log|sleep] [--silent] [--workers N] [--mentions TEXT]
"""

import argparse
import json
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("truth")
    parser.add_argument("leaves", help="leaves that together must hold what was injected; the largest finding is one of them")
    parser.add_argument("--of", default="data", help="which part of the truth was injected")
    parser.add_argument("--silent", action="store_true", help="nothing was injected: no finding")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--mentions", action="append", default=[])
    options = parser.parse_args()
    with open(options.report) as file:
        text = file.read()
    with open(options.truth) as file:
        truth = json.load(file)
    report, problems = json.loads(text), []
    host = report["host_only"]
    got, wall = host["leaf"], host["wall_ns"]
    wanted = options.leaves.split("+")
    injected = truth[options.of + "_ns"]
    # The first batch's wait is the workers' start or the same cause as the others': either is right.
    slack = 0.05 * wall + (truth["first_ns"] if options.of == "data" else 0)
    found = sum(got.get(leaf, 0) for leaf in wanted)
    # Start, hand-over and the end of workers come with any loader.
    beside = {leaf: ns for leaf, ns in got.items() if ns > 0.05 * wall and leaf not in wanted + ["startup", "data.worker_start"]}
    print(f"    injected {injected / 1e6:.0f} ms (first batch {truth['first_ns'] / 1e6:.0f}) in {wall / 1e6:.0f}; "
          + ", ".join(f"{leaf} {ns / 1e6:.0f}" for leaf, ns in got.items() if ns >= 1e6))
    if report["run"]["dropped_events"]:
        problems.append(f"{report['run']['dropped_events']} events dropped")
    findings = [f for f in report["findings"] if f["leaf"] not in ("startup", "data.worker_start")]
    if options.silent:
        if findings:
            problems.append(f"findings in a healthy run: {[f['title'] for f in findings]}")
    else:
        if not injected - slack <= found <= injected + slack:
            problems.append(f"{'+'.join(wanted)} is {found / 1e6:.0f} ms, injected {injected / 1e6:.0f}, allowed difference {slack / 1e6:.0f}")
        if not findings or findings[0]["leaf"] not in wanted:
            problems.append(f"the largest finding is {findings[0]['leaf'] if findings else 'none'}")
        if beside:
            problems.append(f"more than 5 % of the time: {beside}")
    if options.workers is not None and host["workers"] != options.workers:
        problems.append(f"{host['workers']} workers seen, there were {options.workers}")
    for words in options.mentions:
        if words not in text:
            problems.append(f"the report does not mention {words}")
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
