#!/usr/bin/python3
"""What a trained model is worth outside the swarm: sample, with models made for it.

The build folder stands in STARLING_BUILD (default: build). The last line is
"N passed, N failed, N skipped".
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STARLING_BUILD", ROOT / "build"))
sys.dont_write_bytecode = True
import safetensors_file  # noqa: E402

PATIENCE = 300  # seconds; only a test that fails waits as long


def starling(*arguments):
    return subprocess.run([BUILD / "peers/starling", *map(str, arguments)], capture_output=True,
                          timeout=PATIENCE)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def starling(self, *arguments):
        """What it prints, if it ends well."""
        ended = starling(*arguments)
        self.assertEqual(ended.returncode, 0, ended.stderr.decode())
        return ended.stdout


BYTES = 256
CONTEXT = 4


class Sample(Folder):
    """A gpt that says of each byte the next one: its blocks add nothing, and its last layer knows
    the embedding of the byte before."""

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


def main():
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
