"""Runs of `starling swarm`, and their figures for tables and plots."""

import json
import math
import pathlib
import signal
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
_running = []


def overrides(settings):
    """The options that replace keys of a run file."""
    return [word for setting in settings for word in ("--set", setting)]


def take_signals():
    """SIGINT and SIGTERM end the program that `complete` runs, and then this one: the folders of that
    program are removed when it has ended."""
    def stop(number, _):
        for process in _running:
            process.terminate()
        sys.exit(128 + number)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def complete(words, **pipes):
    """subprocess.run for a program with its own peers, which it ends if it is told to end, but not if
    it is killed. From any thread."""
    process = subprocess.Popen(words, text=True, **pipes)
    _running.append(process)
    try:
        output, errors = process.communicate()
    except SystemExit:
        process.communicate()
        raise
    finally:
        _running.remove(process)
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def run(program, run_file, peers, settings, seed, folder):
    """The output of `starling swarm --json`, as text; ends the program if a peer does not reach the
    end of the run."""
    words = [program, "swarm", run_file, "-n", peers, "--json", "--anew", "--dir", folder,
             *overrides([f"run.seed={seed}", *settings])]
    words = [str(word) for word in words]
    swarm = complete(words, stdout=subprocess.PIPE)
    if swarm.returncode != 0:
        sys.exit(f"{sys.argv[0]}: `{' '.join(words)}` ended with {swarm.returncode}")
    ends = [peer["end"] for peer in json.loads(swarm.stdout)["peers"]]
    if ends != ["done"] * peers:
        sys.exit(f"{sys.argv[0]}: `{' '.join(words)}`: of {peers} peers there are summaries that say "
                 f"{ends}")
    return swarm.stdout


def figures(summary):
    """Lists have one value per peer; `bits` is the loss in bits a label."""
    sent = [peer["bytes_sent"]["total"] for peer in summary["peers"]]
    return {
        "accuracy": [peer["accuracy"] for peer in summary["peers"]],
        "bits": [peer["loss"] / math.log(2) for peer in summary["peers"]],
        "sent": sent,
        "sent_mean": statistics.mean(sent),
        "distance": summary["distance"],
        "samples": summary["samples"],
        "seconds": summary["seconds"],
        "rss_max": max(peer["rss_max_bytes"] for peer in summary["peers"]),
        "seconds_to_first_step": [peer["seconds_to_first_step"] for peer in summary["peers"]],
    }


def run_scenario(file, settings, seed, build, folder):
    """A scenario with real peers: how scenarios/run ended, and its result, if any."""
    words = [ROOT / "scenarios/run", file, "--seed", seed, "--build", build, "--dir", folder,
             *overrides([*settings, f"run.seed={seed}"])]
    done = complete([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    record = pathlib.Path(folder) / "run.json"
    return done, json.loads(record.read_text()) if record.exists() else None


def mean_and_error(values):
    """The mean, and its standard error; there is none for one value."""
    values = list(values)
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0
    return statistics.mean(values), error
