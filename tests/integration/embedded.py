#!/usr/bin/env python3
"""Python programs that embed a peer (src/embed/python/starling.py).

Tests that need PyTorch are skipped without it. STARLING_BUILD names the build folder (default:
build). The last line is "N passed, N failed, N skipped".
"""

import array
import csv
import gc
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
import safetensors_file  # noqa: E402
import small_torch  # noqa: E402
os.environ.setdefault("STARLING_LIBRARY", str(runner.BUILD.absolute() / "src/embed/libstarling.so"))
EXAMPLE = runner.ROOT / "src/embed/python"
sys.path.insert(0, str(EXAMPLE))
import starling  # noqa: E402
try:
    import torch
    import torch.nn.functional as F
    WHY_NOT = ""
except ImportError:
    WHY_NOT = "what trains with PyTorch needs it: tools/torch installs it"

IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
RUN = """[run]
{length}
[train]
lr = {lr}
batch = {batch}
schedule = "cosine"
[exchange]
every = 4
density = 0.05
[swarm]
wait_for = 1
"""


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_file = self.folder / "run.toml"

    def write_run(self, length="samples = 400", lr=0.1, batch=4):
        self.run_file.write_text(RUN.format(length=length, lr=lr, batch=batch))

    def open(self, name="peer", initial=(0.0, 0.0, 0.0), **options):
        options = {"samples": 100, "listen": "127.0.0.1:0", "dir": self.folder / name,
                   "name": name, "quiet": True, "set": ["swarm.wait_for=0"]} | options
        peer = starling.Peer(self.run_file, initial, **options)
        self.addCleanup(peer.close)
        return peer


class Embedded(WithFolder):
    def setUp(self):
        super().setUp()
        self.write_run()

    def train(self, peer, goal=3.0):
        for step in peer:
            self.assertEqual(len(step.samples), 4)
            for i, value in enumerate(peer.parameters):
                peer.parameters[i] = value - step.learning_rate * (value - goal)
            step.done(1.0)

    def test_it_trains_to_the_end_of_the_run(self):
        peer = self.open(initial=array.array("f", [1, 2]),
                         tensors=[("first", (1,)), ("second", (1, 1))],
                         buffers=[("count", (2,), [5, 6], True)])
        self.assertFalse(peer.resumed)
        self.assertEqual(list(peer.parameters), [1, 2])
        self.assertEqual(list(peer.buffers), [5, 6])
        self.train(peer)
        for value in peer.read():
            self.assertAlmostEqual(value, 3.0, delta=0.1)
        self.assertEqual(peer.summary.steps, 100)
        self.assertEqual(peer.summary.left, 0)
        _, saved = safetensors_file.read(
            next((self.folder / "peer/checkpoints").glob("step-*")) / "model.safetensors")
        self.assertEqual({name: shape for name, (_, shape, _) in saved.items()},
                         {"first": [1], "second": [1, 1], "count": [2]})

    def test_a_wrong_call_raises_its_own_error_alone(self):
        with mock.patch("sys.unraisablehook") as beside:
            with self.assertRaises(TypeError):
                starling.Peer(self.run_file)
            gc.collect()
        beside.assert_not_called()

    def test_the_run_file_of_the_example_is_one(self):
        self.run_file = EXAMPLE / "example.toml"
        peer = self.open(set=[])
        for step in peer:
            step.done(1.0)
        self.assertGreaterEqual(peer.summary.samples, 2 * 100)

    def test_it_evaluates(self):
        asked = []

        def evaluate(parameters, buffers, samples):
            asked.append((list(parameters), samples))
            return 0.25, 1.5
        peer = self.open(evaluate=evaluate)
        self.train(peer)
        self.assertEqual(asked[-1][1], 0)
        self.assertEqual(asked[-1][0], list(peer.read()))
        self.assertIn('"accuracy": 0.25', (self.folder / "peer/summary.json").read_text())

    def test_without_an_evaluation_there_are_metrics(self):
        self.train(self.open(set=["report.every=0.25"]))
        rows = list(csv.DictReader((self.folder / "peer/metrics.csv").read_text().splitlines()))
        self.assertGreater(len(rows), 1)
        for row in rows:
            self.assertEqual((row["train_loss"], row["accuracy"], row["loss"]), ("1", "", ""))

    def test_what_an_evaluation_raises_comes_through(self):
        def evaluate(parameters, buffers, samples):
            raise KeyError("no test set")
        with self.assertRaisesRegex(KeyError, "no test set"):
            self.train(self.open(evaluate=evaluate))

    def test_leaving_ends_the_steps(self):
        peer = self.open()
        for step in peer:
            peer.leave()
            step.done(1.0)
        self.assertEqual(peer.summary.left, 1)
        self.assertTrue(self.open().resumed)

    def test_errors_have_their_kind(self):
        with self.assertRaisesRegex(starling.Error, "parameters: are 0") as raised:
            self.open(initial=[])
        self.assertEqual(raised.exception.kind, "usage")
        with self.assertRaisesRegex(starling.Error, "train.momentum: is only for") as raised:
            self.open(set=["train.momentum=0.5"])
        self.assertEqual(raised.exception.kind, "run_file")
        with self.assertRaisesRegex(starling.Error, "float32"):
            self.open(initial=array.array("d", [1, 2]))
        peer = self.open()
        with self.assertRaises(starling.Error) as raised:
            peer.summary
        self.assertEqual(raised.exception.kind, "out_of_turn")
        with self.assertRaisesRegex(starling.Error, "a peer that is running has this folder"):
            self.open()
        for values in ([1.0], [1.0, 2.0, 3.0]):
            with self.assertRaisesRegex(starling.Error, "buffers: "):
                self.open(dir=self.folder / "other", buffers=[("var", (2,), values, True)])

    def test_numbers_that_c_would_cut_off_are_refused(self):
        for samples in (2**32 + 100, -1):
            with self.assertRaisesRegex(starling.Error, f"samples: is {samples}, ") as raised:
                self.open(samples=samples)
            self.assertEqual(raised.exception.kind, "usage")
        with self.assertRaisesRegex(starling.Error, "weight: is 4294967299, "):
            self.open(tensors=[("weight", (2**32 + 3,))])

    def test_one_address_or_setting_needs_no_list(self):
        with self.assertRaisesRegex(starling.Error, "--join: \"nowhere\" is not an address"):
            self.open(join="nowhere")
        with self.assertRaisesRegex(starling.Error, "train.momentum: is only for"):
            self.open(set="train.momentum=0.5")

    def test_others_are_told_the_address_that_it_announces_first(self):
        self.open(announce="peer.example:7000")
        said = subprocess.run([runner.BUILD / "peers/starling", "members", "--json", "--peer",
                               self.folder / "peer"], capture_output=True, text=True, check=True)
        (own,) = json.loads(said.stdout)
        self.assertEqual(own["addresses"][0], "peer.example:7000")
        with self.assertRaisesRegex(starling.Error, "--announce: 0.0.0.0:7000 leads nowhere"):
            self.open(name="other", announce="0.0.0.0:7000")

    def test_a_child_that_ends_leaves_the_peer_as_it_is(self):
        peer = self.open()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                peer.close()
            finally:
                os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.train(peer)
        self.assertEqual(peer.summary.steps, 100)

    def test_the_library_shows_its_interface_alone(self):
        shown = subprocess.run(["nm", "-DC", "--defined-only", os.environ["STARLING_LIBRARY"]],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        names = [line.split(" ", 2)[2] for line in shown]
        self.assertIn("starling_peer_open", names)
        self.assertTrue(any(name.startswith("starling::Peer::next_step") for name in names))
        own = ("starling_", "starling::Peer::", "typeinfo for starling::Error",
               "typeinfo name for starling::Error", "vtable for starling::Error")
        self.assertEqual([name for name in names if not name.startswith(own)], [])

    def test_a_shape_without_sides_has_a_value(self):
        with self.assertRaisesRegex(starling.Error, "'b' has more values than the 0 left"):
            self.open(buffers=[("a", (), [1.0], False), ("b", (), [], False)])

    def test_names_that_a_checkpoint_cannot_have_are_refused(self):
        for name, why in (("__metadata__", "give it another name"),
                          ("n" * 2**24, "at most 16777216 are accepted")):
            with self.assertRaisesRegex(starling.Error, why) as raised:
                self.open(tensors=[(name, (3,))])
            self.assertEqual(raised.exception.kind, "usage")

    def test_a_handler_of_a_signal_may_ask_it_to_leave_at_any_time(self):
        peer = self.open()

        def give_up(*_):
            raise TimeoutError("it waits for itself")
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, give_up))
        self.addCleanup(signal.alarm, 0)
        signal.alarm(20)
        with peer._closing:  # as where a handler comes in while the peer is closed
            peer.leave()

    def test_without_a_name_a_peer_finds_its_own_folder_again(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        first = self.open(name="", dir="")
        second = self.open(name="", dir="")
        self.assertTrue(first.dir.startswith("runs/run/"), first.dir)
        self.assertEqual(second.dir, first.dir + "-2")
        for step in first:
            first.leave()
            step.done(1.0)
        again = self.open(name="", dir="")
        self.assertEqual(again.dir, first.dir)
        self.assertTrue(again.resumed)

    def test_a_closed_peer_says_so(self):
        peer = self.open()
        peer.close()
        peer.close()
        for use in (lambda: peer.address, lambda: peer.parameters, peer.read, peer.leave,
                    lambda: next(iter(peer)), lambda: peer.summary):
            with self.assertRaisesRegex(starling.Error, "the peer is closed"):
                use()


class StandIns(WithFolder):
    """for_module, with a substitute for PyTorch."""

    def open(self, module, **options):
        self.write_run()
        options = {"samples": 10, "dir": self.folder / "peer", "listen": "127.0.0.1:0",
                   "quiet": True, "set": ["swarm.wait_for=0"]} | options
        with mock.patch.dict(sys.modules, torch=small_torch):
            peer = starling.for_module(self.run_file, module, **options)
        self.addCleanup(peer.close)
        return peer

    def test_a_module_has_what_was_trained(self):
        module = small_torch.Module(head=small_torch.Module())
        for step in self.open(module):
            for part in module.modules():
                part.weight.fill_(step.number)
            step.done(0.0)
        self.assertEqual(module.weight.tolist(), [100, 100])
        self.assertEqual(module.parts["head"].weight.tolist(), [100, 100])

    def test_a_module_has_its_own_once_the_peer_is_closed_within_a_step(self):
        module = small_torch.Module()
        peer = self.open(module)
        steps = iter(peer)
        step = next(steps)
        module.weight.fill_(7)
        there = starling.ctypes.addressof(starling.c_float.from_buffer(peer.parameters))
        self.assertEqual(module.weight.data_ptr(), there)
        peer.close()
        self.assertNotEqual(module.weight.data_ptr(), there)
        with self.assertRaisesRegex(starling.Error, "the peer is closed"):
            step.done(0.0)
        with self.assertRaisesRegex(starling.Error, "the peer is closed"):
            next(steps)
        self.assertEqual(module.weight.tolist(), [7, 7])

    def test_a_checkpoint_has_what_the_state_dict_has(self):
        class WithScratch(small_torch.Module):
            def named_buffers(self):
                return [("scratch", self.weight)]  # not persistent
        for step in self.open(WithScratch()):
            step.done(0.0)
        checkpoint = next((self.folder / "peer/checkpoints").glob("step-*"))
        _, saved = safetensors_file.read(checkpoint / "model.safetensors")
        self.assertEqual(list(saved), ["weight"])

    def test_an_evaluation_leaves_each_part_in_its_mode(self):
        module = small_torch.Module(frozen=small_torch.Module(), head=small_torch.Module())
        module.parts["frozen"].training = False
        modes = []

        def evaluate(module):
            modes.append([part.training for part in module.modules()])
            return 0.5, 1.0
        for step in self.open(module, evaluate=evaluate):
            step.done(0.0)
        self.assertEqual(modes[-1], [False, False, False])
        self.assertEqual([part.training for part in module.modules()], [True, False, True])


def images_of(part):
    """Samples, one row each, and labels."""
    with gzip.open(IMAGES / f"{part}-images-idx3-ubyte.gz") as file:
        pixels = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8)
    with gzip.open(IMAGES / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = torch.frombuffer(bytearray(file.read()[8:]), dtype=torch.uint8)
    return (pixels.view(-1, 784) / 255 - 0.286) / 0.353, labels.long()


def train_module(run_file, folder, join):
    """One peer's program."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    samples, labels = images_of("train")
    test_samples, test_labels = images_of("t10k")
    model = torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.BatchNorm1d(64),
                                torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters())

    def evaluate(model):
        outputs = model(test_samples)
        right = (outputs.argmax(1) == test_labels).float().mean()
        return right.item(), F.cross_entropy(outputs, test_labels).item()
    peer = starling.for_module(run_file, model, samples=len(samples), dataset="fashion-mnist",
                               evaluate=evaluate, dir=folder, name=pathlib.Path(folder).name,
                               listen="127.0.0.1:0", join=join)
    print(peer.address, flush=True)
    for step in peer:
        for group in optimizer.param_groups:
            group["lr"] = step.learning_rate
        loss = F.cross_entropy(model(samples[step.samples]), labels[step.samples])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step.done(loss.item())
    model.eval()
    accuracy, _ = evaluate(model)
    weights = torch.cat([tensor.flatten() for tensor in model.parameters()])
    torch.save((accuracy, weights, peer.summary.steps), pathlib.Path(folder) / "result")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Modules(WithFolder):
    def start(self, name, join=()):
        program = subprocess.Popen([sys.executable, __file__, self.run_file, self.folder / name,
                                    *join], stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        return program

    def test_a_swarm_trains_a_module(self):
        self.write_run("epochs = 2", lr=0.004, batch=32)
        first = self.start("first")
        address = first.stdout.readline().strip()
        others = [self.start(name, [address]) for name in ("second", "third")]
        for program in (first, *others):
            program.communicate(timeout=200)
            self.assertEqual(program.returncode, 0)
        results = [torch.load(self.folder / name / "result") for name in
                   ("first", "second", "third")]
        mean = sum(weights for _, weights, _ in results) / 3
        for accuracy, weights, steps in results:
            self.assertGreater(accuracy, 0.85)
            self.assertLess((weights - mean).norm() / mean.norm(), 0.01)
            self.assertGreater(steps, 100)

    def test_the_example_trains_as_it_stands(self):
        def start(*join):
            program = subprocess.Popen(
                [sys.executable, EXAMPLE / "example.py", "--listen", "127.0.0.1:0", *join],
                cwd=self.folder, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.PIPE, text=True)
            self.addCleanup(program.kill)
            return program, program.stdout.readline()
        first, told = start()
        self.assertRegex(told, r"^others join with: --join 127\.0\.0\.1:\d+$")
        first.send_signal(signal.SIGSTOP)  # or it may be done before the other is there
        second, _ = start(*told.split()[-2:])
        first.send_signal(signal.SIGCONT)
        for program in (first, second):
            out, _ = program.communicate(timeout=200)
            self.assertEqual(program.returncode, 0)
            self.assertRegex(out, r"^accuracy [89]\d\.\d\d%, loss 0\.\d{4}; results are in runs/")
            summary = json.loads((self.folder / out.split()[-1] / "summary.json").read_text())
            self.assertGreater(summary["exchanges"], 0)

    def test_a_module_keeps_what_it_has_when_the_loop_is_left(self):
        self.write_run()
        module = torch.nn.Linear(2, 1)
        peer = starling.for_module(self.run_file, module, samples=10, dir=self.folder / "peer",
                                   listen="127.0.0.1:0", quiet=True, set=["swarm.wait_for=0"])
        for step in peer:
            with torch.no_grad():
                module.weight.fill_(7)
            step.done(0.0)
            break
        peer.close()
        self.assertEqual(module.weight.flatten().tolist(), [7, 7])

    def test_only_float32_is_taken(self):
        self.write_run()
        with self.assertRaisesRegex(starling.Error, "must be float32"):
            starling.for_module(self.run_file, torch.nn.Linear(2, 1).double(), samples=10)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        train_module(sys.argv[1], sys.argv[2], sys.argv[3:])
        sys.exit()
    if WHY_NOT and runner.TORCH_PYTHON.exists() and sys.executable != str(runner.TORCH_PYTHON):
        os.execv(runner.TORCH_PYTHON, [str(runner.TORCH_PYTHON), *sys.argv])
    sys.exit(runner.run(WHY_NOT))
