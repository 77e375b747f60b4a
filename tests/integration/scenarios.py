#!/usr/bin/python3
"""Scenarios with real peers in network namespaces, and the switch between them.

Skipped, with the reason, if network namespaces are not permitted. STARLING_BUILD names the
build folder (default: build). The last line is "N passed, N failed, N skipped".
"""

import json
import pathlib
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
from runner import BUILD, ROOT  # noqa: E402
sys.path.insert(0, str(ROOT / "scenarios"))
from lab import machine  # noqa: E402
from lab.network import Switch, address_of  # noqa: E402
import in_namespaces  # noqa: E402

WHY_NOT = machine.missing()
PORT = 9000


def socket_in(namespace, number, kind):
    with machine.inside(namespace):
        made = socket.socket(socket.AF_INET, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((address_of(number), PORT))
    made.settimeout(10)
    return made


@unittest.skipIf(WHY_NOT, WHY_NOT)
class TheSwitch(unittest.TestCase):
    """The values that real sockets see, compared with the requested ones, as ratios."""

    def setUp(self):
        self.borrowed = machine.Borrowed()
        self.addCleanup(self.borrowed.give_back)
        self.namespaces = self.borrowed.namespaces(2)
        self.switch = Switch(BUILD / "scenarios/switch/starling-switch", self.namespaces, 1)
        self.addCleanup(self.switch.close)

    def pair(self, kind):
        sockets = [socket_in(name, i, kind) for i, name in enumerate(self.namespaces)]
        for made in sockets:
            self.addCleanup(made.close)
        return sockets

    def median_round_trip(self):
        here, there = self.pair(socket.SOCK_DGRAM)
        times = []
        for _ in range(15):
            sent = time.monotonic()
            here.sendto(b"ping", (address_of(1), PORT))
            there.sendto(there.recv(100), (address_of(0), PORT))
            here.recv(100)
            times.append(time.monotonic() - sent)
        return statistics.median(times)

    def test_a_delay_each_way_makes_the_round_trip(self):
        self.switch.ask({"set": {"delay_ms": 30}, "from": [0], "to": [1]})
        self.switch.ask({"set": {"delay_ms": 50}, "from": [1], "to": [0]})
        ratio = self.median_round_trip() / 0.08
        self.assertGreater(ratio, 0.99)
        self.assertLess(ratio, 1.25)

    def test_loss_is_as_asked(self):
        self.switch.ask({"set": {"loss": 0.2}, "from": [0], "to": [1]})
        here, there = self.pair(socket.SOCK_DGRAM)
        there.setblocking(False)
        sent = received = 0

        def drain(patience):
            """How many arrive: the first within half a second, the others within `patience`."""
            count = 0
            while select.select([there], [], [], patience if count else 0.5)[0]:
                there.recv(200)
                count += 1
            return count

        # Few are on their way at a time: no socket has to hold more than its default allows.
        while sent < 3000:
            for _ in range(20):
                here.sendto(b"x" * 100, (address_of(1), PORT))
            sent += 20
            received += drain(0.002)
        received += drain(0.5)
        ratio = (1 - received / sent) / 0.2  # 0.82 to 1.18 is five standard deviations
        self.assertGreater(ratio, 0.8)
        self.assertLess(ratio, 1.2)
        # Lost by the switch's own decision, and nowhere else.
        counters = [c for c in self.switch.counters() if (c["from"], c["to"]) == (0, 1)][0]
        self.assertAlmostEqual(counters["lost"], sent - received, delta=5)

    def test_a_rate_is_what_a_stream_gets(self):
        self.switch.ask({"set": {"rate_bps": 20e6, "delay_ms": 1}})
        here, there = self.pair(socket.SOCK_STREAM)
        there.listen(1)
        size = 5_000_000

        def send():
            here.connect((address_of(1), PORT))
            here.sendall(bytes(size))
            here.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        connection, _ = there.accept()
        self.addCleanup(connection.close)
        began, received = time.monotonic(), 0
        while part := connection.recv(1 << 16):
            received += len(part)
        taken = time.monotonic() - began
        sender.join()
        self.assertEqual(received, size)
        ratio = size * 8 / taken / 20e6  # headers take 5%
        self.assertGreater(ratio, 0.7)
        self.assertLess(ratio, 1.0)

    def test_a_cut_holds_one_way_and_ends(self):
        self.switch.ask({"set": {"cut": True}, "from": [0], "to": [1]})
        here, there = self.pair(socket.SOCK_DGRAM)
        there.settimeout(0.3)
        here.sendto(b"lost", (address_of(1), PORT))
        with self.assertRaises(socket.timeout):
            there.recv(100)
        there.sendto(b"back", (address_of(0), PORT))
        self.assertEqual(here.recv(100), b"back")
        self.switch.ask({"set": {"cut": False}})
        here.sendto(b"again", (address_of(1), PORT))
        self.assertEqual(there.recv(100), b"again")

    def test_an_idle_switch_uses_no_processor(self):
        pid = self.switch.process.pid
        before = machine.cpu_seconds(pid)
        time.sleep(1.5)
        self.assertLessEqual(machine.cpu_seconds(pid) - before, 0.02)


def left_behind(mark, folder):
    """The remains of a run: names of namespaces, mounts, cgroups, folders, processes.
    `folder` is the run's: its peers carry no mark."""
    found = [path.name for path in machine.NETNS.glob("starling-*") if path.name.startswith(mark)]
    mounts = pathlib.Path("/proc/mounts").read_text().splitlines()
    found += [line for line in mounts if line.startswith(mark)]
    place = machine.cgroup_folder()
    found += [group.name for group in place[0].glob(f"{mark}*")] if place else []
    found += [path.name for path in machine.switch_folders() if path.name.startswith(mark)]
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in words or f"{folder}/".encode() in words:
            found.append(words.decode(errors="replace"))
    return found


@unittest.skipIf(WHY_NOT, WHY_NOT)
class AScenario(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="starling-scenario-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, name, run="run"):
        self.run_folder = self.folder / run
        self.out = self.folder / "verdict.json"
        process = subprocess.Popen(
            [ROOT / "scenarios/run", ROOT / "tests/integration" / name, "--build", BUILD, "--dir",
             self.run_folder, "--json", self.out],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(machine.end, process, 30)
        self.mark = f"starling-{process.pid}-{machine.started_at(process.pid)}"
        return process

    def left(self):
        return left_behind(self.mark, self.run_folder)

    def test_with_a_kill_and_a_partition_passes_and_leaves_nothing(self):
        process = self.start("scenario_short.toml")
        _, said = process.communicate(timeout=200)
        self.assertEqual(process.returncode, 0, said)
        verdict = json.loads(self.out.read_text())
        self.assertTrue(verdict["passed"])
        self.assertEqual(len(verdict["expectations"]), 6)
        self.assertEqual(self.left(), [])
        page = (self.folder / "run/report.html").read_text()
        for text in ("kill", "partition", "peer-3", "accuracy", "drift", "links", "passed"):
            self.assertIn(text, page)
        self.assertNotIn("<script", page)

    def test_with_a_hostile_peer_measures_the_honest_ones(self):
        process = self.start("scenario_hostile.toml")
        _, said = process.communicate(timeout=200)
        self.assertIn(process.returncode, (0, 1), said)
        verdict = json.loads(self.out.read_text())
        measured = {one["name"]: one["value"] for one in verdict["expectations"]}
        self.assertEqual(measured["finished_min"], 3)
        # Its replica is far from what it knows of the others: 1.4; in an honest swarm, at most 0.15.
        lines = map(json.loads, (self.run_folder / "observations.jsonl").read_text().splitlines())
        drifts = [line["drift"] for line in lines if line["kind"] == "status"
                  and line["peer"] == 2 and line["drift"] is not None]
        self.assertGreater(statistics.median(drifts), 1)
        self.assertEqual(self.left(), [])

    def test_that_expects_too_much_fails(self):
        process = self.start("scenario_canary.toml")
        _, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1, said)
        verdict = json.loads(self.out.read_text())
        self.assertFalse(verdict["passed"])
        self.assertEqual([e["name"] for e in verdict["expectations"] if not e["passed"]],
                         ["step_gap_max_s"])
        self.assertEqual(self.left(), [])

    def test_that_only_the_simulator_can_judge_is_refused_before_it_runs(self):
        for name, words, said in (
                ("measure", "[expect]\nspectral_gap_min = 0.1", "spectral_gap_min is measured only"),
                ("fault", "[[timeline]]\nkind = 'twin'\nat = 5\nfor = 5\npeers = 'last'",
                 "'twin' runs only")):
            with self.subTest(name):
                file = self.folder / f"{name}.toml"
                file.write_text(f"[scenario]\nname = '{name}'\nduration = 60\n[peers]\ncount = 2\n"
                                f"[sim]\nproblem = 'none'\n{words}\n")
                process = self.start(file)
                _, error = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 3, error)
                self.assertIn(said, error)
                self.assertFalse(self.run_folder.exists())

    def test_that_is_interrupted_leaves_nothing(self):
        process = self.start("scenario_canary.toml")
        self.wait_for_peers(process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(self.left(), [])

    def test_that_was_killed_is_cleaned_up_by_the_next(self):
        process = self.start("scenario_canary.toml")
        self.wait_for_peers(process)
        process.kill()
        process.communicate(timeout=30)
        killed = self.mark, self.run_folder
        # Its peers and its switch die with it; its namespaces cannot.
        self.assertTrue(self.eventually(lambda: not any(" " in name or "\0" in name
                                                        for name in left_behind(*killed))))
        self.assertNotEqual(left_behind(*killed), [])
        second = self.start("scenario_canary.toml", "again")
        self.wait_for_peers(second)
        self.assertEqual(left_behind(*killed), [])
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=30)
        self.assertEqual(self.left(), [])

    def wait_for_peers(self, process):
        self.assertTrue(self.eventually(lambda: (self.run_folder / "peer-1/peer.json").exists()
                                        and process.poll() is None), "no peers come up")
        # The things to look for later are there now.
        left = " ".join(self.left())
        for part in ("peer-1", "-switch-"):
            self.assertIn(part, left)

    @staticmethod
    def eventually(condition, patience=60):
        limit = time.monotonic() + patience
        while time.monotonic() < limit:
            if condition():
                return True
            time.sleep(0.05)
        return False


class Peers(in_namespaces.Peers):
    """Connected by the switch."""

    def setUp(self):
        super().setUp()
        self.switch = Switch(BUILD / "scenarios/switch/starling-switch", self.namespaces, 1)
        self.addCleanup(self.switch.close)


@unittest.skipIf(WHY_NOT, WHY_NOT)
class WithoutAnAddress(Peers):
    """They are told no addresses."""
    COUNT = 3

    def test_peers_of_a_run_find_each_other_and_one_of_another_run_hears_why_it_is_alone(self):
        self.start(0, "--lan")
        self.start(1, "--lan")
        self.start(2, "--lan", "--set", "run.seed=2")
        self.wait_for(lambda: list(self.neighbours(0)) == ["peer-1"] and
                      list(self.neighbours(1)) == ["peer-0"] and "of other runs" in self.log(2),
                      lambda: f"links: {self.neighbours(0)}, {self.neighbours(1)}; "
                              f"the third says: {self.log(2)[-600:]}")

    def test_who_hears_nobody_says_where_it_looked(self):
        self.start(0, "--lan")
        self.wait_for(lambda: "nobody answers on" in self.log(0),
                      lambda: f"it says: {self.log(0)[-600:]}")
        self.assertIn(f"eth0 ({address_of(0)})", self.log(0))


@unittest.skipIf(WHY_NOT, WHY_NOT)
class OnTheMove(Peers):
    """Their machines get a network, or another one, while they run."""
    LISTEN = ("--listen", f"0.0.0.0:{PORT}")

    def start_both(self):
        self.start(0, *self.LISTEN)
        self.start(1, *self.LISTEN, "--join", f"{address_of(0)}:{PORT}")

    def wait_for_links(self, *addresses):
        """Until both have a link with the other, and know where it is."""
        there = [{f"peer-{1 - i}": [f"{addresses[1 - i]}:{PORT}"]} for i in range(2)]
        self.wait_for(lambda: [self.neighbours(i) for i in range(2)] == there,
                      lambda: f"{self.members(0)}, {self.members(1)}, {self.log(1)[-1500:]}")

    def test_a_peer_that_gets_another_address_finds_back_and_tells_it(self):
        self.start_both()
        self.wait_for_links(address_of(0), address_of(1))
        self.switch.move(1, address_of(1), address_of(1, 1))
        self.wait_for_links(address_of(0), address_of(1, 1))

    def test_a_peer_that_starts_before_it_has_a_network_gets_in(self):
        self.switch.unplug(1)
        self.start_both()
        self.wait_for(lambda: self.members(1), lambda: self.log(1)[-600:])
        self.assertEqual(self.members(1)[0]["addresses"], [f"127.0.0.1:{PORT}"])
        self.switch.plug(1)
        self.wait_for_links(address_of(0), address_of(1))


if __name__ == "__main__":
    sys.exit(runner.run(WHY_NOT))
