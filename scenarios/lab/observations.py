"""The log of a run's observations, which `starling sim --judge` judges; scenarios/README.md has its
format."""

import json

FORMAT = 1


class Observations:
    """Writes to `file`, a text file; `now` gives the time of a line, in seconds since the start."""

    def __init__(self, file, now):
        self.file, self.now = file, now

    def begin(self, plan, undisturbed):
        scenario = plan["scenario"]
        with open(scenario["file"], encoding="utf-8") as text:
            self._write({"kind": "run", "format": FORMAT, "file": scenario["file"],
                         "scenario": text.read(), "seed": scenario["seed"],
                         "undisturbed": undisturbed})

    def add(self, kind, **values):
        self._write({"kind": kind, "at": round(self.now(), 4), **values})

    def status(self, number, status):
        self.add("status", peer=number, membership_bytes=status["bytes_sent"]["membership"],
                 **{key: status[key] for key in ("phase", "steps", "samples", "drift", "links")})

    def members(self, number, view):
        """`view`: {number: "alive", "dead" or "left"}."""
        self.add("members", peer=number,
                 **{state: sorted(n for n, held in view.items() if held == state)
                    for state in ("alive", "dead", "left")})

    def links(self, number, paths):
        """`paths`: {number: "direct" or "circuit"}."""
        self.add("links", peer=number,
                 **{path: sorted(n for n, taken in paths.items() if taken == path)
                    for path in ("direct", "circuit")})

    def summary(self, number, summary, replica):
        """`replica`: the file of its last checkpoint's parameters, from the log's folder; or None."""
        self.add("summary", peer=number, done=summary.get("end") == "done",
                 accuracy=summary.get("accuracy"), loss=summary.get("loss"),
                 sent_bytes=summary.get("bytes_sent", {}).get("total", 0), replica=replica or "")

    def _write(self, line):
        self.file.write(json.dumps(line, separators=(",", ":")) + "\n")
