#!/usr/bin/python3
"""Errors of the simulator's command line, and the scenarios that it writes. The last line is
"N passed, N failed, N skipped".

    command_line.py PROGRAM
"""
import json
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
from runner import ROOT  # noqa: E402

PROGRAM = ""


def run(*words, **options):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, **options)


class TheCommandLine(unittest.TestCase):
    def test_refuses_what_would_be_ignored_or_mixed(self):
        for words in (("--seeds", "1..2", "--plan"), ("--seeds", "1..2", "--seed", "3"),
                      ("--seeds", "1..2", "--trace"), ("--trace", "--json", "-"),
                      ("--plan", "--json", "-"), ("--plan", "--trace"), ("--regressions", ".")):
            with self.subTest(words=words):
                result = run("random", *words)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
                for word in words:
                    if word.startswith("--"):
                        self.assertIn(word, result.stderr)

    def test_ends_with_the_last_seed_that_there_is(self):
        last = 2**64 - 1
        result = run("random", "--seeds", f"{last - 1}..{last}", timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('"passed": 2', result.stdout)

    def test_refuses_what_is_no_number(self):
        for words in (("--seed", "1x"), ("--seed", "-1"), ("--seed", str(2**64)),
                      ("--seeds", "1"), ("--seeds", "..2"), ("--seeds", "1.."), ("--seeds", "2..1"),
                      ("--seeds", "1..2x")):
            with self.subTest(words=words):
                self.assertEqual(run("random", *words, timeout=120).returncode, 2)

    def test_resolves_every_scenario_that_there_is(self):
        paths = [path for folder in ("scenarios", "tests/sim", "tests/integration", "tools/bench")
                 for path in sorted((ROOT / folder).rglob("*.toml"))
                 if "[scenario]" in path.read_text()]
        self.assertGreater(len(paths), 40)
        for path in paths:
            with self.subTest(path=path):
                result = run(path, "--plan")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertTrue(json.loads(result.stdout)["timeline"])

    def test_sets_keys_of_the_run_file_behind_those_of_the_scenario(self):
        scenario = ROOT / "scenarios/faults/skew_lossy.toml"
        keys = ("--set", "data.alpha=0.1", "--set", "exchange.every=2")
        result = run(scenario, "--plan", *keys)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)["run"]["set"]
        self.assertIn("data.alpha=0.01", found)
        self.assertEqual(found[-2:], ["data.alpha=0.1", "exchange.every=2"])
        for words in ((), ("--plan",)):
            result = run(scenario, "--set", "data.alpa=0.1", *words)
            self.assertEqual(result.returncode, 3)
            self.assertEqual(result.stdout, "")
            self.assertIn("data.alpa: unknown key; did you mean 'alpha'?", result.stderr)

    def test_says_how_to_run_a_failing_seed_again(self):
        bug = ("--bug", "mirror_of_theirs_forgotten")
        result = run(ROOT / "tests/sim/canary.toml", *bug, "--set", "exchange.mode='tracked'")
        self.assertEqual(result.returncode, 1, result.stderr)
        again = shlex.split(re.search(r"again, with what happened: (.*)", result.stderr)[1])
        self.assertEqual(again[-2:], ["--set", "exchange.mode='tracked'"])
        result = run(*again[1:])
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("broken at", result.stderr)

    def test_writes_a_failing_scenario_with_what_makes_it_fail(self):
        text = ('[scenario]\nname = "missed"\nduration = 60\n[peers]\ncount = 5\nvia = "all"\n'
                '[sim]\nproblem = "none"\nstep_ms = 1000\n'
                '[[timeline]]\nkind = "stop"\nat = 15\nfor = 3\npeers = [1]\n'
                '[[timeline]]\nkind = "kill"\nat = 25\npeers = [3]\n'
                '[expect]\ndetection_p50_s = 0.001\n')
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "missed.toml"
            path.write_text(text)
            result = run(path, "--seeds", "1..1", "--regressions", folder)
            self.assertEqual(result.returncode, 1, result.stderr)
            written = Path(re.search(r"written: (.*)", result.stderr)[1]).read_text()
        # Without its kill nothing would be measured, which fails as well.
        self.assertIn('"kill"', written)
        self.assertNotIn('"stop"', written)

    def test_writes_a_failing_scenario_that_can_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            for name in ("scenarios", "runs", "failing"):
                (place / name).mkdir()
            text = (ROOT / "tests/sim/canary.toml").read_text()
            text = text.replace('[sim]', '[run]\nfile = "../runs/run.toml"\n\n[sim]')
            (place / "scenarios/canary.toml").write_text(text)
            (place / "runs/run.toml").write_text(
                '[run]\nname = "x"\nsamples = 100000\n[model]\ninput = [16]\n'
                'layers = [{ type = "linear", out = 4 }]\n')
            result = run("scenarios/canary.toml", "--seeds", "1..1", "--regressions", "failing",
                         "--bug", "mirror_of_theirs_forgotten", cwd=place)
            self.assertEqual(result.returncode, 1, result.stderr)
            written = re.search(r"written: (.*)", result.stderr)[1]
            again = run(written, "--bug", "mirror_of_theirs_forgotten", cwd=place)
            self.assertEqual(again.returncode, 1, again.stderr)


if __name__ == "__main__":
    PROGRAM = str(Path(sys.argv[1]).resolve())
    sys.exit(runner.run(argv=sys.argv[:1]))
