"""One hivemind peer with local updates: every peer steps alone, parameters are averaged in the
background once the swarm has made --every steps a peer. `tools/bench/peers` starts it."""

import argparse
import os
import pathlib
import time

import torch
import torch.nn.functional as F

from shared import Record, Run

MATCHMAKING_SECONDS = 2.0
REQUEST_SECONDS = 1.0
AVERAGING_SECONDS = 60
REFRESH_SECONDS = 0.5


def wait_for(path):
    while not path.exists():
        time.sleep(0.05)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_file")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--epochs", type=float, default=0)
    parser.add_argument("--snapshot-every", type=int, default=0)
    parser.add_argument("--address", required=True, help="this peer's own")
    parser.add_argument("--gate", type=int, default=0, help="begin when this many are ready")
    arguments = parser.parse_args()
    os.environ["HIVEMIND_COLORS"] = "never"
    import hivemind
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    run = Run(arguments.run_file, rank, world, arguments.epochs)
    record = Record(arguments.folder, arguments.snapshot_every)
    model = run.model()
    common = arguments.folder.parent
    first = common / "first-peer"
    initial = wait_for(first).read_text().split() if rank else None
    dht = hivemind.DHT(initial_peers=initial, start=True, nat_port_map=False, auto_nat=False,
                       host_maddrs=[f"/ip4/{arguments.address}/tcp/0"], use_relay=False,
                       use_auto_relay=False)
    if rank == 0:
        part = common / "first-peer.part"
        part.write_text("\n".join(map(str, dht.get_visible_maddrs())))
        os.replace(part, first)
    # hivemind makes the optimizer itself; its rate is set below like for the others.
    optimizer = hivemind.Optimizer(
        dht=dht, run_id="bench", batch_size_per_step=run.batch,
        target_batch_size=arguments.every * run.batch * world, params=model.parameters(),
        optimizer=run.optimizer, use_local_updates=True, delay_state_averaging=True,
        matchmaking_time=MATCHMAKING_SECONDS, averaging_timeout=AVERAGING_SECONDS,
        averager_opts={"request_timeout": REQUEST_SECONDS},
        tracker_opts={"min_refresh_period": REFRESH_SECONDS})
    (arguments.folder / "ready").touch()
    while len(list(common.glob("peer-*/ready"))) < arguments.gate:
        time.sleep(0.05)
    for step, samples, labels in run.batches():
        for group in optimizer.param_groups:
            group["lr"] = run.rate(step)
        optimizer.zero_grad()
        F.cross_entropy(model(samples), labels).backward()
        optimizer.step()
        record.step(step, model)
    record.save("final", model)
    os._exit(0)


if __name__ == "__main__":
    main()
