#!/usr/bin/python3
"""A peer behind a real router (miniupnpd on nftables) in network namespaces: its port is mapped.

    net 11.0.0.1 --- wan 11.0.0.20 router 192.168.1.1 lan --- 192.168.1.2 home
        2001:db8:9::1       ::20          2001:db8:1::1       2001:db8:1::2

Skipped, with the reason, where namespaces or the router's programs are missing. The build folder stands
in STARLING_BUILD (default: build). The last line is "N passed, N failed, N skipped".
"""

import json
import os
import pathlib
import shutil
import signal
import socket
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
MINIUPNPD = shutil.which("miniupnpd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
PORT = 7000
OUTER = f"11.0.0.20:{PORT}"
OUTER6 = f"[2001:db8:1::2]:{PORT}"
PATIENCE = 60

RULES = """
flush ruleset
table inet filter {
  chain forward { type filter hook forward priority 0; policy drop;
    ct state established,related accept
    iifname "lan" accept
    jump miniupnpd
  }
  chain miniupnpd { }
  chain prerouting { type nat hook prerouting priority -100; jump prerouting_miniupnpd; }
  chain prerouting_miniupnpd { }
  chain postrouting { type nat hook postrouting priority 100;
    jump postrouting_miniupnpd
    meta nfproto ipv4 oifname "wan" masquerade
  }
  chain postrouting_miniupnpd { }
}
"""

SETTINGS = """
ext_ifname=wan
ext_ifname6=wan
listening_ip=lan
http_port=5000
enable_natpmp={pcp}
enable_upnp={upnp}
secure_mode=yes
uuid=a775e5bb-a3bd-47b6-9a5e-e3d0295252c8
upnp_table_name=filter
upnp_nat_table_name=filter
upnp_forward_chain=miniupnpd
upnp_nat_chain=prerouting_miniupnpd
upnp_nat_postrouting_chain=postrouting_miniupnpd
system_uptime=yes
allow 1024-65535 192.168.1.0/24 1024-65535
deny 0-65535 0.0.0.0/0 0-65535
"""


def why_not():
    if reason := machine.missing():
        return reason
    if MINIUPNPD is None or shutil.which("nft") is None:
        return "there is no miniupnpd or no nft: tools/setup test installs both"
    return None


WHY_NOT = why_not()


def ip(*lines):
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True)


def in_namespace(namespace, *words, **options):
    return subprocess.run(["ip", "netns", "exec", namespace, *map(str, words)], text=True,
                          capture_output=True, check=False, timeout=PATIENCE, **options)


def child_of(process):
    """The only child of a process; None while there is none."""
    children = pathlib.Path(f"/proc/{process.pid}/task").glob("*/children")
    found = [int(word) for file in children for word in file.read_text().split()]
    return found[0] if found else None


@unittest.skipIf(WHY_NOT, WHY_NOT)
class ARouter(unittest.TestCase):
    def setUp(self):
        self.borrowed = machine.Borrowed()
        self.addCleanup(self.borrowed.give_back)
        self.net, self.router, self.home = self.borrowed.namespaces(3)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="starling-routers-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        ip(
            f"-n {self.router} link add wan type veth peer name eth0 netns {self.net}",
            f"-n {self.router} link add lan type veth peer name eth0 netns {self.home}")
        for namespace, device, v4, v6 in ((self.net, "eth0", "11.0.0.1", "2001:db8:9::1"),
                                          (self.router, "wan", "11.0.0.20", "2001:db8:9::20"),
                                          (self.router, "lan", "192.168.1.1", "2001:db8:1::1"),
                                          (self.home, "eth0", "192.168.1.2", "2001:db8:1::2")):
            ip(f"-n {namespace} link set lo up", f"-n {namespace} link set {device} up",
                       f"-n {namespace} addr add {v4}/24 dev {device}",
                       f"-n {namespace} addr add {v6}/64 dev {device} nodad")
        ip(f"-n {self.home} route add default via 192.168.1.1",
                   f"-n {self.home} -6 route add default via 2001:db8:1::1",
                   f"-n {self.net} -6 route add 2001:db8:1::/64 via 2001:db8:9::20")
        in_namespace(self.router, "sysctl", "-qw", "net.ipv4.ip_forward=1",
                     "net.ipv6.conf.all.forwarding=1")

    def start_router(self, pcp="yes", upnp="yes"):
        self.assertEqual(in_namespace(self.router, "nft", "-f", "-", input=RULES).stderr, "")
        settings = self.folder / "miniupnpd.conf"
        settings.write_text(SETTINGS.format(pcp=pcp, upnp=upnp))
        with machine.inside(self.router), open(self.folder / "miniupnpd.log", "w") as log:
            daemon = subprocess.Popen([MINIUPNPD, "-d", "-f", settings, "-P", self.folder / "pid"],
                                      stdout=log, stderr=log)
        self.addCleanup(machine.end, daemon, 5)
        # Ready once it listens for clients.
        self.wait_for(lambda: "5351" in in_namespace(self.router, "ss", "-Huln").stdout
                      or "5000" in in_namespace(self.router, "ss", "-Htln").stdout)
        return daemon

    def start_peer(self, *options):
        with machine.inside(self.home), open(self.folder / "output", "w") as output:
            peer = subprocess.Popen(
                [STARLING, "up", RUN_FILE, "--dir", self.folder / "peer", "--listen", f":{PORT}",
                 "--set", "swarm.wait_for=1", *options], stdout=output, stderr=output)
        self.addCleanup(machine.end, peer, 10)
        return peer

    def wait_for(self, condition):
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            self.assertLess(time.monotonic(), end, self.state())
            time.sleep(0.1)
        return found

    def state(self):
        """What there is to see, for failures."""
        files = [self.folder / name for name in ("output", "peer/log.jsonl", "miniupnpd.log")]
        return "\n".join(f.read_text()[-2000:] for f in files if f.exists()) + self.mappings()

    def mappings(self):
        return in_namespace(self.router, "nft", "list", "chain", "inet", "filter",
                            "prerouting_miniupnpd").stdout

    def is_mapped(self):
        return f"dnat ip to 192.168.1.2:{PORT}" in self.mappings()

    def logged(self, text):
        log = self.folder / "peer/log.jsonl"
        return log.exists() and text in log.read_text()

    def told(self):
        """The addresses that the peer tells others."""
        done = in_namespace(self.home, STARLING, "members", "--peer", self.folder / "peer", "--json")
        if done.returncode != 0:
            return []
        return json.loads(done.stdout)[0]["addresses"]

    def connects(self, address, family):
        with machine.inside(self.net):
            made = socket.socket(family, socket.SOCK_STREAM)
        with made:
            made.settimeout(5)
            try:
                made.connect(address)
            except OSError:
                return False
        return True

    def test_the_port_is_mapped_told_and_given_back(self):
        self.start_router()
        self.assertFalse(self.is_mapped())
        peer = self.start_peer()
        self.wait_for(lambda: self.logged(f"the router lets others in at {OUTER} (by PCP)"))
        self.wait_for(lambda: self.logged(f"the router lets others in at {OUTER6} (by PCP)"))
        self.assertTrue(self.is_mapped(), self.state())
        self.wait_for(lambda: self.told()[:1] == [OUTER])
        self.assertTrue(self.connects(("11.0.0.20", PORT), socket.AF_INET), self.state())
        self.assertTrue(self.connects(("2001:db8:1::2", PORT), socket.AF_INET6), self.state())
        peer.send_signal(signal.SIGTERM)
        self.assertIsNotNone(peer.wait(PATIENCE))
        self.assertFalse(self.is_mapped(), self.state())

    def test_upnp_is_asked_where_there_is_nothing_else(self):
        self.start_router(pcp="no")
        peer = self.start_peer()
        self.wait_for(lambda: self.logged(f"the router lets others in at {OUTER} (by UPnP)"))
        self.assertTrue(self.is_mapped(), self.state())
        peer.send_signal(signal.SIGTERM)
        self.assertIsNotNone(peer.wait(PATIENCE))
        self.assertFalse(self.is_mapped(), self.state())

    def test_a_peer_that_is_killed_leaves_no_mapping_behind(self):
        self.start_router()
        peer = self.start_peer()
        self.wait_for(self.is_mapped)
        peer.kill()
        peer.wait()
        self.wait_for(lambda: not self.is_mapped())

    def test_a_router_that_forgets_is_asked_again_when_it_comes_back(self):
        daemon = self.start_router()
        self.start_peer()
        self.wait_for(self.is_mapped)
        machine.end(daemon, 5)
        self.start_router()
        self.wait_for(self.is_mapped)

    def test_the_process_that_reads_what_the_router_says_can_do_little_else(self):
        self.start_router()
        peer = self.start_peer()
        self.wait_for(self.is_mapped)
        process = pathlib.Path(f"/proc/{child_of(peer)}")
        status = (process / "status").read_text()
        self.assertIn("Seccomp:\t2\n", status)
        self.assertIn("NoNewPrivs:\t1\n", status)
        self.assertEqual((process / "environ").read_text().replace("\0", ""),
                         os.environ.get("LD_LIBRARY_PATH", ""))
        kinds = [os.readlink(one).split(":")[0] for one in (process / "fd").iterdir()]
        self.assertLessEqual(set(kinds), {"pipe", "/dev/null", "socket", "anon_inode"})
        # It ends, and the peer goes on and starts another one.
        os.kill(child_of(peer), signal.SIGKILL)
        self.wait_for(lambda: self.logged("started again in 5 s"))
        self.wait_for(lambda: child_of(peer))
        self.assertIsNone(peer.poll())

    def test_who_does_not_want_it_asks_no_router(self):
        self.start_router()
        peer = self.start_peer("--no-port-mapping")
        self.wait_for(self.told)
        self.assertIsNone(child_of(peer))
        self.assertFalse(self.is_mapped())

    def test_doctor_says_what_the_router_does(self):
        silent = json.loads(in_namespace(self.home, STARLING, "doctor", "--json").stdout)
        router = [one for one in silent if one["what"] == "router"]
        self.assertEqual(router[0]["verdict"], "none")
        self.assertIn("PCP: ", router[0]["text"])
        self.start_router()
        found = json.loads(in_namespace(self.home, STARLING, "doctor", "--listen", f":{PORT}",
                                        "--json").stdout)
        router = [one for one in found if one["what"] == "router"]
        self.assertEqual(router[0]["verdict"], "ok", router)
        self.assertIn(f"the router lets others in at {OUTER} (by PCP)", router[0]["text"])
        self.assertFalse(self.is_mapped(), self.state())


if __name__ == "__main__":
    sys.exit(runner.run(WHY_NOT))
