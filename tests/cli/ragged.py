#!/usr/bin/env python3
"""Writes tests/cli/ragged/: models for sequences of unequal length, data for them, and what PyTorch trains on it in float64 (the loss of
each step, and of the whole set before the first).

    pip install torch onnx numpy
    tests/cli/ragged.py

encoder.onnx   nn.TransformerEncoder as PyTorch exports it, with a key padding mask, and scores for each position
words.onnx     embedding, two convolutions and a mean over the positions that there are, by an input `lengths`; a class for each sequence
*.npz          the same sequences one behind the other, and padded with numbers, with NaN, and to another length
"""
import copy
import os
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ragged")
SAMPLES, WIDTH, CLASSES, WORDS, BATCH, STEPS, LR = 10, 8, 5, 11, 4, 10, 0.25
rng = np.random.default_rng(7)
lengths = np.array([3, 7, 1, 5, 6, 2, 4, 4, 1, 9])
offsets = np.concatenate([[0], np.cumsum(lengths)])
x = [rng.standard_normal((n, WIDTH)) for n in lengths]
labels = [rng.integers(0, CLASSES, n) for n in lengths]
words = [rng.integers(1, WORDS, n) for n in lengths]
kind = rng.integers(0, CLASSES, SAMPLES)


def padded(sequences, value, length):
    out = np.full((len(sequences), length, *sequences[0].shape[1:]), value, sequences[0].dtype)
    for row, s in zip(out, sequences):
        row[: len(s)] = s
    return out


def write(name, **arrays):
    np.savez_compressed(os.path.join(HERE, name + ".npz"), **arrays)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, x, mask):
        return self.head(self.encoder(x, src_key_padding_mask=mask))


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, 6)
        self.conv1 = torch.nn.Conv1d(6, 8, 3, padding=1)
        self.conv2 = torch.nn.Conv1d(8, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, CLASSES)

    def forward(self, x, n):
        there = (torch.arange(x.shape[1]) < n[:, None])[:, None].to(self.embed.weight.dtype)
        y = self.embed(x).transpose(1, 2) * there
        y = torch.relu(self.conv1(y)) * there
        y = torch.relu(self.conv2(y)) * there
        return self.head(y.sum(2) / n[:, None].to(y.dtype))


def save_encoder(net):
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("time")}
    mask = torch.zeros(3, 6, dtype=torch.bool)
    mask[0, 4:] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.onnx.export(net, (torch.randn(3, 6, WIDTH), mask), dynamo=True, dynamic_shapes=(axes, axes), opset_version=18, optimize=False,
                                  input_names=["x", "src_key_padding_mask"], output_names=["scores"], verbose=False).model_proto
    del model.metadata_props[:]
    for values in (model.graph.node, model.graph.value_info, model.graph.input, model.graph.output, *(f.node for f in model.functions)):
        for n in values:
            n.doc_string = ""
            del n.metadata_props[:]
    onnx.save(model, os.path.join(HERE, "encoder.onnx"))


def save_words(net):
    """By hand: `there` is Range(time) < lengths."""
    p = {n: v.detach().numpy() for n, v in net.named_parameters()}
    node = h.make_node
    body = [node("Shape", ["words"], ["shape"]), node("Gather", ["shape", "one"], ["time"]), node("Range", ["zero", "time", "one"], ["place"]),
            node("Unsqueeze", ["lengths", "last"], ["n"]), node("Less", ["place", "n"], ["is"]), node("Unsqueeze", ["is", "mid"], ["is3"]),
            node("Cast", ["is3"], ["there"], to=T.FLOAT), node("Gather", ["embed.weight", "words"], ["e"]),
            node("Transpose", ["e"], ["et"], perm=[0, 2, 1]), node("Mul", ["et", "there"], ["y0"])]
    for i in (1, 2):
        body += [node("Conv", ["y%d" % (i - 1), "conv%d.weight" % i, "conv%d.bias" % i], ["c%d" % i], pads=[1, 1]),
                 node("Relu", ["c%d" % i], ["r%d" % i]), node("Mul", ["r%d" % i, "there"], ["y%d" % i])]
    body += [node("ReduceSum", ["y2", "two"], ["sum"], keepdims=0), node("Cast", ["n"], ["nf"], to=T.FLOAT), node("Div", ["sum", "nf"], ["mean"]),
             node("Gemm", ["mean", "head.weight", "head.bias"], ["scores"], transB=1)]
    numbers = {"zero": np.int64(0), "one": np.int64(1), "last": np.array([1]), "mid": np.array([1]), "two": np.array([2])}
    graph = h.make_graph(body, "words", [h.make_tensor_value_info("words", T.INT64, ["batch", "time"]),
                                         h.make_tensor_value_info("lengths", T.INT64, ["batch"])],
                         [h.make_tensor_value_info("scores", T.FLOAT, ["batch", CLASSES])],
                         [nh.from_array(np.asarray(v), n) for n, v in {**p, **numbers}.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, "words.onnx"))


MASK = 2**64 - 1


def grouped(epoch):
    """The order of --group-by-length --seed 3, as docs/reference/ragged.md says it, of samples whose arrays are all `lengths` long."""
    state = (3 * 0xD1342543DE82EF95 + epoch) & MASK

    def below(n):
        nonlocal state
        while True:
            state = (state + 0x9E3779B97F4A7C15) & MASK
            z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
            r = z ^ z >> 31
            if r >= 2**64 % n:
                return r % n

    def shuffle(things):
        for i in range(len(things) - 1, 0, -1):
            j = below(i + 1)
            things[i], things[j] = things[j], things[i]

    order = list(range(SAMPLES))
    shuffle(order)
    full = SAMPLES // BATCH * BATCH
    alike = sorted(order[:full], key=lambda i: lengths[i])
    groups = [alike[i : i + BATCH] for i in range(0, full, BATCH)]
    shuffle(groups)
    return np.array(sum(groups, []) + order[full:])


def batches(order_of=lambda epoch: np.arange(SAMPLES)):
    for epoch in range(STEPS):
        order = order_of(epoch)
        for i in range(0, SAMPLES, BATCH):
            yield order[i : i + BATCH]


def trained(net, loss_of, *order_of):
    """The loss of all, then those of the steps."""
    losses = [loss_of(net, np.arange(SAMPLES)).item()]
    sgd = torch.optim.SGD(net.parameters(), LR)
    for _, rows in zip(range(STEPS), batches(*order_of)):
        loss = loss_of(net, rows)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses


def encoder_loss(net, rows):
    most = max(lengths[rows])
    mask = torch.tensor(np.arange(most) >= lengths[rows][:, None])
    y = torch.tensor(padded([labels[i] for i in rows], -100, most))
    return F.cross_entropy(net(torch.tensor(padded([x[i] for i in rows], 0, most)), mask).transpose(1, 2), y)


def encoder_right(net, rows):
    """The fraction of positions that there are at which the largest score is the label's."""
    most = max(lengths[rows])
    there = np.arange(most) < lengths[rows][:, None]
    scores = net(torch.tensor(padded([x[i] for i in rows], 0, most)), torch.tensor(~there))
    return (scores.argmax(2).numpy() == padded([labels[i] for i in rows], -100, most))[there].mean()


def words_loss(net, rows):
    w = torch.tensor(padded([words[i] for i in rows], 0, max(lengths[rows])))
    return F.cross_entropy(net(w, torch.tensor(lengths[rows])), torch.tensor(kind[rows]))


def main():
    os.makedirs(HERE, exist_ok=True)
    torch.manual_seed(0)
    behind = {n: np.concatenate(v) for n, v in (("x", x), ("labels", labels), ("words", words))}
    write("encoder", **{"x": behind["x"], "x.offsets": offsets, "target": behind["labels"], "target.offsets": offsets})
    write("words", **{"words": behind["words"].astype(np.int32), "words.offsets": offsets, "target": kind})
    for name, length, junk, label in (("zeros", 9, 0, 0), ("nan", 9, np.nan, 77), ("huge", 9, 1e30, -5), ("longer", 16, np.inf, 2**40)):
        write("encoder_" + name, **{"x": padded(x, junk, length), "x.lengths": lengths, "target": padded(labels, label, length),
                                    "target.lengths": lengths.astype(np.int32)})
    for name, most in (("short", 6), ("long", 9)):        # for models of tests/cli/losses, of six words and six classes
        n = np.minimum(lengths, most)
        write(name, **{"x": np.concatenate([w[:k] % 6 for w, k in zip(words, n)]), "x.offsets": np.concatenate([[0], np.cumsum(n)]),
                       "target": padded([y[:k] for y, k in zip(labels, n)], 0, most), "target.lengths": n})
    bad = np.where(np.arange(len(behind["labels"])) == offsets[3] + 2, CLASSES, behind["labels"])     # of sample 3
    write("encoder_bad", **{"x": behind["x"], "x.offsets": offsets, "target": bad, "target.offsets": offsets})
    with open(os.path.join(HERE, "torch.txt"), "w") as f:
        for name, net, save, loss in (("encoder", Encoder(), save_encoder, encoder_loss), ("words", Words(), save_words, words_loss)):
            save(net.train())
            if name == "encoder":
                f.write("right %.17g\n" % encoder_right(net.double(), np.arange(SAMPLES)))
            again = copy.deepcopy(net.double())
            for line, losses in ((name, trained(net, loss)), (name + "-grouped", trained(again, loss, grouped))):
                f.write(" ".join([line] + ["%.17g" % v for v in losses]) + "\n")


main()
