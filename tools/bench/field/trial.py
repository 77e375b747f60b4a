"""One run of a method by four peers in network namespaces: the fault, and the observations.

Used by tools/bench/peers.
"""

import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIELD = ROOT / "tools" / "bench" / "field"
RUN_FILE = ROOT / "scenarios" / "runs" / "fashion-mnist.toml"
BATCH = tomllib.loads(RUN_FILE.read_text())["train"]["batch"]
PROGRAM = ROOT / "build/peers/starling"
SWITCH = ROOT / "build/scenarios/switch/starling-switch"
LIBRARY = ROOT / "build/src/embed/libstarling.so"
PROGRAMS = PROGRAM, SWITCH, LIBRARY  # what must have been built
sys.path.insert(0, str(ROOT / "scenarios"))
from lab.machine import Borrowed, LabError, inside, ip  # noqa: E402
from lab.network import Switch, address_of  # noqa: E402
from lab.processes import PORT, control_of, summary_of  # noqa: E402
from lab.watch import Watcher, clock, longest_pause, note_steps  # noqa: E402

PEERS = 4
VICTIM = 2
LATE = PEERS - 1
FAULT_AFTER = 15.0       # seconds of training
FAULT_EPOCHS = 1
GIVE_UP = 900.0
PACE_SECONDS = 60.0
PACE_SKIP = 11           # steps, of warming up: PowerSGD begins after ten
PACE_STEPS = 20          # these included, however long they take
HUNG = 60.0              # no step for so long: it does not go on
TICK = 0.25
MEMORY_EVERY = 1.0
WATCH_EVERY = 0.05
SNAPSHOT_STEPS = 20
SNAPSHOT_SECONDS = 4
DELAY_MS = 25
QUEUE_MS = 100
ACCURACY_TARGETS = (0.88, 0.90)
NETWORKS = {"bridge": None, "100 Mbit/s": 100, "10 Mbit/s": 10}

STARLING = {"Starling": [], "Starling, mode none": ["exchange.mode=none"],
            "Starling, over UCX": ["links.fabric=bridge"],
            "Starling, mode allreduce": ["exchange.mode=allreduce", f"swarm.peers={PEERS}"]}
EMBEDDED = "Starling in PyTorch"  # a loop as that of DDP, which embeds a peer
TORCH = {"DDP": ["ddp"], "DDP, fp16": ["ddp-fp16"], "DDP, PowerSGD": ["ddp-powersgd"],
         "local SGD, every 20": ["localsgd"], "decent-dp, ring": ["decent-dp"]}
HIVEMIND = "hivemind, every 20"
# Their steps are the same on any network.
SYNCHRONOUS = ["Starling, mode allreduce", *TORCH]


# ---- the network -------------------------------------------------------------------------------

class Bridge:
    """The kernel's own switch, as fast as this machine; it goes with its namespace."""

    def __init__(self, namespaces, hub):
        with inside(hub):
            ip("link add br0 type bridge", "link set br0 up",
               *(f"link add eth0 netns {name} type veth peer name p{number}"
                 for number, name in enumerate(namespaces)),
               *(f"link set p{number} master br0 up" for number in range(len(namespaces))))
        for number, name in enumerate(namespaces):
            with inside(name):
                ip("link set lo up", "link set eth0 up",
                   f"addr add {address_of(number)}/16 broadcast + dev eth0")

    def close(self):
        pass


def slow_network(program, namespaces, rate_mbit):
    switch = Switch(program, namespaces, seed=1)
    switch.ask({"set": {"delay_ms": DELAY_MS}})
    switch.ask({"line": {"rate_bps": rate_mbit * 1e6, "queue_ms": QUEUE_MS}})
    return switch


class SentBytes:
    """The bytes that leave a namespace's eth0. The file shows the namespace in which it was opened."""

    def __init__(self, namespace):
        with inside(namespace):
            self.file = open("/proc/thread-self/net/dev", encoding="ascii")

    def read(self):
        self.file.seek(0)
        for line in self.file.read().splitlines():
            name, _, values = line.partition(":")
            if name.strip() == "eth0":
                return int(values.split()[8])
        return 0


# ---- the processes -----------------------------------------------------------------------------

def tree(pid):
    """A process and all below it."""
    found = [pid]
    for each in found:
        try:
            for task in os.listdir(f"/proc/{each}/task"):
                text = pathlib.Path(f"/proc/{each}/task/{task}/children").read_text()
                found += map(int, text.split())
        except OSError:
            pass
    return found


def resident(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGESIZE")
    except OSError:
        return 0


class Peer:
    """One process of any system."""

    def __init__(self, number, method, namespace, folder, epochs):
        self.number, self.method, self.namespace = number, method, namespace
        self.folder = folder / f"peer-{number}"
        self.folder.mkdir()
        self.epochs = epochs
        self.process = self.launched = self.ended = None
        self.memory = 0
        self.steps = []  # (step, time of its end), as far as they are known
        self.read = 0  # bytes of its list of steps

    @property
    def is_starling(self):
        return self.method in STARLING or self.method == EMBEDDED

    def starling(self):
        """Arguments for all programs that are a peer of Starling."""
        settings = ["report.every=0", "swarm.wait_for=2", *STARLING.get(self.method, [])]
        if self.epochs:
            settings.append(f"run.epochs={self.epochs}")
        elif self.number == 0:
            settings += [f"checkpoint.every={SNAPSHOT_SECONDS}", "checkpoint.keep=1000"]
        words = ["--listen", f"{address_of(self.number)}:{PORT}"]
        if self.number > 0:
            words += ["--join", f"{address_of(0)}:{PORT}"]
        for setting in settings:
            words += ["--set", setting]
        return words

    def peer_file(self):
        """The run file without the keys that are only for Starling's own trainer."""
        path = self.folder / "peer.toml"
        text = RUN_FILE.read_text()
        for section, kept in (("model", ()), ("data", ()), ("train", ("lr", "batch", "schedule"))):
            begin = text.index(f"[{section}]\n") + len(section) + 3
            end = text.index("\n[", begin)
            lines = [line for line in text[begin:end].splitlines() if line.split(" ")[0] in kept]
            text = text[:begin] + "\n".join(lines) + "\n" + text[end:]
        path.write_text(text)
        return path

    def command(self):
        if self.method in STARLING:
            return [str(PROGRAM), "up", str(RUN_FILE), "--name",
                    self.folder.name, "--dir", str(self.folder), *self.starling(),
                    "--set", "train.threads=1"]
        python = str(ROOT / ".cache/field/bin/python")
        words = [str(RUN_FILE), str(self.folder), "--epochs", str(self.epochs)]
        if self.method == EMBEDDED:
            return [python, str(FIELD / "torch_peer.py"), "starling", *words, "--peer-file",
                    str(self.peer_file()), *self.starling()]
        if self.number == 0 and not self.epochs:
            words += ["--snapshot-every", str(SNAPSHOT_STEPS)]
        if self.method == HIVEMIND:
            # A late peer finds the others under way.
            gate = 0 if self.epochs else PEERS
            return [python, str(FIELD / "hivemind_peer.py"), *words, "--address",
                    address_of(self.number), "--gate", str(gate)]
        return [python, str(FIELD / "torch_peer.py"), *TORCH[self.method], *words]

    def start(self):
        environment = {**os.environ, "RANK": str(self.number), "WORLD_SIZE": str(PEERS),
                       "MASTER_ADDR": address_of(0), "MASTER_PORT": "29501",
                       "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1",
                       "MKL_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
                       "STARLING_LIBRARY": str(LIBRARY)}
        with open(self.folder / "out", "wb") as output, inside(self.namespace):
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.command()], stdout=output, stderr=output,
                stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
        self.launched = time.time()

    # The interface of the lab's watcher.
    @property
    def state(self):
        return "running" if self.process and self.process.poll() is None else "ended"

    def control(self):
        return control_of(self.folder, self.process.pid)

    def look(self, memory):
        if self.process is None or self.ended:
            return
        over = self.process.poll() is not None
        self.read_steps()
        if over:
            self.ended = time.time()
        elif memory:
            self.memory = max(self.memory, sum(map(resident, tree(self.process.pid))))

    def kill(self):
        if self.process and self.process.poll() is None:
            for pid in tree(self.process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.wait()
            self.read_steps()
        self.ended = self.ended or time.time()

    def heard(self, status):
        note_steps(self.steps, status, time.time())

    def read_steps(self):
        """The records of a system other than Starling since the last call."""
        try:
            with open(self.folder / "steps.txt", "rb") as file:
                file.seek(self.read)
                lines, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return
        self.read += len(lines + end)
        self.steps += [(int(step) + 1, float(when))
                       for step, when in map(bytes.split, lines.splitlines())]

    def summary(self):
        return summary_of(self.folder)

    def first_step(self):
        """When the first step was made; None if there was none."""
        if self.is_starling and (summary := self.summary()):
            return self.launched + summary["seconds_to_first_step"]
        return self.steps[0][1] if self.steps else None

    def snapshots(self):
        """(time, steps, file) in order."""
        found = []
        for path in [*self.folder.glob("step-*.safetensors"),
                     *self.folder.glob("checkpoints/step-*/model.safetensors")]:
            name = path.parent.name if path.name == "model.safetensors" else path.stem
            found.append((path.stat().st_mtime, int(name.removeprefix("step-")), path))
        return sorted(found)


# ---- one case ----------------------------------------------------------------------------------

class Trial:
    """One case while it runs, and its observations."""

    def __init__(self, network, fault, method, folder):
        self.network, self.fault, self.method = network, fault, method
        self.folder = folder
        self.sent = []  # (time, bytes of each peer)
        self.fault_at = self.stopped = None

    def run(self):
        borrowed = Borrowed()
        network = None
        try:
            *namespaces, hub = borrowed.namespaces(PEERS + 1)
            rate = NETWORKS[self.network]
            network = (Bridge(namespaces, hub) if rate is None else
                       slow_network(SWITCH, namespaces, rate))
            epochs = FAULT_EPOCHS if self.fault != "none" else 0
            self.peers = [Peer(number, self.method, name, self.folder, epochs)
                          for number, name in enumerate(namespaces)]
            self.meters = [SentBytes(name) for name in namespaces]
            self.train()
        finally:
            for peer in getattr(self, "peers", []):
                peer.kill()
            if network:
                network.close()
            borrowed.give_back()

    def has_pace(self, since):
        """Whether enough is known about a method that makes the same steps on any network."""
        return (self.network != "bridge" and self.method in SYNCHRONOUS
                and time.time() - since > PACE_SECONDS
                and bool(self.peers[0].steps) and self.peers[0].steps[-1][0] >= PACE_STEPS)

    def train(self):
        for peer in self.peers:
            if not (self.fault == "late" and peer.number == LATE):
                peer.start()
        began = time.time()
        every = WATCH_EVERY if self.fault != "none" else 1.0
        starlings = [peer for peer in self.peers if peer.is_starling]
        watcher = Watcher(starlings, lambda peer, _path, reply, _now: peer.heard(reply), clock,
                          {"/status": every})
        first = memory_at = None
        try:
            while True:
                watcher.run_until(clock() + TICK)
                now = time.time()
                memory = memory_at is None or now - memory_at >= MEMORY_EVERY
                if memory:
                    memory_at = now
                for peer in self.peers:
                    peer.look(memory)
                self.sent.append((now, [meter.read() for meter in self.meters]))
                if first is None and self.peers[0].steps:
                    first = self.peers[0].steps[0][1]
                self.disturb(now, first, began)
                started = [peer for peer in self.peers if peer.process]
                if len(started) == PEERS and all(peer.ended for peer in started):
                    return
                since = first if first is not None and self.fault != "late" else began
                last = max((peer.steps[-1][1] for peer in started if peer.steps), default=now)
                hung = self.fault_at is not None and now - max(last, self.fault_at) > HUNG
                if hung or now - since > GIVE_UP or self.has_pace(since):
                    self.stopped = "hung" if hung else "time"
                    return
        finally:
            watcher.close()

    def disturb(self, now, first, began):
        if self.fault_at is not None or self.fault == "none":
            return
        if self.fault == "kill" and first is not None and now - first >= FAULT_AFTER:
            self.peers[VICTIM].kill()
            self.fault_at = time.time()
        # A peer that cannot begin without the late one has no first step before it.
        if self.fault == "late" and now - (first or began) >= FAULT_AFTER:
            if first is not None or now - began >= 2 * FAULT_AFTER:
                self.peers[LATE].start()
                self.fault_at = self.peers[LATE].launched

    # -- afterwards --

    def sent_at(self, when):
        """Bytes that a peer had sent by then, their mean."""
        bytes_then = [values for time_, values in self.sent if time_ <= when] or [[0] * PEERS]
        return sum(bytes_then[-1]) / PEERS

    def results(self):
        firsts = [peer.first_step() for peer in self.peers]
        failed = [peer for peer in self.peers if self.fault == "none" and not self.stopped
                  and peer.process.returncode != 0]
        if failed or not any(firsts):
            raise LabError(f"{self.method} did not train; see {(failed or self.peers)[0].folder}")
        first = min(filter(None, firsts))
        found = {
            "stopped": self.stopped,
            "launch_to_first_step": [when and round(when - peer.launched, 2)
                                     for when, peer in zip(firsts, self.peers)],
            "memory": [peer.memory for peer in self.peers],
        }
        if self.fault != "none":
            return {**found, **self.after_fault()}
        samples, seconds = self.trained()
        return {**found, "samples": samples, "seconds": seconds,
                "steps": max(peer.steps[-1][0] for peer in self.peers),
                "seconds_a_step": self.pace(), "sent_mean": self.sent_at(time.time()),
                **self.accuracy(first)}

    def trained(self):
        """Samples of all peers after their first step, and the seconds in which they were trained;
        Starling's, as its peers say, with the first step and its time."""
        if self.peers[0].is_starling and self.stopped is None:
            summaries = [peer.summary() for peer in self.peers]
            return (sum(s["samples"] for s in summaries), max(s["seconds"] for s in summaries))
        steps = [peer.steps for peer in self.peers]
        return (BATCH * sum(s[-1][0] - s[0][0] for s in steps),
                max(s[-1][1] for s in steps) - min(s[0][1] for s in steps))

    def pace(self):
        """Seconds a step of the first peer, between two of which both are known."""
        steps = self.peers[0].steps
        (a, begin), (b, end) = steps[min(PACE_SKIP, len(steps) - 2)], steps[-1]
        return (end - begin) / (b - a)

    def accuracy(self, first):
        """The curve of the first peer up to the last mark, and where all ended."""
        found = {"curve": [], "diverged_at_step": None, "final": []}
        for when, step, path in self.peers[0].snapshots():
            accuracy = evaluate(path)
            if accuracy is None:
                found["diverged_at_step"] = step
                return found
            found["curve"].append({"seconds": round(when - first, 2), "step": step,
                                   "sent": round(self.sent_at(when)), "accuracy": accuracy})
            if accuracy >= ACCURACY_TARGETS[-1]:
                break
        if self.stopped is None:
            found["final"] = [peer.summary()["accuracy"] if peer.is_starling else
                              evaluate(peer.folder / "final.safetensors") for peer in self.peers]
        return found

    def after_fault(self):
        """The effects on the peers that the fault did not hit."""
        hit = VICTIM if self.fault == "kill" else LATE
        others = [peer for peer in self.peers if peer.number != hit]
        went_on = [bool(peer.steps and peer.ended and peer.process.returncode == 0)
                   for peer in others]
        ended = [None if ok or peer.ended is None else round(peer.ended - self.fault_at, 2)
                 for ok, peer in zip(went_on, others)]
        return {"went_on": went_on, "ended_after": ended,
                "pause_before": [longest_pause(peer.steps, -math.inf, self.fault_at)
                                 for peer in others],
                "pause_after": [longest_pause(peer.steps, self.fault_at) for peer in others],
                "waited_for_late": self.fault == "late" and all(
                    not peer.steps or peer.steps[0][1] > self.fault_at for peer in others)}


def evaluate(path):
    """Accuracy on all test samples; None if a parameter is not finite."""
    words = [PROGRAM, "eval", "--run", RUN_FILE, "--set",
             f"train.threads={os.cpu_count()}", path, "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        if "not finite" in done.stderr:
            return None
        raise LabError(f"{path} could not be evaluated: {done.stderr.strip()}")
    return json.loads(done.stdout)["accuracy"]
