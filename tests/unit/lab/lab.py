#!/usr/bin/python3
"""The scenarios' laboratory and its log. The last line is
"N passed, N failed, N skipped"."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import runner  # noqa: E402
from runner import ROOT  # noqa: E402
sys.path.insert(0, str(ROOT / "scenarios"))
from lab import laboratory, machine, page, processes, routers  # noqa: E402
from lab.laboratory import Laboratory  # noqa: E402
from lab.network import Paths, switch_settings  # noqa: E402
from lab.watch import Watcher, longest_pause, note_steps  # noqa: E402


class StillPeer(processes.Peer):
    """A peer without a process, whose signals are noted."""

    class Process:
        returncode = None
        pid = 1

        def poll(self):
            return self.returncode

        def kill(self):
            self.returncode = -signal.SIGKILL

        def wait(self):
            pass

    def __init__(self, number):
        super().__init__(None, {"number": number, "name": f"peer-{number}", "speed": 1, "relay": False}, None,
                         pathlib.Path("nowhere"))
        self.signals = []

    def _spawn(self):
        return self.Process()

    def exit(self, code):
        self.process.returncode = code

    def signal(self, number):
        self.signals.append(number)


class Turns:
    """A throttle by signals."""

    def __init__(self, peer):
        self.peer = peer

    def tick(self, now):
        self.peer.signal(signal.SIGCONT)
        return 0.01

    def end(self):
        self.peer.signal(signal.SIGCONT)


class AStoppedPeer(unittest.TestCase):
    def setUp(self):
        self.peer = StillPeer(0)
        self.peer.start(0.0)
        self.peer.throttle = Turns(self.peer)

    def test_is_not_woken_by_the_turns_of_its_throttle(self):
        self.assertEqual(self.peer.tick(1.0), 0.01)
        self.peer.stop()
        self.assertIsNone(self.peer.tick(1.1))
        self.peer.full_speed()
        self.assertEqual(self.peer.signals[-1], signal.SIGSTOP)
        self.peer.go_on(2.0)
        self.assertEqual(self.peer.signals[-1], signal.SIGCONT)
        self.assertEqual((self.peer.started, self.peer.since), (0.0, 2.0))

    def test_a_running_one_is_left_to_run_when_its_throttle_ends(self):
        self.peer.full_speed()
        self.assertEqual(self.peer.signals, [signal.SIGCONT])


class AHostilePeer(unittest.TestCase):
    class Room:
        """As much of a laboratory as a command needs."""

        network, moves_running = None, False
        run_file, folder = "run.toml", pathlib.Path("nowhere")

        def program_of(self, peer):
            return "starling" if peer.attack is None else "starling-hostile"

        def settings(self, speed):
            return []

        def now(self):
            return 2.0

    def command(self, attack):
        planned = {"number": 0, "name": "peer-0", "speed": 1, "relay": False, "attack": attack}
        return processes.Peer(self.Room(), planned, None, pathlib.Path("nowhere")).command()

    def test_is_started_with_its_attack_and_the_time_that_is_left_until_then(self):
        words = self.command({"kind": "scale", "factor": 1e30, "from": 5.0})
        self.assertIn("starling-hostile", words)
        self.assertEqual(words[-4:], ["--attack", "scale:1e+30", "--attack-from", "3.0"])

    def test_may_begin_with_settling_and_have_no_factor(self):
        words = self.command({"kind": "stale", "factor": None, "from": "settling"})
        self.assertEqual(words[-4:], ["--attack", "stale", "--attack-from", "settling"])

    def test_is_none_that_has_no_attack(self):
        self.assertNotIn("--attack", self.command(None))


class ADisk(unittest.TestCase):
    def test_that_is_full_is_so_for_who_comes_back_without_its_files(self):
        with tempfile.TemporaryDirectory() as folder:
            peer = StillPeer(0)
            peer.folder = pathlib.Path(folder)
            peer.filler = peer.folder / ".filler"
            (peer.folder / "run.toml").touch()
            with mock.patch.object(peer, "fill_disk") as fill:
                peer.change_disk("lost")
            self.assertEqual((fill.call_count, list(peer.folder.iterdir())), (1, []))


class TheLaboratory(unittest.TestCase):
    PLAN = {"scenario": {"seed": 1, "duration": 60}, "needs": {"links": False}, "run": {"file": "run.toml", "set": []},
            "peers": [{"region": "eu", "speed": 1, "relay": False}] * 2,
            "network": {"default": {}, "pairs": [], "lines": []}, "expect": [],
            "timeline": [{"at": 0, "until": None, "kind": "join", "peers": [0, 1], "via": []}]}
    STATUS = {"phase": "training", "steps": 5, "samples": 40, "swarm_samples": 50,
              "accuracy": None, "loss": None, "drift": 0.1, "links": 1, "bytes_sent": {"total": 10, "membership": 5}}

    def setUp(self):
        self.log = io.StringIO()
        self.lab = Laboratory(self.PLAN, (None, None, None), pathlib.Path("nowhere"), ROOT, self.log,
                              lambda _: None)
        self.lab.peers = [StillPeer(0), StillPeer(1)]
        self.heard_at = 0.0
        for peer in self.lab.peers:
            peer.laboratory = self.lab
        self.lab.watcher = Watcher(self.lab.peers, None, self.lab.now, {})
        self.addCleanup(self.lab.watcher.close)
        for peer in self.lab.peers:
            self.lab._start(peer)

    def logged(self, *kinds):
        """Lines of the log of these kinds, without their times."""
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [{key: value for key, value in line.items() if key != "at"} for line in lines
                if line["kind"] in kinds]

    def restart(self, number, address="kept"):
        event = {"kind": "restart", "peers": [number], "disk": "kept", "address": address,
                 "until": None}
        self.lab._do("restart", self.lab.peers[number], event, True)

    def fault(self, kind, begins, at=0, **more):
        event = {"kind": kind, "peers": [0], "at": at, **more}
        self.lab._do(kind, self.lab.peers[0], event, begins)

    def test_of_faults_that_overlap_the_last_ends_it(self):
        peer = self.lab.peers[0]
        self.fault("stop", True, 1)
        self.fault("stop", True, 2)
        self.fault("stop", False, 1)
        self.assertEqual(peer.state, "stopped")
        self.fault("stop", False, 2)
        self.assertEqual(peer.state, "running")
        with mock.patch.object(peer, "fill_disk") as fill, \
                mock.patch.object(peer, "free_disk") as free:
            self.fault("disk_full", True, 1)
            self.fault("disk_full", True, 2)
            self.fault("disk_full", False, 1)
            self.assertEqual((fill.call_count, free.call_count), (1, 0))
            self.fault("disk_full", False, 2)
            self.assertEqual((fill.call_count, free.call_count), (1, 1))

    def test_a_slow_processor_outlives_the_process_and_a_stop_does_not(self):
        peer = self.lab.peers[0]
        with self.throttled(0.8) as shares:
            for now in (1, 5):
                self.hear(now, "training")
            self.fault("throttle", True, 1, speed=0.5)
            self.fault("throttle", True, 2, speed=0.25)
            self.fault("throttle", False, 1, speed=0.5)
            self.fault("stop", True, 3)
            peer.state = "dead"
            self.restart(0)
            self.assertEqual(peer.state, "running")
            self.fault("stop", False, 3)
            self.assertEqual(shares, [0.4, 0.2, 0.2, 0.2])
            self.assertIsNotNone(peer.throttle)
            self.fault("throttle", False, 2, speed=0.25)
            self.assertIsNone(peer.throttle)

    @contextlib.contextmanager
    def throttled(self, use):
        """Each process uses `used` of a processor; returns the shares that throttles leave it."""
        shares = []

        def throttle(borrowed, name, pid, share):
            shares.append(round(share, 3))
            return Turns(self.lab.peers[0])
        with mock.patch.object(processes, "Throttle", throttle), \
                mock.patch.object(processes, "cpu_seconds", lambda pid: use * self.heard_at):
            yield shares

    def hear(self, now, phase):
        self.heard_at = now
        self.lab._heard(self.lab.peers[0], "/status", {**self.STATUS, "phase": phase}, now)

    def test_a_peer_is_slowed_down_once_it_has_trained_for_a_while(self):
        peer = self.lab.peers[0]
        with self.throttled(0.8) as shares:
            self.fault("throttle", True, speed=0.5)
            for now in range(10):
                self.hear(now, "waiting")
            for now in range(10, 13):
                self.hear(now, "training")
            self.assertEqual(shares, [])
            self.hear(13, "training")
            self.assertEqual(shares, [0.4])
            self.hear(20, "training")  # its current pace is not its own speed
            self.assertEqual(shares, [0.4])
            self.assertAlmostEqual(peer.used, 0.8)

    def test_a_throttle_that_begins_while_a_peer_is_dead_holds_when_it_is_back(self):
        self.lab.peers[0].state = "dead"
        with self.throttled(0.8) as shares:
            self.fault("throttle", True, speed=0.5)
            self.restart(0)
            for now in range(5):
                self.hear(now, "training")
            self.assertEqual(shares, [0.4])
            self.restart(0)
            self.assertEqual(shares, [0.4, 0.4])

    def test_who_cannot_write_starts_when_there_is_room(self):
        peer = self.lab.peers[0]
        peer.state = "dead"
        with mock.patch.object(peer, "fill_disk", lambda: setattr(peer, "filler", mock.Mock())):
            self.fault("disk_full", True)
            for gone in (False, True):
                peer.state = "dead"
                self.restart(0)
                peer.exit(3)
                self.lab._reap()
                self.assertTrue(peer.waits_for_room)
                self.assertFalse(peer.alive)
                self.assertEqual(self.logged("start", "end")[-2:],
                                 [{"kind": "start", "peer": 0, "disk_full": True},
                                  {"kind": "end", "peer": 0, "code": 3, "cannot_start": True}])
                if gone:
                    self.lab._do("kill", peer, {"kind": "kill"}, True)
                self.fault("disk_full", False)
                self.assertEqual(peer.state, "ended" if gone else "running")
                self.fault("disk_full", True)

    def test_logs_ends_and_whom_peers_hold_for_what(self):
        def member(name, state):
            return {"name": name, "state": state, "self": False}
        # A peer that lost its folder has come back with another key.
        self.lab._heard(self.lab.peers[0], "/members",
                        [{**member("peer-0", "alive"), "self": True}, member("peer-1", "dead"),
                         member("peer-1", "suspect"), member("stranger", "alive")], 1.0)
        self.lab._heard(self.lab.peers[1], "/members", [member("peer-0", "left")], 1.0)
        self.lab._heard(self.lab.peers[0], "/links", [{"name": "peer-1", "carrier": "circuit"},
                                                      {"name": "stranger", "carrier": "tcp"}], 1.0)
        self.lab.peers[0].exit(-11)
        self.lab._reap()
        self.assertEqual(self.logged("members", "links", "end"), [
            {"kind": "members", "peer": 0, "alive": [0, 1], "dead": [], "left": []},
            {"kind": "members", "peer": 1, "alive": [], "dead": [], "left": [0]},
            {"kind": "links", "peer": 0, "direct": [], "circuit": [1]},
            {"kind": "end", "peer": 0, "code": -11, "cannot_start": False}])

    def test_gives_everything_back_though_files_cannot_be_kept(self):
        peer = self.lab.peers[0]
        self.lab.mounts = [peer]
        with mock.patch.object(self.lab, "borrowed") as borrowed, \
                mock.patch.object(shutil, "copytree", side_effect=OSError("no room")), \
                mock.patch.object(peer, "free_disk") as free:
            with self.assertRaisesRegex(OSError, "no room"):
                self.lab.close()
            free.assert_called_once_with()
            borrowed.give_back.assert_called_once_with()

    def test_logs_what_peers_say_of_themselves_and_keeps_rows_for_the_report(self):
        for now, phase in ((1.0, "training"), (1.1, "training"), (1.2, "settling")):
            self.hear(now, phase)
        said = self.logged("status")
        self.assertEqual(said[0], {"kind": "status", "peer": 0, "phase": "training", "steps": 5,
                                   "samples": 40, "drift": 0.1, "links": 1, "membership_bytes": 5})
        self.assertEqual(len(said), 3)
        self.assertEqual([row.seconds for row in self.lab.rows[0]], [1.0, 1.2])

    def test_a_new_address_is_told_to_the_switch_and_to_those_that_join_later(self):
        self.lab.switch = mock.Mock()
        self.lab.peers[0].state = self.lab.peers[1].state = "dead"
        self.restart(1)
        self.lab.switch.move.assert_not_called()
        self.restart(0, "new")
        self.lab.switch.move.assert_called_once_with(0, "10.77.0.1", "10.77.17.1")
        late = StillPeer(2)
        self.lab.peers.append(late)
        self.lab._do("join", late, {"via": [0, 1]}, True)
        self.assertEqual(late.join, ["10.77.17.1", "10.77.0.2"])

    def end(self):
        self.lab.switch = mock.Mock()
        with mock.patch.object(laboratory, "LEAVE_PATIENCE", 0.05):
            self.lab._end()

    def test_who_crashes_when_it_is_asked_to_leave_has_failed(self):
        self.lab.peers[0].exit(0)
        self.lab.peers[1].signal = lambda _: self.lab.peers[1].exit(-11)
        self.end()
        self.assertEqual([line.get("code") for line in self.logged("end", "over")], [0, None, -11])

    def test_who_does_not_leave_has_failed(self):
        self.lab.peers[0].leaving = True  # and it is not asked again
        self.lab.peers[1].signal = lambda _: self.lab.peers[1].exit(0)
        self.end()
        self.assertEqual([peer.state for peer in self.lab.peers], ["dead", "ended"])
        self.assertEqual(self.lab.peers[0].signals, [])
        self.assertEqual([line.get("code") for line in self.logged("end", "over")], [None, 0, -9])

    def test_a_peer_that_crashed_is_restarted_as_planned_and_one_that_is_done_is_not(self):
        self.lab.peers[0].exit(1)
        self.lab.peers[1].exit(0)
        self.lab._reap()
        self.restart(0)
        self.restart(1)
        self.assertEqual([peer.state for peer in self.lab.peers], ["running", "ended"])


def the_program():
    """scenarios/run as a module."""
    loader = importlib.machinery.SourceFileLoader("scenarios_run", str(ROOT / "scenarios/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("scenarios_run", loader))
    loader.exec_module(module)
    return module


class AFolder(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name) / "run"
        self.program = the_program()
        self.options = mock.Mock(dir=str(self.folder))

    def test_is_of_one_run_at_a_time(self):
        self.program.make_folder(self.options, "x")
        with self.assertRaisesRegex(machine.LabError, "another run is using"):
            self.program.make_folder(self.options, "x")

    def test_that_is_of_no_run_is_left_as_it_is(self):
        (self.folder / "peer-0").mkdir(parents=True)
        (self.folder / "peer-0/log.jsonl").touch()
        with self.assertRaisesRegex(machine.LabError, "not of an earlier run"):
            self.program.make_folder(self.options, "x")
        self.assertTrue((self.folder / "peer-0/log.jsonl").exists())

    def test_that_an_earlier_run_left_is_emptied(self):
        (self.folder / "peer-0").mkdir(parents=True)
        (self.folder / "scenario.json").touch()
        self.program.make_folder(self.options, "x")
        self.assertEqual(list(self.folder.iterdir()), [])


class StepsThatAreSeen(unittest.TestCase):
    def test_count_once_each(self):
        steps = []
        for now, status in enumerate(({}, {"steps": 0}, {"steps": 2}, {"steps": 2}, {"steps": 3})):
            note_steps(steps, status, now)
        self.assertEqual(steps, [(2, 2), (3, 4)])

    def test_a_pause_in_which_something_happens_is_one_after_it(self):
        steps = [(1, 0.0), (2, 4.0), (3, 5.0), (4, 8.0), (5, 8.5)]
        self.assertEqual(longest_pause(steps, 6.0), 3.0)
        self.assertEqual(longest_pause(steps, 4.0, 6.0), 1.0)
        self.assertEqual(longest_pause(steps, 3.0, 6.0), 4.0)
        self.assertIsNone(longest_pause(steps, 8.5))
        self.assertIsNone(longest_pause([], 0.0))


class PathsFollowTheTimeline(unittest.TestCase):
    PLAN = {"peers": [{"region": "eu"}, {"region": "us"}, {"region": "eu"}],
            "network": {"default": {"latency_ms": 1, "loss": 0.1},
                        "pairs": [{"between": ["us", "eu"], "conditions": {"latency_ms": 40}}]}}

    def test_regions_and_events_replace_what_they_name(self):
        paths = Paths(self.PLAN)
        paths.active = [{"kind": "degrade", "conditions": {"loss": 0.5},
                         "paths": [{"from": [0], "to": [0, 1, 2]}]},
                        {"kind": "partition", "paths": [{"from": [1], "to": [0]}]}]
        resolved = paths.resolve()
        self.assertEqual(resolved[0, 1], ({"latency_ms": 40, "loss": 0.5}, False))
        self.assertEqual(resolved[1, 0], ({"latency_ms": 40, "loss": 0.1}, True))
        self.assertEqual(resolved[2, 0], ({"latency_ms": 1, "loss": 0.1}, False))
        paths.active.clear()
        self.assertEqual(paths.resolve()[0, 2], ({"latency_ms": 1, "loss": 0.1}, False))

    def test_the_switch_gets_the_standard_deviation_as_a_width(self):
        settings = switch_settings({"jitter_ms": 2, "rate_mbit": 20}, True)
        self.assertAlmostEqual(settings["jitter_ms"] ** 2 / 12, 4)
        self.assertEqual(settings["rate_bps"], 20e6)
        self.assertTrue(settings["cut"])


def nat(kind, router, **more):
    return {"kind": kind, "router": router, "ipv6": "none", "mapping": 0, "pcp": False,
            "mtu_black_hole": 0, "proxy": "none", **more}


class WhatPeersAreBehind(unittest.TestCase):
    def network(self, *nats):
        plan = {"peers": [{"number": i, "nat": entry} for i, entry in enumerate(nats)]}
        self.borrowed = mock.Mock()
        self.borrowed.namespaces = lambda count, label="": [f"{label}{i}" for i in range(count)]
        return routers.Network(self.borrowed, plan, [f"peer-{i}" for i in range(len(nats))])

    def test_each_has_a_port_of_the_switch_and_those_of_one_router_share_it(self):
        network = self.network(None, nat("moderate", 9), nat("cgnat", 2), nat("moderate", 9))
        self.assertEqual(network.port_of, [0, 1, 2, 1])
        self.assertEqual([port.namespace for port in network.ports],
                         ["peer-0", "router9-0", "router2-1"])
        self.assertEqual([network.hosts(n) for n in range(4)],
                         [["11.77.0.1"], ["11.77.0.2"], ["11.77.0.3"], ["11.77.0.2"]])
        self.assertEqual([len(network.group_of(n).routers) for n in (1, 2)], [1, 2])
        self.assertIsNone(network.group_of(0))

    def test_an_address_that_no_router_maps_is_the_peers_and_behind_the_port(self):
        network = self.network(nat("firewall", 0), nat("moderate", 1, ipv6="both"),
                               nat("open", 2, ipv6="only"), nat("strict", 3, ipv6="only"))
        self.assertEqual([port.own for port in network.ports],
                         [[], ["11.77.0.2"], ["2001:db8::3"], []])
        self.assertEqual([port.behind for port in network.ports],
                         [["11.77.0.1"], ["2001:db8::2"], [], ["2001:db8::4"]])
        self.assertEqual([network.hosts(n) for n in range(4)],
                         [["11.77.0.1"], ["11.77.0.2", "[2001:db8::2]"], ["[2001:db8::3]"],
                          ["[2001:db8::4]"]])
        self.assertEqual([network.listens(n) for n in range(4)],
                         ["0.0.0.0", "[::]", "[::]", "[::]"])

    def test_what_a_router_does_is_in_its_rules(self):
        def rules(entry, maps=True, randomly=False):
            return routers.ruleset("eth0", entry, maps, randomly)
        self.assertIn("masquerade fully-random", rules(nat("strict", 0), randomly=True))
        self.assertNotIn("random", rules(nat("moderate", 0)))
        self.assertNotIn("masquerade", rules(nat("firewall", 0), maps=False))
        self.assertIn('iifname "eth0" ct state new drop', rules(nat("firewall", 0), maps=False))
        self.assertNotIn("ct state new drop", rules(nat("open", 0, mtu_black_hole=1300), False))
        self.assertIn("destination-unreachable drop", rules(nat("open", 0, mtu_black_hole=1300)))

    def test_what_the_machine_lacks_for_them_is_named(self):
        def missing(*nats, there=()):
            with mock.patch.object(shutil, "which", lambda command: command in there or None):
                return routers.missing({"peers": [{"nat": entry} for entry in nats]})
        self.assertIsNone(missing(None, nat("open", 0, ipv6="both")))
        self.assertIn("nftables", missing(nat("strict", 0)))
        both = ("nft", "conntrack")
        self.assertIsNone(missing(nat("strict", 0), there=both))
        self.assertIn("microsocks", missing(nat("open", 0, proxy="socks5"), there=both))
        self.assertIn("miniupnpd", missing(nat("moderate", 0, pcp=True), there=both))

    def test_a_proxy_is_told_to_the_peer(self):
        network = self.network(nat("open", 0, proxy="http"), nat("open", 1))
        self.assertEqual(network.proxy(0), "http://192.168.1.1:8888")
        self.assertIsNone(network.proxy(1))


class WhatAKilledRunLeft(unittest.TestCase):
    def test_its_folder_for_the_switch_is_removed(self):
        with tempfile.TemporaryDirectory() as place, mock.patch("tempfile.tempdir", place):
            for name in ("starling-1-1-0-switch-a", "starling-1-2-0-switch-b", "starling-1-1-x"):
                (pathlib.Path(place) / name).mkdir()
            machine.remove_marked(lambda mark: mark == "starling-1-1")
            self.assertEqual(sorted(path.name for path in pathlib.Path(place).iterdir()),
                             ["starling-1-1-x", "starling-1-2-0-switch-b"])


class TheReport(unittest.TestCase):
    def test_is_one_page_that_names_what_is_in_it(self):
        record = {"scenario": {"name": "a<b", "about": "x & y", "seed": 1}, "seconds": 10.0,
                  "passed": False, "notes": ["peer-0 took peer-1 for <dead>"],
                  "peers": [{"number": 0, "name": "peer-0", "region": "eu", "summary": None,
                             "rows": [[1.0, "training", 5, 40, 50, None, None, 0.1, 2, 1000],
                                      [1.5, "training", 9, 40, 90, 0.5, 1.1, 0.2, 2, 2000]]}],
                  "events": [{"at": 1.0, "until": 3.0, "kind": "partition", "text": "cut",
                              "peers": [0]}],
                  "expectations": [{"name": "accuracy_min", "passed": False, "value": None,
                                    "limit": 0.8}]}
        text = page.render(record)
        for part in ("a&lt;b", "x &amp; y", "peer-0", "partition", "not measured", "<polyline",
                     "took peer-1 for &lt;dead&gt;"):
            self.assertIn(part, text)
        for part in ("<script", "http://", "https://", "nan"):
            self.assertNotIn(part, text)


if __name__ == "__main__":
    sys.exit(runner.run())
