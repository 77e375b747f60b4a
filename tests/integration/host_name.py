#!/usr/bin/python3
"""A host name of 64 characters, the longest that Linux has: UCX's library would abort every program
that loads it. Peers link and train over tcp, and `links` says why UCX is not used.

Skipped, with the reason, without root. STARLING_BUILD names the build folder (default: build).
The last line is "N passed, N failed, N skipped".
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

STARLING = BUILD / "peers/starling"
PATIENCE = 60


def named(length):
    """Words that run a command on a host with a name of this length."""
    return ["unshare", "-u", "sh", "-c", f'hostname {"h" * length} && exec "$@"', "sh"]


def why_not():
    if os.geteuid() != 0:
        return "another host name needs root: run this with sudo"
    if shutil.which("unshare") is None or shutil.which("hostname") is None:
        return "there is no unshare or hostname (Debian packages util-linux and hostname)"
    if subprocess.run([*named(64), "true"], capture_output=True).returncode != 0:
        return "another host name is not permitted here"
    return None


WHY_NOT = why_not()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class ALongHostName(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="starling-host-name-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def say(self, *words, length=64):
        return subprocess.run([*named(length), STARLING, *words], capture_output=True, text=True,
                              timeout=PATIENCE)

    def start(self, length, name, *options):
        with open(self.folder / f"{name}.out", "w") as output:
            process = subprocess.Popen(
                [*named(length), STARLING, "up", ROOT / "scenarios/runs/fashion-mlp.toml", "--name",
                 name, "--dir", self.folder / name, "--no-port-mapping", "--set",
                 "run.epochs=100000", "--set", "limits.steps_per_second=5", *options],
                stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, condition):
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            self.assertLess(time.monotonic(), end, "\n".join(
                f.read_text()[-2000:] for f in self.folder.glob("*.out")))
            time.sleep(0.1)
        return found

    def told(self, name):
        try:
            return json.loads((self.folder / name / "peer.json").read_text())
        except (OSError, ValueError):
            return None

    def trained_links(self, name, why):
        """The links that carried deltas, and do not use UCX for that reason."""
        done = self.say("links", "--peer", self.folder / name, "--json", length=10)
        links = json.loads(done.stdout) if done.returncode == 0 else []
        return [link for link in links if link["exchange"] > 0 and why in link["why_not_ucx"]]

    def check_link(self, lengths, why):
        """As the first of two peers on such hosts sees it."""
        first = self.start(lengths[0], "a")
        self.wait_for(lambda: self.told("a"))
        port = self.told("a")["address"].rsplit(":", 1)[1]
        second = self.start(lengths[1], "b", "--join", f"127.0.0.1:{port}")
        links = self.wait_for(lambda: self.trained_links("a", why))
        for process in (first, second):
            process.terminate()
            self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual([link["carrier"] for link in links], ["tcp"])

    def test_commands_work(self):
        for words in (["--version"], ["--help"], ["doctor", "--help"]):
            done = self.say(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.say("--version").stdout.startswith("starling "))

    def test_peers_train_over_tcp_and_say_why(self):
        self.check_link((64, 64), "a host whose name has more than 63 characters")

    def test_a_neighbour_says_that_it_is_the_other_end(self):
        self.check_link((10, 64), "at the other end: it cannot use UCX")


if __name__ == "__main__":
    sys.exit(runner.run(WHY_NOT))
