#!/usr/bin/env python3
"""Writes torch_scaler.h: what PyTorch's torch.amp.GradScaler does, step by step, with the training of loss_scale.c.

    tests/exec/torch_scaler.py > tests/exec/torch_scaler.h      (PyTorch 2.3 or later: its GradScaler works on CPUs too)

y = x w in float16, the mean of (y - t)^2 over four samples in float32, SGD with momentum.  One sample has an error, which is
chosen so that its scaled gradient is anywhere from float16's denormals to far beyond its largest number.
"""
import math
import random

import torch

N, STEPS = 4, 90
LR, MOMENTUM = 0.25, 0.5
# The state that a step begins with, where not that of the last one: the scale, and how many good steps there were.
GIVEN = {24: (65536.0, 1997), 34: (4096.0, 1998), 44: (2.0**-14, 3), 47: (65536.0, 1996), 57: (256.0, 1999), 63: (2.0**127, 1999),
         65: (1024.0, 1995), 75: (65536.0, 0)}
# Errors whose scaled gradients are these: the first that overflows, the last that does not, what is no number.
SCALED = {10: 65520.0, 11: 65519.0, 12: -65520.0, 13: -65519.984375, 20: math.inf, 21: -math.inf, 22: math.nan, 44: 2.0**-24,
          45: 2.0**-25, 46: 0.0, 57: -1024.0, 63: 0.0, 64: 0.0}


def number(x):
    return "NAN" if math.isnan(x) else ("-" if x < 0 else "") + "INFINITY" if math.isinf(x) else repr(x)


def main():
    draw = random.Random(5)
    w = torch.nn.Parameter(torch.full((1, 1), 0.5))
    optimizer = torch.optim.SGD([w], lr=LR, momentum=MOMENTUM)
    scaler = torch.amp.GradScaler("cpu")
    x = torch.ones(N, 1)
    stepped, skipped, grown = [], 0, 0
    optimizer.register_step_post_hook(lambda *_: stepped.append(True))

    print(f"/* Made by torch_scaler.py with PyTorch {torch.__version__.split('+')[0]}. */")
    print("static const struct {\n    double error;               /* of the step's one sample that has any */")
    print("    double scale, good;         /* set before the step; 0 and -1: left */")
    print("    double used, applied;       /* the scale that the step used, whether it changed w */")
    print("    double w, momentum, next_scale, next_good;\n} torch_scaler[] = {")
    for step in range(STEPS):
        scale, good = GIVEN.get(step, (0.0, -1))
        if scale:
            scaler.load_state_dict(scaler.state_dict() | {"scale": scale, "_growth_tracker": good})
        used = scaler.get_scale()
        exponent = draw.uniform(10, 16.8)
        scaled = SCALED.get(step, draw.choice((-1, 1)) * math.ldexp(1 + draw.randrange(8) / 8, math.floor(exponent)))
        error = scaled / used * N / 2
        t = w.detach().half().float().expand(N, 1).clone()
        t[step % N] -= error
        with torch.autocast("cpu", torch.float16):
            y = x @ w
        assert y.dtype == torch.float16
        scaler.scale(((y.float() - t) ** 2).mean()).backward()
        stepped.clear()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        skipped += not stepped
        grown += scaler.get_scale() > used
        momentum = optimizer.state.get(w, {}).get("momentum_buffer", torch.zeros(1))
        print("    { " + ", ".join(number(float(v)) for v in (
            error, scale, good, used, bool(stepped), w.item(), momentum.item(), scaler.get_scale(), scaler.state_dict()["_growth_tracker"])) + " },")
    print("};")
    print(f"enum {{ TORCH_SKIPPED = {skipped}, TORCH_GROWN = {grown} }};")


if __name__ == "__main__":
    main()
