#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_kineto.py WHYIDLE CORPUS: reports on profiler traces, made here and real ones. Works in the current folder."""
import glob
import gzip
import json
import os
import subprocess
import sys

WHYIDLE, CORPUS = sys.argv[1], sys.argv[2]
faults = 0


def check(holds, what):
    global faults
    if not holds:
        faults += 1
        print("fault:", what)


def run(*paths, text=False, rc=0):
    p = subprocess.run([WHYIDLE, "report", *([] if text else ["--json"]), *paths], capture_output=True, text=True, timeout=120)
    check(p.returncode == rc, f"status {p.returncode}, not {rc}, of {paths}: {p.stderr}")
    if rc:
        check(p.stdout == "", f"stdout of {paths} is not empty")
        return p.stderr
    return p.stdout if text else json.loads(p.stdout)


def event(cat, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def training(steps, step_us=10000, kernel_us=4000, load_us=5000, rank=0, hip=False):
    """One thread that makes its batches itself: per step load_us of loading, a launch, kernel_us of kernel."""
    events = []
    for i in range(steps):
        t = 1000000 + i * step_us
        events += [
            event("user_annotation", f"ProfilerStep#{i}", 77, 77, t, step_us - 1),
            event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 77, 77, t + 10, load_us),
            event("cuda_runtime", "hipLaunchKernel" if hip else "cudaLaunchKernel", 77, 77, t + load_us + 100, 20, correlation=i + 1),
            event("kernel", "gemm", rank, 7, t + load_us + 130, kernel_us, device=rank, stream=7, correlation=i + 1)]
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": sorted(events, key=lambda e: e["cat"])}


def write(name, trace):
    text = trace if isinstance(trace, str) else json.dumps(trace)
    with (gzip.open(name, "wt") if name.endswith(".gz") else open(name, "w")) as f:
        f.write(text)


def states(report, device=0, window="gpu_span"):
    return report["devices"][device]["windows"][window]["state"]


def made_here():
    for name, hip in (("a.json", False), ("b.pt.trace.json.gz", True)):
        write(name, training(30, hip=hip))
        r = run(name)
        w = r["devices"][0]["windows"]["gpu_span"]
        check(w["ns"] == (29 * 10000 + 4000) * 1000, f"span {w['ns']}")
        check(w["state"]["compute"] == 30 * 4000 * 1000, f"compute {w['state']}")
        # the loader runs after a step's kernel: 5000 us of the 6000 us between kernels, each step but the first
        check(w["ledger_a"]["data.preprocess"] == 29 * 5000 * 1000, f"data {w['ledger_a']}")
        check(r["devices"][0]["steps"]["count"] == 30, f"steps {r['devices'][0]['steps']}")
        check(r["findings"][0]["leaf"] == "data.preprocess" and r["findings"][0]["severity"] == "critical", f"findings {r['findings']}")
    os.makedirs("ranks", exist_ok=True)
    write("ranks/x.json", training(5, rank=0))
    write("ranks/y.json.gz", training(5, rank=1))
    write("ranks/notes.json", {"not": "a trace"})
    r = run("ranks")
    check([d["rank"] for d in r["devices"]] == [0, 1] and r["run"]["ranks"] == 2, "two ranks of a directory")
    check(any("notes.json" in w for w in r.get("warnings", [])) or "notes.json" in json.dumps(r), "the foreign file of the directory is named")

    text = json.dumps(training(5))
    write("cut.json", text[:len(text) * 2 // 3])
    out = run("cut.json", text=True)
    check("what came before it is used" in out and "offset" in out, "a cut trace is used up to there")
    packed = gzip.compress(text.encode())
    with open("cut.json.gz", "wb") as f:
        f.write(packed[:len(packed) // 2])
    check("ends in the middle" in run("cut.json.gz", text=True), "a cut gz is used up to there")
    with open("damaged.json.gz", "wb") as f:
        f.write(packed[:60] + b"\xff" * 40 + packed[100:])
    p = subprocess.run([WHYIDLE, "report", "damaged.json.gz"], capture_output=True, text=True, timeout=60)
    check(p.returncode in (0, 3) and "damaged.json.gz" in p.stdout + p.stderr, f"a damaged gz: {p.returncode} {p.stderr}")
    write("foreign.json", '{"dependencies": {"a": "1"}}')
    check("traceEvents" in run("foreign.json", text=True, rc=3), "foreign JSON is refused in a sentence")
    write("deep.json", '{"x": ' + "[" * 100000)
    check("nested deeper" in run("deep.json", text=True, rc=3), "deep nesting is refused in a sentence")
    p = subprocess.run([WHYIDLE, "annotate", "a.json", "-o", "out.pftrace"], capture_output=True, text=True, timeout=60)
    check(p.returncode == 3 and "a profiler's trace" in p.stderr, f"annotate says what it does not do: {p.stderr}")
    cpu = {"traceEvents": [event("cpu_op", "aten::mm", 5, 5, 100, 50)]}
    write("cpu.json", cpu)
    out = run("cpu.json", text=True)
    check("GPU work is in this profiler's trace" in out and "ealthy" not in out, f"CPU only is answered plainly: {out}")


def ledger(report, window="gpu_span", device=0):
    w = report["devices"][device]["windows"][window]
    return w["ledger_a"], w["ledger_b"], w["state"]["idle"]


def real():
    with open(f"{CORPUS}/reference.json") as f:
        reference = json.load(f)
    reports = {}
    for name, devices in reference.items():
        r = reports[name.split("/")[-1].split(".")[0]] = run(f"{CORPUS}/{name}")
        found = {str(d["device"]): d["windows"]["gpu_span"] for d in r["devices"]}
        check(set(found) == set(devices), f"{name}: devices {set(found)}")
        for d in set(found) & set(devices):
            w, want = found[d], devices[d]
            got = {"span": w["ns"], "busy": w["ns"] - w["state"]["idle"], "idle": w["state"]["idle"], "gaps": w["gaps"]["count"],
                   "exp_comm": w["state"]["exposed_comm"], "exp_mem": w["state"]["exposed_copy"], "max": w["gaps"]["longest_ns"]}
            for k, v in got.items():
                check(v == want[k], f"{name}, device {d}: {k} is {v}, not {want[k]}")
            check(sum(w["ledger_a"].values()) == want["idle"], f"{name}: ledger A")
            check(sum(w["ledger_b"].values()) == want["idle"] + want["exp_comm"] + want["exp_mem"], f"{name}: ledger B")

    def data(leaves):
        return sum(v for k, v in leaves.items() if k.startswith("data."))

    a, b, idle = ledger(reports["resnet50_num_workers_0"])
    check(0.72 <= data(a) / idle <= 0.735, f"num_workers 0: data is {data(a) / idle:.3f} of the idle time")
    # nearly all of the exposed copies, 12.03 ms, are the 12 pageable ones
    check(b["data.pageable_copy"] > 11000000, f"num_workers 0: pageable copies {b['data.pageable_copy']}")
    a, b, idle = ledger(reports["resnet50_num_workers_4"])
    check(data(a) / idle < 0.01 and (a["host.compute"] + a["host.launch"]) / idle > 0.9, "num_workers 4: the host is the limit")
    a, b, idle = ledger(reports["ddp_resnet18_no_pool"])
    check(0.94 <= a["gpu.alloc"] / idle <= 0.99, f"ddp_resnet18: allocation is {a['gpu.alloc'] / idle:.3f} of the idle time")
    a, b, idle = ledger(reports["b200_eager_trace"])
    check(sum(v for k, v in a.items() if k.startswith("host.")) / idle > 0.9, "b200: the host is the limit")
    check(reports["ns_resolution_trace__rank-0"]["findings"] == [], "ns_resolution: healthy")
    s = states(reports["trace_diff__control__control"])
    check(s["exposed_comm"] > s["idle"], "trace_diff: exposed communication is larger than idle")
    text = run(glob.glob(f"{CORPUS}/hta/ns_resolution*")[0], text=True)
    check(len(text.splitlines()) == 1 and text.startswith("Healthy"), f"ns_resolution: one line: {text}")

    r = run(*sorted(glob.glob(f"{CORPUS}/param-dlrm/*.gz")))
    check(len(r["devices"]) == 8 and r["run"]["ranks"] == 8, "dlrm: eight ranks")
    late = sum(d["windows"]["gpu_span"]["ledger_b"]["comm.late_peer"] for d in r["devices"])
    comm = sum(d["windows"]["gpu_span"]["state"]["exposed_comm"] for d in r["devices"])
    check(0.95 <= late / comm <= 0.98, f"dlrm: {late / comm:.3f} of exposed communication is waiting for a late peer")
    check(any(f["leaf"] == "comm.late_peer" and "ank 7" in f["title"] for f in r["findings"]), "dlrm: rank 7 is named")
    # the order of the paths does not matter
    check(run(*sorted(glob.glob(f"{CORPUS}/param-dlrm/*.gz"), reverse=True)) == r, "dlrm: same traces, same report")


made_here()
if faults:
    sys.exit(1)
if not os.path.exists(f"{CORPUS}/reference.json"):
    print("no real traces here (../shared/corpus): only the made ones were tried")
    sys.exit(77)
real()
sys.exit(1 if faults else 0)
