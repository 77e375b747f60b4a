#!/usr/bin/python3
"""A peer behind a real router (miniupnpd on nftables) in network namespaces: its port is mapped, and
`starling doctor` tells how the router changes its connections.

    net 11.0.0.1 --- wan 11.0.0.20 router 192.168.1.1 lan --- 192.168.1.2 home
        2001:db8:9::1       ::20          2001:db8:1::1       2001:db8:1::2

If a provider's router is in between, the home's has 100.64.0.2, and the provider's 11.0.0.20.

Skipped, with the reason, if namespaces or the router's programs are missing. STARLING_BUILD names the
build folder (default: build). The last line is "N passed, N failed, N skipped".
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
import threading
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


def answer_by_nat_pmp(asked, outer):
    """A router that maps requested ports to this address (RFC 6886), until `asked` is closed."""
    epoch = bytes(4)
    while True:
        try:
            request, client = asked.recvfrom(100)
        except OSError:
            return
        if request[0] != 0:
            answer = bytes((0, 128, 0, 1)) + epoch  # of another version
        elif request[1] == 0:
            answer = bytes((0, 128, 0, 0)) + epoch + socket.inet_aton(outer)
        else:
            answer = bytes((0, 128 + request[1], 0, 0)) + epoch + request[4:]
        asked.sendto(answer, client)


def child_of(process):
    """The only child of a process; None while there is none."""
    children = pathlib.Path(f"/proc/{process.pid}/task").glob("*/children")
    found = [int(word) for file in children for word in file.read_text().split()]
    return found[0] if found else None


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Home(unittest.TestCase):
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

    def set_rules(self, router, rules=RULES):
        self.assertEqual(in_namespace(router, "nft", "-f", "-", input=rules).stderr, "")

    def start_router(self, pcp="yes", upnp="yes"):
        self.set_rules(self.router)
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
        return self.start(self.home, "peer", f":{PORT}", "--set", "swarm.wait_for=1", *options)

    def start(self, namespace, name, listen, *options):
        with machine.inside(namespace), open(self.folder / "output", "a") as output:
            peer = subprocess.Popen(
                [STARLING, "up", RUN_FILE, "--dir", self.folder / name, "--name", name, "--listen",
                 listen, *options], stdout=output, stderr=output)
        self.addCleanup(machine.end, peer, 10)
        return peer

    def wait_for(self, condition):
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            self.assertLess(time.monotonic(), end, self.state())
            time.sleep(0.1)
        return found

    def state(self):
        """The observable state, for failures."""
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


class ARouter(Home):
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

    def test_the_status_says_what_the_router_does(self):
        self.start_router()
        self.start_peer()
        self.wait_for(lambda: self.logged(f"the router lets others in at {OUTER} (by PCP)"))
        status = in_namespace(self.home, STARLING, "status", "--peer", self.folder / "peer", "--json")
        mapping = json.loads(status.stdout)["port_mapping"]
        self.assertIn(OUTER, mapping["addresses"])
        self.assertIn(f"the router lets others in at {OUTER} (by PCP)", mapping["text"])


class TheDoctor(Home):
    """The output of `starling doctor` at home, with two peers in the net to ask."""

    def start_peers(self, *options):
        ip(f"-n {self.net} addr add 11.0.0.2/24 dev eth0")
        for number in (1, 2):
            self.start(self.net, f"far-{number}", f"11.0.0.{number}:{PORT}", "--no-port-mapping",
                       "--set", "limits.steps_per_second=1", *options)
            self.wait_for(lambda at=(f"11.0.0.{number}", PORT): self.connects(at, socket.AF_INET))

    def add_provider(self):
        """Puts a second router between the home's and the net."""
        provider, = self.borrowed.namespaces(1, "provider")
        ip(f"-n {self.router} link del wan",
           f"-n {provider} link add wan type veth peer name eth0 netns {self.net}",
           f"-n {provider} link add lan type veth peer name wan netns {self.router}")
        for namespace, device, address in ((self.net, "eth0", "11.0.0.1"),
                                           (provider, "wan", "11.0.0.20"),
                                           (provider, "lan", "100.64.0.1"),
                                           (self.router, "wan", "100.64.0.2")):
            ip(f"-n {namespace} link set {device} up",
               f"-n {namespace} addr add {address}/24 dev {device}")
        ip(f"-n {self.router} route add default via 100.64.0.1")
        in_namespace(provider, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for router in (self.router, provider):
            self.set_rules(router)

    def doctor(self, *options, namespace=None):
        """Its findings, each with its verdict, by subject."""
        done = in_namespace(namespace or self.home, STARLING, "doctor", "--json", *options)
        self.assertEqual(done.stderr, "")
        found = {}
        for one in json.loads(done.stdout):
            found.setdefault(one["what"], []).append(f"{one['verdict']}: {one['text']}")
        return found

    def ask(self, count=2, **more):
        """The same for this many of the peers."""
        joins = [word for number in range(1, count + 1)
                 for word in ("--join", f"11.0.0.{number}:{PORT}")]
        found = self.doctor(*joins, **more)
        self.assertEqual([one[:4] for one in found["peer"]], ["ok: "] * count, found)
        return found

    def test_it_says_what_the_router_does(self):
        silent = self.doctor()
        self.assertEqual(silent["router"][0][:6], "none: ")
        self.assertIn("PCP: ", silent["router"][0])
        self.assertFalse({"address", "NAT"} & silent.keys())
        self.start_router()
        found = self.doctor("--listen", f":{PORT}")
        self.assertEqual(found["router"][0][:4], "ok: ")
        self.assertIn(f"the router lets others in at {OUTER} (by PCP)", found["router"][0])
        self.assertFalse(self.is_mapped(), self.state())
        self.assertNotIn("NAT", found)

    def test_a_machine_of_the_internet_is_not_translated(self):
        self.start_peers()
        found = self.ask(namespace=self.router)
        self.assertRegex(found["address"][0], r"^ok: others see this machine at 11\.0\.0\.20:\d+, "
                         "an address of its own$")
        self.assertEqual([one[:26] for one in found["NAT"]], ["ok: no address translation"])

    def test_a_moderate_router_is_known_by_two_peers(self):
        self.start_peers()
        self.start_router()
        found = self.ask(1)
        self.assertRegex(found["address"][0], r"^ok: others see this machine at 11\.0\.0\.20:\d+, "
                         r"its own address is 192\.168\.1\.2:\d+$")
        self.assertEqual(len(found["NAT"]), 1, found)
        self.assertIn("a second --join, of a peer on another host", found["NAT"][0])
        found = self.ask()
        self.assertEqual(found["NAT"], ["ok: translated, the same outer port for all (endpoint-"
            "independent): links by dials at one moment work; by the router's mapping others dial "
            "this machine"])

    def test_a_strict_router_is_known_by_two_peers(self):
        self.start_peers()
        self.set_rules(self.router, RULES.replace("masquerade", "masquerade fully-random"))
        found = self.ask()
        self.assertEqual(len(found["NAT"]), 1, found)
        self.assertRegex(found["NAT"][0], r"^ok: strict \(symmetric\) NAT, 11\.0\.0\.1:7000 sees "
                         r"11\.0\.0\.20:\d+ and 11\.0\.0\.2:7000 sees 11\.0\.0\.20:\d+: peers that "
                         r"cannot be dialed are linked over a relay; to be dialed, forward the port")

    def test_two_routers_in_a_row_are_known_by_what_the_first_one_maps(self):
        self.add_provider()
        self.start_peers()
        self.assertEqual(len(self.ask()["NAT"]), 1)  # nothing tells of the first one's address
        with machine.inside(self.router):
            router = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            router.bind(("192.168.1.1", 5351))
        self.addCleanup(router.close)
        threading.Thread(target=answer_by_nat_pmp, args=(router, "100.64.0.2"), daemon=True).start()
        found = self.ask()
        self.assertEqual(found["router"][0][:6], "none: ")
        self.assertIn("11.0.0.20", found["address"][0])
        self.assertIn("the same outer port for all", found["NAT"][0])
        self.assertIn("none: two routers in a row", found["NAT"][1])
        self.assertIn("100.64.0.2, which is not an internet address", found["NAT"][1])

    def test_a_mapping_that_others_do_not_see_is_of_no_use(self):
        self.add_provider()
        self.start_peers()
        with machine.inside(self.router):
            router = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            router.bind(("192.168.1.1", 5351))
        self.addCleanup(router.close)
        threading.Thread(target=answer_by_nat_pmp, args=(router, "11.0.0.99"), daemon=True).start()
        found = self.ask(1)
        self.assertIn("two routers in a row", found["NAT"][1])
        self.assertIn("11.0.0.99, but others see a different one", found["NAT"][1])

    def test_a_running_peer_that_nobody_can_dial_is_told_what_to_do(self):
        self.start_peers()
        self.set_rules(self.router)
        self.start_peer("--join", f"11.0.0.1:{PORT}", "--set", "limits.steps_per_second=1")
        self.wait_for(self.told)
        found = {}
        def known():
            found.update(self.doctor("--no-port-mapping", "--peer", self.folder / "peer"))
            return "not known yet" not in found["reach"][0]
        self.wait_for(known)
        self.assertRegex(found["reach"][0], r"^none: peer \(\w+\) dials only: no member could dial it "
                         r"at 11\.0\.0\.20:7000\. Let TCP port 7000 ")
        status = in_namespace(self.home, STARLING, "status", "--peer", self.folder / "peer").stdout
        self.assertIn("\nreach        dials only\n", status)

    def test_a_running_peer_names_the_relay_of_its_links(self):
        self.start_peers("--join", f"11.0.0.1:{PORT}")
        self.set_rules(self.router, RULES.replace("ct state established", "ip daddr 11.0.0.2 drop\n"
                                                  "    ct state established"))
        self.start_peer("--no-port-mapping", "--join", f"11.0.0.1:{PORT}", "--set",
                        "limits.steps_per_second=1")
        self.wait_for(self.told)
        def relays_of(namespace, folder):
            found = self.doctor("--no-port-mapping", "--peer", self.folder / folder,
                                namespace=namespace)
            return found["relays"]
        self.wait_for(lambda: relays_of(self.home, "peer")[0][:4] == "ok: ")
        self.assertEqual(relays_of(self.home, "peer"), ["ok: links with far-2 go through far-1"])
        self.assertEqual(relays_of(self.net, "far-2"), ["ok: links with peer go through far-1"])
        self.assertEqual(relays_of(self.net, "far-1")[1], "ok: it relays 1 circuit for others")
        links = in_namespace(self.home, STARLING, "links", "--peer", self.folder / "peer").stdout
        self.assertIn("via far-1", links)


if __name__ == "__main__":
    sys.exit(runner.run(WHY_NOT))
