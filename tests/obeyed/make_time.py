#!/usr/bin/env python3
"""Makes the cases time_first_*: scores [T, N, C] and [T, C, N], mostly with as many steps of time as samples in a batch.

    make_time.py [CASE...]      needs the packages of tests/networks/requirements.txt
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
LR, BATCH, T, SAMPLES, CLASSES = 0.1, 4, 4, 12, 4


class Recurrent(nn.Module):
    """x [T, N, 3], as recurrent layers take it by default; `last`: scores [T, N, C], else [T, C, N]."""

    def __init__(self, layer, last=True):
        super().__init__()
        self.layer, self.out, self.last = layer, nn.LazyLinear(CLASSES), last

    def forward(self, x):
        y = self.out(self.layer(x)[0])
        return y if self.last else y.permute(0, 2, 1)


class Attention(nn.Module):
    """A Transformer as PyTorch has it by default: x [T, N, 4], the sequence first."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.out(self.layer(x))


class Recogniser(nn.Module):
    """As networks for CTC: x [N, 3, T] through convolutions and an LSTM to log-probabilities [T, N, C]."""

    def __init__(self, norm=True):
        super().__init__()
        self.norm = nn.BatchNorm1d(6) if norm else nn.Identity()
        self.conv, self.layer, self.out = nn.Conv1d(3, 6, 3, padding=1), nn.LSTM(6, 5), nn.Linear(5, CLASSES)

    def forward(self, x):
        h = torch.relu(self.norm(self.conv(x))).permute(2, 0, 1)
        return self.out(self.layer(h)[0]).log_softmax(-1)


def forget_traces(file):
    """Where in Python nodes come from: most of such a file."""
    model = onnx.load(file)
    for node in (n for g in (model.graph, *model.functions) for n in g.node):
        kept = [(p.key, p.value) for p in node.metadata_props if p.key != "pkg.torch.onnx.stack_trace"]
        node.ClearField("metadata_props")
        for key, text in kept:
            node.metadata_props.add(key=key, value=text)
    onnx.save(model, file)


def make(name, net, batch_of_x, how, loss="cross-entropy", class_axis=2, flags=(), says=(), length=T, width=3):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    x = torch.randn(*((length, SAMPLES, width) if batch_of_x else (SAMPLES, width, length)))
    target = torch.randint(0, CLASSES, (length, SAMPLES))
    net.eval()(x)
    example, names = x.narrow(batch_of_x, 0, BATCH if how == "fixed" else 3), {"input_names": ["x"], "output_names": ["y"]}
    training = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False} if isinstance(net, Recogniser) else {}
    if how == "legacy":
        axis_of_y = 2 if class_axis == 1 else 1
        torch.onnx.export(net, (example,), folder / "model.onnx", dynamo=False, dynamic_axes={"x": {batch_of_x: "batch"}, "y": {axis_of_y: "batch"}},
                          **names, **training)
    else:
        shapes = {} if how.startswith("fixed") else {"dynamic_shapes": ({batch_of_x: torch.export.Dim("batch")},)}
        torch.onnx.export(net, (example,), folder / "model.onnx", dynamo=True, external_data=False, verbose=False, optimize=how != "fixed_plain", **shapes, **names)
    forget_traces(folder / "model.onnx")
    np.savez(folder / "data.npz", x=x.movedim(batch_of_x, 0).numpy(), target=target.T.numpy())
    net, losses = net.double().train(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    for at in range(0, SAMPLES, BATCH):
        y = net(x.narrow(batch_of_x, at, BATCH).double()).movedim(class_axis, 1)
        value = (F.nll_loss if loss == "nll" else F.cross_entropy)(y, target[:, at:at + BATCH])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    expected = {"model": "model.onnx", "data": "data.npz", "flags": ["--loss", loss, "--batch-size", str(BATCH), "--lr", str(LR), *flags]}
    expected.update({"says": list(says)} if says else {"losses": losses})
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def time_first_lstm():
    make("time_first_lstm", Recurrent(nn.LSTM(3, 5, bidirectional=True)), 1, "legacy")


def time_first_gru():
    make("time_first_gru", Recurrent(nn.GRU(3, 5), last=False), 1, "plain", class_axis=1)


def time_first_recogniser():
    make("time_first_recogniser", Recogniser(), 0, "legacy", "nll")


def time_first_told():
    make("time_first_told", Recurrent(nn.LSTM(3, 5)), 1, "fixed",
         flags=["--batch-input", "x:1", "--batch-input", "target:1", "--class-axis", "2"])


def time_first_fixed():
    make("time_first_fixed", Recurrent(nn.GRU(3, 5)), 1, "fixed", flags=["--class-axis", "2"],
         says=["GRU runs over the samples as over steps of time", "give --batch-input NAME:AXIS"])


def time_first_states():
    """The example's batch, which is not the run's, in both of an LSTM's first states."""
    make("time_first_states", Recogniser(norm=False), 0, "fixed_plain", "nll", length=5)


def time_first_attention():
    """Data that fit the first axis of x [5, 3, 4] as samples, too."""
    make("time_first_attention", Attention(), 1, "fixed_plain", flags=["--class-axis", "2"], length=5, width=4,
         says=["MatMul mixes the samples: the batch is taken along the first axis of the inputs, whose 5 the file fixes",
               "give --batch-input NAME:AXIS"])
    np.savez(HERE / "time_first_attention" / "data.npz", x=np.random.default_rng(1).standard_normal((8, 3, 4), np.float32),
             target=np.arange(24).reshape(8, 3) % CLASSES)


def time_first_attention_told():
    make("time_first_attention_told", Attention(), 1, "fixed_plain", length=5, width=4, flags=["--batch-input", "x:1", "--class-axis", "2"])


CASES = [time_first_states, time_first_attention, time_first_attention_told, time_first_lstm, time_first_gru, time_first_recogniser, time_first_told, time_first_fixed]

if __name__ == "__main__":
    for case in CASES:
        torch.manual_seed(3)
        if not sys.argv[1:] or case.__name__ in sys.argv[1:]:
            case()
