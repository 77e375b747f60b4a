"""What a run of the simulator found: for tools/sim-bugs and tests/sim."""
import re
import signal

# An invariant broke, an assertion did, or an expectation was not met.
SIGNS = (r"^broken at ", r"internal error", r"broke an assertion", r"^\w+ +FAILED: ")
FAILED = 1


def finding(result):
    """The first line in which a finished process says what it found; None where it found nothing.
    ValueError where it ended as neither a run that passed nor one that failed does."""
    if result.returncode == 0:
        return None
    if result.returncode in (FAILED, -signal.SIGABRT):
        lines = result.stderr.splitlines()
        for sign in SIGNS:
            for line in lines:
                if re.search(sign, line):
                    return line.strip()
    raise ValueError(f"exit status {result.returncode}, and nothing was found:\n{result.stderr}")
