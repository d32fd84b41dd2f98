"""Makes what the runner compares with: exported files, data, and the same network trained by PyTorch in float64.

    prepare.py NET WEIGHTS FOLDER EXPORT...     EXPORT: EXPORTER-BATCH, e.g. default-eval-dynamic (`EXPORTERS`; fixed | dynamic)
    prepare.py --list                           # the networks and how dpexec is told about them, as JSON

Writes FOLDER/data.npz, FOLDER/oracle.npz and .json, and for each export FOLDER/EXPORT.onnx, or EXPORT.refused with what the exporter
said.  What is there already is kept.  WEIGHTS is fresh (as the constructors leave them) or perturbed (as after some training).
"""
import json
import pathlib
import sys
import warnings
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import libraries
import nets

NETS = {**nets.NETS, **libraries.NETS}
STEPS, BATCH = 20, 4
NUDGE = 1e-10       # of the second run, which tells how much the steps amplify
CHAOS = 1e5         # the steps up to which they amplify by less are compared

# name: (the default exporter?, module in training mode?, opset, further arguments)
EXPORTERS = {f"legacy-{mode}-{opset}": (False, mode == "train", opset, {}) for mode in ("train", "eval") for opset in (11, 13, 17)}
EXPORTERS.update({"default-train": (True, True, None, {}), "default-eval": (True, False, None, {}),
                  "default-noopt": (True, True, None, {"optimize": False})})


def float32(x):
    return float(np.float32(x))


def perturb(net, generator):
    """Weights, scales and running statistics as training leaves them: none zero, none one, no two alike.  What is frozen stays."""
    for p in net.parameters():
        if p.requires_grad:
            p.data += (0.05 if p.dim() > 1 else 0.1) * torch.randn(p.shape, generator=generator)
    for m in net.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.running_mean is not None:
            m.running_mean += 0.1 * torch.randn(m.running_mean.shape, generator=generator)
            m.running_var *= 0.75 + 0.5 * torch.rand(m.running_var.shape, generator=generator)


def build(spec, weights):
    torch.manual_seed(zlib.crc32(spec.name.encode()))
    net = spec.build()
    if weights == "perturbed":
        perturb(net, torch.Generator().manual_seed(7))
    for m in net.modules():     # the file holds these as float32: PyTorch is to train with the same numbers
        if isinstance(getattr(m, "eps", None), float):
            m.eps = float32(m.eps)
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.momentum = 1 - float32(1 - m.momentum)
    return net


def fed(spec, data, at):
    """The model's inputs for samples `at`."""
    return [data[k][at].movedim(0, spec.axes.get(k, 0)).contiguous() for k in data if k != "target"]


# ---- the oracle ----

def loss_of(spec, out, target):
    if spec.loss == "mse":
        return F.mse_loss(out, target)
    if spec.loss == "cross-entropy":
        if "--class-axis" in spec.flags or out.dim() > 2 and out.shape[1:-1] == target.shape[1:] != out.shape[2:]:
            out = out.movedim(-1, 1)
        return F.cross_entropy(out, target)
    return out


def train(spec, weights, data, steps=STEPS, nudge=0.0):
    """-> losses, {parameter or running statistic: value at the end} of so many steps of SGD in float64, the parameters that had a gradient."""
    net = build(spec, weights).double().train()
    generator = torch.Generator().manual_seed(11)
    for p in net.parameters():
        p.data *= 1 + nudge * torch.randn(p.shape, generator=generator, dtype=p.dtype)
    data = {k: v.double() if v.is_floating_point() else v for k, v in data.items()}
    optimizer = torch.optim.SGD(net.parameters(), lr=spec.lr, momentum=0.9)
    losses, samples = [], len(next(iter(data.values())))
    for step in range(steps):
        first = step * BATCH % samples
        at = slice(first, first + BATCH)
        loss = loss_of(spec, net(*fed(spec, data, at)), data["target"][at] if "target" in data else None)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    reached = {k for k, p in net.named_parameters(remove_duplicate=False) if p.grad is not None}
    return losses, {k: v.detach().numpy() for k, v in net.state_dict(keep_vars=True).items() if v.is_floating_point()}, reached


def oracle(spec, weights, data, folder):
    net = build(spec, weights)
    losses, final, reached = train(spec, weights, data)
    nudged, _, _ = train(spec, weights, data, nudge=NUDGE)
    amplified = [abs(a - b) / abs(b) / NUDGE for a, b in zip(nudged, losses)]
    steps = next((i for i, a in enumerate(amplified) if i and a > CHAOS), STEPS)
    if steps < STEPS:
        losses, final, _ = train(spec, weights, data, steps)
    names = [k for k, _ in net.named_parameters(remove_duplicate=False) if k in reached]
    first = {k: v.detach().numpy() for k, v in net.state_dict(keep_vars=True).items() if v.is_floating_point()}
    np.savez(folder / "oracle.npz", **{"first:" + k: v for k, v in first.items()}, **{"final:" + k: v for k, v in final.items()})
    tied = [[k for k, q in net.named_parameters(remove_duplicate=False) if q is p] for name, p in net.named_parameters() if name in reached]
    norms = [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    (folder / "oracle.json").write_text(json.dumps({
        "losses": losses, "parameters": names, "tied": [t for t in tied if len(t) > 1],
        "numbers": sum(p.numel() for k, p in net.named_parameters() if k in reached), "batch_norms": len(norms),
        "amplified": max(amplified[:steps])}, indent=1))


# ---- the exports ----

def export(spec, weights, data, name, path):
    kind, batch = name.rsplit("-", 1)
    default, training, opset, more = EXPORTERS[kind]
    opset = spec.opset if opset == 17 else opset
    net = build(spec, weights).train(training)
    inputs = [k for k in data if k != "target"]
    example = tuple(fed(spec, data, slice(0, BATCH)))
    kw = {"input_names": inputs, "output_names": ["loss" if spec.loss.startswith("output:") else "out"], "dynamo": default, **more}
    if default:
        kw |= {"external_data": False, "verbose": False}
        if batch == "dynamic":
            sizes = {"batch": torch.export.Dim("batch")}
            kw["dynamic_shapes"] = tuple({spec.axes.get(k, 0): sizes["batch"]} for k in inputs)
    else:
        kw |= {"opset_version": opset, "do_constant_folding": not training,
               "training": torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL}
        if batch == "dynamic":
            kw["dynamic_axes"] = {k: {spec.axes.get(k, 0): "batch"} for k in inputs}
            if not spec.loss.startswith("output:"):
                kw["dynamic_axes"]["out"] = {0: "batch"}
    part = path.with_suffix(".part")
    torch.onnx.export(net, example, str(part), **kw)
    part.rename(path)


def main():
    if sys.argv[1:] == ["--list"]:
        print(json.dumps({n.name: {"loss": n.loss, "flags": n.flags, "lr": n.lr, "axes": n.axes, "exports": n.exports,
                          "library": n.name in libraries.NETS} for n in NETS.values()}))
        return
    name, weights, folder, *exports = sys.argv[1:]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    spec, folder = NETS[name], pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = spec.data(torch.Generator().manual_seed(5))
    if not (folder / "oracle.json").exists():
        np.savez(folder / "data.npz", **{k: v.numpy() for k, v in data.items()})
        oracle(spec, weights, data, folder)
    for e in exports:
        path = folder / f"{e}.onnx"
        if path.exists() or path.with_suffix(".refused").exists():
            continue
        try:
            export(spec, weights, data, e, path)
        except Exception as why:    # an exporter may raise anything; what it said is the result
            path.with_suffix(".refused").write_text(f"{type(why).__name__}: {why}")


if __name__ == "__main__":
    main()
