#!/usr/bin/env python3
"""Writes tests/cli/groups/: a model of three layers, data for it, and the losses of PyTorch's training of it in float64 with parameter
groups, clipping and schedules (a line a case: its name, its options, the loss of each step); and a model of which some gradients are NaN
(0 times infinity: the root of |w| where a mask has made it 0), with its weights after one step under each clip.

    pip install torch onnx numpy
    tests/cli/groups.py
"""
import os

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "groups")
SAMPLES, BATCH, STEPS, WIDTHS = 10, 4, 11, (5, 7, 6, 4)
NAMES = ["stem", "body:0", "head"]
rng = np.random.default_rng(5)
start = {}
for name, n, m in zip(NAMES, WIDTHS, WIDTHS[1:]):
    start[name + ".weight"] = rng.standard_normal((n, m)) * 0.7
    start[name + ".bias"] = rng.standard_normal(m) * 0.1
x = rng.standard_normal((SAMPLES, WIDTHS[0]))
target = rng.integers(0, WIDTHS[-1], SAMPLES)


def save():
    nodes, last = [], "x"
    for name in NAMES:
        nodes += [h.make_node("MatMul", [last, name + ".weight"], [name + "_p"]),
                  h.make_node("Add", [name + "_p", name + ".bias"], [name + "_s" if name != "head" else "scores"])]
        if name != "head":
            nodes.append(h.make_node("Tanh", [name + "_s"], [name + "_h"]))
        last = name + "_h"
    graph = h.make_graph(nodes, "groups", [h.make_tensor_value_info("x", T.DOUBLE, ["batch", WIDTHS[0]])],
                         [h.make_tensor_value_info("scores", T.DOUBLE, ["batch", WIDTHS[-1]])],
                         [nh.from_array(a, n) for n, a in start.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, "model.onnx"))
    np.savez(os.path.join(HERE, "data.npz"), x=x, target=target)


def batches(accumulate):
    """The indices of each step's samples; a group of batches ends with the epoch."""
    while True:
        for at in range(0, SAMPLES, BATCH * accumulate):
            yield list(range(at, min(at + BATCH * accumulate, SAMPLES)))


rates = []      # of the last run's optimizers, after each step
norms = []      # of own_clip: of all others, of the group
S, O, clip = torch.optim.lr_scheduler, torch.optim, torch.nn.utils


def frozen(p):
    p["stem.weight"].requires_grad_(False)
    p["stem.bias"].requires_grad_(False)
    opt = O.SGD([{"params": of(p, "head"), "lr": 0.5, "weight_decay": 0}, {"params": of(p, "body"), "lr": 0.05}], momentum=0.9,
                weight_decay=0.02)
    return [opt], [], None


def of(p, *names):
    return [t for n, t in p.items() if n.startswith(names)]


def two_optimizers(p):
    sgd, adam = O.SGD(of(p, "stem", "head"), 0.3, momentum=0.8), O.AdamW(of(p, "body"), 0.02, weight_decay=0.1)
    return [sgd, adam], [S.StepLR(sgd, 3, 0.5), S.ExponentialLR(adam, 0.9)], None


def schedule_of_all(p):
    opt = O.RMSprop([{"params": of(p, "body")}, {"params": of(p, "stem", "head"), "lr": 0.03}], 0.01)
    return [opt], [S.MultiStepLR(opt, [2, 5], 0.3)], None


def plateaus(p):
    """The rates follow the loss and the accuracy of all samples, after each step."""
    one, two = O.SGD(of(p, "stem", "head"), 2, momentum=0.8), O.SGD(of(p, "body"), 1, momentum=0.8)
    return [one, two], [S.ReduceLROnPlateau(one, factor=0.5, patience=0, threshold=0.05, cooldown=1),
                        S.ReduceLROnPlateau(two, "max", factor=0.3, patience=1, threshold=0.01, threshold_mode="abs", min_lr=0.15)], None


def plateau_of_training(p):
    """The rate follows the mean loss of each epoch's samples, as its steps have it."""
    opt = O.SGD(p.values(), 1.5, momentum=0.8)
    schedule = S.ReduceLROnPlateau(opt, factor=0.5, patience=0, threshold=0.4)
    schedule.of_epochs = True
    return [opt], [schedule], None


def plain(lr, how):
    return lambda p: ([O.SGD(p.values(), lr, momentum=0.5)], [], lambda: how(p))


def own_clip(p):
    def bound():
        body = clip.clip_grad_norm_(of(p, "body"), 0.05)
        norms.append((clip.clip_grad_norm_(of(p, "stem", "head"), 0.2).item(), body.item()))
    return [O.SGD(p.values(), 0.5)], [], bound


def clip_value_of_one(p):
    def bound():
        clip.clip_grad_value_(of(p, "head"), 0.03)
        clip.clip_grad_norm_(of(p, "stem", "body"), 0.1)
    return [O.Adam(p.values(), 0.05)], [], bound


CASES = [
    ("frozen", "--lr 0.05 --momentum 0.9 --weight-decay 0.02 --freeze stem.* --group head.*:lr=0.5,weight-decay=0", frozen, 1),
    ("frozen-accumulated", "--accumulate 2 --lr 0.05 --momentum 0.9 --weight-decay 0.02 --freeze stem.* --group "
     "head.*:lr=0.5,weight-decay=0", frozen, 2),
    ("two-optimizers", "--lr 0.3 --momentum 0.8 --lr-schedule step:3:0.5 --group "
     "body:*:optimizer=adamw,lr=0.02,weight-decay=0.1,schedule=exponential:0.9", two_optimizers, 1),
    ("schedule-of-all", "--optimizer rmsprop --lr 0.03 --lr-schedule multi-step:2,5:0.3 --group body:0.weight:lr=0.01 --group "
     "body:*:lr=0.01", schedule_of_all, 1),
    ("schedule-of-each", "--optimizer rmsprop --lr 0.03 --group body:*:schedule=multi-step:2,5:0.3,lr=0.01 --group "
     "*:schedule=multi-step:2,5:0.3", schedule_of_all, 1),
    ("plateaus", "--lr 2 --momentum 0.8 --lr-schedule plateau:0.5:0:0.05:rel:1:0:min --group "
     "body:*:lr=1,schedule=plateau:0.3:1:0.01:abs:0:0.15:max --val tests/cli/groups/data.npz --metric accuracy --eval-every 1", plateaus, 1),
    ("plateau-of-training", "--lr 1.5 --momentum 0.8 --lr-schedule plateau:0.5:0:0.4", plateau_of_training, 1),
    ("norm", "--lr 0.5 --momentum 0.5 --clip-norm 0.2", plain(0.5, lambda p: clip.clip_grad_norm_(p.values(), 0.2)), 1),
    ("norm-1", "--lr 0.5 --momentum 0.5 --clip-norm 0.2:1", plain(0.5, lambda p: clip.clip_grad_norm_(p.values(), 0.2, 1)), 1),
    ("norm-3.5", "--lr 0.5 --momentum 0.5 --clip-norm 0.1:3.5", plain(0.5, lambda p: clip.clip_grad_norm_(p.values(), 0.1, 3.5)), 1),
    ("norm-inf", "--lr 0.5 --momentum 0.5 --clip-norm 0.05:inf",
     plain(0.5, lambda p: clip.clip_grad_norm_(p.values(), 0.05, float("inf"))), 1),
    ("value", "--lr 0.5 --momentum 0.5 --clip-value 0.03", plain(0.5, lambda p: clip.clip_grad_value_(p.values(), 0.03)), 1),
    ("norm-of-a-group", "--lr 0.5 --clip-norm 0.2 --group body:*:clip-norm=0.05", own_clip, 1),
    ("value-of-a-group", "--optimizer adam --lr 0.05 --clip-norm 0.1 --group head*:clip-value=0.03", clip_value_of_one, 1),
]


def scores(p, at):
    y = torch.tensor(x[at])
    for name in NAMES:
        y = y @ p[name + ".weight"] + p[name + ".bias"]
        y = torch.tanh(y) if name != "head" else y
    return y


def observe(schedule, p):
    with torch.no_grad():
        y, want = scores(p, list(range(SAMPLES))), torch.tensor(target)
        schedule.step((y.argmax(1) == want).double().mean() if schedule.mode == "max" else F.cross_entropy(y, want))


def train(make, accumulate):
    p = {n: torch.tensor(a, requires_grad=True) for n, a in start.items()}
    optimizers, schedules, bound = make(p)
    seen, source = [], batches(accumulate)
    rates.clear()
    epoch = []
    for _ in range(STEPS):
        at = next(source)
        loss = F.cross_entropy(scores(p, at), torch.tensor(target[at]))
        for t in p.values():
            t.grad = None
        loss.backward()
        if bound:
            bound()
        for o in optimizers:
            o.step()
        epoch.append(loss.item() * len(at))
        for s in schedules:
            if hasattr(s, "of_epochs"):
                if at[-1] == SAMPLES - 1:
                    s.step(sum(epoch) / SAMPLES)
                    epoch.clear()
            elif isinstance(s, S.ReduceLROnPlateau):
                observe(s, p)
            else:
                s.step()
        rates.append([o.param_groups[0]["lr"] for o in optimizers])
        seen.append(loss.item())
    return seen


def ema(steps, decay, accumulate):
    """The averaged weights of an AdamW run that leaves the stem as it is."""
    p = torch.nn.ParameterDict({n.replace(".", "/"): torch.tensor(a) for n, a in start.items()})
    trained = [t for n, t in p.items() if not n.startswith("stem")]
    averaged = torch.optim.swa_utils.AveragedModel(p, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))
    opt, source = O.AdamW(trained, 0.05), batches(accumulate)
    for _ in range(steps):
        at = next(source)
        y = torch.tensor(x[at])
        for name in NAMES:
            y = y @ p[name + "/weight"] + p[name + "/bias"]
            y = torch.tanh(y) if name != "head" else y
        opt.zero_grad()
        F.cross_entropy(y, torch.tensor(target[at])).backward()
        opt.step()
        averaged.update_parameters(p)
    return {n.replace("/", "."): t.detach().numpy() for n, t in averaged.module.items()}


def save_nan():
    w, mask = rng.standard_normal(40), np.ones(40)
    mask[[3, 17, 38]] = 0
    nodes = [h.make_node("Mul", ["w", "mask"], ["m"]), h.make_node("Abs", ["m"], ["a"]), h.make_node("Sqrt", ["a"], ["r"]),
             h.make_node("Add", ["r", "w"], ["s"]), h.make_node("Mul", ["x", "s"], ["y"])]
    graph = h.make_graph(nodes, "nan", [h.make_tensor_value_info("x", T.DOUBLE, ["batch", 40])],
                         [h.make_tensor_value_info("y", T.DOUBLE, ["batch", 40])], [nh.from_array(w, "w"), nh.from_array(mask, "mask")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), os.path.join(HERE, "nan.onnx"))
    np.savez(os.path.join(HERE, "nan.npz"), x=np.ones((4, 40)), target=np.zeros((4, 40)))
    after = {}
    for name, bound in {"value": lambda t: clip.clip_grad_value_(t, 0.01), "norm-inf": lambda t: clip.clip_grad_norm_(t, 0.1, float("inf")),
                        "norm-3": lambda t: clip.clip_grad_norm_(t, 0.1, 3), "norm-2": lambda t: clip.clip_grad_norm_(t, 0.1)}.items():
        t = torch.tensor(w, requires_grad=True)
        F.mse_loss(torch.ones(4, 40) * (torch.sqrt(torch.abs(t * torch.tensor(mask))) + t), torch.zeros(4, 40, dtype=t.dtype)).backward()
        bound([t])
        after[name] = (t - t.grad).detach().numpy()
        assert np.isnan(after[name]).sum() == (3 if name == "value" else 40)
    np.savez(os.path.join(HERE, "nan_after.npz"), **after)


save()
save_nan()
with open(os.path.join(HERE, "torch.txt"), "w") as f:
    for name, options, make, accumulate in CASES:
        print(name, "|", options, "|", " ".join(map(repr, train(make, accumulate))), file=f)
        if make == plateaus:
            np.savetxt(os.path.join(HERE, "rates.txt"), rates, "%.17g")
np.savez(os.path.join(HERE, "ema.npz"), **{f"{steps}/{n}": a for steps in (1, 11) for n, a in ema(steps, 0.8, 1).items()})
np.savetxt(os.path.join(HERE, "norms.txt"), norms, "%.17g")
