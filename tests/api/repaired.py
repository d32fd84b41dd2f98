"""Exports small networks in the forms that passes/model/untie.c, tie_twins.c and rebatch.c mend, and computes in float64 what PyTorch's
losses are when it trains them.

    python tests/api/repaired.py        # PyTorch 2.15 with onnx and onnxscript; writes repaired_*.onnx and repaired.h
"""
import copy
import logging
import pathlib
import warnings

import onnx
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
STEPS, RATE, SAMPLES = 4, 0.05, 7
SCOPES = "pkg.torch.onnx.name_scopes"
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


class Norms(nn.Module):
    """Fresh LayerNorms that are equal, one of them registered before those that run before it; a module that is called twice."""

    def __init__(self):
        super().__init__()
        self.inp, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)
        self.blocks = nn.ModuleList([nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(2)])
        self.twice, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = self.twice(x + block(x))
        return self.head(self.norm(x))


class Copies(nn.Module):
    """Copies of one layer, the same layer twice, and a weight that two layers share."""

    def __init__(self):
        super().__init__()
        self.inp, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        layer = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh())
        shared = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh())
        self.copies = nn.ModuleList([copy.deepcopy(layer) for _ in range(2)])
        self.same = nn.ModuleList([shared] * 2)
        self.tied = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.tied[1].weight = self.tied[0].weight

    def forward(self, x):
        x = self.inp(x)
        for layer in [*self.copies, *self.same, *self.tied]:
            x = x + layer(x)
        return self.head(x)


class Tied(nn.Module):
    """GPT-2's: the embedding is the output layer's weight; exporters keep its transpose too."""

    def __init__(self):
        super().__init__()
        self.wte, self.norm, self.lm_head = nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        return self.lm_head(self.norm(self.wte(ids)))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 32, 4, 4)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, 32)), nn.Parameter(torch.randn(1, 5, 32))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 3)
        self.att = nn.MultiheadAttention(32, 2, batch_first=True)       # heads of 16: the scale has no rounding error
        nn.init.normal_(self.att.in_proj_bias)
        nn.init.normal_(self.att.out_proj.bias)

    def forward(self, x):
        b = x.shape[0]
        x = self.conv(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(b, -1, -1), x], 1) + self.pos
        h = self.norm(x)
        x = x + self.att(h, h, h, need_weights=False)[0]
        return self.head(x[:, 0])


class Windows(nn.Module):
    """Attention within windows as Swin has it: the batch goes into windows and comes out again; and a start state of zeros."""

    def __init__(self):
        super().__init__()
        self.inp, self.qkv, self.head = nn.Linear(3, 4), nn.Linear(4, 12), nn.Linear(4, 3)

    def forward(self, x):
        b, _, h, w = x.shape
        x = self.inp(x.permute(0, 2, 3, 1))
        x = x.reshape(b, h // 4, 4, w // 4, 4, 4).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 4)
        q, k, v = self.qkv(x).reshape(x.shape[0], 16, 3, 2, 2).permute(2, 0, 3, 1, 4)
        y = ((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, 4)
        y = y.reshape(b, h // 4, w // 4, 4, 4, 4).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, 4)
        state = torch.zeros(b, 1, 4)
        y = torch.cat([state, y.reshape(b, h * w, 4)], 1)
        return self.head(torch.tanh(y).mean(1))


class Cut(nn.Module):
    """The batch's size as the end of a slice, in a number of repetitions, and in a list of rows."""

    def __init__(self):
        super().__init__()
        self.inp, self.head = nn.Linear(6, 8), nn.Linear(4, 3)
        self.shift = nn.Parameter(noise(1, 8))

    def forward(self, x):
        b = x.shape[0]
        both = torch.cat([x, -2 * x], 0)
        h = self.inp(x) + self.inp(both[:b]).tanh() + self.shift.repeat(b, 1)
        return self.head(x[:, :4] + h.tanh().reshape(2 * b, 4).index_select(0, torch.arange(b) * 2))


class Halves(nn.Module):
    """A slice with the batch's size at both ends, behind which all would be well with any number of rows."""

    def __init__(self):
        super().__init__()
        self.inp, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        b = x.shape[0]
        h = self.inp(torch.cat([x, -2 * x, x * x], 0)).tanh()
        return self.head(h[b:2 * b] * h[-b:] + h[:-2 * b])


class Rows(nn.Module):
    """Lists of rows: all, every second one, and of two halves in the other order."""

    def __init__(self):
        super().__init__()
        self.inp, self.head = nn.Linear(6, 8), nn.Linear(4, 3)

    def forward(self, x):
        b = x.shape[0]
        rows = torch.arange(b)
        h = self.inp(x[rows]).tanh().reshape(2 * b, 4)[rows * 2 + 1]
        both = torch.cat([h, h * h], 0)[torch.cat([rows + b, rows])]
        return self.head(both.reshape(2, b, 4)[0] - 2 * both[rows + b])


class Picked(nn.Module):
    """Of each row the number that the row names."""

    def __init__(self):
        super().__init__()
        self.inp, self.head = nn.Linear(6, 8), nn.Linear(1, 3)

    def forward(self, x):
        return self.head(self.inp(x).tanh()[torch.arange(x.shape[0]), x.argmax(1)].unsqueeze(1))


def noise(*shape):
    return (torch.randn(*shape) * 8).round() / 8


def export(name, net, args, new, **more):
    path = HERE / f"repaired_{name}.onnx"
    if new:
        torch.onnx.export(net, args, str(path), dynamo=True, external_data=False, verbose=False, input_names=["x"],
                          output_names=["y"], **more)
    else:
        torch.onnx.export(net, args, str(path), dynamo=False, input_names=["x"], output_names=["y"], **more)
    model = onnx.load(path)
    for n in model.graph.node:          # of the metadata what is read
        kept = [(p.key, p.value) for p in n.metadata_props if p.key == SCOPES]
        del n.metadata_props[:]
        for key, text in kept:
            n.metadata_props.add(key=key, value=text)
    for v in [*model.graph.value_info, *model.graph.input, *model.graph.output]:
        del v.metadata_props[:]
    del model.graph.value_info[:]
    del model.metadata_props[:]
    onnx.save(model, path)


def array(name, t):
    print(f"static const double {name}[] = {{", file=out)
    values = [repr(v) for v in t.detach().double().reshape(-1).tolist()]
    for i in range(0, len(values), 8):
        print("    " + ", ".join(values[i:i + 8]) + ",", file=out)
    print("};", file=out)


def dims(t):
    return f"{t.dim()}, {{ {', '.join(map(str, t.shape))} }}"


def train(net, x, target):
    net = copy.deepcopy(net).double().train()
    x = x.double() if x.is_floating_point() else x
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        loss = F.mse_loss(net(x), target.double())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


NETS = {
    "norms": (Norms, lambda n: noise(n, 6), (3,)),
    "copies": (Copies, lambda n: noise(n, 6), (3,)),
    "tied": (Tied, lambda n: torch.randint(0, 11, (n, 5)), (5, 11)),
    "vit": (Vit, lambda n: noise(n, 3, 8, 8), (3,)),
    "windows": (Windows, lambda n: noise(n, 3, 8, 8), (3,)),
    "cut": (Cut, lambda n: noise(n, 6), (3,)),
    "halves": (Halves, lambda n: noise(n, 6), (3,)),
    "rows": (Rows, lambda n: noise(n, 6), (3,)),
    "picked": (Picked, lambda n: noise(n, 6), (3,)),
}

with open(HERE / "repaired.h", "w") as out:
    print("/* Made by repaired.py. */", file=out)
    rows, files = [], []
    for seed, (name, (make, sample, shape)) in enumerate(NETS.items()):
        torch.manual_seed(seed)
        net, x, target = make(), sample(SAMPLES), noise(SAMPLES, *shape)
        array(f"{name}_x", x)
        array(f"{name}_target", target)
        array(f"{name}_losses", train(net, x, target))
        integer = "true" if not x.is_floating_point() else "false"
        rows.append(f'    {{ "{name}", {integer}, {dims(x)}, {name}_x, {dims(target)}, {name}_target, {name}_losses }},')
        for batch in (1, 4):
            for new in (False, True):
                export(f"{name}_{'new' if new else 'old'}_{batch}", net.eval(), (x[:batch],), new)
    print("typedef struct {", file=out)
    print("    const char *name;\n    bool integer;\n    int x_rank;\n    int64_t x_dim[8];\n    const double *x;", file=out)
    print("    int target_rank;\n    int64_t target_dim[8];\n    const double *target, *losses;\n} Repaired;", file=out)
    print("static const Repaired repaired[] = {\n" + "\n".join(rows) + "\n};", file=out)
    print(f"enum {{ REPAIRED_STEPS = {STEPS} }};", file=out)
    print(f"static const char *const repaired_rate = \"{RATE}\";", file=out)
