#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a truth file of examples/train is sound in itself. Exit status 1 when not.

Usage: check_train.py TRUTH.json RANKS STEPS [timing]	timing: also that the injected cause costs what it should
"""

import json
import sys

problems = []


def expect(condition, sentence):
    if not condition:
        problems.append(sentence)


def check(rank, injected, timing, steps):
    name = f"rank {rank['rank']}"
    start, end = rank["steady"]["start_ns"], rank["steady"]["end_ns"]
    window = end - start
    booked = {}
    last = {}
    for interval in sorted(rank["intervals"], key=lambda i: (i["leaf"], i["start_ns"])):
        leaf = interval["leaf"]
        expect(start <= interval["start_ns"] < interval["end_ns"] <= end, f"{name}: an interval of {leaf} leaves the window")
        expect(interval["start_ns"] >= last.get(leaf, 0), f"{name}: intervals of {leaf} overlap")
        last[leaf] = interval["end_ns"]
        booked[leaf] = booked.get(leaf, 0) + interval["end_ns"] - interval["start_ns"]
    expect(booked == rank["leaf_ns"], f"{name}: intervals sum to {booked}, leaf_ns says {rank['leaf_ns']}")
    expect(sum(booked.values()) + rank["other_ns"] == rank["lost_ns"], f"{name}: leaves and other do not sum to lost_ns")
    expect(0 <= rank["other_ns"] <= rank["lost_ns"] <= window, f"{name}: other {rank['other_ns']}, lost {rank['lost_ns']}, window {window}")
    expect(rank["steps"] == steps, f"{name}: {rank['steps']} steps, not {steps}")
    expect(("scaler.skip" in injected) == bool(rank["skipped_steps"]), f"{name}: skipped {rank['skipped_steps']}")
    print(f"    {name}: {window / 1e6:.0f} ms, lost {rank['lost_ns'] / window:.1%}, other {rank['other_ns'] / window:.1%}, "
          + ", ".join(f"{leaf} {ns / window:.1%}" for leaf, ns in booked.items()) + f", wasted {rank['skipped_compute_ns'] / window:.1%}")
    if timing:
        expect(rank["other_ns"] < 0.05 * window, f"{name}: {rank['other_ns'] / window:.1%} of the window lost for no injected reason")
    return {leaf: ns / window for leaf, ns in booked.items()} | {"wasted": rank["skipped_compute_ns"] / window}


def main():
    with open(sys.argv[1]) as file:
        truth = json.load(file)
    ranks, steps, timing = int(sys.argv[2]), int(sys.argv[3]), len(sys.argv) > 4
    injected = truth["injected"]
    expect([rank["rank"] for rank in truth["ranks"]] == list(range(ranks)), "ranks are missing")
    shares = [check(rank, injected, timing, steps) for rank in truth["ranks"]]
    if timing:
        for leaf in injected:
            found = max(share.get("wasted" if leaf == "scaler.skip" else leaf, 0) for share in shares)
            expect(found >= 0.05, f"{leaf} was injected, but cost only {found:.1%}")
        if not injected:
            expect(all(ns < 0.05 for share in shares for ns in share.values()), "a healthy run lost time")
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
