"""The part of PyTorch that starling.for_module needs, for tests without PyTorch.

A tensor views floats that another may own, and its `data` can be pointed elsewhere, as in PyTorch.
"""

import array
import contextlib
import ctypes
import math

float32 = "float32"


class Tensor:
    dtype, device = float32, "cpu"

    def __init__(self, floats, shape=None):
        self.floats = memoryview(floats).cast("B").cast("f")
        self.shape = tuple(shape if shape is not None else (len(self.floats),))

    @property
    def data(self):
        return Tensor(self.floats, self.shape)

    @data.setter
    def data(self, other):
        self.floats = other.floats

    def data_ptr(self):
        return ctypes.addressof(ctypes.c_float.from_buffer(self.floats)) if self.floats else 0

    def numel(self):
        return math.prod(self.shape)

    def stride(self):
        return tuple(math.prod(self.shape[i + 1:]) for i in range(len(self.shape)))

    def is_floating_point(self):
        return True

    def detach(self):
        return self.data

    def cpu(self):
        return self

    def view(self, shape):
        return Tensor(self.floats, shape)

    def flatten(self):
        return Tensor(self.floats)

    def clone(self):
        return Tensor(array.array("f", self.floats), self.shape)

    def copy_(self, other):
        self.floats[:] = other.floats

    def fill_(self, value):
        self.floats[:] = array.array("f", [value] * len(self.floats))

    def split(self, sizes):
        ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
        return [Tensor(self.floats[end - size:end]) for size, end in zip(sizes, ends)]

    def tolist(self):
        return self.floats.tolist()


def cat(tensors):
    return Tensor(array.array("f", [value for tensor in tensors for value in tensor.floats]))


def frombuffer(values, dtype):
    return Tensor(values)


no_grad = contextlib.nullcontext


class Module:
    """With one parameter, `weight`, and parts that may be modules."""

    def __init__(self, **parts):
        self.parts, self.training = parts, True
        self.weight = Tensor(array.array("f", [0, 0]))

    def modules(self):
        yield self
        for part in self.parts.values():
            yield from part.modules()

    def named_parameters(self, prefix=""):
        yield prefix + "weight", self.weight
        for name, part in self.parts.items():
            yield from part.named_parameters(f"{prefix}{name}.")

    def named_buffers(self):
        return ()

    def state_dict(self):
        return dict(self.named_parameters())

    def train(self, mode=True):
        for module in self.modules():
            module.training = mode

    def eval(self):
        self.train(False)
