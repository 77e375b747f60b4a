#!/usr/bin/python3
"""Strangers at every open port of a peer that trains: silence, garbage, attacks on UCX, and a real
session with nonsense inside. The peer and its neighbour train on as if nothing had happened.

    hostile.py                             some thousands of connections, at most 200 a second
    hostile.py --connections 1000000       more of them, in the open swarm and in the closed one
    hostile.py --rate 500
    hostile.py --memory-max 500            MB above idle, since a sanitizer keeps freed memory

STARLING_BUILD names the build folder (default: build). The last line is "N passed, N failed,
N skipped".
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
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
import stranger  # noqa: E402
from stranger import (  # noqa: E402
    AGAIN, CARRIER, CIRCUIT, DATA, DELTA, DOOR, END, HEARTBEAT, HELLO, OFFER, RESUME, TAKEN, cell,
    frame, number_cell, preamble)

STARLING = BUILD / "peers/starling"
SOURCES = [f"127.0.0.{number}" for number in range(2, 8)]
STEPS_PER_SECOND = 20
PATIENCE = 60
DROPPED = 0.1  # seconds without an answer to a SYN on loopback: it is dropped
HOLD = 0.2  # seconds that a connection is left open if the other end does not end it
WORKERS = 32
SESSION_KINDS_FROM = "session: "
MARK = b"WRITTEN-BY-OTHER"  # the PUT packets would write this

OPTIONS = argparse.Namespace(connections=6000, rate=200, memory_max=50)


def put_packet(address):
    """To UCX's TCP transport: write to an address of the process (uct_tcp_ep_put_req_hdr_t)."""
    return (struct.pack("<QBI", 0xCAFEBABE12345678, 33, 20) +
            struct.pack("<QQI", address, len(MARK), 1) + MARK)


class Attack:
    """Connections to one peer's ports. Each kind is a method that ends its connection itself."""

    def __init__(self, ports, address, folder, seed):
        self.ports, self.address, self.folder = ports, address, folder
        self.rng = random.Random(seed)
        self.keys = stranger.Keys(folder)
        self.hello = stranger.client_hello()
        self.lock = threading.Lock()
        self.counts = collections.defaultdict(collections.Counter)  # kind: outcomes
        self.raw = self._raw_kinds()
        self.inside = self._session_kinds()

    # --- one connection ---

    def count(self, kind, what):
        with self.lock:
            self.counts[kind][what] += 1

    def run(self, kind, door):
        """One connection of a kind to a door: "peer", "page" or "ucx"."""
        source = self.rng.choice(SOURCES)
        self.count(kind, door)
        try:
            made = stranger.connect(source, self.rng.choice(self.ports[door]),
                                    DROPPED if door == "ucx" else 5)
        except OSError as error:
            self.count(kind, "dropped" if isinstance(error, TimeoutError) else "refused")
            return
        self.count(kind, f"connected to {door}")
        made.settimeout(2)
        try:
            if kind in self.raw:
                self.raw[kind](made)
            else:
                self.in_session(kind, made)
        except OSError:
            self.count(kind, "cut")
        finally:
            made.close()

    def listen(self, made, seconds=HOLD):
        """Reads until the other end ends, or until the time is up."""
        made.settimeout(seconds)
        try:
            while made.recv(65536):
                pass
            self.count_end("ended")
        except TimeoutError:
            pass

    def count_end(self, what):
        self.count("(all kinds)", what)

    def say(self, *parts):
        def kind(made):
            for part in parts:
                made.sendall(part)
            self.listen(made)
        return kind

    def drip(self, data):
        def kind(made):
            for byte in data[:20]:
                made.sendall(bytes([byte]))
                time.sleep(0.01)
        return kind

    def half_open(self, data):
        def kind(made):
            made.sendall(data)
            made.shutdown(socket.SHUT_WR)
            self.listen(made)
        return kind

    def reset(self, data):
        def kind(made):
            made.sendall(data)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return kind

    def crowd(self, made):
        """Many at once, silent."""
        more = []
        try:
            for source in SOURCES * 4:
                more.append(stranger.connect(source, made.getpeername()[1], DROPPED))
            time.sleep(HOLD)
        finally:
            for one in more:
                one.close()

    def urgent(self, made):
        made.send(b"!", socket.MSG_OOB)
        self.listen(made)

    def deaf(self, made):
        """Asks and never reads."""
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            made.settimeout(HOLD)
            made.sendall(b"GET /members HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        except TimeoutError:
            pass
        time.sleep(HOLD)

    def _raw_kinds(self):
        rng = random.Random(self.rng.random())
        record = lambda kind, size, body=b"": struct.pack("!BHH", kind, 0x303, size) + body
        plain = b"STARLING" + bytes([stranger.LINK_VERSION]) + rng.randbytes(32) + preamble()
        return {
            "silence": self.say(),
            "one byte": self.say(b"S"),
            "zeros": self.say(bytes(4096)),
            "random bytes": self.say(rng.randbytes(5000)),
            "1 MiB of random bytes": self.say(*(rng.randbytes(65536) for _ in range(16))),
            "beginning of a ClientHello": self.say(self.hello[:5]),
            "half a ClientHello": self.say(self.hello[:len(self.hello) // 2]),
            "ClientHello twice": self.say(self.hello + self.hello),
            "damaged ClientHello": self.say(self.hello[:60] + b"\xff" * 20 + self.hello[80:]),
            "ClientHello, then noise": self.say(self.hello, record(23, 2000, rng.randbytes(2000))),
            "ClientHello byte by byte": self.drip(self.hello),
            "TLS record of 0 bytes": self.say(record(22, 0)),
            "TLS record of 65,535 bytes": self.say(record(22, 65535, rng.randbytes(65535))),
            "TLS record that never comes": self.say(record(22, 16384)),
            "1,000 tiny TLS records": self.say(record(22, 1, b"\1") * 1000),
            "TLS alert": self.say(record(21, 2, b"\2\x28")),
            "data before the handshake": self.say(record(23, 200, rng.randbytes(200))),
            "handshake message of 16 MiB": self.say(record(22, 4, b"\1\xff\xff\xff")),
            "preface of the plain session": self.say(plain),
            "HTTP request": self.say(b"GET / HTTP/1.1\r\nHost: peer\r\n\r\n"),
            "HTTP header without end": self.say(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000),
            "HTTP order from a web page": self.say(
                b"POST /leave HTTP/1.1\r\nHost: localhost\r\nOrigin: http://other.example\r\n"
                b"Content-Length: 0\r\n\r\n"),
            "HTTP body of 2^62 bytes": self.say(
                b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4611686018427387904\r\n"
                b"\r\n"),
            "HTTP requests, answers not read": self.deaf,
            "SSH banner": self.say(b"SSH-2.0-OpenSSH_9.2\r\n"),
            "SOCKS and SMTP": self.say(b"\5\1\0", b"EHLO other.example\r\n"),
            "half closed at once": self.half_open(b""),
            "half closed in a ClientHello": self.half_open(self.hello[:100]),
            "reset at once": self.reset(b""),
            "reset after a ClientHello": self.reset(self.hello),
            "UCX: write to an address": self.say(put_packet(self.address)),
            "UCX: the number that begins": self.say(struct.pack("<Q", 0xCAFEBABE12345678)),
            "UCX: connection manager's garbage": self.say(
                struct.pack("<QQ", 1 << 62, 1) + rng.randbytes(500)),
            "UCX: connection manager, all ones": self.say(b"\xff" * 64),
            "huge lengths": self.say(b"\xff" * 16),
            "slow drip of zeros": self.drip(bytes(20)),
            "many at once": self.crowd,
            "urgent data": self.urgent,
        }

    # --- inside a session ---

    def in_session(self, kind, made):
        what = self.inside[kind]
        key = None if what == "no key" else self.keys.wrong if what == "wrong" else self.keys.one()
        session = stranger.Session(made, key, self.folder)
        try:
            if callable(what):
                what(session)
                return
            if not session.enter():
                self.count(kind, "turned away")
                return
            self.count(kind, "let in")
            for part in () if isinstance(what, str) else what:
                session.say(part)
            self.listen(session.tls)
        finally:
            session.close()

    def wrong_proof(self, session):
        session.tls.sendall(bytes(32))
        self.listen(session.tls)

    def half_a_proof(self, session):
        session.tls.sendall(session.proof()[:16])

    def broken_record(self, session):
        """A record that no key has made."""
        if session.enter():
            session.say(preamble())
            raw = socket.socket(fileno=os.dup(session.tls.fileno()))
            with raw:
                raw.sendall(struct.pack("!BHH", 23, 0x303, 200) + bytes(200))
                self.listen(raw)

    def _session_kinds(self):
        rng = random.Random(self.rng.random())
        begin = preamble()
        hello = frame(HELLO, rng.randbytes(400))
        bad_sum = bytearray(hello)
        bad_sum[-1] ^= 1
        kinds = {
            "no certificate": "no key",
            "key of another kind": "wrong",
            "silence in the session": (),
            "wrong proof": self.wrong_proof,
            "half a proof": self.half_a_proof,
            "record that no key has made": self.broken_record,
            "preamble of another version": (preamble(version=99),),
            "preamble of an unknown kind": (preamble(use=7),),
            "preamble of a carrier, token unknown": (preamble(use=CARRIER, token=77), bytes(100)),
            "half a preamble": (begin[:7],),
            "noise instead of cells": (begin, rng.randbytes(20000)),
            "cell of an unknown type": (begin, cell(200, b"x" * 20)),
            "cell of type 0": (begin, bytes(4)),
            "data cell of 16 MiB": (begin, cell(DATA, b"x" * 100, 0xffffff)),
            "offer of 4 KiB": (begin, cell(OFFER, bytes(4096))),
            "offer before acceptance": (begin, cell(OFFER, bytes(39) + b"fabric")),
            "door without an offer": (begin, cell(DOOR, bytes(16))),
            "number of 3 bytes": (begin, cell(TAKEN, b"abc")),
            "the same again 2,000 times": (begin, number_cell(AGAIN, 0) * 2000),
            "taken, though never sent": (begin, number_cell(TAKEN, 1 << 40)),
            "resume far beyond": (begin, number_cell(RESUME, (1 << 64) - 1), cell(DATA, hello)),
            "holes in the stream": (begin, *(number_cell(RESUME, 2000 * i) + cell(DATA, bytes(1000))
                                             for i in range(1, 500))),
            "data after the end": (begin, number_cell(END, 0), cell(DATA, hello)),
            "100,000 empty data cells": (begin, cell(DATA) * 100000),
            "frames without a Hello": (begin, cell(DATA, frame(HEARTBEAT, bytes(64)))),
            "delta without a Hello": (begin, cell(DATA, frame(DELTA, bytes(64), bytes(8000)))),
            "circuit before acceptance": (begin, cell(DATA, frame(CIRCUIT, b"", bytes(300)))),
            "frame of an unknown type": (begin, cell(DATA, frame(222, bytes(64)))),
            "frame that announces 4 GiB": (begin, cell(DATA, frame(HELLO, size=2**32 - 1))),
            "frame of another version": (begin, cell(DATA, frame(HELLO, version=9))),
            "frame with a wrong checksum": (begin, cell(DATA, bytes(bad_sum))),
            "Hello of random bytes": (begin, cell(DATA, hello)),
        }
        return {SESSION_KINDS_FROM + name: what for name, what in kinds.items()}

    # --- all of them ---

    def round(self):
        """Each kind once at the announced port; those below a session at the other doors, too."""
        jobs = [(kind, "peer") for kind in (*self.raw, *self.inside)]
        jobs += [(kind, door) for kind in self.raw for door in ("page", "ucx")]
        self.rng.shuffle(jobs)
        return jobs

    def run_all(self, connections, rate, look):
        """At most `rate` a second; `look` is called now and then. Returns the seconds it took."""
        began = time.monotonic()
        errors = []
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            jobs, looked = [], began
            waiting = set()
            for number in range(connections):
                if not jobs:
                    jobs = self.round()
                time.sleep(max(0, began + number / rate - time.monotonic()))
                waiting.add(pool.submit(self.run, *jobs.pop()))
                if len(waiting) > 2 * WORKERS:
                    done, waiting = concurrent.futures.wait(
                        waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                    errors += [e for e in (one.exception() for one in done) if e]
                if time.monotonic() - looked > 0.5:
                    look()
                    looked = time.monotonic()
            errors += [e for e in (one.exception() for one in waiting) if e]
        if errors:
            raise errors[0]
        return time.monotonic() - began

    def table(self):
        lines = [f"{'kind':46}{'peer':>7}{'page':>7}{'ucx':>7}{'dropped':>9}{'let in':>8}"
                 f"{'turned away':>13}{'cut':>7}"]
        for kind in (*self.raw, *self.inside):
            got = self.counts[kind]
            lines.append(f"{kind:46}" + "".join(
                f"{got[what]:>{width}}" for what, width in (
                    ("peer", 7), ("page", 7), ("ucx", 7), ("dropped", 9), ("let in", 8),
                    ("turned away", 13), ("cut", 7))))
        return "\n".join(lines)


class Peer:
    """A real one, with all defaults except the pace."""

    def __init__(self, folder, name, *options):
        self.folder = folder / name
        self.output = folder / f"{name}.out"
        with open(self.output, "w") as output:
            self.process = subprocess.Popen(
                [STARLING, "up", ROOT / "scenarios/runs/fashion-mlp.toml", "--name", name, "--dir",
                 self.folder, "--no-port-mapping", "--set", "run.epochs=100000",
                 "--set", f"limits.steps_per_second={STEPS_PER_SECOND}", "--set", "report.every=0",
                 *options], stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def end(self):
        self.process.kill()
        self.process.wait()

    def told(self):
        try:
            return json.loads((self.folder / "peer.json").read_text())
        except (OSError, ValueError):
            return None

    def ask(self, what):
        try:
            host, port = self.told()["control"].split(":")
            with socket.create_connection((host, int(port)), timeout=5) as asked:
                asked.sendall(f"GET {what} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
                reply = asked.makefile("rb").read()
            return json.loads(reply.split(b"\r\n\r\n", 1)[1])
        except (OSError, ValueError, TypeError, IndexError):
            return None

    def carriers(self):
        return [link["carrier"] for link in self.ask("/links") or [] if link["state"] == "open"]

    def steps(self):
        try:
            return int((self.folder / "metrics.csv").read_text().splitlines()[-1].split(",")[2])
        except (OSError, ValueError, IndexError):
            return 0

    def memory_mb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def listens_at(self):
        """{(address as the kernel writes it, port)} of its listening sockets."""
        process = pathlib.Path(f"/proc/{self.process.pid}")
        inodes = {os.readlink(one)[8:-1] for one in (process / "fd").iterdir()
                  if os.path.islink(one) and os.readlink(one).startswith("socket:[")}
        found = set()
        for table in ("tcp", "tcp6"):
            for line in (process / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    address, port = fields[1].split(":")
                    found.add((address, int(port, 16)))
        return found

    def writable(self):
        """An address of it that can be written: at the end of its data, or of the heap."""
        process = pathlib.Path(f"/proc/{self.process.pid}")
        ends = ("[heap]", str((process / "exe").resolve()))
        for line in (process / "maps").read_text().splitlines():
            if line.split()[1].startswith("rw") and line.endswith(ends):
                return int(line.split("-")[1].split()[0], 16) - 64
        raise AssertionError(f"{process}: nothing can be written")

    def memory_at(self, address):
        with open(f"/proc/{self.process.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(len(MARK))


LOOPBACK = "0100007F"


class Strangers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="starling-hostile-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what}\n{self.state()}")
            time.sleep(0.1)

    def state(self):
        files = [self.folder / one for one in ("a.out", "b.out", "a/log.jsonl", "b/log.jsonl")]
        return "\n".join(f"{f.name}: {f.read_text()[-2000:]}" for f in files if f.exists())

    def start(self, options):
        self.a = Peer(self.folder, "a", *options)
        self.addCleanup(self.a.end)
        self.wait_for(self.a.told, "the peer does not start")
        port = self.a.told()["address"].rsplit(":", 1)[1]
        self.b = Peer(self.folder, "b", "--join", f"127.0.0.1:{port}", *options)
        self.addCleanup(self.b.end)
        for peer in (self.a, self.b):
            self.wait_for(lambda peer=peer: peer.carriers() == ["ucx"], "no link over ucx")
        self.wait_for(lambda: self.a.steps() > 0 and self.b.steps() > 0, "no steps")

    def doors(self):
        """The ports of the peer, which are these and no others."""
        told = self.a.told()
        peer, page = (int(told[one].rsplit(":", 1)[1]) for one in ("address", "control"))
        ports = self.a.listens_at()
        self.assertIn((LOOPBACK, page), ports)
        ucx = [(address, port) for address, port in ports if port not in (peer, page)]
        self.assertEqual([address for address, _ in ucx], [LOOPBACK] * 2, ports)
        self.assertEqual(len(ports), 4, ports)
        return {"peer": [peer], "page": [page], "ucx": [port for _, port in ucx]}

    def pace(self, seconds):
        """Steps a second of both, without disturbance."""
        before, began = self.a.steps() + self.b.steps(), time.monotonic()
        time.sleep(seconds)
        return (self.a.steps() + self.b.steps() - before) / (time.monotonic() - began)

    def meet(self, *options):
        self.start(options)
        pids = self.a.process.pid, self.b.process.pid
        doors = self.doors()
        undisturbed = self.pace(4)
        idle, most = self.a.memory_mb(), [0.0]
        before = self.a.steps(), self.b.steps()
        address = self.a.writable()
        attack = Attack(doors, address, self.folder, seed=1)

        def look():
            most[0] = max(most[0], self.a.memory_mb())
            self.assertIsNone(self.a.process.poll(), self.state())
            self.assertIsNone(self.b.process.poll(), self.state())
        took = attack.run_all(OPTIONS.connections // 2, OPTIONS.rate, look)
        look()
        after = self.a.steps(), self.b.steps()
        pace = (sum(after) - sum(before)) / took
        print(f"\n{attack.table()}\n{OPTIONS.connections // 2} connections in {took:.1f} s "
              f"({OPTIONS.connections / 2 / took:.0f}/s); steps a second of both "
              f"{undisturbed:.1f} before, {pace:.1f} meanwhile; memory {idle:.1f} MB before, at "
              f"most {most[0]:.1f} MB", flush=True)
        self.assertEqual((self.a.told()["pid"], self.b.told()["pid"]), pids)
        self.assertGreater(pace, undisturbed / 2, "they do not train on")
        self.assertLess(most[0] - idle, OPTIONS.memory_max)
        self.assertNotEqual(self.a.memory_at(address), MARK)
        self.assertEqual(self.doors(), doors)
        for peer in (self.a, self.b):
            self.assertEqual(peer.carriers(), ["ucx"], self.state())
        return attack

    def end_both(self):
        for peer in (self.a, self.b):
            peer.process.send_signal(signal.SIGTERM)
        for peer in (self.a, self.b):
            self.assertEqual(peer.process.wait(PATIENCE), 0, self.state())

    def check_doors(self, attack):
        """No stranger got through to UCX, and all got through to the others."""
        total = sum(attack.counts.values(), collections.Counter())
        self.assertEqual(total["connected to ucx"], 0)
        self.assertGreater(total["ucx"], 0)
        self.assertEqual(total["dropped"], total["ucx"])
        self.assertEqual(total["refused"], 0)

    def let_in(self, attack):
        return {kind: attack.counts[kind]["let in"] for kind in attack.inside}

    def test_an_open_swarm_trains_on(self):
        attack = self.meet()
        self.check_doors(attack)
        inside = self.let_in(attack)
        never = [kind for kind, what in attack.inside.items()
                 if isinstance(what, tuple) and inside[kind] == 0]
        self.assertEqual(never, [], "nobody got so far")
        self.end_both()

    def test_a_closed_swarm_trains_on_and_lets_nobody_in(self):
        secret = self.folder / "secret"
        subprocess.run([STARLING, "keygen", secret], check=True, capture_output=True)
        attack = self.meet("--set", f"security.secret={secret}")
        self.check_doors(attack)
        self.assertEqual(sum(self.let_in(attack).values()), 0)
        turned_away = sum(attack.counts[kind]["turned away"] for kind in attack.inside)
        self.assertGreater(turned_away, 0)
        self.end_both()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=OPTIONS.connections)
    parser.add_argument("--rate", type=float, default=OPTIONS.rate)
    parser.add_argument("--memory-max", type=float, default=OPTIONS.memory_max)
    known, rest = parser.parse_known_args()
    OPTIONS.__dict__.update(known.__dict__)
    return runner.run(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    sys.exit(main())
