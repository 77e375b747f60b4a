"""One peer of a torch.distributed run over gloo; `tools/bench/peers` starts it.

Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as torchrun sets them. Methods:
ddp, ddp-fp16, ddp-powersgd   DistributedDataParallel, plain and with these hooks of its own
localsgd                      parameters averaged by an all-reduce every --every steps
decent-dp                     its ring
starling                      a Starling peer in this loop; STARLING_LIBRARY names its library
"""

import argparse
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

from shared import Record, Run, read_set

POWERSGD_RANK = 2
POWERSGD_START = 10
ONE_BUCKET_MB = 256


def distributed(method, model, run):
    """(the module to call, its optimizer or None where it steps by itself)"""
    if method == "decent-dp":
        from decent_dp.ddp import DecentralizedDataParallel
        return DecentralizedDataParallel(
            model, optim_fn=lambda named: run.optimizer([p for _, p in named]), topology="ring",
            _local_world_size=1), None
    if method == "localsgd":
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)
        return model, run.optimizer(model.parameters())
    from torch.nn.parallel import DistributedDataParallel
    if method == "ddp-powersgd":
        # With its usual two buckets gloo aborts: the ranks' collectives do not match.
        dist._DEFAULT_FIRST_BUCKET_BYTES = ONE_BUCKET_MB << 20
        net = DistributedDataParallel(model, bucket_cap_mb=ONE_BUCKET_MB)
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
        state = powerSGD_hook.PowerSGDState(
            process_group=None, matrix_approximation_rank=POWERSGD_RANK,
            start_powerSGD_iter=POWERSGD_START)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    else:
        net = DistributedDataParallel(model)
        if method == "ddp-fp16":
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
            net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return net, run.optimizer(net.parameters())


def average(model, world):
    with torch.no_grad():
        parameters = list(model.parameters())
        vector = torch.cat([parameter.reshape(-1) for parameter in parameters])
        dist.all_reduce(vector)
        parts = torch.split(vector / world, [parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts):
            parameter.copy_(part.view(parameter.shape))


def set_rate(net, optimizer, rate):
    # decent-dp keeps one optimizer per bucket.
    for each in [optimizer] if optimizer else net._optims:
        for group in each.param_groups:
            group["lr"] = rate


def train_as_peer(arguments):
    """In the order of Starling's shards, each peer from its own ones; the peer writes the record."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "src/embed/python"))
    import starling
    run = Run(arguments.run_file, 0, 1, arguments.epochs)
    model = run.model().to(memory_format=torch.channels_last)
    test_samples, test_labels = read_set("t10k")

    def evaluate(model):
        outputs = torch.cat([model(part) for part in test_samples.split(1000)])
        right = (outputs.argmax(1) == test_labels).float().mean()
        return right.item(), F.cross_entropy(outputs, test_labels).item()
    peer = starling.for_module(
        arguments.peer_file, model, samples=len(run.labels), dataset="fashion-mnist",
        evaluate=evaluate, dir=arguments.folder, name=os.path.basename(arguments.folder),
        set=arguments.set, join=arguments.join, listen=arguments.listen)
    optimizer = run.optimizer(model.parameters())
    for step in peer:
        for group in optimizer.param_groups:
            group["lr"] = step.learning_rate
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(run.samples[step.samples]), run.labels[step.samples])
        loss.backward()
        optimizer.step()
        step.done(loss.item())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("run_file")
    parser.add_argument("folder")
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--epochs", type=float, default=0)
    parser.add_argument("--snapshot-every", type=int, default=0)
    starling = parser.add_argument_group("starling")
    starling.add_argument("--peer-file", help="the run file without the keys that this program sets")
    starling.add_argument("--set", action="append", default=[])
    starling.add_argument("--join", action="append", default=[])
    starling.add_argument("--listen")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.method == "starling":
        return train_as_peer(arguments)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    run = Run(arguments.run_file, rank, world, arguments.epochs)
    record = Record(arguments.folder, arguments.snapshot_every)
    model = run.model().to(memory_format=torch.channels_last)
    dist.init_process_group("gloo")
    net, optimizer = distributed(arguments.method, model, run)
    dist.barrier()
    for step, samples, labels in run.batches():
        set_rate(net, optimizer, run.rate(step))
        if optimizer:
            optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(samples), labels).backward()
        if optimizer:
            optimizer.step()
        if arguments.method == "localsgd" and (step + 1) % arguments.every == 0:
            average(model, world)
        record.step(step, model)
    record.save("final", model)
    dist.barrier()
    os._exit(0)  # decent-dp's threads would hold the process


if __name__ == "__main__":
    main()
