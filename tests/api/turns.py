#!/usr/bin/env python3
"""Writes tests/api/turns.h: how PyTorch trains models/gan.onnx in float64, one player after the other and both together: the log variables
of each step, and of each tensor of the last state two sums that tell it.  The same losses of each step, a line a run, are tests/cli/turns.txt.

The runs of `own_` names have the batch-norm of DistributedDataParallel, on PARTS parts, some of which are empty: statistics of each part, running ones
of each replica, those of the first or (`average_`) the mean of all, which all go on with after an epoch.

Accumulated as mmengine's OptimWrapper does, one of each player: its gradients of all batches of a group are added up, and with the last it
updates, so that what comes behind it in that batch sees the update, and what came before did not.  Losses weigh by samples.

    pip install torch onnx numpy
    tests/api/turns.py
"""
import copy
import os
import subprocess

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper as nh
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES, BATCH, STEPS, PARTS = 13, 5, 12, 4
torch.set_num_threads(1)
start = {t.name: nh.to_array(t) for t in onnx.load(os.path.join(HERE, "../../models/gan.onnx")).graph.initializer}
f32 = lambda a: float(np.float32(a))    # as attributes have it


def numbers(n, a):
    """As turns.c makes them."""
    i = np.arange(n, dtype=np.float64)
    return np.sin(a * i + 0.001 * i * i)


z = torch.tensor(1.4 * numbers(SAMPLES * 16, 0.7).reshape(SAMPLES, 16))
image = torch.tensor(numbers(SAMPLES * 64, 0.3).reshape(SAMPLES, 1, 8, 8))
norm = lambda n: nn.BatchNorm2d(n, eps=f32(1e-5), momentum=1 - f32(0.9))


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.bn0, self.bn1 = nn.Linear(16, 128), norm(32), norm(16)
        self.up1, self.up2 = nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False)

    def forward(self, x):
        x = F.relu(self.bn0(self.fc(x).view(-1, 32, 2, 2)))
        return torch.tanh(self.up2(F.relu(self.bn1(self.up1(x)))))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 4, 2, 1, bias=False), nn.Conv2d(16, 32, 4, 2, 1, bias=False)
        self.bn2, self.fc = norm(32), nn.Linear(128, 1)

    def forward(self, x):
        x = F.leaky_relu(self.conv1(x), f32(0.2))
        return self.fc(F.leaky_relu(self.bn2(self.conv2(x)), f32(0.2)).flatten(1))


class Parted(nn.Module):
    """Copies that share parameters, each with running statistics of its own and its part of the samples."""
    def __init__(self, net):
        super().__init__()
        self.copies = nn.ModuleList([net] + [copy.deepcopy(net) for _ in range(PARTS - 1)])
        for other in self.copies[1:]:
            for name, p in net.named_parameters():
                setattr(other.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2], p)

    def forward(self, x):
        sizes = [len(x) // PARTS + (r < len(x) % PARTS) for r in range(PARTS)]
        return torch.cat([net(part) for net, part in zip(self.copies, x.split(sizes)) if len(part)])

    def average(self):
        for same in zip(*(net.buffers() for net in self.copies)):
            mean = sum(same) / PARTS
            for t in same:
                t.copy_(mean)


def make(kind, name):
    net = kind().double()
    for n, t in net.state_dict().items():
        if not n.endswith("num_batches_tracked"):
            t.copy_(torch.tensor(start[f"{name}.{n}"]))
    return net


class Wrapper:
    """A player's optimizer.  `last`: the batch ends its group; `samples` are the batch's; `clip`: clip_grad_norm_ to that."""
    def __init__(self, opt, clip=None):
        self.clip, self.norms = clip, []
        self.opt, self.params = opt, [p for group in opt.param_groups for p in group["params"]]
        self.seen, self.sums, self.last, self.samples = 0, [0] * len(self.params), True, 1

    def add(self, loss):
        grads = torch.autograd.grad(loss * self.samples, self.params, retain_graph=True)
        self.sums = [a + b for a, b in zip(self.sums, grads)]
        self.seen += self.samples

    def update(self):
        for p, total in zip(self.params, self.sums):
            p.grad = total / self.seen
        if self.clip:
            self.norms.append(nn.utils.clip_grad_norm_(self.params, self.clip).item())
        self.opt.step()
        self.seen, self.sums = 0, [0] * len(self.params)


def step(opt, loss):
    opt.add(loss)
    if opt.last:
        opt.update()


def softplus(x):
    return F.softplus(x, threshold=1e9)


def of_discriminator(d, real, made):
    return (softplus(-d(real)) + softplus(d(made))).mean()


def discriminator_first(g, d, opt_g, opt_d, noise, real):
    """The loop of PyTorch's DCGAN example."""
    made = g(noise)
    d_loss = of_discriminator(d, real, made.detach())
    step(opt_d, d_loss)
    g_loss = softplus(-d(made)).mean()
    step(opt_g, g_loss)
    return d_loss, g_loss, made


def generator_first(g, d, opt_g, opt_d, noise, real):
    made = g(noise)
    g_loss = softplus(-d(made)).mean()
    step(opt_g, g_loss)
    d_loss = of_discriminator(d, real, g(noise).detach())
    step(opt_d, d_loss)
    return d_loss, g_loss, made


def together(g, d, opt_g, opt_d, noise, real):
    made = g(noise)
    of_real, of_made = d(real), d(made)
    d_loss, g_loss = (softplus(-of_real) + softplus(of_made)).mean(), softplus(-of_made).mean()
    opt_d.add(d_loss)
    opt_g.add(g_loss)
    for opt in (opt_d, opt_g):
        if opt.last:
            opt.update()
    return d_loss, g_loss, made


def train(way, bn="sync", group=1, across=False, flush=False):
    """--optimizer adam --beta1 0.5 --lr 0.01 --bn-variance unbiased, and the discriminator's rate 0.004.  `across`: groups of batches go on
    in the next epoch; `flush`: an incomplete one is updated when its last batch, which nobody took for the last, is over."""
    g, d = make(Generator, "generator"), make(Discriminator, "discriminator")
    opt_g = Wrapper(torch.optim.Adam(g.parameters(), 0.01, (0.5, 0.999)))
    opt_d = Wrapper(torch.optim.Adam(d.parameters(), 0.004, (0.5, 0.999)))
    run_g, run_d = (g, d) if bn == "sync" else (Parted(g), Parted(d))
    logged, batch, inside, sums = [], 0, 0, 0
    while len(logged) < STEPS:
        at = slice(batch % 3 * BATCH, min(batch % 3 * BATCH + BATCH, SAMPLES))
        batch, inside = batch + 1, inside + 1
        last = inside == group or batch % 3 == 0 and not across
        for opt in (opt_g, opt_d):
            opt.last, opt.samples = last and not (flush and inside < group), len(z[at])
        d_loss, g_loss, made = way(run_g, run_d, opt_g, opt_d, z[at], image[at])
        sums = sums + opt.samples * np.array([v.item() for v in (d_loss + g_loss, d_loss, g_loss, made.mean())] + [1])
        if last and not opt.last:
            opt_g.update()
            opt_d.update()
        if last:
            logged.append(sums[:-1] / sums[-1])
            inside, sums = 0, 0
        if bn == "average" and batch % 3 == 0:
            run_g.average(), run_d.average()
    state = {f"{n}.{k}": t for n, net in (("generator", g), ("discriminator", d)) for k, t in net.state_dict().items()}
    sums = []
    for n in start:
        t = state[n].flatten()
        sums += [t.norm().item(), (t * torch.cos(torch.arange(len(t), dtype=torch.float64))).sum().item()]
    return logged, sums


def by_parts(replicas, filled):
    """The discriminator first; each loss is the mean of what each replica makes of its part (--loss-scaling mean-of-means), over all or those
    that have samples, and so is each batch-norm's share of them (--bn local).  The losses, by each step."""
    g, d = make(Generator, "generator"), make(Discriminator, "discriminator")
    opt_g = Wrapper(torch.optim.Adam(g.parameters(), 0.01, (0.5, 0.999)))
    opt_d = Wrapper(torch.optim.Adam(d.parameters(), 0.004, (0.5, 0.999)))
    losses = []
    for k in range(STEPS):
        n, at = min(BATCH, SAMPLES - k % 3 * BATCH), k % 3 * BATCH
        sizes = [n // replicas + (r < n % replicas) for r in range(replicas)]
        parts = [slice(at + sum(sizes[:r]), at + sum(sizes[:r + 1])) for r in range(replicas) if sizes[r]]
        over = len(parts) if filled else replicas
        made = [g(z[p]) for p in parts]
        d_loss = sum(of_discriminator(d, image[p], m.detach()) for p, m in zip(parts, made)) / over
        step(opt_d, d_loss)
        g_loss = sum(softplus(-d(m)).mean() for m in made) / over
        step(opt_g, g_loss)
        losses.append((d_loss + g_loss).item())
    return losses


def clipped(way, clip):
    """Each player's gradients clipped to `clip` before its optimizer's step, SGD of rate 0.2: the losses, and (discriminator, generator) norms."""
    g, d = make(Generator, "generator"), make(Discriminator, "discriminator")
    opt_g, opt_d = (Wrapper(torch.optim.SGD(net.parameters(), 0.2), clip) for net in (g, d))
    losses = []
    for k in range(STEPS):
        at = slice(k % 3 * BATCH, min(k % 3 * BATCH + BATCH, SAMPLES))
        d_loss, g_loss, _ = way(g, d, opt_g, opt_d, z[at], image[at])
        losses.append((d_loss + g_loss).item())
    return losses, [n for pair in zip(opt_d.norms, opt_g.norms) for n in pair]


def table(name, rows):
    words = [repr(float(a)) for a in np.asarray(rows).reshape(-1)]
    return f"static const double {name}[] = {{ " + ", ".join(words) + " };\n"


with open(os.path.join(HERE, "turns.h"), "w") as f, open(os.path.join(HERE, "../cli/turns.txt"), "w") as losses:
    f.write("/* Made by turns.py. */\n")
    f.write(f"enum {{ N_SAMPLES = {SAMPLES}, BATCH = {BATCH}, STEPS = {STEPS}, PARTS = {PARTS}, N_STATES = {len(start)} }};\n")
    f.write("static const char *const state_names[N_STATES] = { " + ", ".join(f'"{n}"' for n in start) + " };\n")
    for way, name, how in ((discriminator_first, "", {}), (generator_first, "", {}), (together, "", {}),
                           (discriminator_first, "_of_two", dict(group=2)), (generator_first, "_of_two", dict(group=2)),
                           (discriminator_first, "_of_three", dict(group=3)), (generator_first, "_across", dict(group=2, across=True)),
                           (discriminator_first, "_flushed", dict(group=2, flush=True))):
        logged, sums = train(way, **how)
        f.write(table(f"{way.__name__}{name}_logs", logged) + table(f"{way.__name__}{name}_sums", sums))
        print(way.__name__ + name, *(repr(float(row[0])) for row in logged), file=losses)
    for way in (discriminator_first, generator_first, together):
        for bn in ("own", "average"):
            logged, sums = train(way, bn)
            f.write(table(f"{bn}_{way.__name__}_logs", logged) + table(f"{bn}_{way.__name__}_sums", sums))
    for replicas, over in ((3, "all"), (4, "filled"), (5, "all")):
        print(f"by_{replicas}_{over}", *map(repr, by_parts(replicas, over == "filled")), file=losses)
    for way in (discriminator_first, generator_first):
        of_way, norms = clipped(way, 4)
        assert min(norms) < 4 < max(norms) and min(abs(a - b) for a, b in zip(of_way[1:], clipped(way, 1e9)[0][1:])) > 1e-3, norms
        print(f"{way.__name__}_clipped", *map(repr, of_way), file=losses)
        print(f"{way.__name__}_norms", *map(repr, norms), file=losses)
subprocess.run(["clang-format", "-i", os.path.join(HERE, "turns.h")], check=True)
