#!/usr/bin/env python3
"""Writes tests/cli/losses/: models whose scores are [batch, time, classes] or that compute their loss themselves, data for them, and
what PyTorch trains on it in float64 (the loss of each step, and of the whole set before the first).

    pip install torch onnx numpy
    tests/cli/losses.py
"""
import os

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "losses")
SAMPLES, TIME, CLASSES, WIDTH, BATCH, LR = 10, 6, 6, 3, 4, 0.5
rng = np.random.default_rng(3)
embed = rng.standard_normal((CLASSES, WIDTH))
weight = rng.standard_normal((WIDTH, CLASSES))
bias = rng.standard_normal(CLASSES)
x = rng.integers(0, CLASSES, (SAMPLES, TIME))
target = rng.integers(0, CLASSES, (SAMPLES, TIME))
masked = np.where(rng.random((SAMPLES, TIME)) < np.linspace(0, 0.9, SAMPLES)[:, None], -100, target)
class_weights = rng.random(CLASSES) + 0.25


def parameters(dtype):
    return [nh.from_array(a.astype(dtype), n) for a, n in ((embed, "embed"), (weight, "weight"), (bias, "bias"))]


def nodes(classes_last=True):
    last = [h.make_node("Gather", ["embed", "x"], ["e"]), h.make_node("MatMul", ["e", "weight"], ["p"]),
            h.make_node("Add", ["p", "bias"], ["scores" if classes_last else "s"])]
    return last if classes_last else last + [h.make_node("Transpose", ["s"], ["scores"], perm=[0, 2, 1])]


def save(name, body, inputs, outputs, extra=()):
    graph = h.make_graph(body, name, inputs, outputs, parameters(np.float64) + list(extra))
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def scores_model(name, time, classes_last=True):
    shape = ["batch", time, CLASSES] if classes_last else ["batch", CLASSES, time]
    save(name, nodes(classes_last), [h.make_tensor_value_info("x", T.INT64, ["batch", time])],
         [h.make_tensor_value_info("scores", T.DOUBLE, shape)])


def own_loss_model():
    """loss: the mean over labels that are not -100; count: how many those are; total: the sum."""
    loss = [h.make_node("SoftmaxCrossEntropyLoss", ["s", "y"], [r], reduction=how, ignore_index=-100)
            for r, how in (("loss", "mean"), ("total", "sum"))]
    count = [h.make_node("Equal", ["y", "none"], ["ignored"]), h.make_node("Not", ["ignored"], ["valid"]),
             h.make_node("Cast", ["valid"], ["ones"], to=T.DOUBLE), h.make_node("ReduceSum", ["ones"], ["count"], keepdims=0)]
    body = nodes() + [h.make_node("Transpose", ["scores"], ["s"], perm=[0, 2, 1])] + loss + count
    save("own_loss", body, [h.make_tensor_value_info(n, T.INT64, ["batch", "time"]) for n in ("x", "y")],
         [h.make_tensor_value_info(n, T.DOUBLE, []) for n in ("loss", "count", "total")],
         [nh.from_array(np.array(-100), "none")])


def listed_model():
    """losses and sizes: sequences; reg_loss: a tensor."""
    body = nodes() + [h.make_node("Transpose", ["scores"], ["s"], perm=[0, 2, 1]),
                      h.make_node("SoftmaxCrossEntropyLoss", ["s", "y"], ["each"], reduction="none", ignore_index=-100),
                      h.make_node("Mul", ["weight", "weight"], ["squares"]), h.make_node("ReduceMean", ["squares"], ["of_weight"], keepdims=0),
                      h.make_node("SequenceConstruct", ["each", "of_weight"], ["losses"]),
                      h.make_node("Mul", ["e", "e"], ["reg_loss"]), h.make_node("Abs", ["scores"], ["a"]), h.make_node("Abs", ["e"], ["b"]),
                      h.make_node("SequenceConstruct", ["a", "b"], ["sizes"])]
    save("listed", body, [h.make_tensor_value_info(n, T.INT64, ["batch", "time"]) for n in ("x", "y")],
         [h.make_tensor_sequence_value_info(n, T.DOUBLE, None) for n in ("losses", "sizes")] +
         [h.make_tensor_value_info("reg_loss", T.DOUBLE, ["batch", "time", WIDTH])])


def parse_losses(outputs):
    """mmengine's BaseModel.parse_losses: the total in front of the log variables."""
    found = [(name, value.mean() if isinstance(value, torch.Tensor) else sum(v.mean() for v in value)) for name, value in outputs.items()]
    return {"loss": sum(value for name, value in found if "loss" in name), **dict(found)}


def train_listed(of_embed="loss", batch=BATCH):
    """The log variables of the steps of one epoch; the embedding follows one of them, all else the total."""
    p = [torch.tensor(a, requires_grad=True) for a in (embed, weight, bias)]
    logged = []
    for i in range(0, SAMPLES, batch):
        e, labels = p[0][torch.tensor(x[i:i + batch])], torch.tensor(masked[i:i + batch])
        scores = e @ p[1] + p[2]
        logs = parse_losses({"losses": [F.cross_entropy(scores.transpose(1, 2), labels, reduction="none"), (p[1] * p[1]).mean()],
                             "sizes": [scores.abs(), e.abs()], "reg_loss": e * e})
        logged += [a.item() for a in logs.values()]
        grads = torch.autograd.grad(logs["loss"], p, retain_graph=True)
        grads = torch.autograd.grad(logs[of_embed], p[:1]) + grads[1:]
        for t, g in zip(p, grads):
            t.data -= LR * g
    return logged


def train(labels, loss, group, divide=True):
    """Losses of the steps of one epoch, `group` batches each: the sum of loss() over the group, divided by its weight."""
    p = [torch.tensor(a, requires_grad=True) for a in (embed, weight, bias)]
    xs, ys = torch.tensor(x), torch.tensor(labels)

    def of(part):
        return loss((p[0][xs[part]] @ p[1] + p[2]).transpose(1, 2), ys[part])

    total, count = of(slice(None))
    out = [(total / count if divide else total).item()]
    for i in range(0, SAMPLES, group * BATCH):
        total, count = of(slice(i, i + group * BATCH))
        step = total / count if divide else total
        out.append(step.item())
        for t, g in zip(p, torch.autograd.grad(step, p)):
            t.data -= LR * g
    return out


def cross_entropy(**how):
    def f(s, y):
        ones = torch.full_like(s, -1.0)                 # -log p = 1: the weights alone
        kept = {k: v for k, v in how.items() if k != "label_smoothing"}
        return F.cross_entropy(s, y, reduction="sum", **how), F.nll_loss(ones, y, reduction="sum", **kept)
    return f


def main():
    os.makedirs(HERE, exist_ok=True)
    np.savez(os.path.join(HERE, "data.npz"), x=x, target=target)
    np.savez(os.path.join(HERE, "masked.npz"), x=x, y=masked)
    np.save(os.path.join(HERE, "class_weights.npy"), class_weights)
    scores_model("open", "time")
    scores_model("fixed", TIME)
    scores_model("first", "time", classes_last=False)
    own_loss_model()
    listed_model()
    w = torch.tensor(class_weights)
    runs = {"plain": train(target, cross_entropy(), 1),
            "weights": train(target, cross_entropy(weight=w, ignore_index=2, label_smoothing=0.1), 1),
            "group": train(masked, cross_entropy(), 2),
            "sum": train(masked, cross_entropy(), 2, divide=False),
            "listed": train_listed(), "listed-embed": train_listed("losses"), "listed-whole": train_listed(batch=SAMPLES)}
    with open(os.path.join(HERE, "torch.txt"), "w") as f:
        for name, losses in runs.items():
            print(name, *map(repr, losses), file=f)


main()
