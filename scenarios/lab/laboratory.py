"""A scenario with real processes: drives the timeline, watches the peers, logs what it sees."""

import heapq
import itertools
import pathlib
import shutil
import signal
import time
import tomllib

from .machine import Borrowed
from .measurements import Row, add_row
from .network import CUTTING, Paths, Switch
from .observations import Observations
from .processes import DISK_MEGABYTES, Peer
from .routers import Network
from .watch import Watcher, clock

LEAVE_PATIENCE = 20.0
REAP_EVERY = 0.02
CANNOT_START = 3  # the exit code of a peer that cannot write into its folder
SIMULATED_ONLY = ("twin", "skew")
# Membership alone: before its first step every peer waits for more links than there can be.
NO_TRAINING = ["exchange.mode=none", "swarm.wait_for=64", "swarm.wait_timeout=3600"]


def path_of(link):
    """The path of a link, as the scenario language names it."""
    return "circuit" if link.get("carrier") == "circuit" else "direct"


class Laboratory:
    """One run. `close()` must be called whatever happens."""

    def __init__(self, plan, programs, folder, root, log, say):
        """`programs`: (starling, switch, starling-hostile); `log`: the file of the observations, in `folder` or above
        it; `say`: called with a line for people."""
        self.plan, self.folder, self.say = plan, folder, say
        self.program, self.switch_program, self.hostile_program = programs
        self.run_file = plan["run"]["file"] or root / "scenarios/runs/fashion-mlp.toml"
        self.borrowed = Borrowed()
        self.paths = Paths(plan)
        self.switch = self.watcher = None
        self.network = None  # routers.Network, if some peer is behind a router
        self.moves_running = any(e["kind"] == "address_change" for e in plan["timeline"])
        self.peers = []
        self.mounts = []
        self.began = clock()
        self.events = []  # actions and their times
        self.active = {}  # (peer, kind): events in force, in order of begin
        self.full_at = None
        self.observations = Observations(log, self.now)
        self.settings_told = False
        self.rows = {}  # peer: its Rows

    def now(self):
        return clock() - self.began

    def program_of(self, peer):
        return self.program if peer.attack is None else self.hostile_program

    def pace(self, speed):
        """The most steps a second that a peer of this speed makes."""
        return speed * 1000 / self.plan["sim"]["step_ms"]

    def settings(self, speed):
        """Keys of the run file that a peer gets in addition to those of the scenario."""
        paced = [f"limits.steps_per_second={self.pace(speed):g}", "train.threads=1"]
        if self.plan["run"]["file"] is None and self.plan["sim"]["problem"] == "none":
            paced += NO_TRAINING
        return paced + self.plan["run"]["set"]

    def _open(self):
        count = len(self.plan["peers"])
        namespaces = self.borrowed.namespaces(count)
        if any(peer.get("nat") for peer in self.plan["peers"]):
            self.network = Network(self.borrowed, self.plan, namespaces)
        ports = self.network and self.network.ports
        self.switch = Switch(self.switch_program,
                             [port.namespace for port in ports] if ports else namespaces,
                             self.plan["scenario"]["seed"], ports=ports)
        if self.network is not None:
            self.network.connect()
        self.switch.set_lines(self.plan, self._port_of())
        self.switch.apply(self.paths.resolve(), self._port_of())
        full = {n for e in self.plan["timeline"] if e["kind"] == "disk_full" for n in e["peers"]}
        for planned, namespace in zip(self.plan["peers"], namespaces):
            peer = Peer(self, planned, namespace, self.folder / planned["name"])
            if peer.number in full:
                peer.folder.mkdir(parents=True)
                self.borrowed.tmpfs(peer.folder, DISK_MEGABYTES)
                self.mounts.append(peer)
            self.peers.append(peer)
        pause = max(0.1, 0.012 * count)
        asked = {"/status": pause, "/members": 2 * pause}
        if self.plan["needs"]["links"]:
            asked["/links"] = 2 * pause
        self.watcher = Watcher(self.peers, self._heard, self.now, asked)

    def _port_of(self):
        """The switch's port of each peer; None: ports and peers have the same numbers."""
        return None if self.network is None else self.network.port_of

    def run(self, undisturbed=False):
        """`undisturbed`: without the plan's timeline and attacks."""
        self._open()
        self.began = clock()
        self.observations.begin(self.plan, undisturbed)
        order = itertools.count()
        agenda = []
        for index, event in enumerate(self.plan["timeline"]):
            heapq.heappush(agenda, (event["at"], next(order), index, event, True))
            if event["until"] is not None:
                heapq.heappush(agenda, (event["until"], next(order), index, event, False))
        end = self.plan["scenario"]["duration"]
        while self.now() < end:
            self._reap()
            while agenda and agenda[0][0] <= self.now():
                *_, index, event, begins = heapq.heappop(agenda)
                if event["line"] > 0:  # the start's events are seen when processes start
                    self.observations.add("event", event=index, begins=begins)
                self._happen(event, begins)
            starts = any(e["kind"] in ("join", "restart") for *_, e, b in agenda if b)
            waits = any(peer.waits_for_room for peer in self.peers)
            # Hostile peers need not end.
            trains = any(peer.alive and not peer.relay and peer.attack is None
                         for peer in self.peers)
            if not starts and not waits and not trains:
                break
            if self._is_over() and not trains:
                break
            ticks = [t for t in (peer.tick(clock()) for peer in self.peers) if t is not None]
            soon = min([0.2, *ticks])
            until = min(agenda[0][0] if agenda else end, self.now() + soon, end)
            self.watcher.run_until(max(until, self.now() + 0.001))
        self._end()

    def _is_over(self):
        """Whether an honest peer has come to the end of the run."""
        return any(peer.state == "ended" and peer.attack is None
                   and (peer.summary() or {}).get("end") == "done" for peer in self.peers)

    def _reap(self):
        for peer in self.peers:
            if peer.reap():
                self._ended(peer, peer.process.returncode)

    def _ended(self, peer, code):
        """The peer's process ended by itself."""
        cannot_start = code == CANNOT_START and peer.disk_is_full and peer.control() is None
        self.observations.add("end", peer=peer.number, code=code, cannot_start=cannot_start)
        if cannot_start:
            peer.waits_for_room = not peer.leaving
            return self._note(f"{peer.name} cannot start: its disk is full", "end", [peer.number])
        self._note(f"{peer.name} ends" + (f" with exit code {code}" if code else ""), "end",
                   [peer.number])

    def _note(self, text, kind, numbers, until=None):
        at = round(self.now(), 3)
        self.events.append({"at": at, "until": until, "kind": kind, "text": text,
                            "peers": list(numbers)})
        self.say(f"{at:7.1f} s  {text}")

    def _happen(self, event, begins):
        """Carries out the beginning or the end of an event."""
        kind = event["kind"]
        concerned = [self.peers[n] for n in event["peers"]]
        names = ", ".join(peer.name for peer in concerned)
        if begins:
            self._note(f"{kind} {names}" if names else kind, kind, event["peers"], event["until"])
        if kind in CUTTING or kind == "degrade":
            if begins:
                self.paths.active.append(event)
            else:
                self.paths.active.remove(event)
            self._apply_paths()
            if kind == "router_restart":
                self._restart_routers(concerned, begins and event["address"] == "new")
            return
        for peer in concerned:
            self._do(kind, peer, event, begins)

    def _restart_routers(self, concerned, move):
        """Each forgets everything once, including what it learned while it was off."""
        for peer in {peer.nat["router"]: peer for peer in concerned}.values():
            self.network.restart(peer.number)
            if move:
                peer.move(self.switch)

    def _apply_paths(self):
        self.switch.apply(self.paths.resolve(), self._port_of())

    def _do(self, kind, peer, event, begins):
        if kind == "join":
            if peer.state == "absent":
                peer.join = [host for other in event["via"] for host in self.peers[other].hosts()]
                self._start(peer)
        elif kind == "restart":
            if peer.state == "ended" and not peer.leaving and not peer.process.returncode:
                return  # its run is over
            peer.kill()
            peer.change_disk(event["disk"])
            if event["address"] == "new":
                peer.move(self.switch)
            self._start(peer)
        elif kind == "kill":
            peer.kill()
            peer.waits_for_room = False
        elif kind in ("stop", "throttle", "disk_full"):
            self._do_lasting(kind, peer, event, begins)
        elif kind == "mapping_lost":
            self.network.lose_mappings(peer.number)
        elif kind == "address_change":
            peer.move(self.switch)
        elif kind == "leave":
            if peer.alive:  # a peer that ended by itself is not asked, nor started again
                peer.signal(signal.SIGINT)
                peer.leaving = True
            peer.waits_for_room = False

    def _do_lasting(self, kind, peer, event, begins):
        """Several of one kind may overlap: the effect lasts until the last of them is over, and
        the one that began last decides its size."""
        active = self.active.setdefault((peer.number, kind), [])
        if begins:
            active.append(event)
        elif event in active:
            active.remove(event)
        else:
            return  # another process was stopped
        if kind == "throttle":
            if active:
                peer.slow_down(self.borrowed, active[-1]["speed"])
            else:
                peer.full_speed()
        elif begins and len(active) == 1:
            if kind == "stop":
                peer.stop()
            else:
                peer.fill_disk()
        elif not active:
            if kind == "stop":
                peer.go_on(self.now())
            else:
                peer.free_disk()
                if peer.waits_for_room:
                    self._note(f"{peer.name} starts: there is room", "restart", [peer.number])
                    self._start(peer)

    def _start(self, peer):
        # The machine's faults continue; the stop applied to another process.
        self.active.pop((peer.number, "stop"), None)
        self.observations.add("start", peer=peer.number, disk_full=peer.disk_is_full)
        peer.start(self.now())
        # Nothing from a former life counts.
        self.watcher.forget(peer)

    def _heard(self, peer, path, reply, now):
        if path == "/members":
            return self.observations.members(peer.number, self._view(reply))
        if path == "/links":
            numbers = {other.name: other.number for other in self.peers}
            return self.observations.links(peer.number,
                                           {numbers[link["name"]]: path_of(link) for link in reply
                                            if link["name"] in numbers})
        if reply.get("phase") == "training":
            peer.trains(now)
        else:
            peer.use_from = None
        self._tell_settings(peer)
        self.observations.status(peer.number, reply)
        add_row(self.rows.setdefault(peer.number, []), reply, now)

    def _view(self, members):
        """Which peers a member table holds alive, dead or gone. A peer that lost its folder came
        back with a new key: of several members with its name, the liveliest counts."""
        view = {}
        numbers = {peer.name: peer.number for peer in self.peers}
        for member in members:
            number = numbers.get(member["name"])
            state = "alive" if member["self"] or member["state"] == "suspect" else member["state"]
            if number is not None and view.get(number) != "alive":
                view[number] = state if state == "alive" else max(state, view.get(number, ""))
        return view

    def _tell_settings(self, peer):
        """Settings of the run file that a peer has written, once."""
        if self.settings_told:
            return
        try:
            run = tomllib.loads((peer.folder / "run.toml").read_text())
            self.observations.add("settings", degree=run["swarm"]["degree"],
                                  batch=run["train"]["batch"])
        except (OSError, KeyError, tomllib.TOMLDecodeError):
            return
        self.settings_told = True

    def _end(self):
        """Asks running peers to leave, and kills those that do not."""
        self._reap()
        self.ended_at = self.now()
        self.observations.add("over")
        self.watcher.close()
        self.watcher = None
        for peer in self.peers:
            if peer.state == "stopped":
                peer.go_on(self.ended_at)
            peer.full_speed()
            peer.free_disk()
            if not peer.leaving:  # asked twice, it would end at once
                peer.signal(signal.SIGINT)
                peer.leaving = True
        limit = clock() + LEAVE_PATIENCE
        self._reap()
        while clock() < limit and any(peer.alive for peer in self.peers):
            time.sleep(REAP_EVERY)
            self._reap()
        for peer in self.peers:
            if peer.alive:
                self._note(f"{peer.name} does not leave and is killed", "end", [peer.number])
                peer.kill()
                self.observations.add("end", peer=peer.number, code=peer.process.returncode,
                                      cannot_start=False)
            if summary := peer.summary():
                self.observations.summary(peer.number, summary, self._replica_of(peer))
        self.counters = self.switch.counters()

    @staticmethod
    def _replica_of(peer):
        path = peer.final_replica()
        return path and f"{peer.name}/{path.relative_to(peer.folder)}"

    def record(self):
        """Everything that the report shows, in JSON types."""
        return {"scenario": self.plan["scenario"], "seconds": round(self.ended_at, 2),
                "peers": [{"number": p.number, "name": p.name, "region": r["region"],
                           "rows": self.rows.get(p.number, []),
                           "summary": p.summary()}
                          for p, r in zip(self.peers, self.plan["peers"])],
                "columns": Row._fields,
                "events": self.events, "switch": self.counters}

    def close(self):
        """Ends all processes and gives everything back; safe at any time and more than once."""
        if self.watcher is not None:
            self.watcher.close()
            self.watcher = None
        try:
            for peer in self.peers:
                peer.kill()
            if self.switch is not None:
                self.switch.close()
                self.switch = None
            if self.network is not None:
                self.network.close()
            while self.mounts:
                self._keep_files(self.mounts.pop())
        finally:
            self.borrowed.give_back()

    def _keep_files(self, peer):
        """Moves the files of the peer's small disk to the folder below it."""
        peer.free_disk()
        copy = pathlib.Path(f"{peer.folder}.disk")
        shutil.copytree(peer.folder, copy, dirs_exist_ok=True)
        self.borrowed.unmount(peer.folder)
        peer.folder.rmdir()
        copy.rename(peer.folder)
