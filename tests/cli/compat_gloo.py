#!/usr/bin/env python3
"""Trains with torch.nn.parallel.DistributedDataParallel in four processes of gloo on 127.0.0.1, by the cases of tests/cli/compat.py that are
its own and mmengine's, and writes what they computed: tests/cli/compat/gloo.txt, a line a case, its name and the loss of each step, and
gloo.npz, every tensor at the end.  What compat.py stores beside it follows from the rules written down there; these are the system's own.

    pip install torch onnx numpy
    tests/cli/compat_gloo.py

Told to the processes, because DistributedDataParallel leaves it to its user: a part without samples, or of which none counts, has the loss
0 (PyTorch's is NaN); a group's batches are divided by their number; means of buffers are taken after each epoch, or for an evaluation (mmengine's
SyncBuffersHook).  The running variance is of the population, as in the file.  Not among the cases: SyncBatchNorm, which needs GPUs, and
compression, which gloo adds in 16 bits.
"""
import contextlib
import os
import socket
import sys
import warnings

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F

import compat

RENDEZVOUS = "127.0.0.1"


class BatchNorm(torch.nn.BatchNorm1d):
    """Its running variance is that of the population."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            for running, new in ((self.running_mean, x.mean((0, 2))), (self.running_var, x.var((0, 2), unbiased=False))):
                running.mul_(compat.MOMENTUM).add_((1 - compat.MOMENTUM) * new)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0, self.eps)


class Net(torch.nn.Module):
    def __init__(self, twice):
        super().__init__()
        self.conv, self.bn, self.head = torch.nn.Conv1d(3, 5, 2), BatchNorm(5, compat.EPSILON), torch.nn.Linear(15, 4)
        self.twice = twice

    def forward(self, x):
        y = self.bn(self.conv(x))
        return self.head(torch.relu(self.bn(torch.tanh(y)) if self.twice else y).flatten(1))


def groups(samples, batch, accumulate, across):
    """The batches of each step: [(first sample, samples, do they end an epoch)]."""
    at = 0
    for _ in range(compat.STEPS):
        group = []
        while len(group) < accumulate:
            n = min(batch, samples - at)
            group.append((at, n, at + n == samples))
            at = (at + n) % samples
            if at == 0 and not across:
                break
        yield group


def average_buffers(net):
    for b in (net.module.bn.running_mean, net.module.bn.running_var):
        dist.all_reduce(b)
        b /= compat.REPLICAS


def part_loss(net, x, target, part, criterion):
    if not compat.counts(criterion, target[part]):
        net.train(bool(part))       # a dummy sample leaves no trace in the statistics, and has every parameter reached
        loss = (net(x[part or [0]]).sum() + sum(a.sum() for a in net.parameters())) * 0
        net.train()
        return loss
    return criterion(net(x[part]), target[part])


def train(rank, samples, batch, parts, criterion=compat.mean_loss, accumulate=1, bn="local", across=False, every=False,
          twice=False):
    x = torch.tensor(compat.data[samples][0])
    target = torch.tensor(compat.values[samples] if criterion in (compat.squared, compat.huber) else compat.data[samples][1])
    net = Net(twice).double()
    net.load_state_dict({n: torch.tensor(a.T if n == "head.weight" else a) for n, a in compat.start.items()}, strict=False)
    if criterion in (compat.own_loss, compat.all_losses):
        p, of_model = {}, criterion
        criterion = lambda y, t: of_model(y, t, p)
        if of_model is compat.all_losses:
            net.proj = torch.nn.ParameterDict({"weight": torch.tensor(compat.proj)})
            p["proj.weight"] = net.proj["weight"]
    net = torch.nn.parallel.DistributedDataParallel(net, broadcast_buffers=bn == "local")
    optimizer = torch.optim.SGD(net.parameters(), compat.LR, momentum=0.5)
    losses = []
    for group in groups(samples, batch, accumulate, across):
        total = torch.zeros((), dtype=torch.float64)
        optimizer.zero_grad()
        for k, (at, n, ends) in enumerate(group):
            with net.no_sync() if k + 1 < len(group) else contextlib.nullcontext():
                loss = part_loss(net, x, target, [at + i for i in parts(n)[rank]], criterion) / len(group)
                loss.backward()
            total += loss.detach()
            if (ends or every) and bn == "average":
                average_buffers(net)
        optimizer.step()
        dist.all_reduce(total)
        losses.append(total.item() / compat.REPLICAS)
    if bn == "average":
        average_buffers(net)
    return losses, {n: t.numpy().T if n == "head.weight" else t.numpy() for n, t in net.module.state_dict().items() if "tracked" not in n}


def cases():
    """(name, samples, batch, parts, criterion, more) of those in which nothing is done that gloo does not."""
    for name, _, _, parts, total, criterion, more in compat.CASES:
        if total is compat.over_all and not more.keys() & {"group", "reduce", "body"}:
            for samples, batch in ((13, 10), (5, 5)):
                yield name, samples, batch, parts, criterion, more


def process(rank, port):
    os.environ.update(MASTER_ADDR=RENDEZVOUS, MASTER_PORT=str(port))
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message=".*broadcast_buffers", category=FutureWarning)
    dist.init_process_group("gloo", rank=rank, world_size=compat.REPLICAS)
    after = {}
    with open(os.path.join(compat.HERE, "gloo.txt") if rank == 0 else os.devnull, "w") as f:
        for name, samples, batch, parts, criterion, more in cases():
            case = f"{name}, {samples} samples"
            losses, left = train(rank, samples, batch, parts, criterion, **more)
            everywhere = [None] * compat.REPLICAS
            dist.all_gather_object(everywhere, {n: a.tobytes() for n, a in left.items() if "running" not in n})  # the others' own
            assert all(one == everywhere[0] for one in everywhere), case
            print(case, "|", *map(repr, losses), file=f)
            after.update({f"{case}/{n}": a for n, a in left.items()})
    if rank == 0:
        np.savez_compressed(os.path.join(compat.HERE, "gloo.npz"), **after)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind((RENDEZVOUS, 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    import torch.multiprocessing as mp
    mp.spawn(process, (free_port(),), nprocs=compat.REPLICAS)
    print(f"{sum(1 for _ in cases())} cases in {compat.REPLICAS} processes under DistributedDataParallel, torch {torch.__version__}")
