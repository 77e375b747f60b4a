#!/usr/bin/python3
"""How the scenarios' laboratory judges the peers' views of each other. The last line is
"N passed, N failed, N skipped"."""

import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import runner  # noqa: E402
from runner import ROOT  # noqa: E402
sys.path.insert(0, str(ROOT / "scenarios"))
from lab.verdicts import Verdicts, is_to_notice  # noqa: E402


# How both worlds judge: the simulator's tests read it, too.
JUDGED = json.loads((ROOT / "tests/unit/sim/judged.json").read_text())


class Truth:
    """The truth: since when peers run and paths are clear."""

    def __init__(self, count):
        self.running = {n: 0.0 for n in range(count)}
        self.clear = {}

    def running_since(self, number):
        return self.running[number]

    def clear_since(self, a, b):
        return self.clear.get((a, b), 0.0)

    def all_running(self):
        return {n for n, since in self.running.items() if since is not None}


def view(alive, dead=(), left=()):
    return {**{n: "alive" for n in alive}, **{n: "dead" for n in dead}, **{n: "left" for n in left}}


class VerdictsAreJudged(unittest.TestCase):
    def setUp(self):
        self.truth = Truth(3)
        self.verdicts = Verdicts(self.truth, last_fault=50.0)
        for n in range(3):
            self.verdicts.saw(n, view([0, 1, 2]), 9.0)

    def kill(self, number, now):
        self.truth.running[number] = None
        self.verdicts.forget(number)
        self.verdicts.died(number, now, [n for n in range(3) if n != number])

    def test_each_observer_of_a_death_is_a_detection(self):
        self.kill(2, 10.0)
        self.verdicts.saw(0, view([0, 1], dead=[2]), 13.0)
        self.verdicts.saw(1, view([0, 1], dead=[2]), 14.5)
        self.assertEqual([round(d[0], 3) for d in self.verdicts.detections], [3.0, 4.5])
        self.assertEqual(self.verdicts.false, {})

    def test_who_did_not_notice_counts_with_the_time_there_was(self):
        self.kill(2, 10.0)
        self.verdicts.saw(0, view([0, 1], dead=[2]), 13.0)
        self.verdicts.came_back(2, 40.0)
        self.assertEqual(self.verdicts.detections[-1], (30.0, 2, 1, False))

    def test_an_unnoticed_death_counts_where_the_simulator_says(self):
        for case in JUDGED["unnoticed"]:
            for comes_back in (True, False):
                self.setUp()
                self.kill(2, 10.0)
                self.verdicts.saw(1, view([0, 1], dead=[2]), 10.0)
                before = len(self.verdicts.detections)
                if comes_back:
                    self.verdicts.came_back(2, 10.0 + case["after"])
                else:
                    self.verdicts.finish(10.0 + case["after"])
                self.assertEqual(len(self.verdicts.detections) - before, case["counts"], case)

    def test_who_is_to_notice_a_death_behind_a_cut_is_what_the_simulator_says(self):
        for case in JUDGED["deaths"]:
            self.assertEqual([n for n in range(4) if n != case["victim"]
                              and is_to_notice(n, case["victim"], case["faults"])],
                             case["observers"], case)

    def test_holding_a_reachable_peer_dead_is_false_once_a_fault(self):
        self.verdicts.saw(0, view([0, 2], dead=[1]), 20.0)
        self.verdicts.saw(2, view([0, 2], dead=[1]), 21.0)
        self.assertEqual(len(self.verdicts.false), 1)
        self.verdicts.saw(0, view([0, 1, 2]), 22.0)
        self.verdicts.fault_happened()
        self.verdicts.saw(0, view([0, 2], dead=[1]), 30.0)
        self.assertEqual(len(self.verdicts.false), 2)

    def test_a_peer_behind_a_cut_is_rightly_held_dead(self):
        self.truth.clear[1, 0] = None
        self.verdicts.saw(0, view([0, 2], dead=[1]), 20.0)
        self.truth.clear[1, 0] = 21.0
        self.verdicts.saw(2, view([0, 2], dead=[1]), 30.0)  # no path of 2 was cut
        self.assertEqual([victim for victim, _ in self.verdicts.false], [1])
        self.verdicts.false.clear()
        self.verdicts.saw(0, view([0, 1, 2]), 22.0)
        self.verdicts.fault_happened()
        self.verdicts.saw(0, view([0, 2], dead=[1]), 23.0)  # decided before the heal
        self.assertEqual(self.verdicts.false, {})

    def test_a_goodbye_is_no_death(self):
        self.truth.running[2] = None
        self.verdicts.saw(0, view([0, 1], left=[2]), 20.0)
        self.assertEqual(self.verdicts.false, {})

    def test_who_hears_a_goodbye_before_the_process_has_ended_is_right(self):
        self.verdicts.saw(0, view([0, 1], left=[2]), 20.0)
        self.verdicts.said_goodbye(1, 20.1)
        self.assertEqual([victim for victim, _ in self.verdicts.false], [2])
        self.verdicts.said_goodbye(2, 20.2)
        self.assertEqual(self.verdicts.false, {})

    def test_who_is_held_gone_is_what_the_simulator_says(self):
        for case in JUDGED["held"]:
            self.setUp()
            self.verdicts.saw(0, {0: "alive", 1: case["state"], 2: "alive"}, 20.0)
            self.assertEqual(bool(self.verdicts.false), case["false"], case)

    def test_one_view_has_to_last(self):
        for n in range(3):
            self.verdicts.saw(n, view([0, 1, 2]), 51.0)
        self.verdicts.saw(1, view([0, 1], dead=[2]), 52.0)
        self.verdicts.saw(1, view([0, 1, 2]), 60.0)
        self.verdicts.saw(0, view([0, 1, 2]), 64.0)
        self.assertEqual(self.verdicts.one_view_after(), 10.0)

    def test_one_view_is_of_those_that_run(self):
        self.kill(2, 10.0)
        for now in (51.0, 55.0):
            self.verdicts.saw(0, view([0, 1], dead=[2]), now)
            self.verdicts.saw(1, view([0, 1, 2]), now)
        self.verdicts.finish(56.0)
        self.assertIsNone(self.verdicts.one_view_after())

    def test_changes_of_mind_are_counted_by_the_minute(self):
        for i in range(4):
            state = view([0, 1], dead=[2]) if i % 2 == 0 else view([0, 1, 2])
            self.verdicts.saw(0, state, 10.0 + 25 * i)
        self.assertEqual(self.verdicts.verdicts_per_minute(), 3)

    def test_changes_a_minute_apart_are_not_of_one_minute_though_the_first_was_seen_late(self):
        self.verdicts.saw(0, view([0, 1], dead=[2]), 10.3)
        self.verdicts.saw(0, view([0, 1, 2]), 70.0)
        self.assertEqual(self.verdicts.verdicts_per_minute(), 1)


if __name__ == "__main__":
    sys.exit(runner.run())
