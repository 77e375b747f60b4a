"""The findings of a run of the simulator: for tools/sim-bugs and tests/sim."""
import re
import signal

# An invariant or an assertion failed, or an expectation was not met.
SIGNS = (r"^broken at ", r"internal error", r"broke an assertion", r"^\w+ +FAILED: ")
FAILED = 1


def finding(result):
    """The first line with a finding of a finished process; None if it found nothing.
    ValueError if it ended neither like a run that passed nor like one that failed."""
    if result.returncode == 0:
        return None
    if result.returncode in (FAILED, -signal.SIGABRT):
        lines = result.stderr.splitlines()
        for sign in SIGNS:
            for line in lines:
                if re.search(sign, line):
                    return line.strip()
    raise ValueError(f"exit status {result.returncode}, and nothing was found:\n{result.stderr}")
