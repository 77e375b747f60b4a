#!/usr/bin/python3
"""The laboratory's routers, with real packets and without peers: small sockets behind a router see
it as the scenario language describes it: moderate, strict and so on.

Skipped, with the reason, if network namespaces or nftables are not available. STARLING_BUILD names
the build folder (default: build). The last line is "N passed, N failed, N skipped".
"""

import contextlib
import errno
import pathlib
import select
import socket
import struct
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
from runner import BUILD, ROOT  # noqa: E402
sys.path.insert(0, str(ROOT / "scenarios"))
from lab import machine, routers  # noqa: E402
from lab.network import Switch  # noqa: E402

PORT = 7000
PATIENCE = 3.0
SHORT = 0.7  # for packets that must not come
OPEN = {"kind": "open", "router": 0, "ipv6": "none", "mapping": 0, "pcp": False,
        "mtu_black_hole": 0, "proxy": "none"}


def nat(kind, **more):
    return {**OPEN, "kind": kind, **more}


WHY_NOT = machine.missing() or routers.missing({"peers": [{"nat": nat("moderate")}]})


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Homes(unittest.TestCase):
    def build(self, *nats):
        """Peers behind these, and two that are open."""
        nats = [{"router": number, **(entry or OPEN)} for number, entry in enumerate(nats)]
        nats = [{**entry, "router": entry.get("shares", number)}
                for number, entry in enumerate([*nats, OPEN, OPEN])]
        self.listening = {}
        self.out, self.out2 = len(nats) - 2, len(nats) - 1
        plan = {"peers": [{"number": i, "nat": entry} for i, entry in enumerate(nats)]}
        if why := routers.missing(plan):
            self.skipTest(why)
        borrowed = machine.Borrowed()
        self.addCleanup(borrowed.give_back)
        self.names = borrowed.namespaces(len(nats))
        self.network = routers.Network(borrowed, plan, self.names)
        self.addCleanup(self.network.close)
        ports = self.network.ports
        self.switch = Switch(BUILD / "scenarios/switch/starling-switch",
                             [port.namespace for port in ports], 1, ports=ports)
        self.addCleanup(self.switch.close)
        self.network.connect()

    def socket(self, peer, kind=socket.SOCK_STREAM, port=PORT, family=socket.AF_INET):
        with machine.inside(self.names[peer]):
            made = socket.socket(family, kind)
        self.addCleanup(made.close)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
        made.settimeout(PATIENCE)
        return made

    def host(self, peer, v6=False):
        return next(h.strip("[]") for h in self.network.hosts(peer) if h.startswith("[") == v6)

    def listen(self, peer, **more):
        """Replaces the earlier listener."""
        if peer in self.listening:
            self.listening[peer].close()
        self.listening[peer] = made = self.socket(peer, **more)
        made.listen(16)
        return made

    def connect(self, peer, host, port=0, patience=PATIENCE, **more):
        """A connection to where others listen, or None."""
        made = self.socket(peer, port=port, **more)
        made.settimeout(patience)
        try:
            made.connect((host, PORT))
        except OSError:
            made.close()
            return None
        return made

    def seen(self, listening):
        """(address, port) of the next accepted connection's source, and the connection."""
        connection, source = listening.accept()
        self.addCleanup(connection.close)
        connection.settimeout(PATIENCE)
        return source[:2], connection

    def sources(self, peer):
        """How the two open peers see the peer's listening port."""
        seen = []
        for other in (self.out, self.out2):
            listening = self.listen(other)
            self.assertIsNotNone(self.connect(peer, self.host(other), PORT))
            seen.append(self.seen(listening)[0])
        return seen

    def reach_each_other(self, connection, other):
        for a, b in ((connection, other), (other, connection)):
            a.sendall(b"hear me")
            self.assertEqual(b.recv(100), b"hear me")


class Mappings(Homes):
    def test_moderate_is_one_port_for_all_and_strict_another_for_each(self):
        self.build(nat("moderate"), nat("strict"), nat("cgnat"), nat("firewall"))
        moderate, strict, cgnat, firewall = (self.sources(peer) for peer in range(4))
        for peer, seen in enumerate((moderate, strict, cgnat, firewall)):
            self.assertEqual({host for host, _ in seen}, {self.host(peer)})
        for seen in (moderate, cgnat, firewall):
            self.assertEqual([port for _, port in seen], [PORT, PORT])
        self.assertEqual(len({port for _, port in strict} | {PORT}), 3)

    def test_what_was_not_dialed_does_not_come_in(self):
        self.build(nat("moderate"), nat("strict"), nat("cgnat"), nat("firewall"))
        for peer in range(4):
            with self.subTest(peer=peer):
                inside = self.listen(peer)
                self.assertIsNone(self.connect(self.out, self.host(peer), patience=SHORT))
                self.assertEqual(select.select([inside], [], [], 0)[0], [])

    def test_who_is_open_is_dialed_by_all(self):
        self.build(nat("cgnat"), nat("firewall"))
        listening = self.listen(self.out)
        for peer in (0, 1, self.out2):
            connection = self.connect(peer, self.host(self.out))
            self.assertIsNotNone(connection)
            self.reach_each_other(connection, self.seen(listening)[1])

    def test_two_of_one_router_meet_inside(self):
        self.build(nat("moderate"), nat("moderate", shares=0))
        self.assertEqual(self.host(0), self.host(1))
        self.listen(1)
        self.assertIsNotNone(self.connect(0, f"{routers.HOME}3"))
        self.assertIsNone(self.connect(0, self.host(1), patience=SHORT))


class WhatIsBorrowed(Homes):
    def test_is_given_back(self):
        self.build(nat("cgnat", mapping=60), nat("moderate", proxy="socks5"))
        mark = self.names[0].rpartition("-")[0]
        there = [path.name for path in machine.NETNS.glob(f"{mark}*")]
        self.assertEqual(len(there), 4 + 3)  # peers and routers
        programs = list(self.network.processes)
        self.doCleanups()
        self.assertEqual(list(machine.NETNS.glob(f"{mark}*")), [])
        self.assertEqual([f for f in machine.switch_folders() if f.name.startswith(mark)], [])
        self.assertTrue(programs and all(p.returncode is not None for p in programs))


class Punching(Homes):
    def punch(self, a, b):
        """Both dial from their listening ports, again and again for a while, each where the other
        is believed to be: the two ends of a connection, or None."""
        limit = time.monotonic() + PATIENCE
        ends = []
        sockets = [self.socket(a), self.socket(b)]
        listening = [self.listen(a), self.listen(b)]
        for made, other in zip(sockets, (b, a)):
            made.setblocking(False)
            self.assertIn(made.connect_ex((self.host(other), PORT)), (0, errno.EINPROGRESS))
        waiting = {made: place for place, made in enumerate(sockets)}
        heard = {made: place for place, made in enumerate(listening)}
        while len(ends) < 2 and time.monotonic() < limit:
            readable, writable, _ = select.select(list(heard), list(waiting), [], 0.1)
            for made in writable:
                place = waiting.pop(made)
                if made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    ends.append((place, made))
            for made in readable:
                ends.append((heard[made], made.accept()[0]))
        if len(ends) < 2:
            return None
        self.assertEqual({place for place, _ in ends}, {0, 1})
        for _, made in ends:
            made.settimeout(PATIENCE)
        return ends[0][1], ends[1][1]

    def test_works_wherever_no_port_has_to_be_guessed(self):
        kinds = ("moderate", "cgnat", "firewall", "strict")
        self.build(*(nat(kind) for kind in kinds), *(nat(kind) for kind in kinds))
        for a, one in enumerate(kinds):
            for b, other in enumerate(kinds):
                if b < a:
                    continue
                with self.subTest(f"{one}, {other}"):
                    ends = self.punch(a, len(kinds) + b)
                    self.assertEqual(ends is not None, "strict" not in (one, other))
                    if ends is not None:
                        self.reach_each_other(*ends)


class WhatARouterForgets(Homes):
    def linked(self, peer):
        listening = self.listen(self.out)
        connection = self.connect(peer, self.host(self.out))
        self.assertIsNotNone(connection)
        _, other = self.seen(listening)
        self.reach_each_other(connection, other)
        return connection, other

    def assert_silent(self, connection, other):
        """Nothing passes, either way, and neither end is notified."""
        for a, b in ((connection, other), (other, connection)):
            a.sendall(b"lost")
            with self.assertRaises(socket.timeout):
                b.settimeout(SHORT)
                b.recv(100)

    def test_is_silent_ever_after(self):
        self.build(nat("moderate"), nat("strict"), nat("cgnat"), nat("firewall"))
        for peer in range(4):
            with self.subTest(peer=peer):
                link = self.linked(peer)
                self.network.lose_mappings(peer)
                self.assert_silent(*link)
                self.linked(peer)
                link = self.linked(peer)
                self.network.restart(peer)
                self.assert_silent(*link)

    def test_is_what_nothing_passed_on_for_too_long(self):
        self.build(nat("moderate", mapping=1), nat("moderate"))
        short, long = self.linked(0), self.linked(1)
        time.sleep(2.5)
        self.assert_silent(*short)
        self.reach_each_other(*long)

    def test_another_outer_address_is_seen(self):
        self.build(nat("moderate"), nat("firewall"), None)
        for peer in range(3):
            with self.subTest(peer=peer):
                link = self.linked(peer)
                before = self.host(peer)
                self.network.change_address(self.switch, peer)
                self.assertNotEqual(self.host(peer), before)
                self.assert_silent(*link)
                listening = self.listen(self.out)
                self.assertIsNotNone(self.connect(peer, self.host(self.out)))
                self.assertEqual(self.seen(listening)[0][0], self.host(peer))


class OtherNetworks(Homes):
    V6 = {"family": socket.AF_INET6}

    def test_ipv6_is_filtered_and_not_mapped(self):
        self.build(nat("open", ipv6="only"), nat("moderate", ipv6="both"),
                   nat("cgnat", ipv6="only"), nat("open", ipv6="both"))
        self.assertEqual([len(self.network.hosts(peer)) for peer in range(4)], [1, 2, 1, 2])
        listening = self.listen(0, **self.V6)
        for peer in (1, 2, 3):
            with self.subTest(peer=peer):
                self.assertIsNotNone(self.connect(peer, self.host(0, True), **self.V6))
                self.assertEqual(self.seen(listening)[0][0], self.host(peer, True))
                self.listen(peer, **self.V6)
                there = self.connect(0, self.host(peer, True), patience=SHORT, **self.V6)
                self.assertEqual(there is not None, peer == 3)
        self.assertIsNone(self.connect(0, self.host(self.out), patience=SHORT))

    def test_large_packets_vanish_in_a_black_hole(self):
        self.build(nat("moderate", mtu_black_hole=1300), nat("moderate"))
        listening = self.listen(self.out)
        for peer in (0, 1):
            with self.subTest(peer=peer):
                connection = self.connect(peer, self.host(self.out))
                _, other = self.seen(listening)
                self.reach_each_other(connection, other)
                for a, b in ((connection, other), (other, connection)):
                    a.sendall(bytes(20_000))
                    b.settimeout(SHORT)
                    if peer == 0:
                        with self.assertRaises(socket.timeout):
                            b.recv(1 << 16)
                    else:
                        self.assertTrue(b.recv(1 << 16))

    def asked(self, peer, host, port, words, kind=socket.SOCK_STREAM):
        """The answer of a program at the router, once it is up."""
        limit = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError), machine.inside(self.names[peer]), \
                    socket.socket(socket.AF_INET, kind) as made:
                made.settimeout(1)
                made.connect((host, port))
                made.send(words[0])
                answer = made.recv(1000)
                for more in words[1:]:
                    made.send(more)
                    answer += made.recv(1000)
                if answer:
                    return answer
            self.assertLess(time.monotonic(), limit, "nobody answers")
            time.sleep(0.1)

    def test_a_proxy_is_the_only_way_out(self):
        self.build(nat("moderate", proxy="socks5"), nat("open", proxy="http"))
        listening = self.listen(self.out)
        there = self.host(self.out)
        for peer in (0, 1):
            self.assertIsNone(self.connect(peer, there, patience=SHORT))
        socks = [b"\5\1\0", b"\5\1\0\1" + socket.inet_aton(there) + struct.pack("!H", PORT)]
        self.assertTrue(self.asked(0, f"{routers.HOME}1", 1080, socks).startswith(b"\5\0\5\0"))
        self.seen(listening)
        connect = f"CONNECT {there}:{PORT} HTTP/1.1\r\nHost: {there}\r\n\r\n".encode()
        self.assertIn(b" 200 ", self.asked(1, f"{routers.HOME}1", 8888, [connect]))
        self.seen(listening)

    def test_a_port_that_the_router_was_asked_for_is_open(self):
        self.build(nat("moderate", pcp=True))
        inside = self.listen(0)
        self.assertIsNone(self.connect(self.out, self.host(0), patience=SHORT))
        # NAT-PMP (RFC 6886): map TCP port 7000 to 7000 for an hour.
        answer = self.asked(0, f"{routers.HOME}1", 5351,
                            [struct.pack("!BBHHHI", 0, 2, 0, PORT, PORT, 3600)], socket.SOCK_DGRAM)
        version, operation, result = struct.unpack("!BBH", answer[:4])
        self.assertEqual((version, operation, result), (0, 130, 0))
        connection = self.connect(self.out, self.host(0))
        self.assertIsNotNone(connection)
        self.reach_each_other(connection, self.seen(inside)[1])


if __name__ == "__main__":
    sys.exit(runner.run(WHY_NOT))
