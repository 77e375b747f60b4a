"""Training steps of PyTorch: the twins of the models in `starling bench compute`.

Run by tools/bench/compute with a Python that has torch, and with a device's name ("cpu", "cuda:0").
Takes requests on stdin, one per line: MODEL THREADS LAYOUT PRECISION SECONDS, with LAYOUT plain,
channels_last, or either with -compiled (torch.compile) after it, and PRECISION float32 (no TF32) or
bf16 (autocast); answers each with one line of JSON: {"train": rate, "evaluate": rate}, in samples
or tokens a second, the best of five stretches as in `starling bench compute`; on a GPU without
"evaluate", which would have to be compiled, too. Between requests it waits without using the processor,
so that two programs can be measured in turns.
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
    "resnet50": ("resnet50", (3, 224, 224), 1000, 128),
    "gpt2": ("gpt", None, 50257, 16),
}
SIZES = {"gpt2": {"width": 768, "depth": 12, "heads": 12, "context": 1024}}
CONTEXT = 128


class Subject:
    def __init__(self, name, layout, precision, device):
        preset, shape, outputs, batch = MODELS[name]
        sizes = SIZES.get(name, {})
        context = sizes.get("context", CONTEXT)
        torch.manual_seed(1)
        self.device = torch.device(device)
        self.net = twins.make(preset, input=shape, outputs=outputs, **sizes).to(self.device)
        if shape is None:
            self.samples = torch.randint(outputs, (batch, context), device=self.device)
            self.labels = torch.randint(outputs, (batch, context), device=self.device)
            self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
        else:
            self.samples = torch.rand(batch, *shape, device=self.device)
            self.labels = torch.randint(outputs, (batch,), device=self.device)
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-4, momentum=0.9)
        if layout.startswith("channels_last"):
            self.net = self.net.to(memory_format=torch.channels_last)
            self.samples = self.samples.contiguous(memory_format=torch.channels_last)
        if layout.endswith("-compiled"):
            self.net = torch.compile(self.net)

        self.casting = functools.partial(torch.autocast, self.device.type, dtype=torch.bfloat16,
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

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def rate(self, work, seconds):
        for _ in range(1 if self.device.type == "cpu" else 5):
            work()
        best = 0
        for _ in range(STRETCHES):
            self.wait()
            start, calls = time.perf_counter(), 0
            while calls == 0 or time.perf_counter() - start < seconds / STRETCHES:
                work()
                calls += 1
                if calls % 8 == 0:  # so that not too much is asked for ahead
                    self.wait()
            self.wait()
            best = max(best, calls / (time.perf_counter() - start))
        return best * self.labels.numel()


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    # There is room for one large model.
    @functools.lru_cache(maxsize=None if device == "cpu" else 1)
    def subject(name, layout, precision):
        return Subject(name, layout, precision, device)

    for request in sys.stdin:
        name, threads, layout, precision, seconds = request.split()
        torch.set_num_threads(int(threads))
        chosen = subject(name, layout, precision)
        rates = {"train": chosen.rate(chosen.train, float(seconds))}
        if device == "cpu":
            rates["evaluate"] = chosen.rate(chosen.evaluate, float(seconds))
        print(json.dumps(rates), flush=True)


if __name__ == "__main__":
    main()
