"""The network between the peers: the switch program, and the conditions of each path at a time."""

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
# The scenario gives a standard deviation; the switch draws uniformly over a width.
UNIFORM_WIDTH = math.sqrt(12)
# Events during which nothing passes on their paths.
CUTTING = ("partition", "router_restart")
# The third number of an address grows by this with each move of a peer, beyond the addresses of all
# peers.
MOVE = 17
# If no peer is behind a router, all are in one private network. Otherwise the network between their
# routers looks public: private addresses are not dialed from elsewhere.
PRIVATE, PUBLIC = "10.77", "11.77"
PUBLIC6 = "2001:db8::"


def address_of(number, moves=0, network=PRIVATE):
    """The IPv4 address of a peer after so many moves."""
    third = number // 250 + MOVE * moves
    if third > 255:
        raise LabError(f"peer-{number} has got more new addresses than there are")
    return f"{network}.{third}.{number % 250 + 1}"


def address6_of(number, moves=0):
    """The same for IPv6."""
    return f"{PUBLIC6}{f'{moves:x}:' if moves else ''}{number + 1:x}"


def with_bits(address):
    """An address with the size of its network, as `ip addr` takes it."""
    return f"{address}/{64 if ':' in address else 16}"


def mac_of(number):
    return f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"


def switch_settings(conditions, cut):
    """The settings of a path for the switch's control socket."""
    return {"rate_bps": conditions.get("rate_mbit", 0) * 1e6,
            "delay_ms": conditions.get("latency_ms", 0),
            "jitter_ms": conditions.get("jitter_ms", 0) * UNIFORM_WIDTH,
            "loss": conditions.get("loss", 0), "duplicate": conditions.get("duplicate", 0),
            "reorder": conditions.get("reorder", 0), "corrupt": conditions.get("corrupt", 0),
            "cut": cut}


class Paths:
    """The conditions of each ordered pair of peers, from a plan and the current events."""

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
        """{(from, to): (conditions, cut)} with the current events; later ones win."""
        resolved = {pair: (dict(conditions), False) for pair, conditions in self.base.items()}
        for event in self.active:
            for paths in event["paths"]:
                for a in paths["from"]:
                    for b in paths["to"]:
                        if a == b:
                            continue
                        conditions, cut = resolved[a, b]
                        conditions.update(event.get("conditions", {}))
                        resolved[a, b] = (conditions, cut or event["kind"] in CUTTING)
        return resolved


class Switch:
    """The switch program and the addresses behind it."""

    def __init__(self, program, namespaces, seed, mtu=1500, ports=None):
        """`ports`: a routers.Port for each namespace; without it, each has a single address."""
        self.namespaces = namespaces
        # Lists of the ports' addresses, which change with a move.
        self.own = [port.own for port in ports] if ports else \
            [[address_of(number)] for number in range(len(namespaces))]
        self.behind = [port.behind for port in ports] if ports else [[] for _ in namespaces]
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
               *(f"addr replace {with_bits(a)} dev eth0 {'nodad' if ':' in a else 'broadcast +'}"
                 for a in self.own[number]),
               *self._routes(number), *self._neighbours(number))

    def unplug(self, number):
        """A peer's machine has no network."""
        with inside(self.namespaces[number]):
            ip(*(f"addr del {with_bits(a)} dev eth0" for a in self.own[number]),
               "link set eth0 down")

    def move(self, number, before, after):
        """A peer's machine has another address; packets to the previous one are not heard."""
        if before in self.own[number]:
            with inside(self.namespaces[number]):
                ip(f"addr del {with_bits(before)} dev eth0")
        for addresses in (self.own[number], self.behind[number]):
            addresses[:] = [after if a == before else a for a in addresses]
        self.plug(number)  # the kernel forgets the fixed neighbours with the last address, too
        for other, namespace in enumerate(self.namespaces):
            if other != number:
                with inside(namespace):
                    ip(*self._found_at(number))

    def _routes(self, number):
        """A router that only filters has no address of its own in its network."""
        routes = []
        for v6, network in ((False, f"{PUBLIC}.0.0/16"), (True, f"{PUBLIC6}/64")):
            of_family = [[a for a in addresses[number] if (":" in a) == v6]
                         for addresses in (self.own, self.behind)]
            if of_family[1] and not of_family[0]:
                routes.append(f"route replace {network} dev eth0")
        return routes

    def _found_at(self, number):
        return [f"neigh replace {address} lladdr {mac_of(number)} dev eth0 nud permanent"
                for address in self.own[number] + self.behind[number]]

    def _neighbours(self, number):
        # Neighbours are fixed: then a cut path is as silent as a distant cut cable, while an
        # unanswered ARP request would tell the kernel at once.
        return [line for other in range(len(self.namespaces)) if other != number
                for line in self._found_at(other)]

    def ask(self, request):
        self.socket.sendall((json.dumps(request) + "\n").encode())
        reply = json.loads(self.lines.readline() or '{"error": "the switch is gone"}')
        if not reply.get("ok"):
            raise LabError(f"the switch refused {request}: {reply.get('error')}")
        return reply

    def apply(self, resolved, port_of=None):
        """Sets the paths as Paths.resolve says; sends only changes. `port_of`: each
        peer's port, if the numbers differ; peers of one port meet before the switch."""
        changed = {}
        for (a, b), (conditions, cut) in resolved.items():
            if port_of is not None:
                a, b = port_of[a], port_of[b]
                if a == b:
                    continue
            settings = json.dumps(switch_settings(conditions, cut))
            if self.set.get((a, b)) != settings:
                self.set[a, b] = settings
                changed.setdefault((a, settings), []).append(b)
        for (a, settings), targets in changed.items():
            self.ask({"set": json.loads(settings), "from": [a], "to": targets})

    def set_lines(self, plan, port_of=None):
        """The lines that connect each peer to the network; all its paths share its line."""
        for line in plan["network"]["lines"]:
            ports = [peer["number"] for peer in plan["peers"] if peer["region"] == line["region"]]
            if port_of is not None:
                ports = sorted({port_of[number] for number in ports})
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
