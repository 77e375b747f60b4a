"""Training steps of PyTorch on the processor: the twins of what `starling bench compute` measures.

Run by tools/bench/compute with a Python that has torch. Takes requests on stdin, one a line:
MODEL THREADS LAYOUT PRECISION SECONDS, with LAYOUT plain or channels_last, and PRECISION float32 or
bf16 (autocast); answers each with one line of JSON: {"train": rate, "evaluate": rate}, in samples
or tokens a second, the best of five stretches as in `starling bench compute`. Between requests it
waits without using the processor, so that two programs can be measured in turns.
"""

import functools
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import twins  # noqa: E402

STRETCHES = 5
MODELS = {  # preset, shape of a sample, outputs, batch
    "cnn": ("cnn", (1, 28, 28), 10, 64),
    "mlp": ("mlp", (784,), 10, 64),
    "resnet18": ("resnet18", (3, 32, 32), 10, 32),
    "gpt": ("gpt", None, 256, 8),
}
CONTEXT = 128


class Subject:
    def __init__(self, name, layout, precision):
        preset, shape, outputs, batch = MODELS[name]
        torch.manual_seed(1)
        self.net = twins.make(preset, input=shape, outputs=outputs)
        if shape is None:
            self.samples = torch.randint(outputs, (batch, CONTEXT))
            self.labels = torch.randint(outputs, (batch, CONTEXT))
            self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
        else:
            self.samples = torch.rand(batch, *shape)
            self.labels = torch.randint(outputs, (batch,))
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-4, momentum=0.9)
        if layout == "channels_last":
            self.net = self.net.to(memory_format=torch.channels_last)
            self.samples = self.samples.contiguous(memory_format=torch.channels_last)

        self.casting = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16,
                                         enabled=precision == "bf16")

    def loss(self):
        with self.casting():
            outputs = self.net(self.samples)
        return F.cross_entropy(outputs.float().flatten(0, -2), self.labels.flatten())

    def train(self):
        self.net.train()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        self.loss()

    def rate(self, work, seconds):
        work()
        best = 0
        for _ in range(STRETCHES):
            start, calls = time.perf_counter(), 0
            while calls == 0 or time.perf_counter() - start < seconds / STRETCHES:
                work()
                calls += 1
            best = max(best, calls / (time.perf_counter() - start))
        return best * self.labels.numel()


@functools.cache
def subject(name, layout, precision):
    return Subject(name, layout, precision)


def main():
    for request in sys.stdin:
        name, threads, layout, precision, seconds = request.split()
        torch.set_num_threads(int(threads))
        chosen = subject(name, layout, precision)
        print(json.dumps({
            "train": chosen.rate(chosen.train, float(seconds)),
            "evaluate": chosen.rate(chosen.evaluate, float(seconds)),
        }), flush=True)


if __name__ == "__main__":
    main()
