"""A scenario with real processes: drives the timeline, watches the peers, measures."""

import heapq
import itertools
import pathlib
import shutil
import signal
import tomllib

from . import expect
from .machine import Borrowed, LabError
from .measurements import Measurements, Row
from .network import CUTTING, Paths, Switch
from .pairs import Pairs
from .processes import DISK_MEGABYTES, Peer
from .routers import Network
from .verdicts import LOSS_OF_NO_PATH, Verdicts, is_to_notice
from .watch import Watcher, clock

LEAVE_PATIENCE = 20.0
START_PATIENCE = 0.02
CANNOT_START = 3  # the exit code of a peer that cannot write into its folder
FAULTS = ("kill", "stop", "restart", "leave", "partition", "degrade", "throttle", "disk_full",
          "router_restart", "mapping_lost", "address_change")
AT_ONCE = ("kill", "restart", "leave", "mapping_lost", "address_change")
# Of a peer's steps nothing is asked where one of these concerns it.
HOLDING_UP = ("kill", "stop", "restart", "leave", "throttle")
SIMULATED_ONLY = ("twin", "skew")
MEASURED_IN_SIMULATION = ("optimum_distance_max", "faulty_held_max", "spectral_gap_min")
ENDING = ("settling", "finishing", "done")
# Membership alone: every peer waits for more links than there can be before its first step.
NO_TRAINING = ["exchange.mode=none", "swarm.wait_for=64", "swarm.wait_timeout=3600"]


def faults_of(plan):
    """The events that disturb; what is there from the start to the end is how the world is."""
    return [event for event in plan["timeline"] if event["kind"] in FAULTS]


def fault_times(plan):
    """(when the first fault begins, None where there is none; when all are over and all have
    started; the last start). What has no end ends with the plan."""
    faults = faults_of(plan)
    end = plan["scenario"]["duration"]

    def over_at(event):
        if event["until"] is not None:
            return event["until"]
        return event["at"] if event["kind"] in AT_ONCE else end
    last_start = max((e["at"] for e in plan["timeline"] if e["kind"] in ("join", "restart")),
                     default=0.0)
    return (min((e["at"] for e in faults), default=None),
            max([last_start, *(over_at(e) for e in faults)]), last_start)


class Laboratory:
    """One run. `run()` returns what was measured; `close()` must be called whatever happens."""

    def __init__(self, plan, programs, folder, root, say):
        """`programs`: (starling, switch); `say`: called with a line for people."""
        self.plan, self.folder, self.say = plan, folder, say
        self.program, self.switch_program = programs
        self.run_file = plan["run"]["file"] or root / "scenarios/runs/fashion-mlp.toml"
        self.borrowed = Borrowed()
        self.paths = Paths(plan)
        self.switch = self.watcher = None
        self.network = None  # routers.Network, where some peer is behind something
        self.moves_running = any(e["kind"] == "address_change" for e in plan["timeline"])
        self.pairs = Pairs(plan.get("paths", {}))
        self.peers = []
        self.mounts = []
        self.began = clock()
        self.events = []  # what was done when
        self.latest = {}  # peer: its latest status
        self.blocked_since = {}  # (a, b): clear since
        self.active = {}  # (peer, kind): events in force, in order of begin
        self.full_at = None
        self.failed = 0  # lives that ended with an error
        faults = faults_of(plan)
        self.first_fault, self.last_fault, self.last_start = fault_times(plan)
        self.disturbed = {n for e in faults if e["kind"] in HOLDING_UP for n in e["peers"]}
        self.verdicts = Verdicts(self, self.last_fault)
        self.measurements = Measurements(self.last_start)

    # What the verdicts are judged by.
    def running_since(self, number):
        peer = self.peers[number]
        return peer.since if peer.state == "running" and not peer.leaving else None

    def clear_since(self, a, b):
        return self.blocked_since.get((a, b), 0.0)

    def all_running(self):
        """Those that train."""
        return {peer.number for peer in self.peers
                if not peer.relay and self.running_since(peer.number) is not None}

    def now(self):
        return clock() - self.began

    def pace(self, speed):
        """Steps a second that a peer of this speed makes at most."""
        return speed * 1000 / self.plan["sim"]["step_ms"]

    def settings(self, speed):
        """Keys of the run file that a peer gets beside those of the scenario."""
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
        if any(e["name"] in ("pairs_linked_within_s", "paths_within_s")
               for e in self.plan["expect"]):
            asked["/links"] = 2 * pause
        self.watcher = Watcher(self.peers, self._heard, self.now, asked)

    def _port_of(self):
        """The switch's port of each peer; None: they have the same numbers."""
        return None if self.network is None else self.network.port_of

    def run(self):
        self._open()
        self.began = clock()
        order = itertools.count()
        agenda = []
        for event in self.plan["timeline"]:
            heapq.heappush(agenda, (event["at"], next(order), event, True))
            if event["until"] is not None:
                heapq.heappush(agenda, (event["until"], next(order), event, False))
        end = self.plan["scenario"]["duration"]
        while self.now() < end:
            self._reap()
            while agenda and agenda[0][0] <= self.now():
                _, _, event, begins = heapq.heappop(agenda)
                self._happen(event, begins)
            starts = any(e["kind"] in ("join", "restart") for _, _, e, b in agenda if b)
            waits = any(peer.waits_for_room for peer in self.peers)
            trains = any(peer.alive and not peer.relay for peer in self.peers)
            if not starts and not waits and not trains:
                break
            if self._is_over() and not trains:
                break
            ticks = [t for t in (peer.tick(clock()) for peer in self.peers) if t is not None]
            soon = min([0.2, *ticks])
            until = min(agenda[0][0] if agenda else end, self.now() + soon, end)
            self.watcher.run_until(max(until, self.now() + 0.001))
        self._end()
        return self._measure()

    def _is_over(self):
        """Whether somebody has come to the end of the run."""
        return any(peer.state == "ended" and (peer.summary() or {}).get("end") == "done"
                   for peer in self.peers)

    def _reap(self):
        for peer in self.peers:
            if peer.reap():
                self._ended(peer, peer.process.returncode)

    def _ended(self, peer, code):
        """Its process ended by itself. Where its run is over, so is that of others: who runs changes
        without a fault from now on. An error is a death as any other."""
        now = self.now()
        self.measurements.end_gap(peer.number, now)
        if code == CANNOT_START and peer.disk_is_full and peer.control() is None:
            peer.waits_for_room = not peer.leaving
            return self._note(f"{peer.name} cannot start: its disk is full", "end", [peer.number])
        self._note(f"{peer.name} ends" + (f" with exit code {code}" if code else ""), "end",
                   [peer.number])
        if code:
            self.failed += 1
            if not peer.leaving:
                self._died(peer, now)
        elif not peer.leaving:
            self.verdicts.freeze()
            self.verdicts.said_goodbye(peer.number, now)

    def _died(self, peer, now):
        self.verdicts.forget(peer.number)
        self.verdicts.died(peer.number, now, self._observers_of(peer.number))

    def _note(self, text, kind, numbers, until=None):
        at = round(self.now(), 3)
        self.events.append({"at": at, "until": until, "kind": kind, "text": text,
                            "peers": list(numbers)})
        self.say(f"{at:7.1f} s  {text}")

    def _happen(self, event, begins):
        """Carries out the begin or the end of an event."""
        kind = event["kind"]
        concerned = [self.peers[n] for n in event["peers"]]
        names = ", ".join(peer.name for peer in concerned)
        if begins:
            self._note(f"{kind} {names}" if names else kind, kind, event["peers"], event["until"])
            if kind in FAULTS:
                self.verdicts.fault_happened()
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
        """They forget everything, and what they have learned while they were off, each once."""
        for peer in {peer.nat["router"]: peer for peer in concerned}.values():
            self.network.restart(peer.number)
            if move:
                peer.move(self.switch)

    def _apply_paths(self):
        resolved = self.paths.resolve()
        self.switch.apply(resolved, self._port_of())
        now = self.now()
        for pair, (conditions, cut) in resolved.items():
            if cut or conditions.get("loss", 0) >= LOSS_OF_NO_PATH:
                self.blocked_since[pair] = None
            elif self.blocked_since.get(pair, 0.0) is None:
                self.blocked_since[pair] = now

    def _do(self, kind, peer, event, begins):
        now = self.now()
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
            was = peer.state
            peer.kill()
            peer.waits_for_room = False
            if was == "running":
                self._died(peer, now)
            else:
                self.verdicts.forget(peer.number)
        elif kind in ("stop", "throttle", "disk_full"):
            self._do_lasting(kind, peer, event, begins)
        elif kind == "mapping_lost":
            self.network.lose_mappings(peer.number)
        elif kind == "address_change":
            peer.move(self.switch)
        elif kind == "leave":
            if peer.alive:  # who has ended by itself is not asked, nor started again
                peer.signal(signal.SIGINT)
                peer.leaving = True
            peer.waits_for_room = False
            self.verdicts.forget(peer.number)

    def _do_lasting(self, kind, peer, event, begins):
        """Several of one kind may overlap: it lasts until the last of them is over, and the one
        that began last says by how much."""
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
                self.verdicts.forget(peer.number)
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

    def _observers_of(self, victim):
        return [peer.number for peer in self.peers if peer.number != victim
                and is_to_notice(peer.number, victim, self.paths.active)]

    def _start(self, peer):
        if not peer.disk_is_full:  # else it ends at once
            self.verdicts.came_back(peer.number, self.now())
        # The machine's faults go on; it was another process that was stopped.
        self.active.pop((peer.number, "stop"), None)
        peer.start(self.now())
        # Of a former life nothing counts.
        self.watcher.forget(peer)
        self.latest.pop(peer.number, None)
        self.pairs.forget(peer.number)
        self.measurements.forget(peer.number)

    def _heard(self, peer, path, reply, now):
        if path == "/members":
            return self.verdicts.saw(peer.number, self._view(reply), now)
        if path == "/links":
            return self.pairs.heard(peer.number, reply, self.all_running(), now, self.last_start)
        if reply.get("phase") in ENDING and not peer.leaving:
            self.verdicts.freeze()
        if reply.get("phase") == "training":
            peer.trains(now)
        else:
            peer.use_from = None
        self.measurements.heard(peer.number, reply, peer.since, now)
        self.latest[peer.number] = reply
        self._count_links(now)

    def _view(self, members):
        """Whom a member table holds alive, dead or gone. A peer that lost its folder came back
        with a new key: of several members with its name the liveliest counts."""
        view = {}
        numbers = {peer.name: peer.number for peer in self.peers}
        for member in members:
            number = numbers.get(member["name"])
            state = "alive" if member["self"] or member["state"] == "suspect" else member["state"]
            if number is not None and view.get(number) != "alive":
                view[number] = state if state == "alive" else max(state, view.get(number, ""))
        return view

    def _setting(self, section, key):
        """Of the run file as a peer has written it; 1 where none has."""
        for peer in self.peers:
            try:
                return tomllib.loads((peer.folder / "run.toml").read_text())[section][key]
            except (OSError, KeyError, tomllib.TOMLDecodeError):
                continue
        return 1

    def _count_links(self, now):
        """Whether every running peer has its neighbours."""
        if self.full_at is not None or now < self.last_start or self.verdicts.frozen:
            return
        running = self.all_running()
        wanted = min(self._setting("swarm", "degree"), len(running) - 1)
        if all(self.latest.get(n, {}).get("links", 0) >= wanted for n in running):
            self.full_at = now

    def _end(self):
        """Those that still run are asked to leave; who does not is killed, and has failed."""
        self._reap()
        if self.pairs.paths_within is None:
            for words in self.pairs.wrong():
                self.say(words)
        self.verdicts.finish(self.now())
        self.ended_at = self.now()
        self.measurements.end_gaps(self.ended_at)
        for peer in self.peers:
            if peer.state == "stopped":
                peer.go_on(self.ended_at)
            peer.full_speed()
            peer.free_disk()
            if not peer.leaving:  # asked twice it would end at once
                peer.signal(signal.SIGINT)
                peer.leaving = True
        limit = clock() + LEAVE_PATIENCE
        self._reap()
        while clock() < limit and any(peer.alive for peer in self.peers):
            self.watcher.run_until(self.now() + START_PATIENCE)
            self._reap()
        for peer in self.peers:
            if peer.alive:
                self.failed += 1
                self._note(f"{peer.name} does not leave and is killed", "end", [peer.number])
                peer.kill()
        self.counters = self.switch.counters()

    def _measure(self):
        summaries = [summary for summary in (peer.summary() for peer in self.peers) if summary]
        done = [summary for summary in summaries if summary.get("end") == "done"]
        finished = [peer for peer in self.peers if (peer.summary() or {}).get("end") == "done"]
        replicas = [path for path in (peer.final_replica() for peer in finished) if path]
        gaps = [gap for n, gap in self.measurements.gaps.items() if n not in self.disturbed]
        wanted = {expectation["name"] for expectation in self.plan["expect"]}
        rows = self.measurements.rows
        batch = self._setting("train", "batch")
        drifts = [(row.seconds, row.drift) for said in rows.values() for row in said
                  if row.phase == "training"]
        return {
            "accuracy_min": expect.mean([s["accuracy"] for s in done]),
            "loss_max": expect.mean([s["loss"] for s in done]),
            "distance_max": expect.distance(replicas) if "distance_max" in wanted else None,
            "finished_min": len(finished),
            "failed_max": self.failed,
            "step_gap_max_s": max(gaps, default=None),
            "throughput_min": expect.throughput(
                {n: said for n, said in rows.items() if n not in self.disturbed},
                [self.pace(peer["speed"]) * batch for peer in self.plan["peers"]]),
            "detection_p50_s": expect.detection(self.verdicts, 0.5),
            "detection_p99_s": expect.detection(self.verdicts, 0.99),
            "false_deaths_max": len(self.verdicts.false),
            "verdicts_per_minute_max": self.verdicts.verdicts_per_minute(),
            "one_view_within_s": self.verdicts.one_view_after(),
            "views_full_within_s":
                None if self.full_at is None else self.full_at - self.last_start,
            "drift_back_within_s":
                None if self.first_fault is None else
                expect.drift_back(drifts, self.first_fault, self.last_fault),
            "membership_bytes_per_s_max": max(self.measurements.membership_bytes.values(),
                                              default=None),
            "sent_bytes_max": expect.mean([s["bytes_sent"]["total"] for s in done]),
            "pairs_linked_within_s": self.pairs.linked_within,
            "paths_within_s": self.pairs.paths_within,
        }

    def record(self):
        """Everything that the report shows, as JSON takes it."""
        return {"scenario": self.plan["scenario"], "seconds": round(self.ended_at, 2),
                "peers": [{"number": p.number, "name": p.name, "region": r["region"],
                           "rows": self.measurements.rows.get(p.number, []),
                           "summary": p.summary()}
                          for p, r in zip(self.peers, self.plan["peers"])],
                "columns": Row._fields,
                "events": self.events, "verdicts": self.verdicts.log,
                "detections": [[round(s, 3), v, o, noticed]
                               for s, v, o, noticed in self.verdicts.detections],
                "false_deaths": [{"peer": v, "at": round(t, 2), "held_by": o}
                                 for (v, _), (t, o, _) in self.verdicts.false.items()],
                "switch": self.counters}

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
        """What lay on the peer's small disk comes to the folder below it."""
        peer.free_disk()
        copy = pathlib.Path(f"{peer.folder}.disk")
        shutil.copytree(peer.folder, copy, dirs_exist_ok=True)
        self.borrowed.unmount(peer.folder)
        peer.folder.rmdir()
        copy.rename(peer.folder)
