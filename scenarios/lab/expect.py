"""What a run comes to, measured against what the scenario expects."""

import array
import json
import math
import struct
import sys

from .verdicts import percentile

# Peers tell their drift one after the other: a mean over all of them takes so long.
DRIFT_WINDOW = 5.0


def read_replica(path):
    """All float32 tensors of a safetensors file, in order of their names."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    values = array.array("f")
    for name in sorted(name for name in header if name != "__metadata__"):
        begin, end = header[name]["data_offsets"]
        values.frombytes(data[8 + size + begin:8 + size + end])
    if sys.byteorder == "big":
        values.byteswap()
    return values


def distance(paths):
    """max |x_i - mean| / |mean| over replicas; None if there are fewer than two."""
    replicas = [read_replica(path) for path in paths]
    if len(replicas) < 2 or len({len(r) for r in replicas}) != 1:
        return None
    mean = [sum(values) / len(replicas) for values in zip(*replicas)]
    norm = math.sqrt(sum(m * m for m in mean))
    return max(math.sqrt(sum((x - m) ** 2 for x, m in zip(replica, mean)))
               for replica in replicas) / norm


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else None


def throughput(rows, allowed):
    """Samples of all peers from the first row of training to the last one, as part of what is
    allowed. `rows`: the Rows of each peer; `allowed`: its samples a second."""
    made = possible = 0
    for number, all_rows in rows.items():
        training = [row for row in all_rows if row.phase == "training" and row.steps > 0]
        if len(training) > 1:
            first, last = training[0], training[-1]
            made += last.samples - first.samples
            possible += (last.seconds - first.seconds) * allowed[number]
    return made / possible if possible > 0 else None


def drift_back(rows, first_fault, last_fault):
    """Seconds from the last fault until the mean drift over a few seconds is at most 1.1 times
    what it was before the first; None: never. `rows`: (when, drift) of all peers; a peer that never
    had a link has none."""
    before = mean([d for t, d in rows if first_fault - 2 * DRIFT_WINDOW <= t < first_fault])
    if before is None:
        return None
    after = sorted((t, d) for t, d in rows if t >= last_fault and d is not None)
    first, total = 0, 0.0
    for i, (t, d) in enumerate(after):
        total += d
        while after[first][0] < t - DRIFT_WINDOW:
            total -= after[first][1]
            first += 1
        if t - last_fault >= DRIFT_WINDOW and total / (i - first + 1) <= 1.1 * before:
            return t - DRIFT_WINDOW - last_fault
    return None


def is_least(name):
    """Whether the limit of an expectation is the least that is allowed, not the most."""
    return name.endswith("_min")


def evaluate(plan, measured):
    """The list for the report. `measured`: {name: value}, None where nothing was measured. Peers
    that end with an error are expected only where the scenario says so."""
    expected = list(plan["expect"])
    if measured.get("failed_max") and all(e["name"] != "failed_max" for e in expected):
        expected.append({"name": "failed_max", "limit": 0})
    results = []
    for expectation in expected:
        name, limit = expectation["name"], expectation["limit"]
        value = measured.get(name)
        if value is None:
            passed = False
        elif is_least(name):
            passed = value >= limit
        else:
            passed = value <= limit
        results.append({"name": name, "passed": passed,
                        "value": None if value is None or math.isnan(value) else round(value, 6),
                        "limit": limit})
    return results


def detection(verdicts, part):
    return percentile([seconds for seconds, _, _, _ in verdicts.detections], part)
