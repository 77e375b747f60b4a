"""What peers say of themselves while they run, for the report."""

from typing import NamedTuple

ROWS_EVERY = 0.5


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


def add_row(rows, status, now):
    """Adds to a peer's Rows what it says, if it has not just said the like."""
    phase = status.get("phase")
    if not rows or now - rows[-1].seconds >= ROWS_EVERY or rows[-1].phase != phase:
        rows.append(Row(round(now, 2), phase, status["steps"], status["samples"],
                        status["swarm_samples"], status["accuracy"], status["loss"],
                        status["drift"], status["links"], status["bytes_sent"]["total"]))
