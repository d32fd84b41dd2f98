#!/usr/bin/env python3
"""Networks whose last layer gets other outputs (--head), trained by PyTorch in float64.

Writes what tests/cli/head.sh reads: head/NAME.onnx, head/NAME.npz, and head/torch.txt, a line a network: its name, the value of --head, the
flags joined by commas, - and the losses of 8 steps.  The new weights are drawn here as docs/guide/fine-tune.md describes them: Philox4x32-10 by the seed and
the tensor's name, apart from dpexec's code.
"""
import os
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "head")
SAMPLES, BATCH, STEPS, SEED = 30, 10, 8, 5
DRAW = 0x64616568


def philox(name, n, seed=SEED):
    """n words: element i is word i % 4 of the block with counter (i // 4, 0, DRAW, hash of the name)."""
    hashed = 14695981039346656037
    for byte in name.encode() + b"\0":
        hashed = (hashed ^ byte) * 1099511628211 % 2**64
    blocks = np.arange((n + 3) // 4, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    c = [blocks, np.zeros_like(blocks), np.full_like(blocks, DRAW), np.full_like(blocks, (hashed ^ hashed >> 32) & 0xFFFFFFFF)]
    k0, k1 = np.uint64(seed), np.uint64(0)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & low]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack(c, 1).reshape(-1)[:n]


def fresh(name, shape, fan_in):
    words = philox(name, int(np.prod(shape))).astype(np.float64)
    bound = 1 / np.sqrt(fan_in)
    return torch.from_numpy(((2 * (words + 0.5) / 2**32 - 1) * bound).astype(np.float32).reshape(shape)).double()


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(6, 8), nn.Linear(8, 10)
        self.probabilities = True

    def forward(self, x):
        y = self.fc(torch.relu(self.body(x)))
        return torch.softmax(y, 1) if self.probabilities else y


class Resnet(nn.Module):
    """A residual block, and a convolution as classifier, whose scores are averaged over the image."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.one, self.two = nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.classifier = nn.Conv2d(6, 10, 1)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = torch.relu(x + self.two(torch.relu(self.one(x))))
        return F.adaptive_avg_pool2d(self.classifier(x), 1).flatten(1)


class Transformer(nn.Module):
    """A classifier of words whose layer scores each position (MatMul and Add), averaged."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.head = nn.Linear(8, 10)

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(1, 2) / 8**0.5, -1) @ v)
        return self.head(x).mean(1)


class Tied(nn.Module):
    """A language model whose scores are products with its embedding."""

    def __init__(self):
        super().__init__()
        self.embed, self.body = nn.Embedding(12, 8), nn.Linear(8, 8)
        self.own = None

    def forward(self, ids):
        x = torch.tanh(self.body(self.embed(ids)))
        return (x @ (self.embed.weight if self.own is None else self.own).t()).transpose(1, 2)


class Two(nn.Module):
    """Two outputs, of a layer each."""

    def __init__(self):
        super().__init__()
        self.body, self.main, self.side = nn.Linear(6, 8), nn.Linear(8, 10), nn.Linear(8, 10)

    def forward(self, x):
        x = torch.tanh(self.body(x))
        return self.main(x), self.side(x)


class Number(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.fc(torch.tanh(self.body(x)))


def renew(layer, prefix, n, weight=None):
    """The layer's parameters for n outputs; `weight`: the name and the shape that the file has, if not PyTorch's own."""
    fan_in = layer.weight[0].numel()
    name, shape, turn = weight or (f"{prefix}.weight", (n, *layer.weight.shape[1:]), False)
    drawn = fresh(name, shape, fan_in)
    layer.weight = nn.Parameter(drawn.t().contiguous() if turn else drawn)
    layer.bias = nn.Parameter(fresh(f"{prefix}.bias", (n,), fan_in))


def product_weight(name):
    """The name and the shape of the matrix that the file's last MatMul reads."""
    import onnx

    graph = onnx.load(os.path.join(HERE, name + ".onnx")).graph
    read = [node.input[1] for node in graph.node if node.op_type == "MatMul"][-1]
    return read, [tuple(t.dims) for t in graph.initializer if t.name == read][0]


def export(model, name, example, outputs=("scores",), key="x"):
    """Folded, the file has the transformer's weights transposed, and its last one without the name of PyTorch."""
    folded = name == "transformer"
    os.makedirs(HERE, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (example,), os.path.join(HERE, name + ".onnx"), input_names=[key], output_names=list(outputs), dynamo=False,
                          training=torch.onnx.TrainingMode.EVAL if folded else torch.onnx.TrainingMode.TRAINING, do_constant_folding=folded,
                          opset_version=17,
                          dynamic_axes={key: {0: "n"}, **{o: {0: "n"} for o in outputs}})


def train(model, parameters, loss_of, x, y):
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    for step in range(STEPS):
        at = slice(step % (SAMPLES // BATCH) * BATCH, step % (SAMPLES // BATCH) * BATCH + BATCH)
        loss = loss_of(model(x[at]), y[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def networks(rng):
    """Name, --head, flags, the model as it is exported, its input, what makes it the new one, targets, the loss."""
    vectors = torch.from_numpy(rng.standard_normal((SAMPLES, 6)).astype(np.float32))
    images = torch.from_numpy(rng.standard_normal((SAMPLES, 3, 5, 5)).astype(np.float32))
    words = torch.from_numpy(rng.integers(0, 12, (SAMPLES, 4)))
    four, three, seven = (torch.from_numpy(rng.integers(0, n, s)) for n, s in ((4, SAMPLES), (3, SAMPLES), (7, (SAMPLES, 4))))
    numbers = torch.from_numpy(rng.standard_normal((SAMPLES, 3)).astype(np.float32))
    entropy = F.cross_entropy

    def mlp(m):
        m.probabilities = False
        renew(m.fc, "fc", 4)

    def transformer(m):
        name, shape = product_weight("transformer")
        renew(m.head, "head", 3, (name, (shape[0], 3), True))

    def tied(m):
        m.own = nn.Parameter(fresh("head.weight", (7, 8), 8))

    yield "mlp", "4", "--loss=cross-entropy", Mlp(), vectors, mlp, four, entropy
    yield "resnet", "3", "--loss=cross-entropy", Resnet(), images, lambda m: renew(m.classifier, "classifier", 3), three, entropy
    yield "transformer", "3", "--loss=cross-entropy", Transformer(), words, transformer, three, entropy
    yield "tied", "7", "--loss=cross-entropy,--class-axis=1", Tied(), words, tied, seven, entropy
    yield "two", "side=3", "--loss=cross-entropy,--logits=side", Two(), vectors, lambda m: renew(m.side, "side", 3), three, \
        lambda y, t: entropy(y[1], t)
    yield "number", "3", "--loss=mse", Number(), vectors, lambda m: renew(m.fc, "fc", 3), numbers, F.mse_loss


def main():
    rng = np.random.default_rng(2)
    os.makedirs(HERE, exist_ok=True)
    with open(os.path.join(HERE, "torch.txt"), "w", encoding="utf-8") as out:
        for i, (name, head, flags, model, x, change, y, loss) in enumerate(networks(rng)):
            torch.manual_seed(i)
            for p in model.parameters():    # apart from the draws of other versions of PyTorch
                p.data = torch.from_numpy(rng.standard_normal(tuple(p.shape)).astype(np.float32) / 2)
            export(model.train(), name, x[:2], ("main", "side") if name == "two" else ("scores",))
            np.savez_compressed(os.path.join(HERE, name + ".npz"), x=x.numpy(), target=y.numpy())
            model = model.double()
            change(model)
            x, y = (t.double() if t.is_floating_point() else t for t in (x, y))
            print(name, head, flags, "-", *map(repr, train(model, list(model.parameters()), loss, x, y)), file=out)


main()
