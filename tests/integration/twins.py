#!/usr/bin/env python3
"""The presets compared with their PyTorch twins (tools/twins.py): same names of tensors, same loss.

`starling eval` is given weights that PyTorch made, and must find the loss that PyTorch finds.
Skipped without PyTorch. STARLING_BUILD names the build folder (default: build).
The last line is "N passed, N failed, N skipped".
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
import safetensors_file  # noqa: E402
from runner import BUILD  # noqa: E402
sys.path.insert(0, str(runner.ROOT / "tools"))
try:
    import torch
    import torch.nn.functional as F
    import twins
    WHY_NOT = ""
except ImportError:
    WHY_NOT = "the presets' twins need PyTorch, which tools/torch installs"

SAMPLES = 40
MEAN, STD = 0.1307, 0.3081  # Starling's constants for pixels of "mnist"


def idx(*sides, values):
    return struct.pack(f">HBB{len(sides)}I", 0, 8, len(sides), *sides) + bytes(values)


def write_images(folder, side):
    """As MNIST's files, of any size; returns the images and labels of the test set."""
    for part in ("train", "t10k"):
        pixels = torch.randint(256, (SAMPLES, 1, side, side))
        labels = torch.arange(SAMPLES) % 10
        (folder / f"{part}-images-idx3-ubyte").write_bytes(
            idx(SAMPLES, side, side, values=pixels.flatten().tolist()))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(SAMPLES, values=labels.tolist()))
    return (pixels / 255 - MEAN) / STD, labels


def write_text(folder, context):
    """Returns windows of the held-out text, and the token after each token."""
    for part in ("train", "test"):
        text = torch.randint(256, (SAMPLES * context + 1,))
        (folder / part).write_bytes(bytes(text.tolist()))
    return text[:-1].view(-1, context), text[1:].view(-1, context)


def shaken(model):
    """Changes all initial values: zeros and ones hide mistakes."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("running_var") or tensor.dim() == 1 and name.endswith("weight"):
                tensor.uniform_(0.5, 1.5)
            elif tensor.dim() == 1:
                tensor.uniform_(-0.5, 0.5)
    return model.eval()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Twins(unittest.TestCase):
    def compare(self, model, samples, labels, data, preset, **sizes):
        model = shaken(model)
        state = {name: (list(tensor.shape), tensor.flatten().tolist())
                 for name, tensor in model.state_dict().items()
                 if not name.endswith("num_batches_tracked")}
        weights, run = self.folder / "weights.safetensors", self.folder / "run.toml"
        safetensors_file.write(weights, state)
        keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in sizes.items())
        run.write_text(f'[run]\nepochs = 1\n[model]\npreset = "{preset}"\n{keys}\n'
                       f'[data]\n{data}\n[train]\nbatch = 16\n')
        eval_ = subprocess.run([BUILD / "peers/starling", "eval", weights, "--run", run, "--json"],
                               capture_output=True, text=True, timeout=120)
        self.assertEqual(eval_.returncode, 0, eval_.stderr)
        with torch.no_grad():
            outputs = model(samples)
        loss = F.cross_entropy(outputs.flatten(0, -2), labels.flatten()).item()
        self.assertAlmostEqual(json.loads(eval_.stdout)["loss"] / loss, 1, delta=1e-4)

    def setUp(self):
        torch.manual_seed(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def image_preset(self, preset, side, **sizes):
        images, labels = write_images(self.folder, side)
        model = twins.make(preset, (1, side, side), 10, **sizes)
        self.compare(model, images, labels, f'source = "mnist"\npath = "{self.folder}"', preset,
                     **sizes)

    def gpt(self, **sizes):
        sizes |= {"depth": 2, "width": 32, "heads": 4, "context": 16}
        tokens, next_ = write_text(self.folder, sizes["context"])
        model = twins.make("gpt", outputs=256, **sizes)
        data = f'source = "text"\npath = "{self.folder}/train"\ntest_path = "{self.folder}/test"'
        self.compare(model, tokens, next_, data, "gpt", **sizes)

    def test_mlp(self):
        self.image_preset("mlp", 28, widths=[16, 8])

    def test_cnn(self):
        self.image_preset("cnn", 28, width=4)

    def test_resnet20(self):
        self.image_preset("resnet20", 28, width=4)

    def test_resnet18_of_small_images(self):
        self.image_preset("resnet18", 28, width=4)

    def test_resnet18_of_large_images(self):
        self.image_preset("resnet18", 72, width=4)

    def test_resnet50_of_large_images(self):
        self.image_preset("resnet50", 72, width=4)

    def test_gpt2(self):
        self.gpt()

    def test_gpt2_not_tied_with_shared_keys(self):
        self.gpt(tied=False, kv_heads=2)

    def test_llama(self):
        self.gpt(style="llama")

    def test_llama_not_tied_with_shared_keys(self):
        self.gpt(style="llama", tied=False, kv_heads=2, mlp_width=24)


if __name__ == "__main__":
    if WHY_NOT and runner.TORCH_PYTHON.exists() and sys.executable != str(runner.TORCH_PYTHON):
        os.execv(runner.TORCH_PYTHON, [runner.TORCH_PYTHON, *sys.argv])
    sys.exit(runner.run(WHY_NOT))
