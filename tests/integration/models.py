#!/usr/bin/python3
"""A trained model outside the swarm: its export, alone and in PyTorch, and sample.

Comparisons with PyTorch are skipped if no Python here has it: tools/torch installs one.
STARLING_BUILD names the build folder (default: build). The last line is "N passed, N failed, N
skipped".
"""
import functools
import json
import pathlib
import random
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

PATIENCE = 300  # seconds; only a failing test waits this long


def starling(*arguments):
    return subprocess.run([BUILD / "peers/starling", *map(str, arguments)], capture_output=True,
                          timeout=PATIENCE)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def starling(self, *arguments):
        """Its output, if it ends well."""
        ended = starling(*arguments)
        self.assertEqual(ended.returncode, 0, ended.stderr.decode())
        return ended.stdout


@functools.cache
def torch_python():
    """A Python that has PyTorch and safetensors; None if there is none."""
    for python in (pathlib.Path(sys.executable), runner.TORCH_PYTHON):
        test = [python, "-c", "import safetensors, torch"]
        if python.exists() and subprocess.run(test, capture_output=True).returncode == 0:
            return python
    return None


# ---- expected by PyTorch users: names and shapes -----------------------------------------------

def linear(name, inputs, outputs, bias=True):
    yield name + ".weight", [outputs, inputs]
    if bias:
        yield name + ".bias", [outputs]


def conv(name, inputs, outputs, kernel):
    yield name + ".weight", [outputs, inputs, kernel, kernel]


def batch_norm(name, channels):
    for word in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{word}", [channels]
    yield name + ".num_batches_tracked", []


def layer_norm(name, width):
    yield name + ".weight", [width]
    yield name + ".bias", [width]


def resnet20(channels, classes):
    yield from conv("conv1", channels, 16, 3)
    yield from batch_norm("bn1", 16)
    inputs = 16
    for stage, width in enumerate((16, 32, 64), 1):
        for i in range(3):
            block = f"layer{stage}.{i}"
            yield from conv(block + ".conv1", inputs, width, 3)
            yield from batch_norm(block + ".bn1", width)
            yield from conv(block + ".conv2", width, width, 3)
            yield from batch_norm(block + ".bn2", width)
            if inputs != width:
                yield from conv(block + ".downsample.0", inputs, width, 1)
                yield from batch_norm(block + ".downsample.1", width)
            inputs = width
    yield from linear("fc", 64, classes)


def gpt2(depth, width, context, vocabulary):
    yield "transformer.wte.weight", [vocabulary, width]
    yield "transformer.wpe.weight", [context, width]
    for i in range(depth):
        block = f"transformer.h.{i}"
        yield from layer_norm(block + ".ln_1", width)
        yield from linear(block + ".attn.c_attn", width, 3 * width)
        yield from linear(block + ".attn.c_proj", width, width)
        yield from layer_norm(block + ".ln_2", width)
        yield from linear(block + ".mlp.c_fc", width, 4 * width)
        yield from linear(block + ".mlp.c_proj", 4 * width, width)
    yield from layer_norm("transformer.ln_f", width)


def llama(depth, width, mlp_width, vocabulary):
    yield "model.embed_tokens.weight", [vocabulary, width]
    for i in range(depth):
        block = f"model.layers.{i}"
        yield block + ".input_layernorm.weight", [width]
        yield from linear(block + ".self_attn.qkv_proj", width, 2 * width, False)
        yield from linear(block + ".self_attn.o_proj", width, width, False)
        yield block + ".post_attention_layernorm.weight", [width]
        yield from linear(block + ".mlp.gate_up_proj", width, 2 * mlp_width, False)
        yield from linear(block + ".mlp.down_proj", mlp_width, width, False)
    yield "model.norm.weight", [width]
    yield "lm_head.weight", [vocabulary, width]


not_compared = []  # tests whose part with PyTorch was skipped

# ---- tests --------------------------------------------------------------------------------------

SIDE = 28
CLASSES = 10
MNIST_SCALE = 0.1307, 0.3081  # the constants of data.source = "mnist"
BYTES = 256
STEPS = 6


class Exported(Folder):
    """Models that have learned for a few steps from data made here."""

    def images(self):
        """Three training batches and some test images, in MNIST's files; the test samples."""
        numbers = random.Random(5)
        samples = {}
        for part, count in (("train", 64), ("t10k", 40)):
            labels = [numbers.randrange(CLASSES) for _ in range(count)]
            pixels = [[min(255, numbers.randrange(128) + 12 * label) for _ in range(SIDE * SIDE)]
                      for label in labels]
            (self.folder / f"{part}-images-idx3-ubyte").write_bytes(
                struct.pack(">4I", 0x803, count, SIDE, SIDE) + b"".join(map(bytes, pixels)))
            (self.folder / f"{part}-labels-idx1-ubyte").write_bytes(
                struct.pack(">2I", 0x801, count) + bytes(labels))
            samples[part] = {"samples": pixels, "labels": labels, "scale": MNIST_SCALE}
        return f'source = "mnist"\npath = "{self.folder}"', samples["t10k"]

    def text(self, context):
        """Random words to train on and to test with; the windows of the test."""
        numbers = random.Random(6)
        parts = {}
        for part, count in (("train", 3000), ("test", 500)):
            words = b" ".join(numbers.choice((b"starling", b"flock", b"sky")) for _ in range(count))
            (self.folder / f"{part}.txt").write_bytes(words)
            parts[part] = words
        test = list(parts["test"])
        windows = range(0, len(test) - context, context)
        data = (f'source = "text"\npath = "{self.folder}/train.txt"\n'
                f'test_path = "{self.folder}/test.txt"')
        return data, {"tokens": [test[i:i + context] for i in windows],
                      "labels": [test[i + 1:i + 1 + context] for i in windows]}

    def trained(self, preset, sizes, data):
        """The metadata and tensors of a model that has made some steps."""
        model = "\n".join(f"{key} = {json.dumps(value)}" for key, value in sizes.items())
        run_file = self.folder / "run.toml"
        run_file.write_text(f"""
[run]
name = "{preset}-test"
samples = {8 * STEPS}
[model]
preset = "{preset}"
{model}
[data]
{data}
shards = 8
[train]
batch = 8
lr = 0.01
""")
        self.peer = self.folder / "peer"
        self.file = self.folder / "model.safetensors"
        self.starling("up", run_file, "--dir", self.peer, "--listen", "127.0.0.1:0")
        self.starling("export", self.peer, "--out", self.file)
        return safetensors_file.read(self.file)

    def check(self, preset, sizes, data, expected, input=None, outputs=CLASSES):
        data, test = data
        metadata, tensors = self.trained(preset, sizes, data)
        if expected is not None:
            found = {name: shape for name, (_, shape, _) in tensors.items()}
            self.assertEqual(found, dict(expected))
        summary = json.loads((self.peer / "summary.json").read_text())
        self.assertEqual(metadata, {"format": "pt", "run_name": preset + "-test",
                                    "run_id": summary["run"], "step": str(STEPS),
                                    "samples": str(8 * STEPS)})
        step = self.peer / f"checkpoints/step-{STEPS}/model.safetensors"
        _, saved = safetensors_file.read(step)
        for name, (kind, shape, values) in tensors.items():
            if name.endswith(".num_batches_tracked"):
                self.assertEqual((kind, values), ("I64", struct.pack("<q", STEPS)))
            else:
                self.assertEqual((kind, shape, values), saved.pop(name), name)
        self.assertFalse(saved)
        self.compare({"file": str(self.file), "preset": preset, "input": input,
                      "outputs": outputs, "sizes": sizes, **test})

    def compare(self, what):
        """PyTorch's twin must load it and say the same."""
        if torch_python() is None:
            not_compared.append(self.id())
            return
        path = self.folder / "twin.json"
        path.write_text(json.dumps(what))
        twin = pathlib.Path(__file__).parent / "pytorch_twin.py"
        ended = subprocess.run([torch_python(), "-B", twin, path], capture_output=True,
                               timeout=PATIENCE)
        self.assertEqual(ended.returncode, 0, ended.stderr.decode())
        theirs = json.loads(ended.stdout)
        ours = json.loads(self.starling("eval", "--json", self.peer))
        self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=1e-5)
        self.assertAlmostEqual(ours["accuracy"], theirs["accuracy"], delta=1e-9)

    def test_mlp(self):
        self.check("mlp", {"widths": [32]}, self.images(),
                   [*linear("layers.0", SIDE * SIDE, 32), *linear("layers.2", 32, CLASSES)],
                   input=[1, SIDE, SIDE])

    def test_resnet20_with_its_running_statistics(self):
        self.check("resnet20", {}, self.images(), resnet20(1, CLASSES), input=[1, SIDE, SIDE])

    def test_gpt(self):
        sizes = {"depth": 2, "width": 32, "heads": 4, "context": 16}
        self.check("gpt", sizes, self.text(16), gpt2(2, 32, 16, BYTES), outputs=BYTES)

    def test_gpt_in_the_style_of_llama(self):
        sizes = {"style": "llama", "depth": 1, "width": 32, "heads": 4, "kv_heads": 2,
                 "mlp_width": 64, "context": 16, "tied": False}
        self.check("gpt", sizes, self.text(16), llama(1, 32, 64, BYTES), outputs=BYTES)


CONTEXT = 4


class Sample(Folder):
    """A gpt that predicts the next byte from each one: its blocks add nothing, and its last layer
    knows the embedding of the byte before."""

    def setUp(self):
        super().setUp()
        self.run_file = self.folder / "run.toml"
        self.run_file.write_text(f"""
            [run]
            samples = 1
            [model]
            preset = "gpt"
            depth = 1
            width = {BYTES}
            heads = 1
            mlp_width = 1
            context = {CONTEXT}
            tied = false
            [data]
            source = "text"
            """)
        self.file = self.folder / "next.safetensors"
        safetensors_file.write(self.file, self.tensors())

    def tensors(self):
        def same(count, value):
            return [count], [value] * count

        def zeros(rows, columns):
            return [rows, columns], [0.0] * (rows * columns)

        def shifted(by):
            """Row i is 1 at column i - by."""
            rows = [0.0] * (BYTES * BYTES)
            for row in range(BYTES):
                rows[row * BYTES + (row - by) % BYTES] = 1.0
            return [BYTES, BYTES], rows

        block = "transformer.h.0."
        tensors = {
            "transformer.wte.weight": shifted(0),
            "transformer.wpe.weight": zeros(CONTEXT, BYTES),
            block + "attn.c_attn.weight": zeros(3 * BYTES, BYTES),
            block + "attn.c_attn.bias": same(3 * BYTES, 0.0),
            block + "attn.c_proj.weight": zeros(BYTES, BYTES),
            block + "attn.c_proj.bias": same(BYTES, 0.0),
            block + "mlp.c_fc.weight": zeros(1, BYTES),
            block + "mlp.c_fc.bias": same(1, 0.0),
            block + "mlp.c_proj.weight": zeros(BYTES, 1),
            block + "mlp.c_proj.bias": same(BYTES, 0.0),
            "lm_head.weight": shifted(1),
        }
        for norm in (block + "ln_1", block + "ln_2", "transformer.ln_f"):
            tensors[norm + ".weight"] = same(BYTES, 1.0)
            tensors[norm + ".bias"] = same(BYTES, 0.0)
        return tensors

    def sample(self, *options):
        return self.starling("sample", self.file, "--run", self.run_file, *options)

    def test_the_likeliest_text_goes_on_beyond_the_context(self):
        said = self.sample("--prompt", "ab", "--tokens", 24, "--temperature", 0)
        self.assertEqual(said, b"abcdefghijklmnopqrstuvwxyz\n")

    def test_a_prompt_longer_than_the_context_counts_with_its_end(self):
        said = self.sample("--prompt", "what goes before x", "--tokens", 2, "--temperature", 0)
        self.assertEqual(said, b"what goes before xyz\n")

    def test_without_a_prompt_a_line_begins(self):
        said = self.sample("--tokens", 1, "--temperature", 0)
        self.assertEqual(said, "\N{REPLACEMENT CHARACTER}\n".encode())  # a byte after "\n"

    def test_a_seed_repeats_its_text_and_all_of_it_is_utf8(self):
        options = ("--tokens", 300, "--temperature", 5, "--seed")
        said = self.sample(*options, 7)
        self.assertEqual(said, self.sample(*options, 7))
        self.assertNotEqual(said, self.sample(*options, 8))
        self.assertIn("\N{REPLACEMENT CHARACTER}", said.decode())  # no text, so not all of it is

    def test_a_model_of_images_writes_no_text(self):
        self.run_file.write_text(self.run_file.read_text().split("[model]")[0] + """
            [model]
            preset = "mlp"
            """)
        ended = starling("sample", self.file, "--run", self.run_file)
        self.assertEqual(ended.returncode, 2)
        self.assertIn(b"only language models write text", ended.stderr)


if __name__ == "__main__":
    sys.exit(runner.run("comparisons with PyTorch: no Python at hand has torch and safetensors; "
                        "tools/torch installs them", not_compared))
