#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small image classifier on files from disk, fed by a DataLoader. CPU only; the printed losses depend on --seed alone."""

import argparse
import os
import random
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 32


def write_images(folder, count, classes, seed):
    """Raw RGB images of noise, each a little brighter in the part of the picture that belongs to its class."""
    generator = random.Random(seed)
    paths = []
    for index in range(count):
        label = index % classes
        pixels = bytearray(generator.randbytes(3 * SIDE * SIDE))
        for row in range(SIDE * label // classes, SIDE * (label + 1) // classes):
            for at in range(3 * SIDE * row, 3 * SIDE * (row + 1), 4):
                pixels[at] |= 64
        path = os.path.join(folder, f"{index:05d}-{label}.rgb")
        with open(path, "wb") as file:
            file.write(pixels)
        paths.append((path, label))
    return paths


class Images(Dataset):
    def __init__(self, files, slow_ms):
        self.files = files
        self.slow_ms = slow_ms

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        with open(path, "rb") as file:
            raw = file.read()
        if self.slow_ms:
            time.sleep(self.slow_ms / 1000)
        image = torch.frombuffer(bytearray(raw), dtype=torch.uint8).reshape(SIDE, SIDE, 3)
        image = image.permute(2, 0, 1).float() / 255
        # Augmentation: flipped and shifted by what the index says, so that it does not matter which worker does it.
        if index & 1:
            image = image.flip(2)
        image = torch.roll(image, shifts=index % 5 - 2, dims=2)
        return (image - image.mean()) / (image.std() + 1e-5), label


def model(classes):
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * (SIDE // 4) ** 2, classes),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--start-method", choices=("fork", "spawn", "forkserver"), default=None)
    parser.add_argument("--slow-ms", type=float, default=0, help="what decoding an image takes longer")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    classes = 8
    with tempfile.TemporaryDirectory(prefix="classify-") as folder:
        data = Images(write_images(folder, options.images, classes, options.seed), options.slow_ms)
        loader = DataLoader(
            data, batch_size=options.batch_size, shuffle=True, drop_last=True, num_workers=options.workers,
            multiprocessing_context=options.start_method if options.workers else None,
            generator=torch.Generator().manual_seed(options.seed))
        net = model(classes)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        criterion = nn.CrossEntropyLoss()
        step = epoch = 0
        while step < options.steps:
            for images, labels in loader:
                optimizer.zero_grad()
                loss = criterion(net(images), labels)
                loss.backward()
                optimizer.step()
                if step % 5 == 0 or step == options.steps - 1:
                    print(f"epoch {epoch} step {step:4d} loss {loss.item():.6f}", flush=True)
                step += 1
                if step == options.steps:
                    break
            epoch += 1
    print(f"trained {step} steps", flush=True)


if __name__ == "__main__":
    main()
