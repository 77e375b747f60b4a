"""PyTorch twins of the presets: the same networks, with the same names of tensors.

    import sys
    sys.path.insert(0, "tools")  # of a checkout of Starling
    import torch, twins
    from safetensors.torch import load_file

    model = twins.make("resnet20", input=(1, 28, 28), outputs=10)
    model.load_state_dict(load_file("model.safetensors"))  # from `starling export`
    model.eval()

`make` takes the keys of [model] in the run file, and two facts that the data determine: the shape
of a sample (`input`; None for gpt) and the number of classes (`outputs`; the vocabulary for gpt).
Samples must be scaled as in Starling. A gpt returns logits for every position.

resnet18 and resnet50 also have torchvision's names, and for images of more than 64 pixels its
layers; gpt has nanoGPT's names, in Llama's style those of Hugging Face's Phi-3, which also fuses
the projections for queries, keys and values, and those for the two halves of the MLP.
"""
import torch
import torch.nn.functional as F
from torch import nn

SMALL_IMAGE = 64


def make(preset, input=None, outputs=10, **sizes):
    """The twin of a preset; `sizes` are its keys in the run file."""
    makers = {"mlp": Mlp, "cnn": Cnn, "resnet20": resnet20, "resnet18": resnet18,
              "resnet50": resnet50, "gpt": Gpt}
    if preset not in makers:
        raise ValueError(f"there is no preset {preset!r}, but: {', '.join(makers)}")
    if preset == "gpt":
        return Gpt(sizes.pop("vocabulary", 0) or outputs, **sizes)
    return makers[preset](tuple(input), outputs, **sizes)


# ---- mlp, cnn ---------------------------------------------------------------------------------

class Mlp(nn.Module):
    def __init__(self, input, outputs, widths=(256,)):
        super().__init__()
        sides = [torch.Size(input).numel(), *widths]
        layers = []
        for a, b in zip(sides, sides[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(sides[-1], outputs))

    def forward(self, x):
        return self.layers(x.flatten(1))


class Cnn(nn.Module):
    def __init__(self, input, outputs, width=0):
        super().__init__()
        width = width or 32
        channels, height, side = input
        features = 2 * width * ((height - 4) // 2) * ((side - 4) // 2)
        self.layers = nn.Sequential(
            nn.Conv2d(channels, width, 3), nn.ReLU(), nn.Conv2d(width, 2 * width, 3), nn.ReLU(),
            nn.MaxPool2d(2), nn.Linear(features, 4 * width), nn.ReLU(),
            nn.Linear(4 * width, outputs))

    def forward(self, x):
        return self.layers[5:](self.layers[:5](x).flatten(1))


# ---- resnets ----------------------------------------------------------------------------------

def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    """Two 3x3 convolutions, or a bottleneck, beside a shortcut."""

    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            self.conv1, self.bn1 = conv(inputs, width, 1), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = conv(width, outputs, 1), nn.BatchNorm2d(outputs)
        else:
            self.conv1, self.bn1 = conv(inputs, width, 3, stride), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = conv(width, outputs, 3), nn.BatchNorm2d(outputs)
            self.conv3 = None
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.conv3 is not None:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, input, outputs, width, blocks, bottleneck, large_stem):
        super().__init__()
        self.large_stem = large_stem
        self.conv1 = conv(input[0], width, *((7, 2) if large_stem else (3, 1)))
        self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for stage, count in enumerate(blocks):
            layer = []
            for i in range(count):
                layer.append(Block(inputs, width << stage, 2 if stage and i == 0 else 1,
                                   bottleneck))
                inputs = (width << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.stages = len(blocks)
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.large_stem:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def resnet20(input, outputs, width=0):
    return ResNet(input, outputs, width or 16, (3, 3, 3), False, False)


def resnet18(input, outputs, width=0):
    return ResNet(input, outputs, width or 64, (2, 2, 2, 2), False, max(input[1:]) > SMALL_IMAGE)


def resnet50(input, outputs, width=0):
    return ResNet(input, outputs, width or 64, (3, 4, 6, 3), True, max(input[1:]) > SMALL_IMAGE)


# ---- gpt --------------------------------------------------------------------------------------

class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x, base=10000.0):
    """Rotary positions: the two halves of the features of each head are rotated."""
    positions, size = x.shape[-2:]
    exact = torch.promote_types(x.dtype, torch.float32)
    inverse = base ** (-torch.arange(0, size, 2, dtype=exact, device=x.device) / size)
    angles = torch.outer(torch.arange(positions, device=x.device), inverse).repeat(1, 2)
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()


def attention(qkv, heads, kv_heads, rotary):
    """Causal; the features are `heads` queries, then `kv_heads` keys and `kv_heads` values."""
    q, k, v = qkv.unflatten(-1, (heads + 2 * kv_heads, -1)).transpose(1, 2).split(
        (heads, kv_heads, kv_heads), 1)
    if rotary:
        q, k = rotated(q), rotated(k)
    k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Gpt2Block(nn.Module):
    def __init__(self, width, heads, kv_heads, mlp_width, dropout):
        super().__init__()
        self.heads, self.kv_heads, self.dropout = heads, kv_heads, nn.Dropout(dropout)
        qkv = width // heads * (heads + 2 * kv_heads)
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, qkv),
                                   "c_proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, mlp_width),
                                  "c_proj": nn.Linear(mlp_width, width)})

    def forward(self, x):
        y = attention(self.attn.c_attn(self.ln_1(x)), self.heads, self.kv_heads, False)
        x = x + self.dropout(self.attn.c_proj(y))
        y = F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.dropout(self.mlp.c_proj(y))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, mlp_width, dropout):
        super().__init__()
        self.heads, self.kv_heads, self.dropout = heads, kv_heads, nn.Dropout(dropout)
        qkv = width // heads * (heads + 2 * kv_heads)
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(width), RmsNorm(width)
        self.self_attn = nn.ModuleDict({"qkv_proj": nn.Linear(width, qkv, bias=False),
                                        "o_proj": nn.Linear(width, width, bias=False)})
        self.mlp = nn.ModuleDict({"gate_up_proj": nn.Linear(width, 2 * mlp_width, bias=False),
                                  "down_proj": nn.Linear(mlp_width, width, bias=False)})

    def forward(self, x):
        qkv = self.self_attn.qkv_proj(self.input_layernorm(x))
        y = self.self_attn.o_proj(attention(qkv, self.heads, self.kv_heads, True))
        x = x + self.dropout(y)
        gate, up = self.mlp.gate_up_proj(self.post_attention_layernorm(x)).chunk(2, -1)
        return x + self.dropout(self.mlp.down_proj(F.silu(gate) * up))


class Gpt(nn.Module):
    """Tokens {samples, positions} to logits {samples, positions, vocabulary}."""

    def __init__(self, vocabulary, style="gpt2", depth=4, width=0, heads=4, kv_heads=0,
                 mlp_width=0, context=128, dropout=0.0, tied=True):
        super().__init__()
        width = width or 256
        gpt2 = style == "gpt2"
        mlp_width = mlp_width or (4 * width if gpt2 else (8 * width // 3 + 31) // 32 * 32)
        block = Gpt2Block if gpt2 else LlamaBlock
        blocks = nn.ModuleList(block(width, heads, kv_heads or heads, mlp_width, dropout)
                               for _ in range(depth))
        embedding, self.dropout = nn.Embedding(vocabulary, width), nn.Dropout(dropout)
        if gpt2:
            self.transformer = nn.ModuleDict({"wte": embedding,
                                              "wpe": nn.Embedding(context, width),
                                              "h": blocks, "ln_f": nn.LayerNorm(width)})
        else:
            self.model = nn.ModuleDict({"embed_tokens": embedding, "layers": blocks,
                                        "norm": RmsNorm(width)})
        self.gpt2 = gpt2
        if not tied:
            self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        if self.gpt2:
            parts = self.transformer
            embedding, blocks, norm = parts.wte, parts.h, parts.ln_f
            x = embedding(tokens) + parts.wpe.weight[:tokens.shape[1]]
        else:
            parts = self.model
            embedding, blocks, norm = parts.embed_tokens, parts["layers"], parts.norm
            x = embedding(tokens)
        x = self.dropout(x)
        for block in blocks:
            x = block(x)
        x = norm(x)
        return self.lm_head(x) if hasattr(self, "lm_head") else F.linear(x, embedding.weight)
