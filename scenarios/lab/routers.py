"""Between some of the peers and the switch: routers and firewalls in namespaces of their
own, made of nftables. src/sim/nat.hpp does the same for the simulator.

    peer --eth0-- lan (a bridge) [home router] wan --lan [carrier's router] eth0-- switch

A `cgnat` peer has both routers, all others have one, directly at the switch. A router that
maps has the outer address; behind one that only filters, the peer has it, and the router forwards
packets to it. IPv6 works like this behind each of them.
"""

import ipaddress
import pathlib
import shutil
import subprocess
import tempfile

from .machine import SWITCH_FOLDER, LabError, inside, ip
from .network import PUBLIC, address6_of, address_of

HOME = "192.168.1."  # the same in every home
CARRIER = "100.64.0."
GATEWAY6, HOME6 = "fe80::1", "fe80::2"
PROXY_PORTS = {"socks5": 1080, "http": 8888}
MAPPING = ("moderate", "strict", "cgnat")
# How long a router remembers a silent connection, in any state.
REMEMBERED = ("tcp_timeout_established", "tcp_timeout_close_wait", "tcp_timeout_unacknowledged",
              "tcp_timeout_max_retrans", "udp_timeout", "udp_timeout_stream")
COMMANDS = {"nft": "nftables", "conntrack": "conntrack"}
PROGRAMS = {"pcp": ("miniupnpd", "miniupnpd-nftables"), "socks5": ("microsocks", "microsocks"),
            "http": ("tinyproxy", "tinyproxy")}


def needs_router(nat):
    return nat is not None and (nat["kind"] != "open" or nat["mtu_black_hole"] > 0
                                or nat["proxy"] != "none")


def missing(plan):
    """The program that the plan's routers need and this machine lacks, in words; or None."""
    nats = [peer["nat"] for peer in plan["peers"] if needs_router(peer["nat"])]
    wanted = dict(COMMANDS) if nats else {}
    for nat in nats:
        for what in (["pcp"] if nat["pcp"] else []) + [nat["proxy"]]:
            if what in PROGRAMS:
                command, package = PROGRAMS[what]
                wanted[command] = package
    for command, package in wanted.items():
        if shutil.which(command) is None:
            return f"there is no command {command} (Debian package {package})"
    return None


def ruleset(wan, nat, maps, randomly):
    """The rules of one router for nft. `maps`: whether it has the outer address itself."""
    lines = ["table inet nat {",
             " chain prerouting_miniupnpd { }", " chain postrouting_miniupnpd { }",
             " chain pre { type nat hook prerouting priority -100;",
             f'  iifname "{wan}" jump prerouting_miniupnpd', " }",
             " chain post { type nat hook postrouting priority 100;"]
    if maps:
        lines += [f'  oifname "{wan}" jump postrouting_miniupnpd',
                  f'  meta nfproto ipv4 oifname "{wan}" masquerade'
                  + (" fully-random" if randomly else "")]
    lines += [" }", "}", "table inet filter {", " chain miniupnpd { }",
              " chain forward { type filter hook forward priority 0; policy accept;",
              "  icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept",
              "  ct state invalid drop"]
    if nat["kind"] != "open":
        lines += [f'  iifname "{wan}" jump miniupnpd',
                  f'  iifname "{wan}" ct status dnat accept',
                  f'  iifname "{wan}" ct state new drop']
    if nat["proxy"] != "none":
        lines.append("  drop")
    lines += [" }", " chain input { type filter hook input priority 0; policy accept;",
              f'  iifname "{wan}" meta l4proto {{ tcp, udp }} ct state {{ new, invalid }} drop',
              " }", " chain output { type filter hook output priority 0; policy accept;"]
    if nat["mtu_black_hole"]:
        lines += ["  icmp type destination-unreachable drop", "  icmpv6 type packet-too-big drop"]
    return "\n".join(lines + [" }", "}", ""])


class Router:
    """One router. `wan`: its device to the outside; the inside is the bridge `lan`."""

    def __init__(self, namespace, nat, wan, maps, randomly=False):
        self.namespace, self.nat, self.wan = namespace, nat, wan
        self.maps, self.randomly = maps, randomly

    def start(self, gateway, bits):
        """The inside and the rules. `gateway`: its address there."""
        with inside(self.namespace):
            ip("link set lo up", "link add lan type bridge", "link set lan up",
               f"addr add {gateway}/{bits} dev lan", f"addr add {GATEWAY6}/64 dev lan nodad")
            sysctl("net.ipv4.ip_forward", 1)
            sysctl("net.ipv6.conf.all.forwarding", 1)
            # A router must not learn a forgotten connection again in mid-stream.
            sysctl("net.netfilter.nf_conntrack_tcp_loose", 0)
            if self.nat["mapping"]:
                for name in REMEMBERED:
                    sysctl(f"net.netfilter.nf_conntrack_{name}", max(1, int(self.nat["mapping"])))
            done = subprocess.run(["nft", "-f", "-"], text=True, capture_output=True,
                                  input=ruleset(self.wan, self.nat, self.maps, self.randomly))
            if done.returncode != 0:
                raise LabError(f"nft refused the rules of a router: {done.stderr.strip()}")

    def narrow(self):
        """Larger packets vanish from now on; the wan device must be there."""
        if self.nat["mtu_black_hole"]:
            with inside(self.namespace):
                for device in ("lan", self.wan):
                    ip(f"link set {device} mtu {self.nat['mtu_black_hole']}")

    def forget(self, inner=None):
        """Forgets all connections, or those of an address inside."""
        flows = [["-F"]]
        if inner is not None:
            family = ["-f", "ipv6" if ":" in inner else "ipv4"]
            flows = [["-D", *family, end, inner] for end in ("--orig-src", "--reply-src")]
        for flow in flows:
            with inside(self.namespace):
                done = subprocess.run(["conntrack", *flow], text=True, capture_output=True)
            if done.returncode != 0 and " 0 flow entries" not in done.stderr:
                raise LabError(f"conntrack {' '.join(flow)} failed: {done.stderr.strip()}")


def sysctl(name, value):
    """In the namespace of this thread."""
    try:
        pathlib.Path("/proc/sys", *name.split(".")).write_text(str(value))
    except OSError as error:
        raise LabError(f"the kernel does not set {name}: {error.strerror}") from error


class Port:
    """The addresses behind one device of the switch."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.own = []  # addresses of the device itself
        self.behind = []  # addresses that are reached through it


class Group:
    """Peers that share routers: the routers, innermost first, and the port."""

    def __init__(self, nat, port):
        self.nat, self.port = nat, port
        self.routers = []
        self.members = []  # numbers


class Network:
    """The ports of the switch, and what is between them and the peers."""

    def __init__(self, borrowed, plan, namespaces):
        """Makes the routers' namespaces; nothing is connected yet."""
        self.plan, self.namespaces = plan, namespaces
        self.ports, self.port_of = [], []
        self.groups = {}  # number in the plan: Group
        self.moves = {}  # peer: how often its machine got another address
        self.outer_moves = {}  # the same, by number of a router in the plan
        self.processes = []
        self.folder = None
        nats = [peer.get("nat") for peer in plan["peers"]]
        self.routed = any(nat is not None for nat in nats)
        for number, nat in enumerate(nats):
            if not needs_router(nat):
                self._add_port(number, namespaces[number])
                self._address_host(number)
                continue
            group = self.groups.get(nat["router"])
            if group is None:
                group = self._add_group(borrowed, number, nat)
            group.members.append(number)
            self.port_of.append(self.ports.index(group.port))
            self._address_behind(number, group)

    def _add_port(self, number, namespace):
        self.port_of.append(len(self.ports))
        self.ports.append(Port(namespace))

    def _add_group(self, borrowed, number, nat):
        label = f"router{nat['router']}-"
        names = borrowed.namespaces(2 if nat["kind"] == "cgnat" else 1, label)
        port = Port(names[-1])
        self.ports.append(port)
        group = self.groups[nat["router"]] = Group(nat, port)
        maps = nat["kind"] in MAPPING or nat["proxy"] != "none"  # that has to be somewhere
        group.routers = [Router(name, nat, "eth0" if name is names[-1] else "wan", maps,
                                nat["kind"] == "strict") for name in names]
        if maps and nat["ipv6"] != "only":
            port.own.append(address_of(number, 0, PUBLIC))
        return group

    def _families(self, number):
        """(IPv4, IPv6) of a peer."""
        nat = self.plan["peers"][number].get("nat")
        ipv6 = "none" if nat is None else nat["ipv6"]
        return ipv6 != "only", ipv6 != "none"

    def _addresses(self, number):
        """Addresses that the peer's machine itself has because no router maps them."""
        moves = self.moves.get(number, 0)
        v4, v6 = self._families(number)
        network = {"network": PUBLIC} if self.routed else {}
        return ([address_of(number, moves, **network)] if v4 else []) + \
            ([address6_of(number, moves)] if v6 else [])

    def _address_host(self, number):
        self.ports[-1].own = self._addresses(number)

    def _address_behind(self, number, group):
        maps = group.routers[-1].maps
        group.port.behind += [a for a in self._addresses(number) if ":" in a or not maps]

    def group_of(self, number):
        nat = self.plan["peers"][number].get("nat")
        return self.groups.get(nat["router"]) if needs_router(nat) else None

    def hosts(self, number):
        """The addresses at which others would dial the peer, as texts with brackets if needed."""
        group = self.group_of(number)
        if group is None:
            addresses = self.ports[self.port_of[number]].own
        else:
            addresses = ([a for a in group.port.own if ":" not in a]
                         if self._families(number)[0] else [])
            addresses = addresses + [a for a in self._addresses(number) if a in group.port.behind]
        return [f"[{a}]" if ":" in a else a for a in addresses]

    def listens(self, number):
        """The host that the peer is told to listen on."""
        if not self.routed:
            return None
        return "[::]" if self._families(number)[1] else "0.0.0.0"

    def proxy(self, number):
        """The URL of the proxy that is its only way out, or None."""
        nat = self.plan["peers"][number].get("nat")
        if nat is None or nat["proxy"] == "none":
            return None
        return f"{nat['proxy']}://{HOME}1:{PROXY_PORTS[nat['proxy']]}"

    def connect(self):
        """Connects routers and the peers behind them; the switch has made its devices."""
        for group in self.groups.values():
            self._connect_routers(group)
            for place, number in enumerate(group.members):
                self._connect_peer(group, place, number)
            for router in group.routers:
                router.narrow()
            self._start_programs(group)

    def _connect_routers(self, group):
        outermost = group.routers[-1]
        innermost = group.routers[0]
        if innermost is not outermost:
            outermost.start(f"{CARRIER}1", 10)
            ip(f"link add c0 netns {outermost.namespace} type veth peer name wan "
               f"netns {innermost.namespace}")
            with inside(outermost.namespace):
                ip("link set c0 master lan up")
        innermost.start(f"{HOME}1", 24)
        if innermost is not outermost:
            with inside(innermost.namespace):
                ip(f"addr add {CARRIER}2/10 dev wan", f"addr add {HOME6}/64 dev wan nodad",
                   "link set wan up", f"route add default via {CARRIER}1",
                   f"route add default via {GATEWAY6} dev wan")

    def _connect_peer(self, group, place, number):
        innermost = group.routers[0]
        namespace = self.namespaces[number]
        ip(f"link add p{place} netns {innermost.namespace} type veth peer name eth0 "
           f"netns {namespace}")
        with inside(innermost.namespace):
            ip(f"link set p{place} master lan up")
        v4, v6 = self._families(number)
        with inside(namespace):
            ip("link set lo up", "link set eth0 up")
            if v4 and innermost.maps:
                ip(f"addr add {HOME}{place + 2}/24 dev eth0", f"route add default via {HOME}1")
            if v6:
                ip(f"route add default via {GATEWAY6} dev eth0")
        self._route(group, number)

    def _route(self, group, number):
        """Forwards packets for the peer's own addresses to it."""
        maps = group.routers[0].maps
        for address in self._addresses(number):
            v6 = ":" in address
            if maps and not v6:
                continue
            with inside(self.namespaces[number]):
                if v6:
                    ip(f"addr replace {address}/128 dev eth0 nodad")
                else:
                    ip(f"addr replace {address}/32 dev eth0", f"route replace {HOME}1 dev eth0",
                       f"route replace default via {HOME}1 src {address}")
            for depth, router in enumerate(group.routers):
                with inside(router.namespace):
                    via = f"via {HOME6} " if depth > 0 else ""
                    ip(f"route replace {address} {via}dev lan")

    def _start_programs(self, group):
        innermost = group.routers[0]
        nat = group.nat
        if nat["pcp"]:
            conf = self._write(group, "miniupnpd.conf", MINIUPNPD.format(wan=innermost.wan))
            self._spawn(innermost, ["miniupnpd", "-d", "-f", conf, "-P", f"{conf}.pid"])
        if nat["proxy"] == "socks5":
            self._spawn(innermost, ["microsocks", "-i", f"{HOME}1", "-p",
                                    str(PROXY_PORTS["socks5"])])
        elif nat["proxy"] == "http":
            self._spawn(innermost, ["tinyproxy", "-d", "-c", self._write(
                group, "tinyproxy.conf", TINYPROXY.format(gateway=f"{HOME}1",
                                                          port=PROXY_PORTS["http"]))])

    def _write(self, group, name, text):
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory(
                prefix=f"{self.namespaces[0]}{SWITCH_FOLDER}routers-")
        path = pathlib.Path(self.folder.name) / f"{group.nat['router']}-{name}"
        path.write_text(text)
        return str(path)

    def _spawn(self, router, words):
        with inside(router.namespace):
            self.processes.append(subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *words], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))

    def lose_mappings(self, number):
        """The routers of the peer forget its connections."""
        group = self.group_of(number)
        innermost, *further = group.routers
        with inside(self.namespaces[number]):
            shown = subprocess.run(["ip", "-o", "addr", "show", "dev", "eth0", "scope", "global"],
                                   text=True, capture_output=True).stdout
        sources = [str(ipaddress.ip_interface(line.split()[3]).ip) for line in shown.splitlines()]
        for source in sources:
            innermost.forget(source)
        # Further out, its connections look like those of all others of its home.
        for router in further:
            router.forget()

    def restart(self, number):
        """The routers of the peer forget all connections."""
        for router in self.group_of(number).routers:
            router.forget()

    def change_address(self, switch, number):
        """The peer is seen at another address from now on."""
        group = self.group_of(number)
        port = self.port_of[number]
        if group is not None and group.routers[-1].maps:
            leader, router = group.members[0], group.nat["router"]
            moves = self.outer_moves[router] = self.outer_moves.get(router, 0) + 1
            switch.move(port, address_of(leader, moves - 1, PUBLIC),
                        address_of(leader, moves, PUBLIC))
            return self.restart(number)
        before = self._addresses(number)
        self.moves[number] = self.moves.get(number, 0) + 1
        after = self._addresses(number)
        if group is not None:
            with inside(self.namespaces[number]):
                ip(*(f"addr del {a}/{128 if ':' in a else 32} dev eth0" for a in before))
            self._route(group, number)
            for router in group.routers:
                router.forget()
        for old, new in zip(before, after):
            switch.move(port, old, new)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()
        if self.folder is not None:
            self.folder.cleanup()
            self.folder = None


MINIUPNPD = """ext_ifname={wan}
listening_ip=lan
enable_natpmp=yes
enable_upnp=yes
secure_mode=yes
min_lifetime=1
max_lifetime=86400
upnp_table_name=filter
upnp_nat_table_name=nat
upnp_forward_chain=miniupnpd
upnp_nat_chain=prerouting_miniupnpd
upnp_nat_postrouting_chain=postrouting_miniupnpd
uuid=00000000-0000-0000-0000-000000000001
allow 1024-65535 192.168.1.0/24 1024-65535
deny 0-65535 0.0.0.0/0 0-65535
"""
TINYPROXY = """User root
Group root
Port {port}
Listen {gateway}
Timeout 600
MaxClients 100
"""
