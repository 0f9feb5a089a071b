#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what a report says of a CPU-only PyTorch job. Exit status 1 when it is wrong.

Usage: check_host.py REPORT.json [--ranks N] [--wait-ms MIN MAX] [--leaf LEAF] [--mentions TEXT] [--workers N]
"""

import argparse
import json
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--wait-ms", type=float, nargs=2, help="bounds of the time spent waiting for batches")
    parser.add_argument("--leaf", help="where most of that wait must have gone")
    parser.add_argument("--mentions", help="text that the report must contain, for instance a path")
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    with open(options.report) as file:
        text = file.read()
    report = json.loads(text)
    problems = []
    host = report.get("host_only")
    if report["run"]["gpu"] != "none":
        problems.append(f"gpu is '{report['run']['gpu']}', not none")
    if report["run"]["dropped_events"]:
        problems.append(f"{report['run']['dropped_events']} events dropped")
    if not host:
        problems.append("there is no host_only part")
    else:
        print(f"    waited {host['data_wait_ns'] / 1e6:.0f} ms for batches, {host.get('comm_wait_ns', 0) / 1e6:.0f} ms for other ranks; "
              f"{host.get('batches')} batches, {host.get('workers')} workers; "
              + ", ".join(f"{leaf} {ns / 1e6:.0f}" for leaf, ns in host.get("leaf", {}).items() if ns >= 1e6))
        wait = host["data_wait_ns"] / 1e6
        if options.wait_ms and not options.wait_ms[0] <= wait <= options.wait_ms[1]:
            problems.append(f"the wait for batches is {wait:.0f} ms, expected {options.wait_ms[0]:.0f} to {options.wait_ms[1]:.0f}")
        leaves = {leaf: ns for leaf, ns in host.get("leaf", {}).items() if leaf.startswith(("data.", "unknown"))}
        if options.leaf and leaves.get(options.leaf, 0) < 0.5 * host["data_wait_ns"]:
            problems.append(f"less than half of the wait is {options.leaf}: {leaves}")
        if options.workers is not None and host.get("workers") != options.workers:
            problems.append(f"{host.get('workers')} workers seen, there were {options.workers}")
        if options.ranks is not None and len(host.get("ranks", [])) != options.ranks:
            problems.append(f"{len(host.get('ranks', []))} ranks in host_only, there were {options.ranks}")
    if options.mentions and options.mentions not in text:
        problems.append(f"the report does not mention {options.mentions}")
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
