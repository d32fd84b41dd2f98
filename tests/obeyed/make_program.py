#!/usr/bin/env python3
"""Makes the cases that show what PyTorch's exporter writes about its program: make_program.py [CASE...]

Each function of `cases` returns a module and how it is exported, trained and run; losses, evaluation and tensors are those of
PyTorch in float64. Needs the packages of tests/networks/requirements.txt.
"""
import copy
import json
import logging
import pathlib
import sys
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torchvision.ops import FrozenBatchNorm2d
from onnx import numpy_helper
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
STEPS, BATCH, AGAIN = 6, 4, 3
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)


class Base(nn.Module):
    """Two layers, of random weights."""

    def __init__(self, out=3):
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(6, out)
        for p in self.parameters():
            nn.init.normal_(p, 0, 0.5)


class SimSiam(Base):
    def __init__(self):
        super().__init__(out=6)

    def forward(self, x, x2):
        z, z2 = torch.tanh(self.a(x)), torch.tanh(self.a(x2))
        return -(F.cosine_similarity(self.b(z), z2.detach(), dim=-1) + F.cosine_similarity(self.b(z2), z.detach(), dim=-1)).mean()


class StraightThrough(Base):
    """Three ways to read a detached value: in one node, in a node of a call of several, in a list."""

    def forward(self, x):
        h = self.a(x)
        q = h + (torch.floor(2 * h) / 2 - h).detach()
        s = torch.stack([q, torch.sigmoid(q.detach())]).mean(0)
        return self.b(s) + F.smooth_l1_loss(h, q.detach(), reduction="none").mean()


class Weights(Base):
    """A layer that is used again, with weights that are not trained there; a hard choice with a soft gradient."""

    def forward(self, x):
        h = torch.tanh(self.a(x))
        y = F.softmax(h, -1)
        hard = F.one_hot(y.argmax(-1), 6).to(y.dtype)
        return self.b(hard - y.detach() + y) * F.linear(h, self.b.weight.detach(), self.b.bias)


class Lost(Base):
    def forward(self, x):
        h = self.a(x)
        return self.b(h * h.detach().clone())


class Copied(Base):
    """A copy on a line of its own: the reader's code does not tell of detach()."""

    def forward(self, x):
        h = torch.tanh(self.a(x))
        t = h.detach().clone()
        return self.b(h * t)


class Merged(Base):
    """Two branches that the optimizer makes one, of which one is detached."""

    def forward(self, x):
        h = self.a(x)
        t = torch.tanh(h.detach().clone())
        return self.b(torch.tanh(h) * t)


class Forms(Base):
    """Whatever the optimizer removes besides detach()."""

    def forward(self, x):
        h = torch.tanh(self.a(x))
        t, u = h.clone().detach(), h.detach().to(torch.float32).contiguous()
        v, w = h.detach().reshape(-1, 6), F.dropout(h.detach(), 0.0)
        return self.b(h * t - 0.5 * u + v * v) + self.b(w.detach().clone().detach())


class Frozen(nn.Module):
    """Two frozen norms of detectors (torchvision's FrozenBatchNorm2d), whose buffers the optimizer folds."""

    def __init__(self):
        super().__init__()
        self.a, self.first, self.second, self.b = nn.Conv2d(2, 4, 5), FrozenBatchNorm2d(4), FrozenBatchNorm2d(4), nn.Linear(16, 3)
        for norm in (self.first, self.second):
            for t in (norm.weight, norm.running_var):
                t.uniform_(0.5, 2)
            for t in (norm.bias, norm.running_mean):
                t.normal_()

    def forward(self, x):
        return self.b(F.relu(self.second(F.relu(self.first(self.a(x))))).flatten(1))


class Norms(nn.Module):
    """`first` is what the case makes of it; `second` trains."""

    def __init__(self, first):
        super().__init__()
        self.a, self.first, self.second, self.b = nn.Conv2d(2, 4, 3), first, nn.BatchNorm2d(4), nn.Linear(16, 3)
        for p in self.parameters():
            nn.init.normal_(p, 0, 0.5)

    def forward(self, x):
        return self.b(F.relu(self.second(F.relu(self.first(self.a(x))))).flatten(1))


class BufferNorm(nn.Module):
    """As frozen layers of detectors: all four tensors are buffers."""

    def __init__(self, n):
        super().__init__()
        for name, t in (("weight", torch.rand(n) + 0.5), ("bias", torch.randn(n)), ("running_mean", torch.randn(n)),
                        ("running_var", torch.rand(n) + 0.5)):
            self.register_buffer(name, t)

    def forward(self, x):
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.1, 1e-5)


class Shared(nn.Module):
    """One norm, called three times."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5)
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.b(self.norm(torch.tanh(self.a(self.norm(torch.tanh(self.a(self.norm(x))))))))


class Center(Base):
    """A mean of the outputs that forward() keeps, and reads after it has been written."""

    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.zeros(1, 3))

    def forward(self, x):
        y = self.b(torch.tanh(self.a(x)))
        self.center.mul_(0.5).add_(0.5 * y.detach().mean(0, keepdim=True))
        return y - self.center


class Unread(Center):
    """The same, read before it is written: the exporter drops the new value."""

    def forward(self, x):
        y = self.b(torch.tanh(self.a(x)))
        out = y - self.center
        self.center.mul_(0.5).add_(0.5 * y.detach().mean(0, keepdim=True))
        return out


class Returned(Unread):
    def forward(self, x):
        y = self.b(torch.tanh(self.a(x)))
        new = 0.5 * self.center + 0.5 * y.detach().mean(0, keepdim=True)
        out = y - self.center
        return out, new


def eval_layer():
    first = nn.BatchNorm2d(4)
    first.running_mean.normal_()
    first.running_var.uniform_(0.5, 2)
    return first


def frozen(net):
    net.train()
    net.first.eval()
    return net


def pattern_frozen(net):
    net.train()
    net.first.eval()
    net.first.requires_grad_(False)
    return net


LEGACY = dict(dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
CLOSED = dict(dynamo=True, optimize=False)
OPTIMIZED = dict(dynamo=True, optimize=True)
UNBIASED = ["--bn-variance", "unbiased"]

cases = {
    "detach_siamese": lambda: dict(net=SimSiam(), export=OPTIMIZED, inputs=2, loss="output:loss", lr=0.3, again=True),
    "detach_straight_through": lambda: dict(net=StraightThrough(), export=OPTIMIZED, again=True),
    "detach_weights": lambda: dict(net=Weights(), export=OPTIMIZED),
    "detach_weights_kept": lambda: dict(net=Weights(), export=CLOSED, silent=True),
    "detach_lost": lambda: dict(net=Lost(), export=OPTIMIZED, untrue=True, says=["its code stops a gradient"]),
    "detach_copied": lambda: dict(net=Copied(), export=OPTIMIZED, untrue=True, says=["or copies a value (clone) and may do so"]),
    "detach_merged": lambda: dict(net=Merged(), export=OPTIMIZED, untrue=True, says=["or copies a value (clone) and may do so"]),
    "detach_forms": lambda: dict(net=Forms(), export=OPTIMIZED, unsaid=["stops a gradient"], again=True),
    "detach_by_input": lambda: dict(net=Copied(), export=OPTIMIZED, flags=["--stop-gradient", "tanh>node_mul:1"], again=True),
    "frozen_folded": lambda: dict(net=Frozen(), export=OPTIMIZED, shape=(2, 6, 6), lr=0.01, unsaid=["mul"], again=True),
    "stop_gradient_flag": lambda: dict(net=SimSiam(), export=LEGACY, inputs=2, loss="output:loss", lr=0.3, again=True,
                                       flags=["--stop-gradient", "/Tanh_1_output_0>/Mul", "--stop-gradient",
                                              "/Tanh_1_output_0>/Mul_2", "--stop-gradient", "/Tanh_output_0>/Mul_[46]"]),
    "frozen_by_eval": lambda: dict(net=Norms(eval_layer()), mode=frozen, export=CLOSED, shape=(2, 4, 4), flags=UNBIASED, evaluate=True, again=True, kept=UNBIASED,
                                   tensors=["first.running_mean", "second.running_mean", "second.running_var"]),
    "frozen_all_buffers": lambda: dict(net=Norms(BufferNorm(4)), second=BufferNorm(4), export=CLOSED, shape=(2, 4, 4), evaluate=True,
                                       tensors=["first.running_mean", "second.running_var"]),
    "frozen_by_pattern": lambda: dict(net=Norms(eval_layer()), mode=pattern_frozen, whole=True, export=LEGACY, shape=(2, 4, 4),
                                      flags=[*UNBIASED, "--freeze", "first.*"], evaluate=True,
                                      tensors=["first.weight", "first.running_mean", "second.running_mean"]),
    "batchnorm_shared": lambda: dict(net=Shared(), export=CLOSED, flags=UNBIASED, evaluate=True, silent=True,
                                     tensors=["norm.running_mean", "norm.running_var"]),
    "buffer_written": lambda: dict(net=Center(), export=CLOSED, silent=True, tensors=["center"], again=True),
    "buffer_folded": lambda: dict(net=Center(), export=OPTIMIZED, untrue=True, says=["center: forward() writes this buffer"]),
    "buffer_lost": lambda: dict(net=Unread(), export=CLOSED, untrue=True, says=["center: forward() writes this buffer"]),
    "buffer_by_flag": lambda: dict(net=Unread(), exported=Returned(), export=LEGACY, flags=["--state", "center=new", "--logits", "out"],
                                   outputs=["out", "new"], tensors=["center"]),
}


def make(name):
    torch.manual_seed(sum(map(ord, name)))
    c = cases[name]()
    net, folder, shape = c["net"], HERE / name, c.get("shape", (5,))
    if "second" in c:
        net.second = c["second"]
    net = c.get("mode", nn.Module.train)(net)
    inputs = ["x", "x2"][:c.get("inputs", 1)]
    data = {k: torch.randn(STEPS * BATCH, *shape) for k in inputs}
    loss = c.get("loss", "mse")
    folder.mkdir(exist_ok=True)
    exported = c.get("exported", net)
    exported.load_state_dict(net.state_dict())
    exported = copy.deepcopy(exported if not c.get("whole") else net)
    outputs = c.get("outputs", ["loss"] if loss.startswith("output") else ["logits"])
    if c["export"].get("dynamo"):
        extra = dict(dynamic_shapes=tuple({0: torch.export.Dim("batch")} for _ in inputs), external_data=False, verbose=False)
    else:
        extra = dict(dynamic_axes={k: {0: "batch"} for k in inputs})
        if not c.get("whole"):
            exported.train()
    # in training mode on purpose: each layer as it is
    state = copy.deepcopy(exported.state_dict())
    torch.onnx.export(exported, tuple(data[k][:BATCH] for k in inputs), folder / "model.onnx", input_names=inputs, output_names=outputs,
                      **c["export"], **extra)
    m = onnx.load(folder / "model.onnx")
    for n in m.graph.node:      # lines of code are long, and read in one case alone
        kept = [p for p in n.metadata_props if name in ("detach_lost", "detach_forms") or not p.key.endswith("stack_trace")]
        del n.metadata_props[:]
        n.metadata_props.extend(kept)
    if not c["export"].get("dynamo"):      # the export ran the network once: statistics go back
        for i in m.graph.initializer:
            if i.name in state:
                i.CopyFrom(numpy_helper.from_array(state[i.name].numpy(), i.name))
    onnx.save(m, folder / "model.onnx")
    net = net.double()
    arrays = {k: v.numpy() for k, v in data.items()}
    lr = c.get("lr", 0.1)
    if loss == "mse":
        target = torch.randn(STEPS * BATCH, 3)
        arrays["target"] = target.numpy()
    np.savez(folder / "data.npz", **arrays)
    opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr)

    def loss_of(rows):
        y = net(*(data[k][rows].double() for k in inputs))
        return F.mse_loss(y, target[rows].double()) if loss == "mse" else y

    def train(steps):
        losses = []
        for step in range(steps):
            opt.zero_grad()
            value = loss_of(slice(step * BATCH, (step + 1) * BATCH))
            losses.append(value.item())
            value.backward()
            opt.step()
        return losses

    losses = train(STEPS)
    flags = ["--loss", loss, "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(lr), *c.get("flags", [])]
    expected = {"model": "model.onnx", "data": "data.npz", "flags": flags}
    if not c.get("untrue"):
        expected["losses"] = losses
    for key in ("says", "unsaid", "silent"):
        if key in c:
            expected[key] = c[key]
    if c.get("evaluate"):
        net.eval()
        with torch.no_grad():
            value = np.mean([loss_of(slice(i * BATCH, (i + 1) * BATCH)).item() for i in range(STEPS)])
        expected["evaluation"] = {"data": "data.npz", "flags": ["--loss", loss, "--batch-size", str(BATCH)], "loss": value}
    if "tensors" in c:
        state = net.state_dict()
        expected["tensors"] = {k: state[k].flatten().tolist() for k in c["tensors"]}
    if c.get("again"):
        c.get("mode", nn.Module.train)(net)
        own = ["--loss", loss, "--batch-size", str(BATCH), "--steps", str(AGAIN), "--lr", str(lr)]
        expected["again"] = {"data": "data.npz", "flags": [*own, *c.get("kept", [])], "losses": train(AGAIN)}
    expected["source"] = "PyTorch %s in float64, ../make_program.py" % torch.__version__.split("+")[0]
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


for case in sys.argv[1:] or cases:
    make(case)
