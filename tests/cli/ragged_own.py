#!/usr/bin/env python3
"""Writes the models of tests/cli/ragged/ that are compared with themselves, padded to the step's longest sequence and to each replica's own,
and data for one of them: the words of words.npz alone.

    pip install onnx numpy
    tests/cli/ragged_own.py

dropout.onnx   attention with learned positions, dropout of what it reads and of its weights [batch, time, time], and a mean over what there is
mean.onnx      the mean of squares over all positions of a batch, padding too, which is its own loss
norm.onnx      batch-norm over all positions, behind a convolution
"""
import os

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ragged")
WORDS, WIDTH, CLASSES, LONGEST = 11, 6, 5, 12
rng = np.random.default_rng(11)
node = h.make_node


def weights(*shape):
    return (rng.standard_normal(shape) / 2).astype(np.float32)


def save(name, body, outputs, numbers):
    graph = h.make_graph(body, name, [h.make_tensor_value_info("words", T.INT64, ["batch", "time"]),
                                      h.make_tensor_value_info("lengths", T.INT64, ["batch"])],
                         [h.make_tensor_value_info(n, T.FLOAT, shape) for n, shape in outputs],
                         [nh.from_array(np.asarray(v), n) for n, v in numbers.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def there():
    """is [batch, time]: where there is something."""
    return [node("Shape", ["words"], ["shape"]), node("Gather", ["shape", "one"], ["time"]), node("Range", ["zero", "time", "one"], ["place"]),
            node("Unsqueeze", ["lengths", "last"], ["n"]), node("Less", ["place", "n"], ["is"])]


NUMBERS = {"zero": np.int64(0), "one": np.int64(1), "last": np.array([1])}


def pooled(of):
    """scores of the mean of `of` [batch, time, WIDTH] over what there is."""
    return [node("Unsqueeze", ["is", "behind"], ["is3"]), node("Cast", ["is3"], ["kept"], to=T.FLOAT), node("Mul", [of, "kept"], ["y"]),
            node("ReduceSum", ["y", "last"], ["sum"], keepdims=0), node("Cast", ["n"], ["nf"], to=T.FLOAT), node("Div", ["sum", "nf"], ["mean"]),
            node("Gemm", ["mean", "head.weight", "head.bias"], ["scores"])]


HEAD = {"behind": np.array([2]), "head.weight": weights(WIDTH, CLASSES), "head.bias": weights(CLASSES)}


def dropout():
    body = there() + [node("Gather", ["embed.weight", "words"], ["e"]), node("Gather", ["position.weight", "place"], ["p"]),
                      node("Add", ["e", "p"], ["ep"]), node("Dropout", ["ep", "ratio", "train"], ["x"])]
    body += [node("MatMul", ["x", w + ".weight"], [w]) for w in "qkv"]
    body += [node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["s"]), node("Unsqueeze", ["is", "last"], ["keys"]),
             node("Where", ["keys", "s", "never"], ["seen"]), node("Softmax", ["seen"], ["soft"], axis=2),
             node("Dropout", ["soft", "ratio", "train"], ["a"]), node("MatMul", ["a", "v"], ["o"]), node("Add", ["o", "x"], ["ox"])]
    save("dropout", body + pooled("ox"), [("scores", ["batch", CLASSES])],
         {**NUMBERS, **HEAD, "embed.weight": weights(WORDS, WIDTH), "position.weight": weights(LONGEST, WIDTH), "ratio": np.float32(0.25),
          "train": np.bool_(True), "never": np.float32(-np.inf), **{w + ".weight": weights(WIDTH, WIDTH) for w in "qkv"}})


def mean():
    body = there() + [node("Gather", ["embed.weight", "words"], ["e"]), node("Tanh", ["e"], ["t"]), node("MatMul", ["t", "out.weight"], ["m"]),
                      node("Unsqueeze", ["is", "behind"], ["is3"]), node("Cast", ["is3"], ["kept"], to=T.FLOAT), node("Mul", ["m", "kept"], ["y"]),
                      node("Mul", ["y", "y"], ["squares"]), node("ReduceMean", ["squares"], ["loss"], keepdims=0)]
    save("mean", body, [("loss", [])], {**NUMBERS, "behind": np.array([2]), "embed.weight": weights(WORDS, WIDTH), "out.weight": weights(WIDTH, 1)})


def norm():
    body = there() + [node("Gather", ["embed.weight", "words"], ["e"]), node("Transpose", ["e"], ["et"], perm=[0, 2, 1]),
                      node("Conv", ["et", "conv.weight"], ["c"], pads=[1, 1]),
                      node("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["b"]), node("Relu", ["b"], ["r"]),
                      node("Transpose", ["r"], ["rt"], perm=[0, 2, 1])]
    flat = {"bn." + n: np.full(WIDTH, v, np.float32) for n, v in (("weight", 1), ("bias", 0), ("mean", 0), ("var", 1))}
    save("norm", body + pooled("rt"), [("scores", ["batch", CLASSES])],
         {**NUMBERS, **HEAD, **flat, "embed.weight": weights(WORDS, WIDTH), "conv.weight": weights(WIDTH, WIDTH, 3)})


def main():
    words = np.load(os.path.join(HERE, "words.npz"))
    for save_model in (dropout, mean, norm):
        save_model()
    np.savez_compressed(os.path.join(HERE, "only.npz"), **{n: words[n] for n in ("words", "words.offsets")})


main()
