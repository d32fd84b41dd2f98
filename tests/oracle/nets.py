"""The models of models/*.onnx as plain PyTorch modules.  Names of parameters equal the ONNX initializers' names."""
import math
import pathlib
import sys

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models"))
import torch_nets  # noqa: E402


class Mlp(nn.Module):
    def __init__(self, widths=(64, 128, 64, 10)):
        super().__init__()
        for i, (a, b) in enumerate(zip(widths, widths[1:]), 1):
            self.add_module(f"fc{i}", nn.Linear(a, b))

    def forward(self, x):
        first, *rest = [m for m in self.children() if isinstance(m, nn.Linear)]
        x = first(x)
        for fc in rest:
            x = fc(torch.relu(x))
        return x


class SmallMlp(Mlp):
    """Of variants.py; `head` comes after the logits."""

    def __init__(self, head):
        super().__init__((64, 32, 10))
        self.head = head

    def forward(self, x):
        return self.head(super().forward(x))


class ConvNet(nn.Module):
    """A flat set of layers conv<name>, bn<name>."""

    def add(self, name, cin, cout, k=3, stride=1, bias=False):
        self.add_module(f"conv{name}", nn.Conv2d(cin, cout, k, stride, k // 2, bias=bias))
        self.add_module(f"bn{name}", nn.BatchNorm2d(cout))

    def conv_bn(self, x, name):
        return getattr(self, f"bn{name}")(getattr(self, f"conv{name}")(x))


class FashionCnn(ConvNet):
    def __init__(self):
        super().__init__()
        for i, (a, b) in enumerate([(1, 16), (16, 32), (32, 64)], 1):
            self.add(i, a, b)
        self.fc = nn.Linear(576, 10)

    def forward(self, x):
        for i in (1, 2, 3):
            x = F.max_pool2d(torch.relu(self.conv_bn(x, i)), 2)
        return self.fc(x.flatten(1))


class Resnet20(ConvNet):
    def __init__(self):
        super().__init__()
        self.add(1, 3, 16)
        self.blocks, n = [], 16
        for s, c in enumerate((16, 32, 64), 1):
            for b in (1, 2, 3):
                name, stride = f"{s}_{b}", 1 if c == n else 2
                self.add(name + "a", n, c, stride=stride)
                self.add(name + "b", c, c)
                if c != n:
                    self.add(name + "s", n, c, 1, stride)
                self.blocks.append((name, c != n))
                n = c
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.conv_bn(x, 1))
        for name, project in self.blocks:
            y = self.conv_bn(torch.relu(self.conv_bn(x, name + "a")), name + "b")
            x = torch.relu(y + (self.conv_bn(x, name + "s") if project else x))
        return self.fc(x.mean((2, 3)))


class Linear(nn.Module):
    """x W + b with W [cin, cout]."""

    def __init__(self, cin, cout, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(cin, cout))
        self.bias = nn.Parameter(torch.empty(cout)) if bias else None

    def forward(self, x):
        return x @ self.weight + self.bias if self.bias is not None else x @ self.weight


class Bias(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.empty(width))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = Linear(width, 3 * width, bias=False), Linear(width, width)
        self.q, self.k, self.v = Bias(width), Bias(width), Bias(width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = [(part + m.bias).view(b, t, self.heads, -1).transpose(1, 2)
                   for part, m in zip(self.qkv(x).split(c, 2), (self.q, self.k, self.v))]
        scores = q @ k.transpose(2, 3) / math.sqrt(c // self.heads)
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -1e9)
        return self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(width), Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, vocab=256, length=64, width=128, heads=4, layers=5):
        super().__init__()
        self.embedding, self.position = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.layers = layers
        for i in range(layers):
            self.add_module(str(i), Layer(width, heads))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position.weight
        for i in range(self.layers):
            x = getattr(self, str(i))(x)
        return (self.norm(x) @ self.embedding.weight.T).transpose(1, 2)


class Unet(ConvNet):
    def __init__(self):
        super().__init__()
        for name, a, b in [("_down1", 3, 12), ("_down2", 12, 24), ("_bottom", 24, 48), ("_up2", 72, 24), ("_up1", 36, 12)]:
            self.add(name + "a", a, b, bias=True)
            self.add(name + "b", b, b, bias=True)
        self.conv_out = nn.Conv2d(12, 2, 1)

    def double(self, x, name):
        return torch.relu(self.conv_bn(torch.relu(self.conv_bn(x, name + "a")), name + "b"))

    def forward(self, x):
        d1 = self.double(x, "_down1")
        d2 = self.double(F.max_pool2d(d1, 2), "_down2")
        x = self.double(F.max_pool2d(d2, 2), "_bottom")
        x = self.double(torch.cat([d2, F.interpolate(x, scale_factor=2)], 1), "_up2")
        x = self.double(torch.cat([d1, F.interpolate(x, scale_factor=2)], 1), "_up1")
        return self.conv_out(x)


def folded():
    """torch_nets.folded as its exporter left it: each convolution has a bias and has swallowed its batch-norm."""
    net = torch_nets.folded()
    for seq in [m for m in net.modules() if isinstance(m, nn.Sequential)]:
        for i, (conv, bn) in enumerate(zip(seq, list(seq)[1:])):
            if isinstance(bn, nn.BatchNorm2d):
                seq[i] = nn.Conv2d(conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding)
                seq[i + 1] = nn.Identity()
    return net


NETS = {"mlp": Mlp, "fashion_cnn": FashionCnn, "resnet20": Resnet20, "transformer": Transformer, "unet": Unet,
        "exported_mobilenet": torch_nets.mobilenet, "exported_encoder": torch_nets.encoder, "exported_folded": folded,
        "mlp_sigmoid": lambda: SmallMlp(nn.Sigmoid()), "mlp_logsoftmax": lambda: SmallMlp(nn.LogSoftmax(1)),
        "mlp_loss": lambda: SmallMlp(nn.Identity())}


def file_names(net, model):
    """{name in the module: name in the file}; they differ where the exporter renamed folded convolutions."""
    names = {n: n for n in net.state_dict() if "num_batches" not in n}
    inits = {t.name for t in model.graph.initializer}
    if not set(names) <= inits:
        nodes = [n for n in model.graph.node if n.op_type == "Conv"]
        for path in [path for path, m in net.named_modules() if isinstance(m, nn.Conv2d)]:
            names[f"{path}.weight"], names[f"{path}.bias"] = nodes.pop(0).input[1:3]
    return names


def load(path, dtype):
    """The module with the weights of the model at `path`, and its names in the file."""
    model = onnx.load(str(ROOT / path))
    inits = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in model.graph.initializer}
    net = NETS[pathlib.Path(path).stem]()
    names = file_names(net, model)
    net.load_state_dict({m: inits[f] for m, f in names.items()}, strict=False)
    return net.to(dtype), names
