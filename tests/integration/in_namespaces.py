"""Peers in network namespaces, for tests written in Python."""
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from runner import BUILD, ROOT
from lab import machine


class Peers(unittest.TestCase):
    """Namespaces, and peers in them; the caller decides how they reach each other."""
    COUNT = 2
    PATIENCE = 90

    def setUp(self):
        self.borrowed = machine.Borrowed()
        self.addCleanup(self.borrowed.give_back)
        self.namespaces = self.borrowed.namespaces(self.COUNT)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="starling-peers-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, number, *more):
        with machine.inside(self.namespaces[number]):
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", BUILD / "peers/starling", "up",
                 ROOT / "scenarios/runs/fashion-mlp.toml", "--name", f"peer-{number}",
                 "--dir", self.folder / f"peer-{number}", "--set", "limits.steps_per_second=1",
                 *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ask(self, number, what):
        """A peer's answer; nothing while there is none."""
        try:
            peer = json.loads((self.folder / f"peer-{number}/peer.json").read_text())
            with machine.inside(self.namespaces[number]):
                host, port = peer["control"].split(":")
                with socket.create_connection((host, int(port)), timeout=5) as asked:
                    asked.sendall(f"GET {what} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
                    reply = asked.makefile("rb").read()
            return json.loads(reply.split(b"\r\n\r\n", 1)[1])
        except (OSError, ValueError, KeyError):
            return []

    def members(self, number):
        """As a peer sees them."""
        return self.ask(number, "/members")

    def neighbours(self, number):
        """Names and addresses of the members that a peer has a link with."""
        return {m["name"]: m["addresses"] for m in self.members(number) if m["neighbour"]}

    def wait_for(self, condition, told):
        limit = time.monotonic() + self.PATIENCE
        while not condition():
            if time.monotonic() > limit:
                self.fail(told())
            time.sleep(0.2)

    def log(self, number):
        path = self.folder / f"peer-{number}/log.jsonl"
        return path.read_text() if path.exists() else ""
