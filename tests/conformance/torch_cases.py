"""The cases of this suite as PyTorch networks; tools/make-conformance stores their results.

A function here matches the one with the same name in cases_*.cpp and returns (name, input, network,
loss), and also the rate if there is a run.
"""
import struct

import torch
import torch.nn.functional as F
from torch import nn

import twins  # tools/twins.py

INPUT = -1  # the graph's input, as an op's number


# ---- Operations: modules that count as one op each -------------------------------------------

class Linear(nn.Linear):
    """Flattens images, as GraphBuilder::linear does."""

    def forward(self, x):
        return super().forward(x.flatten(1) if x.dim() == 4 else x)


class TiedLinear(nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.shared = [embedding]  # in a list: no parameter of this module

    def forward(self, x):
        return F.linear(x, self.shared[0].weight)


class Positions(nn.Module):
    def __init__(self, positions, features):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(positions, features))

    def forward(self, x):
        return x + self.weight


class Attention(nn.Module):
    def __init__(self, heads, kv_heads, rotary_base=0):
        super().__init__()
        self.heads, self.kv_heads, self.base = heads, kv_heads, rotary_base

    def rotate(self, x):
        """Llama's: x * cos + rotate_half(x) * sin, with the halves side by side."""
        positions, size = x.shape[-2:]
        inverse = 1.0 / self.base ** (torch.arange(0, size, 2, dtype=x.dtype) / size)
        angles = torch.outer(torch.arange(positions, dtype=x.dtype), inverse)
        angles = torch.cat((angles, angles), -1)
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()

    def forward(self, x):
        count, positions, features = x.shape
        size = features // (self.heads + 2 * self.kv_heads)
        heads = x.view(count, positions, -1, size).transpose(1, 2)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), 1)
        if self.base:
            q, k = self.rotate(q), self.rotate(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return y.transpose(1, 2).reshape(count, positions, self.heads * size)


class SwiGlu(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b


def dropout_bits(seed, op, element):
    """src/compute/dropout.hpp."""
    mask = (1 << 64) - 1
    z = (seed + (op << 40) + element * 0x9e3779b97f4a7c15) & mask
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & mask
    z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & mask
    return (z ^ (z >> 31)) >> 32


class Dropout(nn.Module):
    """Stands for one op, or for several in turn; `numbers` are theirs, Net sets them."""

    seed = 0  # of the step, for all of them

    def __init__(self, rate, numbers=None):
        super().__init__()
        self.rate = struct.unpack("f", struct.pack("f", rate))[0]
        self.numbers = numbers

    def forward(self, x):
        if not self.training:
            return x
        threshold = int(self.rate * 2 ** 32)
        op = self.numbers[0]
        self.numbers = self.numbers[1:] + [op]
        kept = [dropout_bits(Dropout.seed, op, i) >= threshold for i in range(x.numel())]
        return x * torch.tensor(kept, dtype=x.dtype).view(x.shape) / (1 - self.rate)


class Add(nn.Module):
    """Of the last op's result and an earlier one's."""

    def __init__(self, other):
        super().__init__()
        self.other = other


class GlobalAveragePool(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


class At(nn.Module):
    """The op takes an earlier op's result instead of the last one's: GraphBuilder::seek."""

    def __init__(self, value, op):
        super().__init__()
        self.value, self.op = value, op


class Net(nn.Module):
    """Ops in order, called layers.N after their numbers."""

    def __init__(self, *ops):
        super().__init__()
        self.sources = [op.value if isinstance(op, At) else i - 1 for i, op in enumerate(ops)]
        ops = [op.op if isinstance(op, At) else op for op in ops]
        for i, op in enumerate(ops):
            if isinstance(op, Dropout):
                op.numbers = [i]
        self.layers = nn.ModuleList(ops)

    def forward(self, x):
        values = {INPUT: x}
        for i, op in enumerate(self.layers):
            value = values[self.sources[i]]
            values[i] = value + values[op.other] if isinstance(op, Add) else op(value)
        return values[len(self.layers) - 1]


# ---- Losses -----------------------------------------------------------------------------------

class CrossEntropy:
    """Smooths in training alone."""

    def __init__(self, classes, smoothing=0.0):
        self.classes, self.smoothing = classes, smoothing

    def answers(self, shape, generator):
        """Labels for outputs of this shape; `positions` of them a sample."""
        rows = shape[:2] if len(shape) == 3 else shape[:1]
        return {"labels": torch.randint(self.classes, rows, generator=generator)}

    def __call__(self, outputs, answers, training):
        return F.cross_entropy(outputs.reshape(-1, self.classes), answers["labels"].flatten(),
                               label_smoothing=self.smoothing if training else 0.0)


class MeanSquared:
    def answers(self, shape, generator):
        return {"targets": uniform(shape, generator)}

    def __call__(self, outputs, answers, training):
        return F.mse_loss(outputs, answers["targets"])


def uniform(shape, generator, low=-1.0, high=1.0):
    """Exact in float32, as float64."""
    values = torch.rand(shape, generator=generator, dtype=torch.float32)
    return (values * (high - low) + low).double()


class Floats:
    def __init__(self, *shape):
        self.shape = shape

    def samples(self, count, generator):
        return {"samples": uniform((count, *self.shape), generator)}


class Tokens:
    def __init__(self, positions, vocabulary):
        self.positions, self.vocabulary = positions, vocabulary

    def samples(self, count, generator):
        return {"tokens": torch.randint(self.vocabulary, (count, self.positions),
                                        generator=generator)}


# ---- Cases ------------------------------------------------------------------------------------

conv, ReLU, Flatten, classify = nn.Conv2d, nn.ReLU, nn.Flatten, CrossEntropy


def image_cases():
    yield "linear", Floats(7), Net(Linear(7, 3)), classify(3)
    yield "linear_relu_linear", Floats(9), Net(Linear(9, 13), ReLU(), Linear(13, 4)), classify(4)
    yield "relu_first_and_last", Floats(5), Net(ReLU(), Linear(5, 3), ReLU()), classify(3)
    yield ("linear_of_image", Floats(2, 3, 4), Net(Linear(24, 5, bias=False), ReLU(), Linear(5, 3)),
           classify(3))
    yield ("conv2d_odd_channels", Floats(3, 7, 5),
           Net(conv(3, 5, 3), ReLU(), conv(5, 3, 2), Linear(3 * 4 * 2, 5)), classify(5))
    yield ("conv2d_padding", Floats(1, 6, 5),
           Net(conv(1, 8, 3, 1, 1), ReLU(), conv(8, 9, 3, 1, 2), ReLU(), Linear(9 * 8 * 7, 3)),
           classify(3))
    yield ("conv2d_stride", Floats(2, 8, 9),
           Net(conv(2, 4, 3, 2, 1), ReLU(), conv(4, 6, 2, 2), Linear(6 * 2 * 2, 3)), classify(3))
    yield "conv2d_last", Floats(2, 3, 3), Net(conv(2, 4, 3)), classify(4)
    yield ("conv2d_stride_beyond_kernel", Floats(3, 9, 8),
           Net(conv(3, 5, 1, 2), conv(5, 4, 2, 3), Linear(4 * 2 * 1, 3)), classify(3))
    yield ("conv2d_dilation", Floats(2, 9, 8),
           Net(conv(2, 4, 3, 1, 2, dilation=2), ReLU(), conv(4, 3, 2, dilation=3),
               Linear(3 * 6 * 5, 3)), classify(3))
    yield ("conv2d_groups", Floats(6, 6, 5),
           Net(conv(6, 4, 3, 1, 1, groups=2), ReLU(), conv(4, 8, 3, groups=4),
               Linear(8 * 4 * 3, 3)), classify(3))
    yield ("conv2d_depthwise", Floats(5, 7, 6),
           Net(conv(5, 5, 3, 1, 1, groups=5), ReLU(), conv(5, 10, 3, 2, groups=5),
               Linear(10 * 3 * 2, 3)), classify(3))
    yield ("conv2d_without_bias", Floats(3, 6, 6),
           Net(conv(3, 8, 3, bias=False), ReLU(), Linear(8 * 4 * 4, 3, bias=False)), classify(3))
    yield ("conv2d_all_options", Floats(4, 11, 10),
           Net(conv(4, 6, 3, 2, 2, dilation=2, groups=2, bias=False), conv(6, 3, 1),
               Linear(3 * 6 * 5, 3)), classify(3))
    yield ("conv2d_16_channels", Floats(16, 5, 5),
           Net(conv(16, 16, 3, 1, 1), ReLU(), nn.MaxPool2d(2, 2), conv(16, 24, 2), ReLU(),
               Linear(24, 3)), classify(3))
    yield ("conv2d_of_one_point", Floats(32, 1, 1),
           Net(conv(32, 32, 3, 1, 2), Linear(32 * 3 * 3, 2)), classify(2))
    yield ("conv2d_kernel_beyond_image", Floats(2, 3, 4),
           Net(conv(2, 3, 5, 1, 2), Linear(3 * 3 * 4, 3)), classify(3))
    yield ("max_pool2d_of_relu", Floats(1, 8, 8),
           Net(conv(1, 5, 3), ReLU(), nn.MaxPool2d(2, 2), Linear(5 * 3 * 3, 3)), classify(3))
    yield ("max_pool2d_before_relu", Floats(2, 7, 9),
           Net(conv(2, 8, 2), nn.MaxPool2d(3, 2), ReLU(), Linear(8 * 2 * 3, 3)), classify(3))
    yield ("max_pool2d_overlapping", Floats(1, 7, 7),
           Net(conv(1, 6, 2), ReLU(), nn.MaxPool2d(3, 1), ReLU(), conv(6, 5, 2),
               Linear(5 * 3 * 3, 3)), classify(3))
    yield ("max_pool2d_first", Floats(2, 8, 8),
           Net(nn.MaxPool2d(2, 3), conv(2, 4, 2), ReLU(), Linear(4 * 2 * 2, 3)), classify(3))
    yield ("max_pool2d_padding", Floats(2, 7, 8),
           Net(conv(2, 4, 3, 1, 1), ReLU(), nn.MaxPool2d(3, 2, 1), Linear(4 * 4 * 4, 3)),
           classify(3))
    yield ("max_pool2d_padding_never_wins", Floats(2, 5, 6),
           Net(conv(2, 16, 3), nn.MaxPool2d(2, 2, 1), Linear(16 * 2 * 3, 3)), classify(3))
    yield ("avg_pool2d", Floats(2, 7, 8),
           Net(conv(2, 3, 2), ReLU(), nn.AvgPool2d(3, 2), Linear(3 * 2 * 3, 3)), classify(3))
    yield ("avg_pool2d_windows_apart", Floats(1, 9, 10),
           Net(conv(1, 16, 2), nn.AvgPool2d(2, 3), ReLU(), conv(16, 4, 1), Linear(4 * 3 * 3, 3)),
           classify(3))
    yield ("avg_pool2d_first", Floats(2, 5, 5), Net(nn.AvgPool2d(2, 2), Linear(8, 3)), classify(3))
    yield ("global_avg_pool", Floats(3, 5, 6),
           Net(conv(3, 4, 3), ReLU(), GlobalAveragePool(), Linear(4, 3)), classify(3))
    yield ("global_avg_pool_last", Floats(2, 4, 4),
           Net(conv(2, 16, 1), conv(16, 5, 3, 1, 1), GlobalAveragePool()), classify(5))
    yield ("flatten", Floats(2, 4, 5),
           Net(conv(2, 3, 2), Flatten(), ReLU(), Linear(36, 3)), classify(3))


def norm_cases():
    norm = nn.BatchNorm2d
    yield ("batch_norm_of_image", Floats(3, 5, 4),
           Net(conv(3, 6, 3, bias=False), norm(6), ReLU(), Linear(36, 3)), classify(3))
    yield ("batch_norm_16_channels", Floats(2, 6, 6),
           Net(conv(2, 16, 3, 1, 1, bias=False), norm(16), ReLU(), conv(16, 16, 3, 2, 1), norm(16),
               GlobalAveragePool(), Linear(16, 3)), classify(3))
    yield ("batch_norm_of_features", Floats(6),
           Net(Linear(6, 7), nn.BatchNorm1d(7, 1e-3, 0.3), ReLU(), Linear(7, 3)), classify(3))
    yield ("batch_norm_of_20_features", Floats(5),
           Net(Linear(5, 20), nn.BatchNorm1d(20), Linear(20, 3)), classify(3))
    yield ("batch_norm_relu_max_pool2d", Floats(2, 7, 8),
           Net(conv(2, 12, 3, 1, 1), norm(12), ReLU(), nn.MaxPool2d(3, 2, 1),
               Linear(12 * 4 * 4, 3)), classify(3))
    yield ("batch_norm_first", Floats(2, 4, 5),
           Net(norm(2), conv(2, 4, 3), Linear(4 * 2 * 3, 3)), classify(3))
    yield ("batch_norm_last", Floats(5), Net(Linear(5, 4), nn.BatchNorm1d(4)), classify(4))
    yield ("layer_norm", Floats(4, 6),
           Net(Linear(6, 10), nn.LayerNorm(10), Linear(10, 3)), classify(3))
    yield ("layer_norm_without_bias", Floats(3, 6),
           Net(Linear(6, 16), nn.LayerNorm(16, 1e-3, bias=False), Linear(16, 3)), classify(3))
    yield ("layer_norm_of_features", Floats(6),
           Net(nn.LayerNorm(6), Linear(6, 9), nn.LayerNorm(9), Linear(9, 3)), classify(3))
    yield ("rms_norm", Floats(4, 6),
           Net(Linear(6, 10), nn.RMSNorm(10, 1e-5), Linear(10, 3)), classify(3))
    yield ("rms_norm_of_features", Floats(6),
           Net(nn.RMSNorm(6, 1e-2), Linear(6, 16), nn.RMSNorm(16, 1e-5), Linear(16, 3)),
           classify(3))


def sequence_cases():
    yield ("linear_of_positions", Floats(4, 5),
           Net(Linear(5, 7), ReLU(), Linear(7, 3, bias=False)), classify(3))
    yield "embedding", Tokens(6, 11), Net(nn.Embedding(11, 5), Linear(5, 4)), classify(4)
    yield ("positions", Tokens(5, 9),
           Net(nn.Embedding(9, 6), Positions(5, 6), Linear(6, 9)), classify(9))
    yield ("positions_first", Floats(4, 5), Net(Positions(4, 5), Linear(5, 3)), classify(3))
    table = nn.Embedding(13, 6)
    yield ("tied_linear", Tokens(5, 13), Net(table, Positions(5, 6), Linear(6, 6),
                                             TiedLinear(table)), classify(13))
    yield ("attention_one_head", Floats(7, 5),
           Net(Linear(5, 12), Attention(1, 1), Linear(4, 3)), classify(3))
    yield ("attention_heads", Floats(9, 6),
           Net(Linear(6, 45), Attention(3, 3), Linear(15, 3)), classify(3))
    yield ("attention_grouped", Floats(6, 5),
           Net(Linear(5, 32), Attention(4, 2), Linear(16, 3)), classify(3))
    yield ("attention_one_key_for_all", Floats(6, 5),
           Net(Linear(5, 18, bias=False), Attention(4, 1), Linear(12, 3)), classify(3))
    yield ("attention_rotary", Floats(8, 5),
           Net(Linear(5, 36), Attention(2, 2, 10000.0), Linear(12, 3)), classify(3))
    yield ("attention_rotary_grouped", Floats(17, 4),
           Net(Linear(4, 64), Attention(4, 2, 500000.0), Linear(32, 3)), classify(3))
    yield ("attention_one_position", Floats(1, 5),
           Net(Linear(5, 12), Attention(1, 1), Linear(4, 3)), classify(3))
    yield ("attention_first_and_last", Floats(6, 24),
           Net(Attention(2, 1, 100.0), Linear(12, 18), Attention(2, 2)), classify(6))
    yield ("attention_70_positions", Floats(70, 3),
           Net(Linear(3, 16), Attention(2, 1, 10000.0), Linear(8, 3)), classify(3))


def activation_cases():
    for name, kind in (("gelu", nn.GELU), ("gelu_tanh", lambda: nn.GELU("tanh")),
                       ("silu", nn.SiLU)):
        yield name, Floats(5), Net(Linear(5, 9), kind(), Linear(9, 3)), classify(3)
        yield (f"{name}_of_image", Floats(2, 5, 4),
               Net(conv(2, 4, 2), kind(), conv(4, 16, 2), kind(), Linear(16 * 3 * 2, 3)),
               classify(3))
        yield (f"{name}_first_and_last", Floats(3, 4), Net(kind(), Linear(4, 3), kind()),
               classify(3))
    yield "swiglu", Floats(5), Net(Linear(5, 8), SwiGlu(), Linear(4, 3)), classify(3)
    yield ("swiglu_of_positions", Floats(4, 5),
           Net(Linear(5, 34), SwiGlu(), Linear(17, 3)), classify(3))
    yield "swiglu_first_and_last", Floats(10), Net(SwiGlu(), Linear(5, 6), SwiGlu()), classify(3)
    yield "dropout", Floats(9), Net(Linear(9, 16), Dropout(0.5), Linear(16, 4)), classify(4)
    yield ("dropout_of_image", Floats(2, 5, 6),
           Net(conv(2, 16, 2), ReLU(), Dropout(0.25), conv(16, 3, 2), Dropout(0.1),
               Linear(3 * 3 * 4, 3)), classify(3))
    yield ("dropout_of_positions", Floats(5, 4),
           Net(Linear(4, 7), Dropout(0.3), Linear(7, 3)), classify(3))
    yield ("dropout_first_and_last", Floats(8),
           Net(Dropout(0.2), Linear(8, 6), Dropout(0.4)), classify(6))
    yield ("dropout_rate_zero", Floats(5), Net(Linear(5, 6), Dropout(0.0), Linear(6, 3)),
           classify(3))


def branch_cases():
    yield ("add_to_input", Floats(3, 5, 4),
           Net(conv(3, 3, 3, 1, 1), ReLU(), Add(INPUT), Linear(60, 3)), classify(3))
    yield ("add_of_projection", Floats(3, 6, 5),
           Net(conv(3, 16, 3, 2, 1), nn.BatchNorm2d(16), ReLU(), conv(16, 16, 3, 1, 1),
               At(INPUT, conv(3, 16, 1, 2)), nn.BatchNorm2d(16), Add(3), ReLU(),
               Linear(16 * 3 * 3, 3)), classify(3))
    yield ("add_to_itself", Floats(5), Net(Linear(5, 6), Add(0), Linear(6, 3)), classify(3))
    yield ("add_of_one_result_three_times", Floats(5),
           Net(Linear(5, 6), ReLU(), Linear(6, 6), Add(0), Linear(6, 6), Add(0), Add(3),
               Linear(6, 3)), classify(3))
    yield ("relu_of_shared_linear", Floats(5),
           Net(Linear(5, 6), ReLU(), Linear(6, 6), Add(0), Linear(6, 3)), classify(3))
    yield ("relu_of_shared_conv2d", Floats(2, 5, 5),
           Net(conv(2, 8, 3, 1, 1), ReLU(), conv(8, 8, 3, 1, 1), Add(0), Linear(200, 3)),
           classify(3))
    yield ("relu_of_input_that_is_shared", Floats(6),
           Net(ReLU(), Linear(6, 6), Add(INPUT), ReLU(), Linear(6, 3)), classify(3))
    yield ("max_pool2d_of_shared_relu", Floats(2, 5, 5),
           Net(conv(2, 4, 2), ReLU(), nn.MaxPool2d(3, 1, 1), Add(1), Linear(64, 3)), classify(3))
    yield ("batch_norm_of_shared_conv2d", Floats(2, 4, 4),
           Net(conv(2, 5, 3, 1, 1), nn.BatchNorm2d(5), ReLU(), Add(0), Add(1), Linear(80, 3)),
           classify(3))
    yield ("relu_of_add_that_is_shared", Floats(2, 4, 4),
           Net(conv(2, 8, 3, 1, 1), At(INPUT, conv(2, 8, 1)), Add(0), ReLU(),
               conv(8, 8, 3, 1, 1), Add(3), Add(2), ReLU(), GlobalAveragePool(), Linear(8, 3)),
           classify(3))
    yield ("dropout_of_shared_linear", Floats(5),
           Net(Linear(5, 8), Dropout(0.5), Add(0), Linear(8, 3)), classify(3))
    yield ("flatten_of_shared_conv2d", Floats(2, 4, 4),
           Net(conv(2, 8, 3), Flatten(), Linear(32, 3), At(0, GlobalAveragePool()), Linear(8, 3),
               Add(2)), classify(3))
    yield ("norms_of_shared_positions", Floats(4, 6),
           Net(Linear(6, 8), nn.LayerNorm(8), Add(0), nn.RMSNorm(8, 1e-5), Add(2), Linear(8, 3)),
           classify(3))
    yield ("activations_of_shared_positions", Floats(3, 5),
           Net(Linear(5, 8), nn.GELU(), Add(0), nn.SiLU(), Add(2), nn.GELU("tanh"), Add(4),
               Linear(8, 3)), classify(3))


def loss_cases():
    yield "label_smoothing", Floats(6), Net(Linear(6, 5)), classify(5, 0.1)
    yield ("label_smoothing_of_positions", Tokens(4, 7),
           Net(nn.Embedding(7, 5), Linear(5, 7)), classify(7, 0.3))
    yield "mean_squared", Floats(6), Net(Linear(6, 4), ReLU(), Linear(4, 3)), MeanSquared()
    yield ("mean_squared_of_image", Floats(2, 5, 4),
           Net(conv(2, 4, 3, 1, 1), ReLU(), conv(4, 3, 2)), MeanSquared())
    yield ("mean_squared_of_positions", Floats(3, 4), Net(Linear(4, 5), ReLU()), MeanSquared())
    yield "classes_beyond_a_byte", Floats(3), Net(Linear(3, 300)), classify(300)


# ---- Whole small models ------------------------------------------------------------------------

def with_dropout(gpt):
    """The same drops as in the preset's graph: op 2, and two in each block of 12 ops."""
    gpt.dropout = Dropout(gpt.dropout.p, [2])
    for i, block in enumerate(gpt.transformer.h):
        block.dropout = Dropout(block.dropout.p, [7 + 12 * i, 13 + 12 * i])
    return gpt


def run_cases():
    resnet = twins.ResNet((3, 8, 8), 5, 8, (1, 1), False, False)
    yield "resnet", Floats(3, 8, 8), resnet, classify(5), 0.0625
    gpt2 = twins.make("gpt", outputs=20, depth=2, width=16, heads=4, context=8, dropout=0.1)
    yield "gpt2", Tokens(8, 20), with_dropout(gpt2), classify(20), 0.0625
    llama = twins.make("gpt", outputs=20, style="llama", depth=2, width=16, heads=4, kv_heads=2,
                       mlp_width=20, context=8, tied=False)
    yield "llama", Tokens(8, 20), llama, classify(20), 0.0625


def deep_cases():
    for name, shape, width in (("resnet20", (3, 8, 8), 2), ("resnet50", (3, 65, 5), 1)):
        net = twins.make(name, input=shape, outputs=5, width=width)
        yield name, Floats(*shape), net, classify(5)


def all_cases():
    for cases in (image_cases, norm_cases, sequence_cases, activation_cases, branch_cases,
                  loss_cases, run_cases, deep_cases):
        yield from cases()
