"""Evaluates the PyTorch twin of an exported model on a test set; for models.py.

    PYTHON pytorch_twin.py JSON

JSON: {"file", "preset", "input", "outputs", "sizes", "samples" | "tokens", "labels", "scale"}. The
last one: [mean, deviation] of pixels between 0 and 1. Prints {"loss", "accuracy"}.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import twins  # noqa: E402


def main():
    what = json.loads(pathlib.Path(sys.argv[1]).read_text())
    model = twins.make(what["preset"], input=what.get("input"), outputs=what["outputs"],
                       **what["sizes"])
    model.load_state_dict(load_file(what["file"]))
    model.eval()
    if "tokens" in what:
        inputs = torch.tensor(what["tokens"])
    else:
        mean, deviation = what["scale"]
        pixels = torch.tensor(what["samples"], dtype=torch.float32).reshape(-1, *what["input"])
        inputs = (pixels / 255 - mean) / deviation
    labels = torch.tensor(what["labels"]).flatten()
    with torch.no_grad():
        outputs = model(inputs).reshape(len(labels), -1)
    print(json.dumps({"loss": F.cross_entropy(outputs, labels).item(),
                      "accuracy": (outputs.argmax(1) == labels).double().mean().item()}))


if __name__ == "__main__":
    main()
