#!/usr/bin/env python3
"""Makes the cases time_first_*: scores [T, N, C] and [T, C, N] with as many steps of time as samples in a batch.

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


class Recogniser(nn.Module):
    """As networks for CTC: x [N, 3, T] through convolutions and an LSTM to log-probabilities [T, N, C]."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.layer, self.out = nn.Conv1d(3, 6, 3, padding=1), nn.BatchNorm1d(6), nn.LSTM(6, 5), nn.Linear(5, CLASSES)

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


def make(name, net, batch_of_x, how, loss="cross-entropy", class_axis=2, flags=(), says=()):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    x = torch.randn(*((T, SAMPLES, 3) if batch_of_x else (SAMPLES, 3, T)))
    target = torch.randint(0, CLASSES, (T, SAMPLES))
    net.eval()(x)
    example, names = x.narrow(batch_of_x, 0, BATCH if how == "fixed" else 3), {"input_names": ["x"], "output_names": ["y"]}
    training = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False} if isinstance(net, Recogniser) else {}
    if how == "legacy":
        axis_of_y = 2 if class_axis == 1 else 1
        torch.onnx.export(net, (example,), folder / "model.onnx", dynamo=False, dynamic_axes={"x": {batch_of_x: "batch"}, "y": {axis_of_y: "batch"}},
                          **names, **training)
    else:
        shapes = {} if how == "fixed" else {"dynamic_shapes": ({batch_of_x: torch.export.Dim("batch")},)}
        torch.onnx.export(net, (example,), folder / "model.onnx", dynamo=True, external_data=False, verbose=False, optimize=True, **shapes, **names)
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


CASES = [time_first_lstm, time_first_gru, time_first_recogniser, time_first_told, time_first_fixed]

if __name__ == "__main__":
    for case in CASES:
        torch.manual_seed(3)
        if not sys.argv[1:] or case.__name__ in sys.argv[1:]:
            case()
