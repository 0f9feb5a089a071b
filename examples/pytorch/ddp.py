#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training over gloo: two processes started here, or the ranks that torchrun started. CPU only."""

import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def train(options):
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    inputs = torch.randn(2048, 64)
    targets = (inputs @ torch.randn(64, 1)).tanh()
    data = TensorDataset(inputs, targets)
    sampler = DistributedSampler(data, seed=options.seed)
    loader = DataLoader(data, batch_size=64, sampler=sampler, num_workers=options.workers, drop_last=True)

    net = nn.Sequential(nn.Linear(64, options.width), nn.ReLU(), nn.Linear(options.width, options.width), nn.ReLU(),
                        nn.Linear(options.width, 1))
    net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    step = epoch = 0
    while step < options.steps:
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            if step % 5 == 0 or step == options.steps - 1:
                mean = loss.detach().clone()
                dist.all_reduce(mean)
                if rank == 0:
                    print(f"epoch {epoch} step {step:4d} loss {mean.item() / dist.get_world_size():.6f}", flush=True)
            step += 1
            if step == options.steps:
                break
        epoch += 1
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(f"trained {step} steps", flush=True)


def rank_main(rank, world_size, port, options):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world_size), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    train(options)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=2, help="processes to start when torchrun did not")
    options = parser.parse_args()
    if "RANK" in os.environ:
        train(options)
    else:
        mp.spawn(rank_main, args=(options.ranks, free_port(), options), nprocs=options.ranks)


if __name__ == "__main__":
    main()
