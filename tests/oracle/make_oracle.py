#!/usr/bin/env python3
"""Trains with PyTorch and stores what dpexec must reproduce: data/ and cases.json.

    make_oracle.py       (needs PyTorch 1.13, numpy, onnx; README.md tells the formats)
"""
import json
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import datasets
import nets
import variants
from cases import CASES
from nets import ROOT

HERE = ROOT / "tests" / "oracle"
STEPS = 20
WHOLE = 4096    # larger tensors are stored as every sample-th element


# ---- losses: (output, target, options) -> numerator, denominator ----

def cross_entropy(y, t, o):
    weight = torch.ones(y.shape[1], dtype=y.dtype)
    if "class_weights" in o:
        weight = torch.from_numpy(np.load(ROOT / o["class_weights"])).to(y.dtype)
    ignore = o.get("ignore_index", -100)
    num = F.cross_entropy(y, t, weight, ignore_index=ignore, reduction="sum",
                          label_smoothing=o.get("label_smoothing", 0.0))
    return num, weight[t[t != ignore]].sum()


def nll(y, t, o):
    return F.nll_loss(y, t, reduction="sum"), len(t)


def elementwise(loss):
    return lambda y, t, o: (loss(y, t.to(y.dtype), reduction="sum"), y.numel())


LOSSES = {"cross-entropy": cross_entropy, "nll": nll, "output:loss": cross_entropy, "mse": elementwise(F.mse_loss),
          "l1": elementwise(F.l1_loss), "bce": elementwise(F.binary_cross_entropy),
          "bce-logits": elementwise(F.binary_cross_entropy_with_logits)}


# ---- the learning rate of step t = 0, 1 ... ----

def learning_rate(o, t):
    kind, *args = o.get("lr_schedule", "constant").split(":")
    warmup = o.get("warmup_steps", 0)
    if t < warmup:
        return o["lr"] * (t + 1) / warmup
    t, total = t - warmup, STEPS - warmup
    return o["lr"] * {"constant": lambda: 1,
                      "step": lambda: float(args[1]) ** (t // int(args[0])),
                      "cosine": lambda: (1 + math.cos(math.pi * t / total)) / 2,
                      "linear": lambda: 1 - t / total}[kind]()


# ---- training ----

def onnx_batch_norm(net, unbiased):
    """Running statistics by ONNX's rule, running := 0.9 running + 0.1 batch, with the variance asked for."""
    def update(bn, inputs):
        if bn.training:
            x = inputs[0].detach()
            bn.running_mean = torch.lerp(bn.running_mean, x.mean((0, 2, 3)), 0.1)
            bn.running_var = torch.lerp(bn.running_var, x.var((0, 2, 3), unbiased=unbiased), 0.1)

    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.momentum = 0.0    # PyTorch's own update becomes a no-op
            m.register_forward_pre_hook(update)


def make_optimizer(o, params):
    kw = {"lr": o["lr"]} if "weight_decay" not in o else {"lr": o["lr"], "weight_decay": o["weight_decay"]}
    if o["optimizer"] == "sgd":
        return torch.optim.SGD(params, momentum=o.get("momentum", 0.0), nesterov=o.get("nesterov", False), **kw)
    betas = (o.get("beta1", 0.9), o.get("beta2", 0.999))
    kind = torch.optim.Adam if o["optimizer"] == "adam" else torch.optim.AdamW
    return kind(params, betas=betas, eps=o.get("eps", 1e-8), **{"weight_decay": 0.0, **kw})


def clip(params, limit):
    norm = torch.sqrt(sum((p.grad ** 2).sum() for p in params))
    for p in params:
        p.grad *= min(1.0, limit / (norm.item() + 1e-6))     # as torch.nn.utils.clip_grad_norm_


def groups(n, batch, accumulate):
    """Endless lists of micro-batches (slices), one list per optimizer step; a group ends with its epoch."""
    while True:
        starts = list(range(0, n, batch))
        for i in range(0, len(starts), accumulate):
            yield [slice(s, min(s + batch, n)) for s in starts[i:i + accumulate]]


def train(case, dtype):
    """-> losses, the state by its name in the file, names of parameters whose gradient is zero, evaluation."""
    o = case["options"]
    net, names = nets.load(case["model"], dtype)
    onnx_batch_norm(net, o.get("bn_variance") == "unbiased")
    x, t = [torch.from_numpy(a) for a in np.load(ROOT / case["data"]).values()]
    x = x.to(dtype) if x.is_floating_point() else x
    params = dict(net.named_parameters())
    opt, losses = make_optimizer(o, params.values()), []
    largest = dict.fromkeys(params, 0.0)
    steps = groups(len(x), o["batch_size"], o.get("accumulate", 1))
    for step in range(STEPS):
        num, den = zip(*[LOSSES[o["loss"]](net(x[b]), t[b], o) for b in next(steps)])
        loss = sum(num) / sum(den)
        opt.zero_grad()
        loss.backward()
        for name, p in params.items():
            largest[name] = max(largest[name], p.grad.abs().max().item())
        if "clip_norm" in o:
            clip(params.values(), o["clip_norm"])
        for group in opt.param_groups:
            group["lr"] = learning_rate(o, step)
        opt.step()
        losses.append(loss.item())
    state = {names[k]: v.numpy().copy() for k, v in net.state_dict().items() if k in names}
    zero = sorted(names[k] for k, g in largest.items() if g < 1e-12)
    return losses, state, zero, evaluate(net.eval(), x, t, o)


@torch.no_grad()
def evaluate(net, x, t, o):
    if o["loss"] != "cross-entropy":
        return {}
    y = net(x)
    num, den = cross_entropy(y, t, o)
    valid = t != o.get("ignore_index", -100)
    return {"eval_loss": (num / den).item(), "eval_accuracy": (y.argmax(1) == t)[valid].double().mean().item()}


# ---- files ----

def difference(a, b):
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300))


def followers(case, zero):
    """Running statistics that shift when the parameters of zero gradient do."""
    runs = []
    for shift in (0.0, 0.1):
        net, names = nets.load(case["model"], torch.float64)
        onnx_batch_norm(net, unbiased=False)
        for k, p in net.named_parameters():
            p.data += shift * (names[k] in zero)
        x = torch.from_numpy(next(iter(np.load(ROOT / case["data"]).values())))
        with torch.no_grad():
            net(x.double() if x.is_floating_point() else x)
        runs.append({names[k]: b for k, b in net.named_buffers() if k in names})
    return [k for k, b in runs[0].items() if (b - runs[1][k]).abs().max() > 1e-9]


def stored(a, sample):
    a = a.astype(np.float32)
    return a if sample == 1 or a.size <= WHOLE else a.ravel()[::sample]


def flags(o):
    out = []
    for k, v in o.items():
        out += ["--" + k.replace("_", "-")] + ([] if v is True else [str(v)])
    return out


def run(name, case):
    o = case["options"] = {k: v for k, v in case["options"].items() if v is not None}
    losses, state, zero, evaluation = train(case, torch.float64)
    losses32, state32, _, _ = train(case, torch.float32)
    skip = zero + followers(case, zero) if zero else []
    np.savez(HERE / "data" / f"{name}.npz", **{k: stored(v, case["sample"]) for k, v in state.items()})
    result = {
        "name": name, "model": case["model"], "data": case["data"],
        "args": [case["model"], "--data", case["data"], *flags(o), "--steps", str(STEPS), "--no-shuffle"],
        "losses": losses, "losses_float32": losses32, "lr": [learning_rate(o, t) for t in range(STEPS)], **evaluation,
        "weights": f"tests/oracle/data/{name}.npz", "sample": case["sample"], "except": skip,
        "tolerance": {"float32": {"losses": 1e-4, "weights": 1e-3}, "float64": {"losses": 1e-7, "weights": 1e-6}},
        "float32_differs": {"losses": max(abs(a - b) / abs(b) for a, b in zip(losses32, losses)),
                            "weights": max(difference(state32[k], state[k]) for k in state if k not in skip)},
    }
    d = result["float32_differs"]
    print(f"{name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, float32 differs by {d['losses']:.1e} (losses), "
          f"{d['weights']:.1e} (weights)", flush=True)
    return result


def main():
    torch.set_num_threads(1)
    (HERE / "data").mkdir(exist_ok=True)
    for old in (HERE / "data").iterdir():
        old.unlink()
    variants.save_all(HERE / "data")
    for make in datasets.ALL:
        np.savez(HERE / "data" / f"{make.__name__}.npz", **make())
    np.save(HERE / "data" / "class_weights_10.npy", np.linspace(0.2, 2, 10).astype(np.float32))
    np.save(HERE / "data" / "class_weights_2.npy", np.array([0.4, 1.6], np.float32))
    results = [run(name, case) for name, case in CASES.items()]
    text = ",\n".join("  {" + ",\n   ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in r.items()) + "}" for r in results)
    (HERE / "cases.json").write_text('{"cases": [\n' + text + "\n]}\n")


if __name__ == "__main__":
    main()
