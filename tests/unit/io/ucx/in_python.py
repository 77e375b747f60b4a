#!/usr/bin/python3
"""A fabric inside a Python process: there, too, only members reach UCX's ports.

STARLING_LIBRARY names the library with the fabric. The last line is
"N passed, N failed, N skipped".
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import runner  # noqa: E402

LIBRARY = os.environ.get("STARLING_LIBRARY", "")


def ends_in_a_process_of_its_own(code):
    """The result of starling_test_fabric there, after `code`."""
    program = f"import ctypes\n{code}\nexit(ctypes.CDLL({LIBRARY!r}).starling_test_fabric())"
    return subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode


class InPython(unittest.TestCase):
    def test_only_members_reach_a_port(self):
        self.assertEqual(ends_in_a_process_of_its_own(""), 0)

    def test_also_where_somebody_else_has_loaded_ucx_before(self):
        before = "ctypes.CDLL('libucp.so.0', mode=ctypes.RTLD_GLOBAL)"
        self.assertEqual(ends_in_a_process_of_its_own(before), 0)

    def test_signals_stay_with_the_program(self):
        called = []
        before = signal.signal(signal.SIGHUP, lambda number, _: called.append(number))
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        self.assertEqual(ctypes.CDLL(LIBRARY).starling_test_fabric(), 0)
        os.kill(os.getpid(), signal.SIGHUP)
        self.assertEqual(called, [signal.SIGHUP])


if __name__ == "__main__":
    sys.exit(runner.run())
