#!/usr/bin/python3
"""The last release beside this build: its peers are turned away in one line, its checkpoints load.

Builds the program of that release once, into .cache/last-release; `tools/setup check` installs what
it needs. STARLING_BUILD names the build folder (default: build). The last line is "N passed,
N failed, N skipped".
"""
import contextlib
import json
import pathlib
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

# Version 0.1.0.
LAST_RELEASE = "5e52731"
CACHE = ROOT / ".cache/last-release"
HERE = BUILD / "peers/starling"
THERE = CACHE / "build/peers/starling"
SAMPLES = 300_000
PATIENCE = 180  # seconds; only a failing test waits this long

RUN = f"""[run]
name = "versions"
samples = {SAMPLES}
[model]
preset = "mlp"
"""


def build_last_release():
    source = CACHE / "source"
    if not source.exists():
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--detach", source, LAST_RELEASE], cwd=ROOT,
                       check=True)
    if not (CACHE / "build/build.ninja").exists():
        subprocess.run(["meson", "setup", CACHE / "build", "--native-file",
                        "tools/presets/release.ini", "-Dcuda=disabled"], cwd=source, check=True)
    subprocess.run(["ninja", "-C", CACHE / "build", "--quiet", "peers/starling"], check=True)


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


def is_open(address):
    host, port = address.split(":")
    with socket.socket() as one:
        return one.connect_ex((host, int(port))) == 0


def wait_for(condition):
    ends = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < ends:
        time.sleep(0.1)


class Versions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_file = self.folder / "run.toml"
        self.run_file.write_text(RUN)

    def up(self, program, name, *arguments):
        return [program, "up", self.run_file, "--name", name, "--dir", self.folder / name,
                *map(str, arguments)]

    @contextlib.contextmanager
    def peer(self, program, name, *arguments):
        peer = subprocess.Popen(self.up(program, name, *arguments), stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        try:
            yield peer
        finally:
            peer.kill()
            peer.wait()

    def refusal(self, resident, visitor):
        """The output of a peer that joins one of another version; it ends without training."""
        address = free_address()
        with self.peer(resident, "resident", "--listen", address, "--set", "run.samples=100000000"):
            wait_for(lambda: is_open(address))
            visited = subprocess.run(
                self.up(visitor, "visitor", "--join", address, "--require-peers"),
                capture_output=True, text=True, timeout=PATIENCE)
        self.assertNotEqual(visited.returncode, 0, visited.stderr)
        return visited.stderr

    def test_a_peer_of_this_version_says_why_it_does_not_join_the_last_release(self):
        said = self.refusal(THERE, HERE)
        lines = [line for line in said.splitlines() if "version" in line]
        self.assertEqual(len(lines), 1, said)

    def test_a_peer_of_the_last_release_says_why_it_does_not_join_this_version(self):
        said = self.refusal(HERE, THERE)
        lines = [line for line in said.splitlines() if "version" in line]
        self.assertEqual(len(lines), 1, said)

    def test_a_checkpoint_of_the_last_release_is_evaluated_and_trained_on(self):
        checkpoints = self.folder / "peer/checkpoints"
        with self.peer(THERE, "peer", "--set", "checkpoint.every=1") as peer:
            wait_for(lambda: list(checkpoints.glob("step-*/state.json")))
            peer.send_signal(signal.SIGINT)  # it saves, and leaves
            self.assertEqual(peer.wait(PATIENCE), 0)
        left = json.loads((self.folder / "peer/summary.json").read_text())
        before, after = (json.loads(subprocess.run(
            [program, "eval", self.folder / "peer", "--json"], capture_output=True, text=True,
            check=True, timeout=PATIENCE).stdout) for program in (THERE, HERE))
        self.assertEqual(after["accuracy"], before["accuracy"])
        further = subprocess.run(self.up(HERE, "peer"), capture_output=True, text=True,
                                 timeout=PATIENCE)
        self.assertEqual(further.returncode, 0, further.stderr)
        ended = json.loads((self.folder / "peer/summary.json").read_text())
        self.assertGreater(left["samples"], 0)
        self.assertLess(left["samples"], SAMPLES)
        self.assertGreaterEqual(ended["samples"], SAMPLES)


if __name__ == "__main__":
    build_last_release()
    sys.exit(runner.run())
