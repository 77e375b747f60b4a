"""The head of every result, with the commit and the machine, and the place where it is kept."""

import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tools" / "bench" / "results"
MEASURED = (".", ":!tools/bench/results", ":!*.md")  # git's paths of what results depend on


def device():
    """The processor, with its family and model, since clouds use one name for many kinds."""
    said = {}
    for line in open("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        said.setdefault(key.strip(), value.strip())
    name = said.get("model name", "unknown processor")
    if "cpu family" in said:
        name += f" (family {said['cpu family']}, model {said['model']})"
    return f"{name}, {os.cpu_count()} cores"


def gpu_name(program, device):
    """The GPU's name; ends the program if there is none."""
    words = [program, "bench", "compute", "--device", device, "--only", "mlp", "--seconds", "0.1"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tools/bench: {done.stderr.strip()}")
    return done.stdout.split("(", 1)[1].split(",")[0]  # "cuda:0 (NVIDIA H200, 150 of ..."


def need(program):
    """Ends the benchmark if its program is missing, or older than the sources in its build folder:
    otherwise its results would name a wrong commit."""
    path = pathlib.Path(program).resolve()
    if not path.exists():
        sys.exit(f"{sys.argv[0]}: {program} is missing; run tools/build")
    for build in path.parents:
        if (build / "build.ninja").exists():
            done = subprocess.run(["ninja", "-n", "-C", build, path.relative_to(build)],
                                  capture_output=True, text=True)
            if "no work to do" not in done.stdout:
                sys.exit(f"{sys.argv[0]}: {program} is older than its sources; run tools/build")


def commit():
    """The measured commit: results written meanwhile, and texts, do not change it."""
    def git(*words):
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", *MEASURED)
    return (git("describe", "--always") or "unknown") + ("-dirty" if changed else "")


def header(measured=None):
    """The head of a result. `measured`: the device, if it is not the processor."""
    return {"date": datetime.date.today().isoformat(), "commit": commit(),
            "device": measured or device()}


def store(name, result, text=None):
    """Writes results/NAME.json, and NAME.md if there is a text for people."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    if text is not None:
        (RESULTS / f"{name}.md").write_text(text)


def load(name, otherwise):
    """The stored result; `otherwise` if there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else otherwise


def digest(path):
    """The digest of a TOML file's content; comments do not change it."""
    keys = json.dumps(tomllib.loads(path.read_text()), sort_keys=True)
    return hashlib.sha256(keys.encode()).hexdigest()[:16]


def find(results, wanted):
    """The first result with all items of `wanted`; None if there is none."""
    return next((r for r in results if all(r[key] == wanted[key] for key in wanted)), None)


def is_current(found):
    """Whether a result was measured with the present files, except texts and results."""
    done = subprocess.run(["git", "-C", ROOT, "diff", "--quiet", found, "--", *MEASURED],
                          capture_output=True)
    return done.returncode == 0


def command(name, arguments):
    """The command line that repeats a result, without the places of the program and the cache."""
    words = []
    skip = False
    for word in arguments:
        if skip or word in ("--program", "--cache", "--build"):
            skip = not skip
            continue
        words.append(f"'{word}'" if " " in word else word)
    return " ".join([f"tools/bench/{name}", *words])
