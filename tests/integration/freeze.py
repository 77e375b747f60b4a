#!/usr/bin/python3
"""A public peer that peers behind a home router join: they cannot be dialed back, and the public
one must not stand still because of that.

    public 11.0.0.1 --- wan 11.0.0.20 router 192.168.1.1 lan --- 192.168.1.2 home

Skipped, with the reason, where namespaces or nft are missing. STARLING_BUILD names the
build folder (default: build). The last line is "N passed, N failed, N skipped".
"""

import shutil
import signal
import socket
import subprocess
import sys
import pathlib
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
from runner import ROOT  # noqa: E402
sys.path.insert(0, str(ROOT / "scenarios"))
from lab import machine  # noqa: E402
from in_namespaces import Peers  # noqa: E402
import stranger  # noqa: E402

WHY_NOT = machine.missing()
if WHY_NOT is None and shutil.which("nft") is None:
    WHY_NOT = "there is no nft (Debian package nftables)"
PUBLIC, ROUTER, HOME = range(3)
ADDRESS = ("11.0.0.1", 7000)
STEPS_PER_SECOND = 20
PAUSE_MAX = 2.0
ANSWER_MAX = 2.0
END_MAX = 5.0
JOINERS_AT_ONCE = 30
WAVES = 4
RULES = """
flush ruleset
table inet home {
  chain forward { type filter hook forward priority 0; iifname "wan" ct state new drop; }
  chain input { type filter hook input priority 0; iifname "wan" ct state new drop; }
  chain out { type nat hook postrouting priority 100; oifname "wan" masquerade; }
}
"""


@unittest.skipIf(WHY_NOT, WHY_NOT)
class APublicPeer(Peers):
    COUNT = 3

    def setUp(self):
        super().setUp()
        public, router, home = self.namespaces
        machine.ip(f"link add wan netns {router} type veth peer name eth0 netns {public}",
                   f"link add lan netns {router} type veth peer name eth0 netns {home}")
        for namespace, device, address in ((public, "eth0", "11.0.0.1/24"),
                                           (router, "wan", "11.0.0.20/24"),
                                           (router, "lan", "192.168.1.1/24"),
                                           (home, "eth0", "192.168.1.2/24")):
            with machine.inside(namespace):
                machine.ip("link set lo up", f"link set {device} up",
                           f"addr add {address} dev {device}")
        with machine.inside(home):
            machine.ip("route add default via 192.168.1.1")
        with machine.inside(router):
            subprocess.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
            subprocess.run(["nft", "-f", "-"], input=RULES, text=True, check=True)

    def translate_no_longer(self):
        """The router is only a firewall."""
        with machine.inside(self.namespaces[ROUTER]):
            subprocess.run(["nft", "delete", "chain", "inet", "home", "out"], check=True)
        with machine.inside(self.namespaces[PUBLIC]):
            machine.ip("route add 192.168.1.0/24 via 11.0.0.20")

    def begin(self, number, *more):
        """A peer at that place; the process."""
        return self.start(number, "--no-port-mapping", "--set", "run.epochs=100000", "--set",
                   f"limits.steps_per_second={STEPS_PER_SECOND}", "--set", "report.every=0", *more)

    def begin_public(self, *more):
        process = self.begin(PUBLIC, "--listen", f":{ADDRESS[1]}", "--set", "swarm.wait_for=1",
                             *more)
        self.wait_for(lambda: self.steps() > STEPS_PER_SECOND, lambda: self.log(PUBLIC)[-1500:])
        return process

    def steps(self):
        return (self.ask(PUBLIC, "/status") or {"steps": 0})["steps"]

    def watch(self, seconds, until=lambda: False):
        """(longest pause between steps, slowest answer) of the public peer, in seconds."""
        end = time.monotonic() + seconds
        pause = slowest = 0.0
        steps, changed = self.steps(), time.monotonic()
        while time.monotonic() < end and not until():
            asked = time.monotonic()
            now = self.steps()
            answered = time.monotonic()
            slowest = max(slowest, answered - asked)
            if now > steps:
                pause = max(pause, answered - changed)
                steps, changed = now, answered
            time.sleep(0.02)
        return max(pause, time.monotonic() - changed), slowest

    def check(self, what, pause, slowest):
        print(f"\n{what}: longest pause between steps {pause:.2f} s, slowest answer "
              f"{slowest:.2f} s", flush=True)
        self.assertLess(pause, PAUSE_MAX, self.log(PUBLIC)[-1500:])
        self.assertLess(slowest, ANSWER_MAX)

    def end(self, process):
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)
        took = time.monotonic() - began
        print(f"ended {took:.2f} s after SIGTERM", flush=True)
        self.assertLess(took, END_MAX)

    def check_join_from_home(self, why_not_ucx, *options):
        """A peer at home joins, trains, and is killed; the public one is watched all the time."""
        public = self.begin_public(*options)
        home = self.begin(HOME, "--join", f"{ADDRESS[0]}:{ADDRESS[1]}", *options)
        limit = time.monotonic() + self.PATIENCE
        pause, slowest = self.watch(self.PATIENCE, lambda: any(
            link["state"] == "open" for link in self.ask(PUBLIC, "/links")))
        self.assertLess(time.monotonic(), limit, self.log(HOME)[-1500:])
        self.check("until it is in", pause, slowest)
        self.check("with it", *self.watch(6))
        self.wait_for(lambda: [link["carrier"] for link in self.ask(PUBLIC, "/links")
                               if why_not_ucx in link["why_not_ucx"]] == ["tcp"],
                      lambda: f"{self.ask(PUBLIC, '/links')}")
        home.kill()
        self.check("after its end", *self.watch(4))
        self.end(public)

    def test_goes_on_while_a_peer_behind_a_router_joins_and_is_killed(self):
        self.check_join_from_home("NAT")

    def test_goes_on_where_ucx_is_named_and_cannot_get_through(self):
        """UCX's server side dials the other end back: into a firewall that drops it."""
        self.translate_no_longer()
        self.check_join_from_home("did not connect by UCX in time", "--set", "links.fabric=office")

    def join(self, made, keys):
        try:
            made.settimeout(10)
            made.connect(ADDRESS)
            session = stranger.Session(made, keys.one(), self.folder)
            if session.enter():
                session.say(stranger.preamble())
                self.let_in += 1
                session.tls.recv(1000)
                time.sleep(1)
            session.close()
        except OSError:
            pass
        finally:
            made.close()

    def test_goes_on_while_many_join_at_once_and_drop_what_comes(self):
        """Their sessions come up, nothing follows, and their ports take nothing."""
        public = self.begin_public()
        keys = stranger.Keys(self.folder)
        self.let_in = 0
        alone = self.watch(4)
        self.check("alone", *alone)
        waves = []
        for _ in range(WAVES):
            with machine.inside(self.namespaces[HOME]):
                sockets = [socket.socket() for _ in range(JOINERS_AT_ONCE)]
            threads = [threading.Thread(target=self.join, args=(made, keys)) for made in sockets]
            for thread in threads:
                thread.start()
            waves.append(self.watch(2))
            for thread in threads:
                thread.join()
        self.check(f"{WAVES} times {JOINERS_AT_ONCE} at once, {self.let_in} let in",
                   *map(max, zip(*waves)))
        self.assertGreater(self.let_in, JOINERS_AT_ONCE)
        self.end(public)


if __name__ == "__main__":
    sys.exit(runner.run(WHY_NOT))
