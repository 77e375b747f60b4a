"""The common parts of the peers of other systems: the data, the network, the schedule, the record.

The run file decides; layers, samples and their scale are those of Starling, and so are the names
in files of `Record.save`, so that `starling eval` evaluates all systems in the same way.
"""

import gzip
import math
import os
import pathlib
import sys
import time
import tomllib

import numpy
import torch
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import twins  # noqa: E402

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
MEAN, DEVIATION = 0.2860, 0.3530


def read_idx(name):
    """An IDX file's bytes, in the shape that its header gives."""
    raw = gzip.decompress((DATA / name).read_bytes())
    dimensions = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
    return numpy.frombuffer(raw, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_set(part, own=slice(None)):
    """Some samples of a part of the data, as the network takes them, and their labels."""
    images = torch.from_numpy(read_idx(f"{part}-images-idx3-ubyte.gz").copy())[own].unsqueeze(1)
    labels = torch.from_numpy(read_idx(f"{part}-labels-idx1-ubyte.gz").astype("int64"))[own]
    return ((images.float() / 255 - MEAN) / DEVIATION).contiguous(
        memory_format=torch.channels_last), labels


class Run:
    """The run file as one of `world` peers sees it: each has every world-th sample of a shuffle."""

    def __init__(self, path, rank, world, epochs):
        with open(path, "rb") as file:
            run = tomllib.load(file)
        self.seed, self.train = run["run"]["seed"], run["train"]
        self.batch = self.train["batch"]
        order = torch.randperm(60_000, generator=torch.Generator().manual_seed(self.seed))
        own = order[rank::world]
        self.samples, self.labels = read_set("train", own)
        self.steps_an_epoch = len(own) // self.batch
        self.steps = round((epochs or run["run"]["epochs"]) * self.steps_an_epoch)
        self.shuffle = torch.Generator().manual_seed(1000 * self.seed + rank)

    def model(self):
        """The network, in PyTorch's usual layout, the only one that hivemind averages."""
        torch.manual_seed(self.seed)
        return twins.make("cnn", input=(1, 28, 28), outputs=10)

    def optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=self.train["lr"], momentum=self.train["momentum"])

    def batches(self):
        """(step, samples, labels) until the run is over."""
        for step in range(self.steps):
            place = step % self.steps_an_epoch
            if place == 0:
                order = torch.randperm(len(self.labels), generator=self.shuffle)
            chosen = order[place * self.batch:(place + 1) * self.batch]
            yield step, self.samples[chosen], self.labels[chosen]

    def rate(self, step):
        """The learning rate of a step."""
        if self.train["schedule"] != "cosine":
            raise SystemExit(f"the schedule {self.train['schedule']} is not known here")
        return self.train["lr"] * 0.5 * (1 + math.cos(math.pi * step / self.steps))


class Record:
    """The harness's input afterwards: a line with the time of each step, and weights now and then."""

    def __init__(self, folder, snapshot_every):
        self.folder, self.every = pathlib.Path(folder), snapshot_every
        self.file = open(self.folder / "steps.txt", "w", buffering=1)

    def step(self, step, model):
        self.file.write(f"{step} {time.time():.4f}\n")
        if self.every and (step + 1) % self.every == 0:
            self.save(f"step-{step + 1}", model)

    def save(self, name, model):
        weights = {key.rpartition("layers.")[2]: value for key, value in
                   model.state_dict().items()}
        part = self.folder / f"{name}.part"
        save_file({f"layers.{key}": value.contiguous() for key, value in weights.items()}, part)
        os.replace(part, self.folder / f"{name}.safetensors")
