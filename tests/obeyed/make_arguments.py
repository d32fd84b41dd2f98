"""Arguments of PyTorch's calls for which ONNX has no word: padding_idx of embeddings, label_smoothing of a model's own
loss, divisor_override of poolings.

    make_arguments.py          writes padding_row*/, smoothed_loss*/ and divided_pool/ beside this file
"""
import json
import logging
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
STEPS, BATCH, RATE = 6, 5, 0.3
logging.disable(logging.CRITICAL)
N = torch.export.Dim("N")


class Words(nn.Module):
    """Two tables, one of which is the output's matrix too; a padding row reaches the loss."""

    def __init__(self):
        super().__init__()
        self.word, self.kind = nn.Embedding(7, 4, padding_idx=3), nn.Embedding(3, 4, padding_idx=0)
        with torch.no_grad():       # trained a little: no row is zero any more
            for table in (self.word, self.kind):
                table.weight.add_(torch.randn_like(table.weight) * 0.3)

    def forward(self, x):
        return torch.tanh(self.word(x) + self.kind(x % 3)).mean(1) @ self.word.weight.t()


class Smoothed(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.lin, self.options = nn.Linear(4, 3), options

    def forward(self, x, target):
        return F.cross_entropy(self.lin(x), target, **self.options)


class Divided(nn.Module):
    """A mean over 4 positions that is divided by 3: no file holds the 3."""

    def __init__(self, pools=1):
        super().__init__()
        self.pools = pools
        self.conv, self.out = nn.Conv2d(1, 2, 3, padding=1), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(sum(F.avg_pool2d(self.conv(x) * (k + 1), 2, 2, divisor_override=3) for k in range(self.pools)).flatten(1))


def losses(net, x, target):
    net = net.double()
    sgd, found = torch.optim.SGD(net.parameters(), RATE), []
    for k in range(STEPS):
        at = slice(k * BATCH, (k + 1) * BATCH)
        loss = net(x[at].double(), target[at]) if isinstance(net, Smoothed) else F.cross_entropy(net(x[at]), target[at])
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        found.append(loss.item())
    return found


def write(name, net, x, target, optimize, flags):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    own = isinstance(net, Smoothed)
    given = (x[:BATCH], target[:BATCH]) if own else (x[:BATCH],)
    torch.onnx.export(net, given, str(folder / "model.onnx"), dynamo=True, optimize=optimize, verbose=False, external_data=False,
                      input_names=["x", "target"][:len(given)], output_names=["y"], dynamic_shapes=({0: N},) * len(given))
    np.savez(folder / "data.npz", x=x.numpy(), target=target.numpy())
    flags = [*flags, "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(RATE)]
    expected = {"says": ["lost divisor_override=3" if net.pools < 4 else "and 1 more node such arguments"]} if isinstance(net, Divided) else {"losses": losses(net, x, target)}
    (folder / "expected.json").write_text(json.dumps({"model": "model.onnx", "data": "data.npz", "flags": flags, **expected,
                                                      "source": f"PyTorch {torch.__version__.split('+')[0]} in float64"}, indent=1) + "\n")


torch.manual_seed(0)
rows = STEPS * BATCH
for name, optimize in (("padding_row", True), ("padding_row_plain", False)):
    write(name, Words(), torch.randint(0, 7, (rows, 6)), torch.randint(0, 7, (rows,)), optimize, ["--loss", "cross-entropy"])
for name, optimize, options in (("smoothed_loss", True, {"label_smoothing": 0.2}),
                                ("smoothed_loss_ignores", False, {"label_smoothing": 0.1, "ignore_index": 1, "reduction": "sum"})):
    write(name, Smoothed(**options), torch.randn(rows, 4), torch.randint(0, 3, (rows,)), optimize, ["--loss", "output:y"])
write("divided_pool", Divided(), torch.randn(rows, 1, 4, 4), torch.randint(0, 3, (rows,)), True, ["--loss", "cross-entropy"])
write("divided_pools", Divided(4), torch.randn(rows, 1, 4, 4), torch.randint(0, 3, (rows,)), True, ["--loss", "cross-entropy"])
