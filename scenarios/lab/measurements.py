"""What peers say of themselves while they run, and what is measured of it."""

from typing import NamedTuple

ROWS_EVERY = 0.5
# After the last start tables and links are filled for so long; what membership costs is measured
# after it, over so long at least.
JOIN_SECONDS = 30.0
RATE_SECONDS = 10.0


class Row(NamedTuple):
    """What a peer said at a time; its fields are the columns of the report's rows."""
    seconds: float
    phase: str
    steps: int
    samples: int
    swarm_samples: int
    accuracy: float | None
    loss: float | None
    drift: float | None
    links: int
    bytes_sent: int


class Measurements:
    """Peers are numbers."""

    def __init__(self, last_start):
        self.last_start = last_start
        self.rows = {}  # peer: its Rows
        self.gaps = {}  # peer: longest
        self.membership_bytes = {}  # peer: a second since its tables were filled
        self.last_step = {}  # peer: (when, steps)
        self.quiet = {}  # peer: when its tables were filled, bytes that it had sent then

    def heard(self, number, status, running_since, now):
        self._count_gap(number, status, now)
        sent = status["bytes_sent"]
        if now >= max(self.last_start, running_since) + JOIN_SECONDS:
            since, before = self.quiet.setdefault(number, (now, sent["membership"]))
            if now >= since + RATE_SECONDS:
                self.membership_bytes[number] = (sent["membership"] - before) / (now - since)
        rows = self.rows.setdefault(number, [])
        phase = status.get("phase")
        if not rows or now - rows[-1].seconds >= ROWS_EVERY or rows[-1].phase != phase:
            rows.append(Row(round(now, 2), phase, status["steps"], status["samples"],
                            status["swarm_samples"], status["accuracy"], status["loss"],
                            status["drift"], status["links"], sent["total"]))

    def _count_gap(self, number, status, now):
        training = status.get("phase") == "training"
        _, steps = self.last_step.get(number, (None, 0))
        if not training or status["steps"] > steps:
            self.end_gap(number, now)
        if training and status["steps"] > steps:
            self.last_step[number] = (now, status["steps"])

    def end_gap(self, number, now):
        """By another step, or by what ends the peer's steps."""
        when, _ = self.last_step.pop(number, (None, 0))
        if when is not None:
            self.gaps[number] = max(self.gaps.get(number, 0.0), now - when)

    def end_gaps(self, now):
        for number in list(self.last_step):
            self.end_gap(number, now)

    def forget(self, number):
        """A peer starts again: its former life ends no gap and no rate."""
        for known in (self.last_step, self.quiet):
            known.pop(number, None)
