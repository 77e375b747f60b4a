#!/usr/bin/python3
"""A peer in an office whose only way out is a proxy (microsocks, tinyproxy), in network namespaces.

    net 11.0.0.1 --- wan 11.0.0.20 gate 192.168.1.1 lan --- 192.168.1.2 office

Skipped, with the reason, if namespaces or the proxies are missing. STARLING_BUILD names the
build folder (default: build). The last line is "N passed, N failed, N skipped".
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
from runner import BUILD, ROOT  # noqa: E402
sys.path.insert(0, str(ROOT / "scenarios"))
from lab import machine  # noqa: E402

STARLING = BUILD / "peers/starling"
RUN_FILE = ROOT / "scenarios/runs/fashion-mlp.toml"
FAR = "11.0.0.1:7000"
GATE = "192.168.1.1"
PATIENCE = 60


def why_not():
    if reason := machine.missing():
        return reason
    for command in ("microsocks", "tinyproxy"):
        if shutil.which(command) is None:
            return f"there is no {command}: tools/setup test installs it"
    return None


WHY_NOT = why_not()


def ip(*lines):
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True)


@unittest.skipIf(WHY_NOT, WHY_NOT)
class AnOffice(unittest.TestCase):
    def setUp(self):
        self.borrowed = machine.Borrowed()
        self.addCleanup(self.borrowed.give_back)
        self.net, self.gate, self.office = self.borrowed.namespaces(3)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="starling-proxies-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        ip(
            f"-n {self.gate} link add wan type veth peer name eth0 netns {self.net}",
            f"-n {self.gate} link add lan type veth peer name eth0 netns {self.office}")
        for namespace, device, address in ((self.net, "eth0", "11.0.0.1"),
                                           (self.gate, "wan", "11.0.0.20"),
                                           (self.gate, "lan", GATE),
                                           (self.office, "eth0", "192.168.1.2")):
            ip(f"-n {namespace} link set lo up", f"-n {namespace} link set {device} up",
                       f"-n {namespace} addr add {address}/24 dev {device}")
        self.start(self.net, STARLING, "up", RUN_FILE, "--dir", self.folder / "far", "--name", "far",
                   "--listen", FAR, "--set", "swarm.wait_for=1")
        self.wait_for(lambda: "7000" in self.listening(self.net))

    def start(self, namespace, *words):
        with machine.inside(namespace), open(self.folder / "output", "a") as output:
            process = subprocess.Popen(list(map(str, words)), stdout=output, stderr=output)
        self.addCleanup(machine.end, process, 10)
        return process

    def listening(self, namespace):
        return subprocess.run(["ip", "netns", "exec", namespace, "ss", "-Htln"], text=True,
                              capture_output=True, check=True).stdout

    def wait_for(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, (self.folder / "output").read_text()[-2000:])
            time.sleep(0.1)

    def start_socks(self, *options):
        self.start(self.gate, "microsocks", "-i", GATE, "-p", "1080", *options)
        self.wait_for(lambda: "1080" in self.listening(self.gate))

    def start_http(self, *settings):
        file = self.folder / "tinyproxy.conf"
        file.write_text("\n".join(("Port 8888", f"Listen {GATE}", "Timeout 600", "MaxClients 20",
                                   "Allow 192.168.1.0/24", *settings)) + "\n")
        self.start(self.gate, "tinyproxy", "-d", "-c", file)
        self.wait_for(lambda: "8888" in self.listening(self.gate))

    def call(self, *options, what="peer", **environment):
        """The findings of `starling doctor` in the office about the far peer: (verdict, text)."""
        done = subprocess.run(
            ["ip", "netns", "exec", self.office, STARLING, "doctor", "--listen", "127.0.0.1:0",
             "--join", FAR, "--json", *options], text=True, capture_output=True, check=False,
            timeout=PATIENCE, env={**os.environ, **environment})
        self.assertEqual(done.stderr, "")
        found = [one for one in json.loads(done.stdout) if one["what"] == what]
        return found[0]["verdict"], found[0]["text"]

    def assert_reached(self, said):
        self.assertEqual(said[0], "ok", said)
        self.assertIn(f"{FAR} is far (", said[1])

    def test_a_link_is_made_through_socks(self):
        self.start_socks()
        self.assertEqual(self.call()[0], "WRONG")
        self.assert_reached(self.call("--proxy", f"socks5h://{GATE}:1080"))
        self.assert_reached(self.call(ALL_PROXY=f"socks5://{GATE}:1080"))
        self.assertEqual(self.call(ALL_PROXY=f"socks5://{GATE}:1080", NO_PROXY="11.0.0.0/8")[0],
                         "WRONG")

    def test_a_link_is_made_through_connect(self):
        self.start_http()
        proxy = ("--proxy", f"http://{GATE}:8888")
        self.assert_reached(self.call(*proxy))
        self.assertEqual(self.call(*proxy, what="address"), ("ok",
            "others see the proxy's address, 11.0.0.20: nobody can dial this machine there"))
        self.assert_reached(self.call(HTTPS_PROXY=f"http://{GATE}:8888"))

    def test_a_refusal_says_what_to_do(self):
        self.start_socks("-u", "me", "-P", "word")
        self.start_http("ConnectPort 443")
        self.assert_reached(self.call("--proxy", f"socks5://me:word@{GATE}:1080"))
        way = f"on the way to {FAR}: "
        for proxy, text in (
                (f"socks5://{GATE}:1080", way + "it wants a login; give it a user"),
                (f"socks5://me:wrong@{GATE}:1080", way + "it refuses this user and password"),
                (f"http://{GATE}:1080", way),
                (f"http://{GATE}:8888", "does it allow CONNECT to port 7000?"),
                (f"socks5://{GATE}:8888", way),
                (f"socks5://{GATE}:9", way + "connection refused")):
            verdict, said = self.call("--proxy", proxy)
            self.assertEqual(verdict, "WRONG", proxy)
            self.assertIn(text, said)
            self.assertNotIn("wrong", said)

    def test_a_peer_joins_and_trains_through_a_proxy(self):
        self.start_socks()
        self.start(self.office, STARLING, "up", RUN_FILE, "--dir", self.folder / "near", "--name",
                   "near", "--join", FAR, "--proxy", f"socks5h://{GATE}:1080", "--set",
                   "train.threads=1")
        def exchanges():
            done = subprocess.run(["ip", "netns", "exec", self.office, STARLING, "links", "--peer",
                                   self.folder / "near", "--json"], text=True, capture_output=True,
                                  check=False)
            return done.returncode == 0 and any(link["exchange"] > 3
                                                for link in json.loads(done.stdout))
        self.wait_for(exchanges)


if __name__ == "__main__":
    sys.exit(runner.run(WHY_NOT))
