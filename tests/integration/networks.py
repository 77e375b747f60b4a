#!/usr/bin/python3
"""Networks as users have them: IPv6 only, both families, ten bridges before the card.

Skipped, with the reason, if network namespaces are not permitted. STARLING_BUILD names the
build folder (default: build). The last line is "N passed, N failed, N skipped".
"""

import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
from runner import BUILD, ROOT  # noqa: E402
sys.path.insert(0, str(ROOT / "scenarios"))
from lab import machine  # noqa: E402
from in_namespaces import Peers  # noqa: E402

WHY_NOT = machine.missing()
PORT = 9000


def v4(number):
    return f"10.78.0.{number + 1}"


def v6(number):
    return f"fd78::{number + 1}"


@unittest.skipIf(WHY_NOT, WHY_NOT)
class OneNetwork(Peers):
    """Machines on one network, each with a card; the last namespace is the cable between them."""
    MACHINES = 2
    FAMILIES = (4, 6)
    BRIDGES = 0

    @property
    def COUNT(self):
        return self.MACHINES + 1

    def setUp(self):
        super().setUp()
        cable = self.namespaces[-1]
        self.ip(cable, "link add net type bridge", "link set net up")
        for number in range(self.MACHINES):
            self.add_machine(number, cable)

    @staticmethod
    def ip(namespace, *lines):
        with machine.inside(namespace):
            machine.ip(*lines)

    def add_machine(self, number, cable):
        here = self.namespaces[number]
        self.ip(here, "link set lo up")
        for bridge in range(self.BRIDGES):  # older than the card, and the same on all machines
            self.ip(here, f"link add br-{bridge} type bridge", f"link set br-{bridge} up",
                    f"addr add 172.{17 + bridge}.0.1/16 broadcast + dev br-{bridge}",
                    # As with a running container: the bridge has a carrier.
                    f"link add in-{bridge} type veth peer name out-{bridge}",
                    f"link set in-{bridge} master br-{bridge}", f"link set in-{bridge} up",
                    f"link set out-{bridge} up")
        self.ip(cable, f"link add port-{number} type veth peer name eth0 netns {here}",
                f"link set port-{number} master net", f"link set port-{number} up")
        addresses = []
        if 4 in self.FAMILIES:
            addresses.append(f"addr add {v4(number)}/16 broadcast + dev eth0")
        if 6 in self.FAMILIES:
            addresses.append(f"addr add {v6(number)}/64 dev eth0 nodad")
        self.ip(here, *addresses, "link set eth0 up")

    def exchanges(self, number):
        return sum(link["exchange"] for link in self.ask(number, "/links"))

    def told(self):
        return "\n".join(f"{number}: {self.members(number)}\n{self.log(number)[-1500:]}"
                         for number in range(self.MACHINES))

    def wait_until_they_train_together(self):
        names = {f"peer-{number}" for number in range(self.MACHINES)}
        self.wait_for(lambda: all({*self.neighbours(number), f"peer-{number}"} == names and
                                  self.exchanges(number) > 0 for number in range(self.MACHINES)),
                      self.told)

    def addresses(self):
        """Each peer's addresses, as the first peer knows them."""
        return {m["name"]: m["addresses"] for m in self.members(0)}


class OfIPv6Alone(OneNetwork):
    FAMILIES = (6,)

    def test_peers_meet_by_an_address_and_train(self):
        self.start(0, "--listen", f":{PORT}")
        self.start(1, "--join", f"[{v6(0)}]:{PORT}")
        self.wait_until_they_train_together()
        self.assertEqual(self.addresses()["peer-0"], [f"[{v6(0)}]:{PORT}"])
        self.assertTrue(self.addresses()["peer-1"][0].startswith(f"[{v6(1)}]:"))

    def test_peers_meet_without_an_address_and_train(self):
        self.start(0, "--lan")
        self.start(1, "--lan")
        self.wait_until_they_train_together()

    def test_who_listens_for_ipv4_alone_dials_those_whom_it_hears(self):
        self.start(0, "--lan", "--listen", "0.0.0.0:0")
        self.start(1, "--lan")
        self.wait_until_they_train_together()

    def test_an_invite_leads_there(self):
        self.start(0, "--listen", f":{PORT}")
        self.wait_for(lambda: self.ask(0, "/invite"), self.told)
        invite = self.ask(0, "/invite")["invite"]
        self.assertTrue(invite.startswith(f"[{v6(0)}]:{PORT}/"), invite)
        with machine.inside(self.namespaces[1]):
            joined = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", BUILD / "peers/starling", "join", invite,
                 "--name", "peer-1", "--dir", self.folder / "peer-1", "--set",
                 "limits.steps_per_second=1"], cwd=self.folder, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.addCleanup(joined.wait)
        self.addCleanup(joined.kill)
        self.wait_until_they_train_together()

    def test_the_doctor_tries_the_address_of_ipv6(self):
        with machine.inside(self.namespaces[0]):
            said = subprocess.run([BUILD / "peers/starling", "doctor"], capture_output=True,
                                  text=True, timeout=60)
        self.assertIn(f"to itself at [{v6(0)}]:", said.stdout)
        self.assertIn("announcements of --lan come back", said.stdout)


class OfBothFamilies(OneNetwork):
    """Others are told a peer's name first, if one was given."""

    def test_one_port_serves_both_and_a_given_name_is_told_as_it_was_given(self):
        self.start(0, "--listen", f":{PORT}", "--announce", f"localhost:{PORT}")
        self.start(1, "--join", f"{v4(0)}:{PORT}")
        self.wait_until_they_train_together()
        self.assertEqual(self.addresses()["peer-0"],
                         [f"localhost:{PORT}", f"{v4(0)}:{PORT}", f"[{v6(0)}]:{PORT}"])


class WithBridges(OneNetwork):
    MACHINES = 3
    FAMILIES = (4,)
    BRIDGES = 10

    def test_ten_bridges_before_the_card_do_not_split_the_swarm(self):
        self.start(0, "--listen", f":{PORT}")
        for number in (1, 2):
            self.start(number, "--listen", f":{PORT}", "--join", f"{v4(0)}:{PORT}")
        self.wait_until_they_train_together()
        self.assertEqual(self.addresses(), {f"peer-{number}": [f"{v4(number)}:{PORT}"]
                                            for number in range(self.MACHINES)})
        invite = self.ask(1, "/invite")["invite"]
        self.assertNotIn("172.", invite)


class InAContainer(OneNetwork):
    """The second machine is a container of the first: its only cable leads to a bridge there."""
    FAMILIES = (4,)
    BRIDGES = 1

    def test_a_bridge_over_which_somebody_came_is_told_last(self):
        here, inner = self.namespaces[0], self.namespaces[1]
        self.ip(inner, "link del eth0", "link del br-0")
        self.ip(here, f"link add c0 type veth peer name eth0 netns {inner}",
                "link set c0 master br-0", "link set c0 up")
        self.ip(inner, "addr add 172.17.0.2/16 broadcast + dev eth0", "link set eth0 up",
                "route add default via 172.17.0.1")
        self.start(0, "--listen", f":{PORT}")
        self.start(1, "--listen", f":{PORT}", "--join", f"172.17.0.1:{PORT}")
        self.wait_for(lambda: self.addresses().get("peer-0") ==
                      [f"{v4(0)}:{PORT}", f"172.17.0.1:{PORT}"], self.told)
        self.assertIn("peer-1", self.neighbours(0))


if __name__ == "__main__":
    sys.exit(runner.run(WHY_NOT))
