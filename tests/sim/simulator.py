#!/usr/bin/python3
"""Runs the simulator as a test: random seeds, some of them also with a hostile peer, regressions,
canaries. Ends with "N passed, N failed": each seed, scenario and canary counts as one, and so does
the test that ALL_TAKEN seeds take each rare branch.

    simulator.py PROGRAM REGRESSIONS [SEEDS]

SEEDS: "A..B", shared among the processors; by default 1..1000.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from sim_findings import finding  # noqa: E402

# Scenarios that must pass, and fail with this bug: a simulator that cannot fail shows nothing.
CANARIES = {"canary.toml": "mirror_of_theirs_forgotten", "canary_end.toml": "save_once"}
ALL_TAKEN = 1000  # this many seeds take each rare branch
HOSTILE_MOST = 200  # seeds that run also with a hostile peer: the first ones
SLICE = 50  # seeds of one process: one that breaks an assertion takes its slice with it


def slices(first, last):
    return [(a, min(a + SLICE - 1, last)) for a in range(first, last + 1, SLICE)]


def run_seeds(program, scenario, first, last):
    """Runs the seeds in one process per processor; returns (passed, failed, how often each rare
    branch was taken)."""
    passed = failed = 0
    taken = collections.Counter()
    waiting, running = slices(first, last), {}
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            a, b = waiting.pop(0)
            out = tempfile.TemporaryFile("w+")
            running[(a, b)] = (subprocess.Popen([program, scenario, "--seeds", f"{a}..{b}"],
                                                stdout=out), out)
        key = next(iter(running))
        process, out = running.pop(key)
        process.wait()
        out.seek(0)
        try:
            result = json.loads(out.read())
        except json.JSONDecodeError:
            result = {"passed": 0, "failed": key[1] - key[0] + 1, "rare_taken": {}}
            print(f"{scenario}: seeds {key[0]}..{key[1]} ended with exit status {process.returncode}")
        passed += result["passed"]
        failed += result["failed"]
        for name, times in result["rare_taken"].items():
            taken[name] += times
    return passed, failed, taken


def run_scenario(program, path, *options):
    """(whether it passes, its output)"""
    result = subprocess.run([program, str(path), *options], capture_output=True, text=True)
    return result.returncode == 0, result.stderr


def is_found(program, path, bug):
    """(whether the planted bug is found, and nothing else goes wrong; its output)"""
    result = subprocess.run([program, str(path), "--bug", bug], capture_output=True, text=True)
    try:
        return finding(result) is not None, result.stderr
    except ValueError as error:
        return False, str(error)


def main():
    program, folder = sys.argv[1:3]
    seeds = re.fullmatch(r"(\d+)\.\.(\d+)", sys.argv[3] if len(sys.argv) > 3 else "1..1000")
    if not seeds:
        sys.exit("simulator.py: seeds must be A..B")
    first, last = int(seeds[1]), int(seeds[2])
    passed, failed, taken = run_seeds(program, "random", first, last)
    if last - first + 1 >= ALL_TAKEN:
        never = [name for name, times in taken.items() if times == 0]
        good = bool(taken) and not never
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"rare branches that were never taken: {' '.join(never) or 'all'}")
    some = min(last, first + HOSTILE_MOST - 1)
    more_passed, more_failed, _ = run_seeds(program, "random-hostile", first, some)
    passed, failed = passed + more_passed, failed + more_failed
    regressions = sorted(Path(folder).glob("*.toml"))
    if not regressions:
        failed += 1
        print(f"{folder} has no scenario")
    for path in regressions:
        good, said = run_scenario(program, path)
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"{path}\n{said}")
    for name, bug in CANARIES.items():
        path = Path(__file__).with_name(name)
        found, said = is_found(program, path, bug)
        sound, why = run_scenario(program, path)
        canary = sound and found
        passed, failed = passed + canary, failed + (not canary)
        if not canary:
            print(f"{name} must pass, and fail with its planted bug\n{said}{why}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
