#!/usr/bin/env python3
"""A peer in a training loop of PyTorch: a small network on Fashion-MNIST, from a checkout.

    one$ export STARLING_LIBRARY=build/src/embed/libstarling.so
    one$ python3 src/embed/python/example.py --listen :7000
    two$ python3 src/embed/python/example.py --join 192.0.2.7:7000

Each trains until both have passed over the data twice, together. The run file is example.toml.
"""

import argparse
import gzip
import pathlib

import torch
import torch.nn.functional as F

import starling  # beside this file; installed with the library

IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist


def read_set(part):
    """Samples as vectors from 0 to 1, and their labels."""
    def values(kind, header):
        text = gzip.decompress((IMAGES / f"{part}-{kind}-ubyte.gz").read_bytes())
        return torch.frombuffer(bytearray(text[header:]), dtype=torch.uint8)
    return values("images-idx3", 16).view(-1, 784).float() / 255, values("labels-idx1", 8).long()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", default="[::]:0")
    parser.add_argument("--join", action="append", default=[])
    arguments = parser.parse_args()

    samples, labels = read_set("train")
    test_samples, test_labels = read_set("t10k")
    torch.set_num_threads(1)  # faster for so small a network
    torch.manual_seed(1)  # all peers must begin with the same parameters
    model = torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def evaluate(model):
        outputs = model(test_samples)
        right = (outputs.argmax(1) == test_labels).float().mean()
        return right.item(), F.cross_entropy(outputs, test_labels).item()

    peer = starling.for_module(pathlib.Path(__file__).with_name("example.toml"), model,
                               samples=len(samples), evaluate=evaluate, listen=arguments.listen,
                               join=arguments.join)
    print(f"others join with: --join {peer.address}", flush=True)
    for step in peer:  # until the swarm has trained enough
        for group in optimizer.param_groups:
            group["lr"] = step.learning_rate
        loss = F.cross_entropy(model(samples[step.samples]), labels[step.samples])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step.done(loss.item())
    accuracy, loss = evaluate(model)
    print(f"accuracy {accuracy:.2%}, loss {loss:.4f}; results are in {peer.dir}")


if __name__ == "__main__":
    main()
