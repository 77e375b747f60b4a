"""Peers as processes, one per network namespace, and the actions on them."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

from .machine import Throttle, cpu_seconds, inside
from .network import address_of

PORT = 7000
DISK_MEGABYTES = 64
# The processor time that a peer uses is measured over at least this many seconds of training:
# before that, it loads and waits.
USE_WINDOW = 3.0


def running_in(folder):
    """(pid, (host, port) of its control port) of the last peer in that folder; None until it has
    one."""
    try:
        known = json.loads((folder / "peer.json").read_text())
    except (OSError, ValueError):
        return None
    host, _, port = known["control"].rpartition(":")
    return known["pid"], (host, int(port))


def control_of(folder, pid):
    """(host, port) of the control port of the peer that runs there as `pid`, as in running_in."""
    known = running_in(folder)
    return known[1] if known and known[0] == pid else None


def summary_of(folder):
    """The summary that a peer left there at its end; None if it did not get that far."""
    try:
        return json.loads((folder / "summary.json").read_text())
    except (OSError, ValueError):
        return None


class Peer:
    """One peer of the plan: the same folder and namespace through all its lives.

    `state`: "absent" (not started yet), "running", "stopped", "dead" (killed), or "ended" (by
    itself: its run was over, or it left).
    """

    def __init__(self, laboratory, planned, namespace, folder):
        self.laboratory = laboratory
        self.number = planned["number"]
        self.name = planned["name"]
        self.speed = planned["speed"]
        self.relay = planned["relay"]  # it has no replica
        self.attack = planned.get("attack")  # of a hostile peer, as the plan has it
        self.nat = planned.get("nat")  # the device in front of it, as the plan has it
        self.namespace = namespace
        self.folder = folder
        self.state = "absent"
        self.started = None  # when its process started
        self.since = None  # when it was started or continued
        self.leaving = False
        self.join = []  # addresses
        self.moves = 0
        self.process = None
        self.throttle = None
        self.slowed = None  # (borrowed, share) while a throttle is in force
        self.used = None  # processor time a second, when it last trained at full speed
        self.use_from = None  # (when, processor time) at which it began to train like that
        self.waits_for_room = False  # starts when its disk is no longer full
        self.filler = None

    @property
    def address(self):
        return address_of(self.number, self.moves)

    def hosts(self):
        """The addresses at which others are told to dial it."""
        network = self.laboratory.network
        return network.hosts(self.number) if network is not None else [self.address]

    def move(self, switch):
        """Its machine, or its router, gets another address."""
        network = self.laboratory.network
        if network is not None:
            return network.change_address(switch, self.number)
        before = self.address
        self.moves += 1
        switch.move(self.number, before, self.address)

    def command(self):
        network = self.laboratory.network
        host = "0.0.0.0" if self.laboratory.moves_running else self.address
        proxy = None
        if network is not None:
            host, proxy = network.listens(self.number), network.proxy(self.number)
        what = ["relay"] if self.relay else ["up", str(self.laboratory.run_file)]
        words = [str(self.laboratory.program_of(self)), *what, "--name", self.name, "--dir",
                 str(self.folder), "--listen", f"{host}:{PORT}"]
        if proxy is not None:
            words += ["--proxy", proxy]
        for setting in [] if self.relay else self.laboratory.settings(self.speed):
            words += ["--set", setting]
        for other in self.join:
            words += ["--join", f"{other}:{PORT}"]
        if self.attack is not None:
            words += self._attack()
        return ["setpriv", "--pdeathsig", "KILL", *words]

    def _attack(self):
        """How it attacks, as options of the test program."""
        kind, factor, begins = (self.attack[key] for key in ("kind", "factor", "from"))
        if begins != "settling":
            begins = max(0.0, begins - self.laboratory.now())
        return ["--attack", kind if factor is None else f"{kind}:{factor!r}",
                "--attack-from", str(begins)]

    def start(self, now):
        self.process = self._spawn()
        self.state, self.leaving = "running", False
        self.started = self.since = now
        self.waits_for_room = False
        self.use_from = None
        self._throttle()

    def _spawn(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "peer.json").unlink(missing_ok=True)
        if self.disk_is_full:
            self.fill_disk()  # with the room that this freed
        log = self.laboratory.folder / f"{self.name}.out"
        with open(log, "ab") as output, inside(self.namespace):
            return subprocess.Popen(self.command(), stdout=output, stderr=output,
                                    stdin=subprocess.DEVNULL, start_new_session=True)

    @property
    def alive(self):
        return self.state in ("running", "stopped")

    def reap(self):
        """Whether the process has ended by itself since the last call."""
        if not self.alive or self.process.poll() is None:
            return False
        self._end_throttle()
        self.state = "ended"
        return True

    def signal(self, number):
        if self.alive:
            self.process.send_signal(number)

    def kill(self):
        if not self.alive:
            return
        self._end_throttle()
        self.process.kill()
        self.process.wait()
        self.state = "dead"

    def stop(self):
        if self.state == "running":
            self.signal(signal.SIGSTOP)
            self.state = "stopped"
            self.use_from = None

    def go_on(self, now):
        if self.state == "stopped":
            self.signal(signal.SIGCONT)
            self.state, self.since = "running", now

    def slow_down(self, borrowed, share):
        """Leaves it this share of the processor time that it uses otherwise, in its next lives too,
        until full_speed. Its use must have been measured: until it has trained for USE_WINDOW, it
        continues unchanged."""
        self._end_throttle()
        self.slowed = borrowed, share
        self._throttle()

    def full_speed(self):
        self._end_throttle()
        self.slowed = None

    def trains(self, now):
        """It was heard to train, at full speed or slowed down."""
        if self.state != "running" or self.throttle is not None:
            return
        spent = cpu_seconds(self.process.pid)
        if spent is None:
            return
        if self.use_from is None:
            self.use_from = now, spent
        since, before = self.use_from
        if now - since < USE_WINDOW or spent <= before:
            return
        self.used = (spent - before) / (now - since)
        self.use_from = now, spent
        if self.slowed is not None:
            self._throttle()

    def _throttle(self):
        if self.alive and self.slowed is not None and self.used is not None:
            borrowed, share = self.slowed
            self.throttle = Throttle(borrowed, self.name, self.process.pid, share * self.used)
            self.use_from = None

    def _end_throttle(self):
        if self.throttle is None:
            return
        self.throttle.end()
        self.throttle = None
        if self.state == "stopped":  # at the end of the throttle, it continued
            self.signal(signal.SIGSTOP)

    def tick(self, now):
        """Seconds until the next call is needed; None: none is needed."""
        # A stopped peer must not continue in the throttle's turns.
        if self.throttle is None or self.state != "running":
            return None
        return self.throttle.tick(now)

    @property
    def disk_is_full(self):
        return self.filler is not None

    def fill_disk(self):
        """Its folder, a small file system of its own, cannot be written any more."""
        self.filler = self.folder / ".filler"
        with open(self.filler, "ab", buffering=0) as file:
            block = bytes(1 << 16)
            try:
                while True:
                    file.write(block)
            except OSError:
                pass

    def free_disk(self):
        if self.filler is not None:
            self.filler.unlink(missing_ok=True)
            self.filler = None

    def change_disk(self, disk):
        """The folder as a restarted peer finds it: "kept", "lost", "torn" or "flipped"."""
        if disk == "lost":
            for entry in list(self.folder.iterdir()) if self.folder.exists() else []:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            if self.disk_is_full:  # the disk of its machine is still full
                self.fill_disk()
            return
        models = sorted(self.folder.glob("checkpoints/*/model.safetensors"),
                        key=lambda path: path.stat().st_mtime)
        if not models or disk == "kept":
            return
        if disk == "torn":
            os.truncate(models[-1], models[-1].stat().st_size // 2)
        else:
            with open(models[-1], "r+b") as file:
                at = models[-1].stat().st_size // 2
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1]))

    def control(self):
        return control_of(self.folder, self.process.pid)

    def summary(self):
        return summary_of(self.folder)

    def final_replica(self):
        """The path of its last checkpoint's parameters; None if there is none."""
        models = list(pathlib.Path(self.folder).glob("checkpoints/step-*/model.safetensors"))
        return max(models, key=lambda path: int(path.parent.name[5:]), default=None)
