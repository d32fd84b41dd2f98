#!/usr/bin/env python3
"""Writes tests/api/recipes.h: what every optimizer and every schedule make of tests/api/own_updates.onnx in 12 steps of 5, 5 and 3 samples,
in float64: the losses, and two sums of all parameters that tell them. PyTorch's optimizers and schedules; of Lion, LAMB, LARS and schedule-free AdamW the
papers' algorithms (tests/passes/torch_values.py).

    pip install torch onnx numpy
    tests/api/recipes.py
"""
import os
import subprocess
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.join(HERE, "../passes")]
from own_updates import STEPS, batches, start, x, y, z
from torch_values import Lamb, Lars, Lion, ScheduleFree

O, S = torch.optim, torch.optim.lr_scheduler
NAMES = {"weight-decay": "weight_decay", "lr-decay": "lr_decay", "initial-sum": "initial_accumulator_value",
         "average-power": "power"}
OPTIMIZERS = {"sgd": O.SGD, "adam": O.Adam, "adamw": O.AdamW, "adagrad": O.Adagrad, "rmsprop": O.RMSprop, "lion": Lion, "lamb": Lamb,
              "lars": Lars, "schedule-free-adamw": ScheduleFree}
CASES = [   # settings, the schedule behind the warm-up (of the optimizer and the steps it has)
    ("optimizer=sgd lr=0.1 weight-decay=0.02 lr-schedule=constant", None),
    ("optimizer=sgd lr=0.1 momentum=0.9 dampening=0.3 lr-schedule=step:4:0.5 warmup-steps=2", lambda o, n: S.StepLR(o, 4, 0.5)),
    ("optimizer=sgd lr=0.1 momentum=0.9 nesterov=true lr-schedule=multi-step:3,7:0.3", lambda o, n: S.MultiStepLR(o, [3, 7], 0.3)),
    ("optimizer=adam lr=0.05 weight-decay=0.02 lr-schedule=exponential:0.8 warmup-steps=3", lambda o, n: S.ExponentialLR(o, 0.8)),
    ("optimizer=adam lr=0.05 amsgrad=true lr-schedule=poly:0.9", lambda o, n: S.PolynomialLR(o, n, 0.9)),
    ("optimizer=adamw lr=0.05 weight-decay=0.1 lr-schedule=cosine warmup-steps=3", lambda o, n: S.CosineAnnealingLR(o, n)),
    ("optimizer=adagrad lr=0.2 lr-decay=0.1 initial-sum=0.3 lr-schedule=restarts:3:2", lambda o, n: S.CosineAnnealingWarmRestarts(o, 3, 2)),
    ("optimizer=rmsprop lr=0.02 momentum=0.5 centered=true lr-schedule=one-cycle", lambda o, n: S.OneCycleLR(o, 0.02, n, cycle_momentum=False)),
    ("optimizer=rmsprop lr=0.02 alpha=0.9 lr-schedule=linear:0.1 warmup-steps=2", lambda o, n: S.LinearLR(o, 1.0, 0.1, n)),
    ("optimizer=lion lr=0.01 weight-decay=0.05 lr-schedule=linear:0.1", lambda o, n: S.LinearLR(o, 1.0, 0.1, n)),
    ("optimizer=lamb lr=0.05 weight-decay=0.05 lr-schedule=cosine", lambda o, n: S.CosineAnnealingLR(o, n)),
    ("optimizer=lars lr=0.5 momentum=0.9 trust=0.1 weight-decay=0.02 lr-schedule=step:5", lambda o, n: S.StepLR(o, 5, 0.1)),
    ("optimizer=schedule-free-adamw lr=0.05 weight-decay=0.05 lr-schedule=constant warmup-steps=3", None),
    ("optimizer=schedule-free-adamw lr=0.05 average-power=0.5 beta1=0.8 lr-schedule=step:5", lambda o, n: S.StepLR(o, 5, 0.1)),
    ("optimizer=sgd lr=0.1 momentum=0.5 lr-schedule=constant warmup-steps=4", None),
    ("optimizer=sgd lr=0.1 momentum=0.9 lr-schedule=multi-step:3,7:0.3 warmup-steps=2", lambda o, n: S.MultiStepLR(o, [3, 7], 0.3)),
    ("optimizer=adam lr=0.05 lr-schedule=poly:0.9 warmup-steps=3", lambda o, n: S.PolynomialLR(o, n, 0.9)),
    ("optimizer=sgd lr=0.1 lr-schedule=restarts:3:2 warmup-steps=2", lambda o, n: S.CosineAnnealingWarmRestarts(o, 3, 2)),
    ("optimizer=rmsprop lr=0.02 lr-schedule=one-cycle warmup-steps=3", lambda o, n: S.OneCycleLR(o, 0.02, n, cycle_momentum=False)),
]


def rates(lr, schedule, warm):
    """Of each step."""
    with_lr = O.SGD([torch.zeros(1, requires_grad=True)], lr)
    follows = schedule and schedule(with_lr, STEPS - warm)
    out = [lr * (k + 1) / warm for k in range(warm)]
    while len(out) < STEPS:
        out.append(with_lr.param_groups[0]["lr"])
        with_lr.step()
        if follows and len(out) < STEPS:
            follows.step()
    return out


def train(text, schedule):
    how = dict(word.split("=") for word in text.split())
    kind, lr, warm = OPTIMIZERS[how.pop("optimizer")], float(how.pop("lr")), int(how.pop("warmup-steps", 0))
    how.pop("lr-schedule")
    p = [torch.tensor(a, requires_grad=True) for a in start.values()]
    opt = kind(p, lr, **{NAMES.get(k, k): True if v == "true" else float(v) for k, v in how.items()})
    source, losses = batches(1), []
    for rate in rates(lr, schedule, warm):
        at = next(source)
        f = torch.tanh(torch.tensor(x[at]) @ p[0] + p[1])
        loss = F.cross_entropy(f @ p[2] + p[3], torch.tensor(y[at])) + ((f @ p[4] - torch.tensor(z[at])) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.param_groups[0]["lr"] = rate
        opt.step()
        losses.append(loss.item())
    flat = torch.cat([t.detach().flatten() for t in p])
    return losses + [flat.norm().item(), (flat * torch.cos(torch.arange(len(flat)))).sum().item()]


with open(os.path.join(HERE, "recipes.h"), "w") as f:
    f.write(f"/* Made by recipes.py. */\nenum {{ STEPS = {STEPS} }};\nstatic const struct {{\n    const char *settings;\n"
            "    double loss[STEPS], norm, product;\n} recipes[] = {\n")
    for text, schedule in CASES:
        got = [repr(v) for v in train(text, schedule)]
        f.write(f'    {{ "{text}", {{ {", ".join(got[:STEPS])} }}, {got[STEPS]}, {got[STEPS + 1]} }},\n')
    f.write("};\n")
subprocess.run(["clang-format", "-i", os.path.join(HERE, "recipes.h")], check=True)
