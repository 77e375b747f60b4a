"""The reports of peers on themselves while they run, for the report of the run."""

from typing import NamedTuple

ROWS_EVERY = 0.5


class Row(NamedTuple):
    """A peer's report at a time; its fields are the columns of the report's rows."""
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


def add_row(rows, status, now):
    """Adds a peer's report to its Rows, unless it has just reported much the same."""
    phase = status.get("phase")
    if not rows or now - rows[-1].seconds >= ROWS_EVERY or rows[-1].phase != phase:
        rows.append(Row(round(now, 2), phase, status["steps"], status["samples"],
                        status["swarm_samples"], status["accuracy"], status["loss"],
                        status["drift"], status["links"], status["bytes_sent"]["total"]))
