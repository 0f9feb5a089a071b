#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks reports (JSON files, - = stdin) against report.schema.json beside this file, and that their sums hold to the ns.

Knows the part of JSON Schema that the schema uses. Exits 0 when all is well, 1 with a line per fault.
"""
import json
import os
import sys

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
KNOWN = {"$schema", "$defs", "$ref", "title", "description", "type", "required", "properties", "additionalProperties", "items", "enum", "const",
         "minimum", "maximum", "minLength"}


def is_type(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def validate(value, schema, root, path, faults):
    unknown = set(schema) - KNOWN
    if unknown:
        raise SystemExit("the schema uses what this checker does not know: %s" % unknown)
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].lstrip("#/").split("/"):
            target = target[part]
        return validate(value, target, root, path, faults)
    if "const" in schema and value != schema["const"]:
        faults.append("%s: %r is not %r" % (path, value, schema["const"]))
    if "enum" in schema and value not in schema["enum"]:
        faults.append("%s: %r is none of %s" % (path, value, schema["enum"]))
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, t) for t in types):
        faults.append("%s: %r is no %s" % (path, value, " or ".join(types)))
        return
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            faults.append("%s: %r is below %r" % (path, value, schema["minimum"]))
        if "maximum" in schema and value > schema["maximum"]:
            faults.append("%s: %r is above %r" % (path, value, schema["maximum"]))
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        faults.append("%s: too short" % path)
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            validate(item, schema["items"], root, "%s[%d]" % (path, i), faults)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for key in schema.get("required", []):
            if key not in value:
                faults.append("%s: lacks %s" % (path, key))
        for key, item in value.items():
            more = schema.get("additionalProperties", True)
            if key in properties:
                validate(item, properties[key], root, "%s.%s" % (path, key), faults)
            elif more is False:
                faults.append("%s: has %s, which is not in the schema" % (path, key))
            elif isinstance(more, dict):
                validate(item, more, root, "%s.%s" % (path, key), faults)


def equal(what, a, b, faults):
    if a != b:
        faults.append("%s: %d is not %d" % (what, a, b))


def counted(windows):
    return windows["steady"] or windows["run"]


def check_window(name, w, faults):
    s = w["state"]
    equal(name + " states", sum(s.values()), w["ns"], faults)
    equal(name + " ledger A", sum(w["ledger_a"].values()), s["idle"], faults)
    equal(name + " ledger B", sum(w["ledger_b"].values()), s["idle"] + s["exposed_comm"] + s["exposed_copy"], faults)
    equal(name + " unknown", sum(w["unknown"].values()), w["ledger_b"]["unknown"], faults)


def group(leaf):
    for name, leaves in (("data_starvation_ns", ("data.",)), ("comm_retry_ns", ("comm.retry",)), ("other_comm_ns", ("comm.",)),
                         ("scaler_skip_ns", ("scaler.",)), ("unknown_ns", ("unknown",))):
        if leaf.startswith(leaves):
            return name
    return "other_ns"


def check_sums(report, faults):
    headline = dict.fromkeys(report["headline"], 0)
    leaves = {}
    for d in report["devices"]:
        for name, w in d["windows"].items():
            if w:
                check_window("rank %d %s" % (d["rank"], name), w, faults)
        w = counted(d["windows"])
        headline["scaler_wasted_ns"] += w["ledger_c"]["skipped_compute"]
        for leaf, ns in w["ledger_b"].items():
            leaves[leaf] = leaves.get(leaf, 0) + ns
    if not report["devices"] and "host_only" in report:
        leaves = report["host_only"]["leaf"]
        for leaf in leaves:
            equal("host_only " + leaf, sum(r["leaf"][leaf] for r in report["host_only"]["ranks"]), leaves[leaf], faults)
    for leaf, ns in leaves.items():
        if report["devices"] or leaf != "host.compute":  # without a GPU that is the training itself
            headline[group(leaf)] += ns
    for name, ns in headline.items():
        equal("headline " + name, report["headline"][name], ns, faults)
    for f in report["findings"]:
        more = headline["scaler_wasted_ns"] if f["leaf"] == "scaler.skip" else 0
        equal("finding " + f["leaf"], f["ns"], leaves[f["leaf"]] + more, faults)
    order = [f["ns"] for f in report["findings"]]
    if order != sorted(order, reverse=True):
        faults.append("findings are not sorted")


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "report.schema.json")) as f:
        schema = json.load(f)
    failed = False
    for path in sys.argv[1:]:
        with (sys.stdin if path == "-" else open(path)) as f:
            report = json.load(f)
        faults = []
        validate(report, schema, schema, "report", faults)
        if not faults:
            check_sums(report, faults)
        for fault in faults:
            print("%s: %s" % (path, fault))
        failed |= bool(faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
