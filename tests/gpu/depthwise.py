#!/usr/bin/env python3
"""Depthwise convolutions of unlike sizes in one captured step, on a CUDA device and on the CPU.  Needs numpy.

    tests/gpu/depthwise.py DPEXEC [--trial]

Trains MobileNetV2 (its channels, images of 64 by 64) and a net of three depthwise convolutions in a row (3x3, 5x5 with stride 2, 7x7) for
three steps of SGD, of which the second and third are captured as one graph, in float32, float16 and bfloat16.  Older releases of cuDNN
had wrong results of such convolutions.  What each weight of a product has changed by since the start is compared with the CPU's in float32:
  - in float32 it is within 2^-10 of that in the norm of the tensor, or 8 times what other roundings do: those of the CPU with SSE alone;
  - in 16 bits it is as far as the CPU's change in the same precision is, within a factor of 2 and 2^-8;
    (the first layers of MobileNetV2 are far from it on the CPU, too, whose roundings 50 layers multiply: there its last layers tell
    the forward pass, and the net of three tells the gradients);
  - steps issued call by call (--no-capture) give the same bits.
--trial: three convolutions alone, for a simulated device.  Ends with "N passed, N failed".
"""
import argparse
import concurrent.futures
import pathlib
import sys
import tempfile

import numpy as np

from train import ROOT, Run, captured, same

sys.path.insert(0, str(ROOT / "bench"))
from onnx_file import FLOAT, Net, read_weights  # noqa: E402

CLASSES, STEPS = 10, 3
# At MobileNetV2's rate all steps begin close to the same weights: its 50 layers multiply roundings.
RATE = {"three_in_a_row": "0.01", "mobilenet_v2": "0.0001"}
PRECISIONS = ("float32", "float16", "bfloat16")
# (expansion, channels, blocks, stride of the first), Sandler et al. 2018, table 2
MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class Images(Net):
    """A classifier of images in the making."""

    def conv_bn(self, x, name, cin, cout, k=1, stride=1, groups=1, relu6=True):
        fan_in = cin // groups * k * k
        x = self.op("Conv", x, self.normal(f"{name}.weight", (cout, cin // groups, k, k), (2 / fan_in) ** 0.5), name=name, kernel_shape=[k, k],
                    strides=[stride] * 2, pads=[k // 2] * 4, group=groups)
        start = {"scale": np.ones(cout), "bias": np.zeros(cout), "mean": np.zeros(cout), "var": np.ones(cout)}
        x = self.op("BatchNormalization", x, *[self.param(f"{name}.bn.{k}", v) for k, v in start.items()], epsilon=1e-5, momentum=0.9)
        return self.op("Clip", x, self.const(0), self.const(6)) if relu6 else x

    def classify(self, x, cin):
        x = self.op("Flatten", self.op("GlobalAveragePool", x))
        self.op("Gemm", x, self.normal("fc.weight", (CLASSES, cin), cin ** -0.5), self.param("fc.bias", np.zeros(CLASSES)), name="logits", transB=1)
        self.output("logits", ["batch", CLASSES])


def mobilenet_v2(size):
    net = Images("mobilenet_v2")
    x, cin = net.conv_bn(net.input("image", FLOAT, ["batch", 3, size, size]), "first", 3, 32, 3, 2), 32
    for i, (expansion, cout, count, stride) in enumerate(MOBILENET):
        for b in range(count):
            y, wide = x, cin * expansion
            if expansion > 1:
                y = net.conv_bn(y, f"{i}.{b}.expand", cin, wide)
            y = net.conv_bn(y, f"{i}.{b}.depthwise", wide, wide, 3, stride if b == 0 else 1, wide)
            y = net.conv_bn(y, f"{i}.{b}.project", wide, cout, relu6=False)
            x, cin = net.op("Add", x, y) if b > 0 else y, cout
    net.classify(net.conv_bn(x, "last", cin, 1280), 1280)
    return net


def three_in_a_row(size, channels=96):
    net = Images("three_in_a_row")
    x = net.conv_bn(net.input("image", FLOAT, ["batch", 3, size, size]), "first", 3, channels)
    for k, stride in ((3, 1), (5, 2), (7, 1)):
        w = net.normal(f"depthwise{k}.weight", (channels, 1, k, k), 1 / k)
        x = net.op("Conv", x, w, name=f"depthwise{k}", kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4, group=channels)
    net.classify(x, channels)
    return net


class Changes(Run):
    """A Run, and what it has changed each tensor by: name -> array."""

    def __init__(self, dpexec, case, *more):
        self.changes, self.start = {}, case["model"]
        super().__init__(dpexec, case, *more)

    def read(self, folder):
        super().read(folder)
        before, after = read_weights(self.start), read_weights(folder / "model.onnx")
        self.changes = {name: after[name].astype(np.float64) - w for name, w in before.items() if w.ndim > 1}


def distances(run, reference):
    """Name -> norm of the difference over that of the reference; infinite where something is not finite."""
    out = {}
    for name, r in reference.changes.items():
        d = np.linalg.norm(run.changes[name] - r) / (np.linalg.norm(r) or 1)
        out[name] = d if np.isfinite(d) else float("inf")
    return out


def too_far(found, most):
    """What is wrong, or None: distances above what is allowed of each tensor."""
    worst = max(found, key=lambda name: found[name] / most(name))
    return None if found[worst] <= most(worst) else f"{worst} differs by {found[worst]:.3g}, allowed {most(worst):.3g}"


def in_precision(precision):
    """A loss scale at which no gradient overflows: a dynamic one would leave out the first steps."""
    return ("--precision", precision, *(("--loss-scale", "128") if precision == "float16" else ()))


def on_cpu(dpexec, case, precision):
    if precision == "sse":
        return Changes(["env", "ONEDNN_MAX_CPU_ISA=SSE41", dpexec], case, "--devices", "cpu", "--threads", "2")
    return Changes(dpexec, case, "--devices", "cpu", "--threads", "2", *in_precision(precision))


def check(dpexec, case, precision, cpu):
    """[(what, what is wrong or None)] of one case in one precision; `cpu`: the CPU's changes by precision, in the making."""
    gpu, reference = ("--devices", "cuda:0", *in_precision(precision)), cpu["float32"].result()
    found, again = Changes(dpexec, case, *gpu), Changes(dpexec, case, *gpu, "--no-capture")
    wrong = reference.error or found.error
    if not wrong and precision == "float32":
        other = cpu["sse"].result()
        far = distances(other, reference) if not other.error else {}
        wrong = other.error or too_far(distances(found, reference), lambda name: max(2**-10, 8 * far[name]))
    elif not wrong:
        same_precision = cpu[precision].result()
        far = distances(same_precision, reference) if not same_precision.error else {}
        wrong = same_precision.error or too_far(distances(found, reference), lambda name: 2 * far[name] + 2**-8)
    return [("the CPU's changes", wrong), ("captured", captured(found)), ("uncaptured", same(again, found))]


def cases(folder, trial):
    rng = np.random.default_rng(7)
    for make, size, batch in ((three_in_a_row, 32, 16), (mobilenet_v2, 64, 8))[:1 if trial else None]:
        size, batch = (8, 4) if trial else (size, batch)
        name = make.__name__
        model = make(size).save(folder / f"{name}.onnx")
        n = STEPS * batch
        np.savez(folder / f"{name}.npz", image=rng.standard_normal((n, 3, size, size), dtype=np.float32), target=rng.integers(0, CLASSES, n))
        yield {"name": name, "steps": STEPS, "model": model, "args": [
            str(model), "--data", str(folder / f"{name}.npz"), "--loss", "cross-entropy", "--batch-size", str(batch), "--optimizer", "sgd", "--lr",
            RATE[name], "--no-shuffle", "--seed", "3"]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dpexec")
    p.add_argument("--trial", action="store_true")
    args = p.parse_args()
    dpexec = str(pathlib.Path(args.dpexec).resolve())
    passed = failed = 0
    # The CPU's runs are begun first: the others wait for them.
    with tempfile.TemporaryDirectory() as tmp, concurrent.futures.ThreadPoolExecutor(2 if args.trial else 8) as pool:
        todo = list(cases(pathlib.Path(tmp), args.trial))
        cpu = {case["name"]: {p: pool.submit(on_cpu, dpexec, case, p) for p in ("sse", *PRECISIONS)} for case in reversed(todo)}
        jobs = [(case, p, pool.submit(check, dpexec, case, p, cpu[case["name"]])) for case in todo for p in PRECISIONS]
        for case, precision, job in jobs:
            for what, wrong in job.result():
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print(f"FAILED: {case['name']} in {precision}, {what}: {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
