"""Shared by the tests written in Python: where things are, and how they run and end."""
import os
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("STARLING_BUILD", ROOT / "build"))
TORCH_PYTHON = ROOT / ".cache/torch/bin/python"  # tools/torch makes it


def run(why_not="", left_out=(), argv=None):
    """Runs the tests of the main module; the last line is "N passed, N failed, N skipped".

    `why_not` says why some are skipped, if some are; `left_out` are those that passed without a
    part of what they do; `argv` are the command line's words, where some are not for unittest.
    Returns the exit status: 77 if all were skipped.
    """
    result = unittest.main(module="__main__", argv=argv, exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    if skipped or left_out:
        print(f"skipped: {why_not}")
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, "
          f"{skipped + len(left_out)} skipped")
    return 1 if failed else 77 if skipped == result.testsRun else 0
