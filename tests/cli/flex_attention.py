#!/usr/bin/env python3
"""FlexAttention of ONNX's preview operators, trained by PyTorch 2.15 in float64.

Writes what tests/cli/flex_attention.sh reads: flex_attention/NAME.onnx, their data, and torch.txt, a line a network: its name and the
losses of 20 steps.
"""
import os

import numpy as np
import torch
from onnx import TensorProto, checker, helper, numpy_helper, save
from torch.nn.attention.flex_attention import flex_attention

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flex_attention")
SAMPLES, BATCH, QUERIES, KEYS, WIDTH, DEPTH, VALUES = 25, 5, 4, 6, 5, 16, 3
N, F = helper.make_node, TensorProto.FLOAT


def modifier(nodes, constants):
    """A graph of one input s and one output r."""
    return helper.make_graph(nodes, "modifier", [helper.make_tensor_value_info("s", F, None)], [helper.make_tensor_value_info("r", F, None)],
                             [numpy_helper.from_array(v.numpy().astype(np.float32), k) for k, v in constants.items()])


def network(name, heads, shared, weights, **attributes):
    """y = FlexAttention(x Wq, z Wk, z Wv), of tokens [batch, tokens, width] with `heads` heads, keys' and values' shared by `shared`."""
    nodes = []
    for to, of, count, depth in ("q", "x", heads, DEPTH), ("k", "z", heads // shared, DEPTH), ("v", "z", heads // shared, VALUES):
        nodes += [N("MatMul", [of, "w" + to], [to + "0"]), N("Constant", [], [to + "s"], value_ints=[0, 0, count, depth]),
                  N("Reshape", [to + "0", to + "s"], [to + "1"]), N("Transpose", [to + "1"], [to], perm=[0, 2, 1, 3])]
    nodes.append(N("FlexAttention", ["q", "k", "v"], ["y"], "attention", domain="ai.onnx.preview", **attributes))
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info("x", F, ["n", QUERIES, WIDTH]), helper.make_tensor_value_info("z", F, ["n", KEYS, WIDTH])],
        [helper.make_tensor_value_info("y", F, ["n", heads, QUERIES, VALUES])],
        [numpy_helper.from_array(v.numpy().astype(np.float32), k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24), helper.make_opsetid("ai.onnx.preview", 1)], ir_version=10)
    checker.check_model(model)
    save(model, os.path.join(HERE, name + ".onnx"))


def numbers(*shape):
    """Random numbers that float32 has."""
    return torch.randn(*shape, dtype=torch.float32).double() / 2


def heads_of(x, weight, depth):
    return (x @ weight).unflatten(-1, (-1, depth)).transpose(1, 2)


def attention(scale, score, probability, modifier=None):
    """The formula, which PyTorch differentiates on CPUs; its flex_attention, with `modifier`, gives the same values."""
    def attend(q, k, v):
        y = probability(score(scale * q @ repeated(q, k).mT).softmax(-1)) @ repeated(q, v)
        if modifier:
            with torch.no_grad():
                torch.testing.assert_close(y, flex_attention(q.detach(), k.detach(), v.detach(), modifier, scale=scale, enable_gqa=True))
        return y
    return attend


def repeated(q, x):
    return x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def train(attend, weights, data):
    for w in weights.values():
        w.requires_grad_()
    optimizer, losses = torch.optim.SGD(list(weights.values()), lr=0.2, momentum=0.9), []
    for step in range(20):
        at = step * BATCH % SAMPLES
        x, z, target = (a[at:at + BATCH] for a in data)
        y = attend(heads_of(x, weights["wq"], DEPTH), heads_of(z, weights["wk"], DEPTH), heads_of(z, weights["wv"], VALUES))
        loss = (y - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.manual_seed(1)
    os.makedirs(HERE, exist_ok=True)
    data = numbers(SAMPLES, QUERIES, WIDTH), numbers(SAMPLES, KEYS, WIDTH), numbers(SAMPLES, 4, QUERIES, VALUES)
    np.savez_compressed(os.path.join(HERE, "data.npz"), **{k: v.numpy().astype(np.float32) for k, v in zip(("x", "z", "target"), data)})

    def weights(shared):
        return {"wq": numbers(WIDTH, 4 * DEPTH), "wk": numbers(WIDTH, 4 // shared * DEPTH), "wv": numbers(WIDTH, 4 // shared * VALUES)}

    with open(os.path.join(HERE, "torch.txt"), "w") as f:
        # Scale by default; scores get a trained slope that stands outside of the modifier, and a trained bias of its own.
        w = weights(1) | {"bias": numbers(4, QUERIES, KEYS), "slope": numbers(4, 1, 1)}
        network("biased", 4, 1, {k: v for k, v in w.items() if k != "bias"}, score_mod=modifier(
            [N("Mul", ["s", "slope"], ["t"]), N("Add", ["t", "bias"], ["r"])], {"bias": w["bias"]}))
        print("biased", *train(attention(DEPTH ** -0.5, lambda s: s * w["slope"] + w["bias"], lambda p: p, lambda s, b, h, i, j:
                                         s * w["slope"][h, 0, 0] + w["bias"][h, i, j]), w, data), file=f)
        # Two heads of queries for one of keys; capped scores, and probabilities that are changed.
        w = weights(2)
        network("capped", 4, 2, w, scale=1.0, prob_mod=modifier([N("Mul", ["s", "s"], ["r"])], {}), score_mod=modifier(
            [N("Div", ["s", "cap"], ["a"]), N("Tanh", ["a"], ["b"]), N("Mul", ["b", "cap"], ["r"])], {"cap": torch.tensor(0.5)}))
        print("capped", *train(attention(1, lambda s: 0.5 * (s / 0.5).tanh(), torch.square), w, data), file=f)


if __name__ == "__main__":
    main()
