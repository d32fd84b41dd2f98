#!/usr/bin/env python3
"""Training steps of dpexec and PyTorch on the CPU, alternately in one run with equal threads.  Needs torch, torchvision, onnx, numpy.

    bench/cpu.py [--dpexec build/dpexec] [--against OTHER/dpexec] [--threads 1] [--rounds 5] [--only MODEL...]

A round runs each program once, as a process of its own: WARM + STEPS training steps of SGD with momentum on the same random
batches, from the weights in models/, or those of a network of torchvision that the script exports itself (the legacy exporter in
training mode).  PyTorch runs eagerly, images in both layouts (contiguous and channels last); the faster one counts.  Counted are the user and system time of all threads per step after the first WARM steps
(that is what other load on the machine disturbs least), the wall time of a step, and the process's peak memory.  Medians over
the rounds and their ratios go to standard output and to bench/results/cpu-DATE.json.  With --against another build of dpexec takes
PyTorch's place, to see whether a change made steps slower or larger; nothing is written then.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
WARM = 3
# model: batch size, steps, classes, shape of a sample (floats) or number of tokens
CASES = {"mlp": (32, 1000, 10, (64,)), "fashion_cnn": (100, 30, 10, (1, 28, 28)), "resnet20": (64, 6, 10, (3, 32, 32)),
         "transformer": (16, 10, 256, 64), "unet": (8, 12, 2, (3, 64, 64)),
         "resnet18": (16, 6, 1000, (3, 224, 224)), "vgg11_bn": (8, 4, 1000, (3, 224, 224)), "mobilenet_v2": (16, 6, 1000, (3, 224, 224)),
         "convnext_tiny": (4, 3, 1000, (3, 224, 224)), "vit_b_16": (4, 3, 1000, (3, 224, 224)), "gpt2": (4, 3, 50257, 128),
         "gpt": (16, 10, 256, 128), "lstm": (32, 20, 10, (100, 64))}
OWN = ("mlp", "fashion_cnn", "resnet20", "transformer", "unet")         # in models/; the others are exported
LAYOUTS = ("contiguous", "channels_last")


def small_gpt(length, layers, width, heads, vocabulary):
    """Its attention is spelled out: queries, keys and values picked by index from one projection, a mask added."""
    import math

    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))

        def forward(self, x):
            samples, tokens, _ = x.shape
            qkv = self.qkv(x).view(samples, tokens, 3, heads, width // heads)
            q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
            scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads) + self.mask[:tokens, :tokens]
            return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(samples, tokens, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention()
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.attention(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(length, width) / 50)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions[:tokens.shape[1]]
            return self.head(self.ln(self.blocks(x))).transpose(1, 2)

    return Gpt()


def lstm_classifier(width, hidden, layers, classes):
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.out = nn.LSTM(width, hidden, layers, batch_first=True), nn.Linear(hidden, classes)

        def forward(self, x):
            return self.out(self.lstm(x)[0][:, -1])

    return Classifier()


def make_net(model):
    """The module and a sample of its input."""
    import torch

    batch, _, classes, sample = CASES[model]
    torch.manual_seed(0)
    if model == "gpt":
        return small_gpt(sample, 6, 256, 8, classes), torch.zeros(batch, sample, dtype=torch.int64)
    if model == "lstm":
        return lstm_classifier(sample[1], 256, 2, classes), torch.zeros(batch, *sample)
    if model == "gpt2":
        sys.path.insert(0, str(ROOT / "bench"))
        import gpu_torch

        class Scores(gpu_torch.Gpt2):
            """Scores as [N, classes, T], which the loss of both takes."""

            def forward(self, tokens):
                return super().forward(tokens).view(*tokens.shape, classes).transpose(1, 2)

        return Scores(sample, 12, 768, 12, classes), torch.zeros(batch, sample, dtype=torch.int64)
    import torchvision

    more = {"dropout": 0.0} if model in ("vgg11_bn", "mobilenet_v2", "vit_b_16") else {}
    if model == "convnext_tiny":
        more = {"stochastic_depth_prob": 0.0}
    return getattr(torchvision.models, model)(num_classes=classes, **more), torch.zeros(batch, *sample)


def export(model, path):
    """In a process of its own: PyTorch's memory is not ours to measure."""
    import torch

    net, x = make_net(model)
    torch.onnx.export(net.train(), (x,), path, dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=17, input_names=["input"], dynamic_axes={"input": {0: "N"}})


def path_of(model, tmp):
    return str(ROOT / f"models/{model}.onnx") if model in OWN else str(tmp / f"{model}.onnx")


def make_data(model, path):
    """Batches enough for a few steps, which an epoch repeats."""
    import numpy as np

    batch, _, classes, sample = CASES[model]
    rng, n = np.random.default_rng(1), 2 * batch
    if isinstance(sample, int):
        x, target = rng.integers(0, classes, (n, sample)), rng.integers(0, classes, (n, sample))
    else:
        x = rng.standard_normal((n, *sample), dtype=np.float32)
        target = rng.integers(0, classes, (n, *sample[1:]) if model == "unet" else n)
    np.savez(path, **{input_name(model): x, "target": target})


def input_name(model):
    if model not in OWN:
        return "input"
    import onnx

    graph = onnx.load(str(ROOT / f"models/{model}.onnx")).graph
    return next(i.name for i in graph.input if i.name not in {t.name for t in graph.initializer})


def torch_steps(model, data, steps, threads, layout):
    """Runs in a process of its own."""
    sys.path.insert(0, str(ROOT / "tests/oracle"))
    import nets
    import numpy as np
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    arrays, batch = np.load(data), CASES[model][0]
    x, target = (torch.from_numpy(arrays[k]) for k in (input_name(model), "target"))
    net = nets.load(f"models/{model}.onnx", torch.float32)[0] if model in OWN else make_net(model)[0]
    if layout == "channels_last":
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), 0.001, momentum=0.9)
    net.train()
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for i in range(WARM + steps):
        if i == WARM:
            cpu, wall = time.process_time(), time.perf_counter()
        at = i % 2 * batch
        opt.zero_grad(set_to_none=True)
        F.cross_entropy(net(x[at:at + batch]), target[at:at + batch]).backward()
        opt.step()
    print(json.dumps({"cpu_ms": 1e3 * (time.process_time() - cpu) / steps, "wall_ms": 1e3 * (time.perf_counter() - wall) / steps,
                      "base_mib": base}))


def command(who, model, data, steps, args, out):
    if who in LAYOUTS:
        return [sys.executable, __file__, "--torch", model, "--data", str(data), "--steps", str(steps), "--threads", str(args.threads),
                "--layout", who]
    return [args.against if who == "against" else args.dpexec, "train", path_of(model, out.parent), "--data", str(data), "--loss", "cross-entropy", "--batch-size",
            str(CASES[model][0]), "--momentum", "0.9", "--lr", "0.001", "--steps", str(steps), "--devices", "cpu", "--threads",
            str(args.threads), "--quiet", "--out", str(out)]


def measure(cmd, threads):
    """CPU seconds, wall seconds, peak memory in MiB and standard output of one process."""
    start = time.perf_counter()
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    with tempfile.TemporaryFile("w+") as error, tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(cmd, cwd=ROOT, env=env, stdout=said, stderr=error)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        error.seek(0), said.seek(0)
        if child.returncode:
            sys.exit(f"{' '.join(cmd)}: {error.read().strip()}")
        return used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss / 1024, said.read()


def one_round(who, model, data, args, tmp, number):
    """Per step after the first WARM.  PyTorch tells it itself, since starting it takes longer than a step; of dpexec it is what a run
    of WARM + STEPS steps takes more than one of WARM."""
    steps = CASES[model][1]
    if who in LAYOUTS:
        _, _, peak, said = measure(command(who, model, data, steps, args, tmp / "none"), args.threads)
        return {**json.loads(said), "peak_mib": peak}
    few, many = (measure(command(who, model, data, n, args, tmp / f"{who}-{model}-{number}-{n}"), args.threads)
                 for n in (WARM, WARM + steps))
    return {"cpu_ms": 1e3 * (many[0] - few[0]) / steps, "wall_ms": 1e3 * (many[1] - few[1]) / steps, "peak_mib": many[2]}


def np_shape(model):
    sample = CASES[model][3]
    return () if isinstance(sample, int) else sample


def run_model(model, args, tmp):
    data = tmp / f"{model}.npz"
    make_data(model, data)
    if model not in OWN:
        subprocess.run([sys.executable, __file__, "--export", path_of(model, tmp), "--only", model], check=True, capture_output=True)
    images = len(np_shape(model)) == 3
    others = ["against"] if args.against else LAYOUTS if images else LAYOUTS[:1]
    rounds = {who: [] for who in ("dpexec", *others)}
    for i in range(args.rounds):
        for who in rounds:
            rounds[who].append(one_round(who, model, data, args, tmp, i))
    best = min(set(rounds) - {"dpexec"}, key=lambda who: statistics.median(r["cpu_ms"] for r in rounds[who]))
    row = {"model": model, "batch": CASES[model][0], "other": best, "rounds": rounds}
    for key in ("cpu_ms", "wall_ms", "peak_mib"):
        a, b = (statistics.median(r[key] for r in rounds[who]) for who in ("dpexec", best))
        row[key] = {"dpexec": a, "other": b, "ratio": a / b}
    return row


def version():
    return subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True).stdout.strip()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dpexec", default="build/dpexec")
    p.add_argument("--against", help="another build of dpexec, in PyTorch's place")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", choices=CASES, nargs="+", default=list(CASES))
    for hidden in ("--torch", "--data", "--steps", "--layout", "--export"):
        p.add_argument(hidden, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.torch:
        return torch_steps(args.torch, args.data, int(args.steps), args.threads, args.layout)
    if args.export:
        return export(args.only[0], args.export)
    with tempfile.TemporaryDirectory() as tmp:
        rows = []
        other = "other" if args.against else "torch"
        print(f"model (batch)        CPU ms/step dpexec  {other}  ratio   wall ratio   peak MiB dpexec  {other}")
        for model in args.only:
            r = run_model(model, args, pathlib.Path(tmp))
            rows.append(r)
            c, w, m = r["cpu_ms"], r["wall_ms"], r["peak_mib"]
            print(f"{model + ' (' + str(r['batch']) + ')':20} {c['dpexec']:18.2f} {c['other']:6.2f} {c['ratio']:6.2f} {w['ratio']:12.2f}"
                  f" {m['dpexec']:17.0f} {m['other']:6.0f}", flush=True)
    if args.against:
        return None
    out = ROOT / f"bench/results/cpu-{datetime.date.today()}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg(),
                               "threads": args.threads, "rounds": args.rounds, "torch": version(), "models": rows}, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
