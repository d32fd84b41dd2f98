#!/usr/bin/python3
"""Writes torch_schedules.h: the rates of PyTorch's schedules and of transformers', step by step, in float64.

    python3 -m pip install torch transformers
    python3 tests/exec/torch_schedules.py > tests/exec/torch_schedules.h
"""
import torch
import transformers as T

STEPS = 20


def rates(make):
    w = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.5)
    schedule = make(opt)
    seen = []
    for _ in range(STEPS):
        seen.append(opt.param_groups[0]["lr"])
        opt.step()
        if len(seen) < STEPS:
            schedule.step()
    return seen


S = torch.optim.lr_scheduler
table = [
    ("step:3:0.5", lambda o: S.StepLR(o, 3, 0.5)),
    ("cosine", lambda o: S.CosineAnnealingLR(o, STEPS)),
    ("linear:0.1", lambda o: S.LinearLR(o, 1.0, 0.1, STEPS)),
    ("one-cycle", lambda o: S.OneCycleLR(o, 0.5, STEPS)),
    ("one-cycle:0.5", lambda o: S.OneCycleLR(o, 0.5, STEPS, pct_start=0.5)),
    ("one-cycle:0.2:10:100", lambda o: S.OneCycleLR(o, 0.5, STEPS, pct_start=0.2, div_factor=10, final_div_factor=100)),
    ("multi-step:3,4,11", lambda o: S.MultiStepLR(o, [3, 4, 11])),
    ("multi-step:1,19:0.5", lambda o: S.MultiStepLR(o, [1, 19], 0.5)),
    ("exponential:0.8", lambda o: S.ExponentialLR(o, 0.8)),
    ("poly", lambda o: S.PolynomialLR(o, STEPS)),
    ("poly:0.9", lambda o: S.PolynomialLR(o, STEPS, 0.9)),
    ("restarts:4", lambda o: S.CosineAnnealingWarmRestarts(o, 4)),
    ("restarts:3:2:0.1", lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.05)),
    ("wsd", lambda o: T.get_wsd_schedule(o, 0, STEPS // 10, STEPS)),
    ("wsd:0.25:linear:0.1", lambda o: T.get_wsd_schedule(o, 0, 5, STEPS, decay_type="linear", min_lr_ratio=0.1)),
    ("wsd:0.5:cosine:0.2", lambda o: T.get_wsd_schedule(o, 4, 8, STEPS, min_lr_ratio=0.2), 4),
    ("wsd:0.5:1-sqrt", lambda o: T.get_wsd_schedule(o, 4, 8, STEPS, decay_type="1-sqrt"), 4),
    ("wsd:1:1-sqrt", lambda o: T.get_wsd_schedule(o, 0, STEPS, STEPS, decay_type="1-sqrt")),
    ("inverse-sqrt", lambda o: T.get_inverse_sqrt_schedule(o, 0)),
    ("inverse-sqrt", lambda o: T.get_inverse_sqrt_schedule(o, 4), 4),
    ("inverse-sqrt:3", lambda o: T.get_inverse_sqrt_schedule(o, 0, 3)),
    ("inverse-sqrt:10", lambda o: T.get_inverse_sqrt_schedule(o, 4, 10), 4),
]   # the last number: steps of a warm-up, whose rates are not compared
SEEN = [2.0, 1.5, 1.4999, 1.5, 1.2, 1.3, float("nan"), 1.1999, 1.25, 1.0, 1.0, 1.0, 1.0, 0.9, 0.95, 0.92, 0.91, 0.95, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]


def followed(sign, **how):
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    schedule = S.ReduceLROnPlateau(opt, **how)
    got = []
    for x in SEEN:
        schedule.step(sign * x)
        got.append(opt.param_groups[0]["lr"])
    return got


plateaus = [
    ("plateau:0.1:2", 1, {"patience": 2}),
    ("plateau:0.5:0", 1, {"factor": 0.5, "patience": 0}),
    ("plateau:0.5:1:0.1", 1, {"factor": 0.5, "patience": 1, "threshold": 0.1}),
    ("plateau:0.5:1:0.1:abs", 1, {"factor": 0.5, "patience": 1, "threshold": 0.1, "threshold_mode": "abs"}),
    ("plateau:0.5:1:0.0001:rel:2", 1, {"factor": 0.5, "patience": 1, "cooldown": 2}),
    ("plateau:0.3:0:0.01:rel:1:0.2", 1, {"factor": 0.3, "patience": 0, "threshold": 0.01, "cooldown": 1, "min_lr": 0.1}),
    ("plateau:0.001:0", 1, {"factor": 0.001, "patience": 0}),
    ("plateau:0.5:1:0.1:rel:0:0:max", 1, {"factor": 0.5, "patience": 1, "threshold": 0.1, "mode": "max"}),
    ("plateau:0.5:1:0.1:abs:1:0:max", -1, {"factor": 0.5, "patience": 1, "threshold": 0.1, "threshold_mode": "abs", "cooldown": 1,
                                           "mode": "max"}),
]
print("/* Made by torch_schedules.py: --lr 0.5, 20 steps. */\nstatic const struct {\n    const char *schedule;\n    int warmup;\n"
      "    double rate[20];\n} torch_schedules[] = {")
for name, make, *warmup in table:
    print(f'    {{ "{name}", {(warmup or [0])[0]},')
    r = [repr(x) for x in rates(make)]
    for i in range(0, STEPS, 4):
        print(("      { " if not i else "        ") + ", ".join(r[i:i + 4]) + (" } }," if i + 4 >= STEPS else ","))
print("};")
print("\n/* --lr 0.5: the rates behind each observation of torch_seen, times `sign`. */\nstatic const double torch_seen[] = { "
      + ", ".join("NAN" if x != x else repr(x) for x in SEEN) + " };")
print("static const struct {\n    const char *schedule;\n    double sign, rate[%d];\n} torch_plateaus[] = {" % len(SEEN))
for name, sign, how in plateaus:
    print(f'    {{ "{name}", {sign}, {{ ' + ", ".join(map(repr, followed(sign, **how))) + " } },")
print("};")
