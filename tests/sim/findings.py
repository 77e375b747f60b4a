#!/usr/bin/python3
"""The findings of the simulator. The last line is "N passed, N failed, N
skipped"."""
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
sys.path.insert(0, str(runner.ROOT / "tools"))
from sim_findings import finding  # noqa: E402


def ended(status, said):
    return subprocess.CompletedProcess([], status, "", said)


class AFinding(unittest.TestCase):
    def test_is_what_broke_or_was_not_met(self):
        self.assertEqual(finding(ended(1, "accuracy_min  ok: 1, limit 1\nbroken at 3.1 s: x\n")),
                         "broken at 3.1 s: x")
        self.assertEqual(finding(ended(1, "false_deaths_max             FAILED: 2, limit 0\n")),
                         "false_deaths_max             FAILED: 2, limit 0")
        self.assertEqual(finding(ended(-6, "seed 4 broke an assertion; again, ...\n")),
                         "seed 4 broke an assertion; again, ...")

    def test_is_none_where_all_went_well(self):
        self.assertIsNone(finding(ended(0, "passed: 60 virtual seconds\n")))

    def test_is_not_that_nothing_ran(self):
        for status, said in ((2, "usage: starling-sim ...\n"), (3, "starling sim: no such file\n"),
                             (1, "starling sim: cannot write\n"), (-11, ""), (-9, ""), (-6, "")):
            with self.subTest(status=status), self.assertRaises(ValueError):
                finding(ended(status, said))


if __name__ == "__main__":
    sys.exit(runner.run())
