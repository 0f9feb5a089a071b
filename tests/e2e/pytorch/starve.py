#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on data that comes slowly, in one of several ways, and writes what it waited for by its own clock.

Usage: starve.py KIND TRUTH.json FOLDER [options]
       starve.py serve PORTFILE -
"""

import argparse
import hashlib
import http.server
import io
import json
import os
import tarfile
import time
import urllib.request

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

BATCH = 4
FLOATS = 16384


PIXELS = bytes(1 << 20)


def spin(seconds):
    """Computes in C without the interpreter's lock, as image decoders do; with it, each batch would also wait for it to be handed off."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(PIXELS).digest()


class Samples(Dataset):
    def __init__(self, count, kind, folder, port, slow):
        self.count, self.kind, self.folder, self.port, self.slow = count, kind, folder, port, slow

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        kind = self.kind
        if kind == "sleep":
            time.sleep(self.slow)
        elif kind == "cpu":
            spin(self.slow)
        elif kind == "one-slow" and get_worker_info().id == 0:
            time.sleep(4 * self.slow)
        elif kind == "npy":
            return torch.from_numpy(numpy.load(f"{self.folder}/{index % 16}.npy"))
        elif kind == "raw":
            with open(f"{self.folder}/{index % 16}.raw", "rb", buffering=0) as file:
                return torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
        elif kind == "memmap":
            return torch.from_numpy(numpy.array(numpy.memmap(f"{self.folder}/{index % 16}.raw", dtype=numpy.float32)))
        elif kind == "http":
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{index}") as answer:
                return torch.frombuffer(bytearray(answer.read()), dtype=torch.float32)
        return torch.full((FLOATS,), float(index % 7))


class Shards(IterableDataset):
    """A tar file per worker, read from front to back."""

    def __init__(self, folder, count):
        self.folder, self.count = folder, count

    def __iter__(self):
        info = get_worker_info()
        given = 0
        while given < self.count // (info.num_workers if info else 1):
            with tarfile.open(f"{self.folder}/{info.id % 2 if info else 0}.tar", bufsize=1 << 16) as shard:
                for member in shard:
                    yield torch.frombuffer(bytearray(shard.extractfile(member).read()), dtype=torch.float32)
                    given += 1


class Timed:
    """A file that adds up the time of its writes: what lies between them is computing, no wait."""

    def __init__(self, path):
        self.file, self.seconds = open(path, "wb", buffering=0), 0.0

    def write(self, data):
        begin = time.monotonic()
        count = self.file.write(data)
        self.seconds += time.monotonic() - begin
        return count

    def flush(self):
        pass

    def finish(self):
        begin = time.monotonic()
        os.fsync(self.file.fileno())
        self.seconds += time.monotonic() - begin
        self.file.close()


class Slow(http.server.BaseHTTPRequestHandler):
    """An object store that sends 64 KB in about 25 ms."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(FLOATS * 4))
        self.end_headers()
        for _ in range(4):
            time.sleep(0.006)
            self.wfile.write(bytes(FLOATS))

    def log_message(self, *_):
        pass


def prepare(kind, folder):
    sample = numpy.ones(FLOATS, numpy.float32)
    for i in range(16):
        if kind == "npy":
            numpy.save(f"{folder}/{i}.npy", sample)
        elif kind in ("raw", "memmap"):
            sample.tofile(f"{folder}/{i}.raw")
    for i in range(2 if kind == "tar" else 0):
        with tarfile.open(f"{folder}/{i}.tar", "w") as shard:
            for n in range(32):
                member = tarfile.TarInfo(f"{n}.raw")
                member.size = sample.nbytes
                shard.addfile(member, io.BytesIO(sample.tobytes()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind")
    parser.add_argument("truth")
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--method", default="fork")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--slow-ms", type=float, default=20, help="what making a sample takes longer")
    parser.add_argument("--port", type=int, help="of starve.py serve PORTFILE -")
    parser.add_argument("--compute-ms", type=float, default=20)
    options = parser.parse_args()
    kind = options.kind
    torch.set_num_threads(1)
    if kind == "serve":
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
        with open(options.truth + ".new", "w") as file:
            print(server.server_port, file=file)
        os.rename(options.truth + ".new", options.truth)
        server.serve_forever()
    prepare(kind, options.folder)
    count = options.steps * BATCH
    data = Shards(options.folder, count) if kind == "tar" else Samples(count, kind, options.folder, options.port, options.slow_ms / 1000)
    loader = DataLoader(data, batch_size=BATCH, num_workers=options.workers, pin_memory=options.pin,
                        multiprocessing_context=options.method if options.workers else None)
    net = torch.nn.Linear(FLOATS, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    log = open(f"{options.folder}/train.log", "a") if kind == "log" else None
    waits, first, saving, logging, sleeping = [], 0.0, 0.0, 0.0, 0.0
    batches = iter(loader)
    for step in range(options.steps):
        begin = time.monotonic()
        batch = next(batches)
        if step:
            waits.append(time.monotonic() - begin)
        else:
            first = time.monotonic() - begin
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()
        spin(options.compute_ms / 1000)
        begin = time.monotonic()
        if kind == "checkpoint" and step % 5 == 4:
            file = Timed(f"{options.folder}/model.pt")
            torch.save({"net": net.state_dict(), "more": torch.ones(8 << 20)}, file)
            file.finish()
            saving += file.seconds
        elif kind == "log":
            log.write(f"step {step} " + "x" * 200000 + "\n")
            log.flush()
            os.fdatasync(log.fileno())
            logging += time.monotonic() - begin
        elif kind == "nap":
            time.sleep(0.03)
            sleeping += time.monotonic() - begin
    with open(options.truth, "w") as file:
        json.dump({"data_ns": int(sum(waits) * 1e9), "first_ns": int(first * 1e9), "save_ns": int(saving * 1e9),
                   "log_ns": int(logging * 1e9), "sleep_ns": int(sleeping * 1e9)}, file)
    print(f"trained {options.steps} steps", flush=True)


if __name__ == "__main__":
    main()
