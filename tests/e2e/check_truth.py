#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a report (whyidle.report/1) with the truth that examples/train wrote. Prints a table; exit status 1 when they disagree.

Usage: check_truth.py REPORT.json TRUTH.json
"""

import json
import sys

TOLERANCE = 0.05   # of the steady window
UNKNOWN = 0.05

problems = []


def expect(condition, sentence):
    if not condition:
        problems.append(sentence)


def check_sums(rank, name, window):
    state = window["state"]
    lost = state["exposed_comm"] + state["exposed_copy"] + state["idle"]
    for what, parts, whole in (
        ("states", state, window["ns"]),
        ("ledger A", window["ledger_a"], state["idle"]),
        ("ledger B", window["ledger_b"], lost),
    ):
        total = sum(parts.values())
        expect(total == whole, f"rank {rank}, {name} window: {what} sum to {total} ns, not {whole}")
        expect(all(value >= 0 for value in parts.values()), f"rank {rank}, {name} window: {what} has a negative part")


def check_rank(truth, device, injected):
    rank = truth["rank"]
    start, end = truth["steady"]["start_ns"], truth["steady"]["end_ns"]
    steady = device["windows"]["steady"]
    for name, window in device["windows"].items():
        check_sums(rank, name, window)
    expect(abs(steady["ns"] - (end - start)) <= 0.1 * (end - start),
           f"rank {rank}: the steady window is {steady['ns'] / 1e6:.0f} ms long, the truth's {(end - start) / 1e6:.0f} ms")
    if steady["ns"] == 0:
        problems.append(f"rank {rank}: the steady window is empty")
        return
    rows = sorted(set(steady["ledger_b"]) | set(truth["leaf_ns"]))
    print(f"rank {rank}: steady {steady['ns'] / 1e6:.0f} ms, truth {(end - start) / 1e6:.0f} ms")
    for leaf in rows:
        said = steady["ledger_b"].get(leaf, 0) / steady["ns"]
        true = truth["leaf_ns"].get(leaf, 0) / (end - start)
        mark = " <- injected" if leaf in injected else ""
        if said >= 0.001 or true >= 0.001 or mark:
            print(f"    {leaf:20s} said {said:7.2%}   true {true:7.2%}{mark}")
        # The windows may differ by a step at their ends: compare what they say per time.
        if leaf in injected:
            expect(abs(said - true) <= TOLERANCE, f"rank {rank}: {leaf} is {true:.1%} of the steady window, the report says {said:.1%}")
    unknown = steady["ledger_b"].get("unknown", 0) / steady["ns"]
    expect(unknown < UNKNOWN, f"rank {rank}: {unknown:.1%} unknown")
    if "scaler.skip" in injected:
        said = steady["ledger_c"]["skipped_compute"] / steady["ns"]
        true = truth["skipped_compute_ns"] / (end - start)
        print(f"    {'ledger C':20s} said {said:7.2%}   true {true:7.2%}")
        expect(abs(said - true) <= TOLERANCE, f"rank {rank}: skipped steps wasted {true:.1%}, the report says {said:.1%}")
        expect(device["steps"]["skipped"] == len(truth["skipped_steps"]),
               f"rank {rank}: {len(truth['skipped_steps'])} steps were skipped, the report says {device['steps']['skipped']}")
    expect(abs(device["steps"]["count"] - truth["steps"]) <= 3,
           f"rank {rank}: {truth['steps']} steps, the report says {device['steps']['count']}")


def check_findings(report, injected):
    findings = report["findings"]
    for finding in findings:
        print(f"    finding: {finding['severity']} {finding['leaf']} {finding['share']:.2%} {finding['title']}")
    leaves = [finding["leaf"] for finding in findings]
    if not injected:
        expect(not findings, f"nothing was injected, the report finds {', '.join(leaves)}")
    elif len(injected) == 1:
        expect(leaves[:1] == injected, f"{injected[0]} was injected, the first finding is {leaves[0] if leaves else 'none'}")
    else:
        for leaf in injected:
            expect(leaf in leaves, f"{leaf} was injected, but is no finding")


def main():
    with open(sys.argv[1]) as file:
        report = json.load(file)
    with open(sys.argv[2]) as file:
        truth = json.load(file)
    injected = truth["injected"]
    print(f"{truth['scenario']}: injected {', '.join(injected) or 'nothing'}")
    expect(report["schema"] == "whyidle.report/1", "the report's schema is not whyidle.report/1")
    expect(report["run"]["gpu"] == "sim", f"gpu is '{report['run']['gpu']}', not sim")
    expect(report["run"]["ranks"] == len(truth["ranks"]), f"{report['run']['ranks']} ranks reported, {len(truth['ranks'])} ran")
    expect(report["run"]["dropped_events"] == 0, f"{report['run']['dropped_events']} events were dropped")
    for rank in truth["ranks"]:
        devices = [device for device in report["devices"] if device["rank"] == rank["rank"]]
        expect(len(devices) == 1, f"rank {rank['rank']} has {len(devices)} devices in the report")
        if devices:
            check_rank(rank, devices[0], injected)
    check_findings(report, injected)
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
