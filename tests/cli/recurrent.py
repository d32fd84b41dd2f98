#!/usr/bin/env python3
"""Recurrent networks trained by PyTorch 2.15 in float64: language models and classifiers, of 1 and 2 layers, in one direction and both,
over sequences of one length and, packed, of unequal lengths.

Writes what tests/cli/recurrent.sh reads: recurrent/NAME.onnx, two files of data, and torch.txt, a line a network: its name, its flags, -
and the losses of 20 steps.
"""
import os
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recurrent")
SAMPLES, BATCH, LENGTH, WORDS, IGNORED = 35, 5, 6, 11, -100


class Network(nn.Module):
    """Scores of each position, or of each sequence by its last states and all outputs."""

    def __init__(self, kind, layers, both, packed, classes=0, start=False, **more):
        super().__init__()
        self.packed, self.classes = packed, classes
        self.embed = nn.Embedding(WORDS, 5)
        self.rnn = kind(5, 7, layers, bidirectional=both, batch_first=True, **more)
        self.out = nn.Linear(7 * (1 + both), classes or WORDS)
        self.start = nn.Parameter(torch.randn(layers * (1 + both), 1, 7)) if start else None

    def forward(self, ids, lengths=None):
        x = self.embed(ids)
        state = None if self.start is None else self.start.expand(-1, ids.shape[0], -1).contiguous()
        if self.packed:     # an export cannot sort samples, and need not
            x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=torch.onnx.is_in_onnx_export())
        y, last = self.rnn(x, state)
        if self.packed:
            y, _ = pad_packed_sequence(y, batch_first=True, total_length=ids.shape[1])
        if self.classes:    # padding is zeros in y
            h = last[0] if isinstance(last, tuple) else last
            return self.out(torch.cat([*h[-(1 + self.rnn.bidirectional):]], 1) + y.sum(1))
        return self.out(y).transpose(1, 2)


NETWORKS = {
    "lstm": lambda: Network(nn.LSTM, 1, False, False),
    "lstm_deep": lambda: Network(nn.LSTM, 2, True, False),
    "lstm_packed": lambda: Network(nn.LSTM, 2, True, True),
    "lstm_class": lambda: Network(nn.LSTM, 1, True, True, 3),
    "gru": lambda: Network(nn.GRU, 2, False, False, start=True),
    "gru_class": lambda: Network(nn.GRU, 1, False, False, 3),
    "gru_packed": lambda: Network(nn.GRU, 2, True, True),
    "rnn": lambda: Network(nn.RNN, 1, False, False),
    "rnn_packed": lambda: Network(nn.RNN, 2, True, True, nonlinearity="relu"),
}


def make_data():
    rng = np.random.default_rng(1)
    ids, words, classes = rng.integers(0, WORDS, (SAMPLES, LENGTH)), rng.integers(0, WORDS, (SAMPLES, LENGTH)), rng.integers(0, 3, SAMPLES)
    lengths = rng.integers(1, LENGTH + 1, SAMPLES)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    cut = lambda a: np.concatenate([row[:n] for row, n in zip(a, lengths)])
    np.savez_compressed(os.path.join(HERE, "whole.npz"), ids=ids, words=words, classes=classes)
    np.savez_compressed(os.path.join(HERE, "ragged.npz"), ids=cut(ids), words=cut(words), classes=classes, **{"ids.offsets": ends, "words.offsets": ends})
    return tuple(map(torch.from_numpy, (ids, words, classes, lengths)))


def export(model, name):
    names = ["ids", "lengths"] if model.packed else ["ids"]
    inputs = (torch.zeros(2, LENGTH, dtype=torch.long), torch.tensor([LENGTH, 2]))[:len(names)]
    axes = {"ids": {0: "n", 1: "time"}, "lengths": {0: "n"}, "scores": {0: "n"} if model.classes else {0: "n", 2: "time"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, os.path.join(HERE, name + ".onnx"), input_names=names, output_names=["scores"], dynamo=False,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17, dynamic_axes=axes)


def train(model, data):
    ids, words, classes, lengths = data
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for step in range(20):
        at = slice(step % 7 * BATCH, step % 7 * BATCH + BATCH)
        n = lengths[at]
        if model.packed:
            longest = n.max()
            there = torch.arange(longest)[None] < n[:, None]
            x, y = ids[at, :longest] * there, torch.where(there, words[at, :longest], IGNORED)
            scores = model(x, n)
        else:
            y = words[at]
            scores = model(ids[at])
        loss = F.cross_entropy(scores, classes[at] if model.classes else y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def main():
    os.makedirs(HERE, exist_ok=True)
    data = make_data()
    with open(os.path.join(HERE, "torch.txt"), "w") as out:
        for i, (name, make) in enumerate(NETWORKS.items()):
            torch.manual_seed(i)
            model = make().double().train()
            export(model, name)
            print(name, "ragged" if model.packed else "whole", "classes" if model.classes else "words", *map(repr, train(model, data)), file=out)


main()
