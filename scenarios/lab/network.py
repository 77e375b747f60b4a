"""The network between the peers: the switch program, and what holds on each path at a time."""

import json
import math
import os
import pathlib
import select
import socket
import subprocess
import tempfile

from .machine import SWITCH_FOLDER, LabError, end, inside, ip

READY_PATIENCE = 20.0
# The scenario states a standard deviation, the switch spreads evenly over a width.
UNIFORM_WIDTH = math.sqrt(12)
# The third number of an address: that of a peer's next one is so much higher, beyond all peers'.
MOVE = 17


def address_of(number, moves=0):
    """Of a peer that has got a new address so many times."""
    third = number // 250 + MOVE * moves
    if third > 255:
        raise LabError(f"peer-{number} has got more new addresses than there are")
    return f"10.77.{third}.{number % 250 + 1}"


def mac_of(number):
    return f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"


def switch_settings(conditions, cut):
    """What the switch's control socket is told for a path."""
    return {"rate_bps": conditions.get("rate_mbit", 0) * 1e6,
            "delay_ms": conditions.get("latency_ms", 0),
            "jitter_ms": conditions.get("jitter_ms", 0) * UNIFORM_WIDTH,
            "loss": conditions.get("loss", 0), "duplicate": conditions.get("duplicate", 0),
            "reorder": conditions.get("reorder", 0), "corrupt": conditions.get("corrupt", 0),
            "cut": cut}


class Paths:
    """What each ordered pair of peers has, from a plan and the events that are in force."""

    def __init__(self, plan):
        self.count = len(plan["peers"])
        self.base = {}
        regions = [peer["region"] for peer in plan["peers"]]
        between = {}
        for pair in plan["network"]["pairs"]:
            between[frozenset(pair["between"])] = pair["conditions"]
        for a in range(self.count):
            for b in range(self.count):
                if a != b:
                    pair = between.get(frozenset((regions[a], regions[b])), {})
                    self.base[a, b] = {**plan["network"]["default"], **pair}
        self.active = []

    def resolve(self):
        """{(from, to): (conditions, cut)} with the events now in force, later ones winning."""
        resolved = {pair: (dict(conditions), False) for pair, conditions in self.base.items()}
        for event in self.active:
            for paths in event["paths"]:
                for a in paths["from"]:
                    for b in paths["to"]:
                        if a == b:
                            continue
                        conditions, cut = resolved[a, b]
                        conditions.update(event.get("conditions", {}))
                        resolved[a, b] = (conditions, cut or event["kind"] == "partition")
        return resolved


class Switch:
    """The switch program and the addresses behind it."""

    def __init__(self, program, namespaces, seed, mtu=1500):
        self.namespaces = namespaces
        self.addresses = [address_of(number) for number in range(len(namespaces))]
        # It carries the run's mark, as the namespaces do.
        self.folder = tempfile.TemporaryDirectory(prefix=f"{namespaces[0]}{SWITCH_FOLDER}")
        path = pathlib.Path(self.folder.name) / "control"
        self.socket = None
        self.set = {}
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", str(program), "--control", str(path), "--seed",
             str(seed), "--mtu", str(mtu), *namespaces],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        ready, _, _ = select.select([self.process.stdout], [], [], READY_PATIENCE)
        if not ready or self.process.stdout.readline() != "ready\n":
            self.process.kill()
            raise LabError(f"the switch did not start: {self.process.communicate()[1].strip()}")
        for number in range(len(namespaces)):
            self.plug(number)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(READY_PATIENCE)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("r")

    def plug(self, number):
        with inside(self.namespaces[number]):
            ip("link set lo up", "link set eth0 up",
               f"addr add {self.addresses[number]}/16 broadcast + dev eth0",
               *self._neighbours(number))

    def unplug(self, number):
        """A peer's machine has no network."""
        with inside(self.namespaces[number]):
            ip(f"addr del {self.addresses[number]}/16 dev eth0", "link set eth0 down")

    def move(self, number, before, after):
        """A peer's machine has another address; what goes to the one before is not heard."""
        with inside(self.namespaces[number]):
            ip(f"addr del {before}/16 dev eth0")
        self.addresses[number] = after
        self.plug(number)  # the kernel forgets the fixed neighbours with the last address, too
        for other, namespace in enumerate(self.namespaces):
            if other != number:
                with inside(namespace):
                    ip(self._neighbour(number))

    def _neighbour(self, number):
        return (f"neigh replace {self.addresses[number]} lladdr {mac_of(number)} dev eth0 "
                "nud permanent")

    def _neighbours(self, number):
        # Fixed neighbours: a cut path is then as silent as a cut cable far away, while an
        # unanswered ARP request would tell the kernel at once.
        return [self._neighbour(other) for other in range(len(self.namespaces)) if other != number]

    def ask(self, request):
        self.socket.sendall((json.dumps(request) + "\n").encode())
        reply = json.loads(self.lines.readline() or '{"error": "the switch is gone"}')
        if not reply.get("ok"):
            raise LabError(f"the switch refused {request}: {reply.get('error')}")
        return reply

    def apply(self, resolved):
        """Brings the paths to what Paths.resolve says; only what changed is sent."""
        changed = {}
        for (a, b), (conditions, cut) in resolved.items():
            settings = json.dumps(switch_settings(conditions, cut))
            if self.set.get((a, b)) != settings:
                self.set[a, b] = settings
                changed.setdefault((a, settings), []).append(b)
        for (a, settings), targets in changed.items():
            self.ask({"set": json.loads(settings), "from": [a], "to": targets})

    def set_lines(self, plan):
        """What joins each peer to the network, and all its paths share."""
        for line in plan["network"]["lines"]:
            ports = [peer["number"] for peer in plan["peers"] if peer["region"] == line["region"]]
            self.ask({"line": {"rate_bps": line["rate_mbit"] * 1e6}, "ports": ports})

    def counters(self):
        return self.ask({"counters": True})["counters"]

    def close(self):
        if self.socket is not None:
            self.socket.close()
        end(self.process, 5)
        self.process.stdout.close()
        self.process.stderr.close()
        self.folder.cleanup()


def find_program(path):
    """A built program's path; LabError if it is not there."""
    if not os.access(path, os.X_OK):
        raise LabError(f"{path} is not there: tools/build makes it")
    return path
