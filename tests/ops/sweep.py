#!/usr/bin/python3
"""Writes more of what autograd.py writes: PyTorch's results and gradients in float64 of every differentiable operator that PyTorch has,
with shapes and attributes drawn from a seed.

    tests/ops/sweep.py > tests/ops/sweep.txt                    # torch: 2 cases of each kind, by seed 1, which the tests read
    tests/ops/sweep.py SEED CASES > FILE                        # others;  AUTOGRAD_CASES=FILE build/test_ops autograd reads them, too
"""
import functools
import math
import random
import sys

import torch
import torch.nn.functional as F
import torchvision

from autograd import case, draw, generator, ints

rng = random.Random()


def pick(*of):
    return rng.choice(of)


def sizes(least, most, largest=4):
    return [rng.randint(1, largest) for _ in range(rng.randint(least, most))]


def distinct(*shape):
    """Numbers of which no two are alike."""
    n = math.prod(shape)
    return (torch.randperm(n, generator=generator).double() / 16 - n / 32 + 1 / 256).reshape(shape)


def how(**attributes):
    """The attributes that are not None, as graphs write them."""
    word = lambda v: f'"{v}"' if isinstance(v, str) else "[" + ",".join(map(word, v)) + "]" if isinstance(v, (list, tuple)) else repr(v)
    return "{" + ", ".join(f"{k}={word(v)}" for k, v in attributes.items() if v is not None) + "}"


def axes_of(rank, none=True):
    """Some of the axes, from either end; None: all."""
    if none and pick(0, 0, 1):
        return None
    return [a - rank * pick(0, 1) for a in rng.sample(range(rank), rng.randint(1, rank))]


def broadcast(shape):
    """A shape that is stretched to `shape`."""
    return [pick(1, n) for n in shape[rng.randrange(len(shape)):]] if shape else []


# ---- element by element ----

UNARY = {"Abs": torch.abs, "Atan": torch.atan, "Cos": torch.cos, "Cosh": torch.cosh, "Exp": torch.exp, "Neg": torch.neg, "Sigmoid": torch.sigmoid,
         "Sin": torch.sin, "Sinh": torch.sinh, "Softsign": F.softsign, "Tanh": torch.tanh, "Reciprocal": torch.reciprocal, "Relu": F.relu,
         "HardSwish": F.hardswish, "Erf": torch.erf, "Asinh": torch.asinh, "Mish": F.mish, "Softplus": F.softplus, "Identity": lambda x: x.clone(),
         "Floor": torch.floor, "Ceil": torch.ceil, "Round": torch.round, "Sign": torch.sign}
WITHIN = {"Acos": (torch.acos, -0.9, 0.9), "Asin": (torch.asin, -0.9, 0.9), "Atanh": (torch.atanh, -0.9, 0.9), "Acosh": (torch.acosh, 1.1, 4),
          "Log": (torch.log, 0.1, 4), "Sqrt": (torch.sqrt, 0.1, 4), "Tan": (torch.tan, -1.4, 1.4)}


def unary(name):
    f, low, high = WITHIN.get(name) or (UNARY[name], -4, 4)
    case(name, f"%y = {name}(%a)", f, draw(*sizes(0, 3), low=low, high=high))


ACTIVATIONS = {     # with attributes, which are float32: a and b are such as it holds
    "LeakyRelu": lambda a, b: (lambda x: F.leaky_relu(x, a), {"alpha": a}), "Elu": lambda a, b: (lambda x: F.elu(x, a), {"alpha": a}),
    "Celu": lambda a, b: (lambda x: F.celu(x, a), {"alpha": a}), "ThresholdedRelu": lambda a, b: (lambda x: F.threshold(x, a, 0), {"alpha": a}),
    "HardSigmoid": lambda a, b: (lambda x: (a * x + b).clamp(0, 1), {"alpha": a, "beta": b}),
    "Swish": lambda a, b: (lambda x: x * torch.sigmoid(a * x), {"alpha": a}),
    "Selu": lambda a, b: (lambda x: torch.where(x > 0, 1.25 * x, 1.25 * a * (x.exp() - 1)), {"alpha": a, "gamma": 1.25}),
    "Shrink": lambda a, b: (lambda x: torch.where(x > a, x - b, torch.where(x < -a, x + b, 0 * x)), {"lambd": a, "bias": b}),
    "Gelu": lambda a, b: (lambda x: F.gelu(x, approximate="tanh" if b > 0 else "none"), {"approximate": "tanh" if b > 0 else "none"}),
}


def activation(name):
    f, given = ACTIVATIONS[name](pick(0.25, 0.5, 1.5), pick(-0.5, 0.25, 0.75))
    case(f"{name} {given}", f"%y = {name}(%a) {how(**given)}", f, draw(*sizes(0, 3), low=-3, high=3))


BINARY = {"Add": (torch.add, -2, 2), "Sub": (torch.sub, -2, 2), "Mul": (torch.mul, -2, 2), "Div": (torch.div, 0.5, 2), "Pow": (torch.pow, 0.25, 2),
          "Mod": (torch.fmod, 0.5, 5)}


def binary(name):
    whole = sizes(1, 3)
    x, y = rng.sample([whole, broadcast(whole)], 2)
    f, low, high = BINARY[name]
    case(f"{name}, {x} {y}", f"%y = {name}(%a, %b) {'{fmod=1}' if name == 'Mod' else ''}", f, draw(*x, low=low, high=high), draw(*y, low=low, high=high))


def powers():
    """Of negative numbers, to whole powers."""
    n = pick(0.0, 1.0, 2.0, 3.0, -1.0)
    case(f"Pow, {n}", "%y = Pow(%a, %n)", lambda a: a ** n, draw(*sizes(1, 3)), constants=[f"const %n : float64[] = {{{n}}}"])


def slopes():
    whole = sizes(1, 3)
    slope = broadcast(whole)
    case(f"PRelu, {whole}, {slope}", "%y = PRelu(%a, %b)", lambda a, b: torch.where(a > 0, a, a * b), draw(*whole), draw(*slope))


SEVERAL = {"Sum": lambda x: x.sum(0), "Mean": lambda x: x.mean(0), "Max": lambda x: x.amax(0), "Min": lambda x: x.amin(0)}


def of_several(name):
    whole, n = sizes(1, 3), rng.randint(1, 4)
    shapes = [whole] + [broadcast(whole) for _ in range(n - 1)]
    rng.shuffle(shapes)
    shift = lambda i: (i + 1) / 512     # no ties
    case(f"{name}, {shapes}", f"%y = {name}({', '.join('%' + c for c in 'abcd'[:n])})", lambda *x: SEVERAL[name](torch.stack(torch.broadcast_tensors(*x))), *[draw(*s) + shift(i) for i, s in enumerate(shapes)])


def chosen():
    whole = sizes(1, 3)
    shapes = [whole, broadcast(whole), broadcast(whole)]
    rng.shuffle(shapes)
    holds = torch.rand(shapes[0], generator=generator) < 0.5
    case(f"Where, {shapes}", "%m = Cast(%i) {to=9}; %y = Where(%m, %a, %b)", lambda a, b: torch.where(holds, a, b), draw(*shapes[1]), draw(*shapes[2]),
         constants=[ints("i", holds.long().tolist(), ",".join(map(str, shapes[0])))])


def clipped():
    low, high = pick(None, -0.75), pick(None, 0.5)
    constants = [f"const %{n} : float64[] = {{{v}}}" for n, v in (("l", low), ("h", high)) if v is not None]
    node = "%y = Clip(%a" + (", %l" if low is not None else ", _") + (", %h" if high is not None else "") + ")"
    case(f"Clip, {low}, {high}", node, lambda a: a.clamp(low, high) if constants else a.clone(), draw(*sizes(0, 3)), constants=constants)


# ---- along axes ----

REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


def reduced(name):
    shape, keep = sizes(1, 4), pick(0, 1)
    axes = axes_of(len(shape))
    at = tuple(axes if axes is not None else range(len(shape)))

    def product(x):
        for a in sorted((a % x.dim() for a in at), reverse=True):
            x = x.prod(a, keepdim=True)
        return x if keep else x.reshape([n for i, n in enumerate(shape) if i not in {a % len(shape) for a in at}])

    k = {"keepdim": bool(keep)}
    f = {"Sum": lambda x: x.sum(at, **k), "Mean": lambda x: x.mean(at, **k), "Max": lambda x: x.amax(at, **k), "Min": lambda x: x.amin(at, **k), "Prod": product,
         "L1": lambda x: x.abs().sum(at, **k), "L2": lambda x: (x * x).sum(at, **k).sqrt(), "SumSquare": lambda x: (x * x).sum(at, **k),
         "LogSum": lambda x: x.sum(at, **k).log(), "LogSumExp": lambda x: torch.logsumexp(x, at, **k)}[name]
    x = distinct(*shape) if name in ("Max", "Min") else draw(*shape, low=0.25) if name == "LogSum" else draw(*shape)
    case(f"Reduce{name}, {shape}, {axes}, {keep}", f"%y = Reduce{name}(%a{', %i' if axes is not None else ''}) {how(keepdims=keep)}", f, x,
         constants=[ints("i", axes)] if axes is not None else [])


SOFTMAXES = {"Softmax": torch.softmax, "LogSoftmax": torch.log_softmax, "Hardmax": lambda a, axis: 0 * a + F.one_hot(a.argmax(axis), a.shape[axis]).movedim(-1, axis)}


def softmax(name):
    shape = sizes(1, 4)
    axis = rng.randrange(-len(shape), len(shape))
    f = SOFTMAXES[name]
    case(f"{name}, {shape}, {axis}", f"%y = {name}(%a) {how(axis=axis)}", lambda a: f(a, axis), draw(*shape, low=-6, high=6))


def running(name):
    shape = sizes(1, 3)
    axis = rng.randrange(-len(shape), len(shape))
    f, first = {"CumSum": (torch.cumsum, 0.0), "CumProd": (torch.cumprod, 1.0)}[name]
    exclusive, reverse = pick(0, 1), pick(0, 1)

    def run(a):
        a = a.flip(axis) if reverse else a
        y = f(a, axis)
        if exclusive:
            y = torch.cat([torch.full_like(y.narrow(axis, 0, 1), first), y.narrow(axis, 0, y.shape[axis] - 1)], axis)
        return y.flip(axis) if reverse else y

    case(f"{name}, {shape}, {axis}, {exclusive}, {reverse}", f"%y = {name}(%a, %i) {how(exclusive=exclusive, reverse=reverse)}", run, draw(*shape), constants=[ints("i", axis)])


def sorted_():
    shape = sizes(1, 3, 6)
    axis, largest = rng.randrange(-len(shape), len(shape)), pick(0, 1)
    k = rng.randint(1, shape[axis])
    case(f"TopK, {shape}, {axis}, {k}, {largest}", f"%y, %i = TopK(%a, %k) {how(axis=axis, largest=largest)}", lambda a: torch.topk(a, k, axis, bool(largest))[0],
         distinct(*shape), constants=[ints("k", [k])])


# ---- what is moved ----

def of_shape(shape):
    """{operator: attributes and inputs, the same of tensors, constants}"""
    rank, k = len(shape), rng.randint(0, len(shape))
    perm, repeats = rng.sample(range(rank), rank), [rng.randint(1, 3) for _ in shape]
    target = sizes(0, 2) + [pick(n, 3) if n == 1 else n for n in shape]
    return {"Transpose": (f"(%a) {how(perm=perm)}", lambda a: a.permute(perm), []), "Tile": ("(%a, %i)", lambda a: a.repeat(repeats), [ints("i", repeats)]),
            "Expand": ("(%a, %i)", lambda a: a.expand(target), [ints("i", target)]), "Flatten": (f"(%a) {how(axis=k)}", lambda a: a.reshape(math.prod(shape[:k]), -1), []),
            "Reshape": ("(%a, %i)", lambda a: a.reshape(-1, shape[-1]), [ints("i", [-1, shape[-1]])]),
            "Unsqueeze": ("(%a, %i)", lambda a: a.unsqueeze(k), [ints("i", [k])]), "Squeeze": ("(%a)", torch.squeeze, []), "Cast": ("(%a) {to=11}", torch.clone, []),
            "CastLike": ("(%a, %t)", torch.clone, ["const %t : float64[] = {0}"]), "Dropout": ("(%a)", torch.clone, [])}


def moved(name):
    shape = sizes(1, 4)
    node, f, constants = of_shape(shape)[name]
    case(f"{name}, {shape}", f"%y = {name}{node}", f, draw(*shape), constants=constants)


def joined():
    shape, parts = sizes(1, 4), [rng.randint(1, 3) for _ in range(rng.randint(1, 4))]
    axis = rng.randrange(-len(shape), len(shape))
    shapes = [shape[:axis % len(shape)] + [p] + shape[axis % len(shape) + 1:] for p in parts]
    names = ", ".join("%" + c for c in "abcd"[:len(parts)])
    case(f"Concat, {shapes}, {axis}", f"%y = Concat({names}) {how(axis=axis)}", lambda *x: torch.cat(x, axis), *[draw(*s) for s in shapes])


def compressed():
    shape = sizes(1, 3)
    axis = pick(None, rng.randrange(-len(shape), len(shape)))
    n = math.prod(shape) if axis is None else shape[axis]
    holds = [rng.randint(0, 1) for _ in range(rng.randint(1, n))]
    holds[-1] = 1
    at = torch.tensor([i for i, v in enumerate(holds) if v])
    case(f"Compress, {shape}, {axis}, {holds}", f"%y = Compress(%a, %m) {how(axis=axis)}", lambda a: (a.reshape(-1) if axis is None else a).index_select(axis or 0, at),
         draw(*shape), constants=[f"const %m : bool[{len(holds)}] = {{{','.join(map(str, holds))}}}"])


def cut():
    shape = sizes(1, 3, 6)
    rank = len(shape)
    axes = rng.sample(range(rank), rng.randint(1, rank))
    ranges = []
    for a in axes:
        n, step = shape[a], pick(1, 2, -1, -2)
        first, last = sorted(rng.sample(range(n + 1), 2))
        ranges.append((first, last, step) if step > 0 else (last - 1, first - 1 if first else -n - 1, step))

    def f(x):
        for a, (first, last, step) in zip(axes, ranges):
            x = x.index_select(a, torch.arange(first, last if last >= -1 else -1, step))
        return x

    case(f"Slice, {shape}, {axes}, {ranges}", "%y = Slice(%a, %s, %e, %i, %t)", f, draw(*shape),
         constants=[ints("s", [r[0] for r in ranges]), ints("e", [r[1] for r in ranges]), ints("i", axes), ints("t", [r[2] for r in ranges])])


def split():
    shape, axis, parts = sizes(1, 3), 0, [rng.randint(1, 3) for _ in range(3)]
    axis = rng.randrange(len(shape))
    shape[axis] = sum(parts)
    which = rng.randrange(3)
    outs = ["%o", "%q", "%r"]
    outs[which] = "%y"
    case(f"Split, {shape}, {axis}, {parts}, {which}", f"{', '.join(outs)} = Split(%a, %s) {how(axis=axis)}", lambda a: torch.split(a, parts, axis)[which].clone(),
         draw(*shape), constants=[ints("s", parts)])


def padded():
    shape, mode = [1, rng.randint(1, 2), rng.randint(3, 5), rng.randint(3, 5)], pick("constant", "constant", "reflect", "edge", "wrap")
    pads = [rng.randint(0 if mode != "constant" else -1, 2) for _ in range(4)]      # top, left, bottom, right
    spelt = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
    value = pick(None, 0.75) if mode == "constant" else None
    case(f"Pad, {mode}, {shape}, {pads}", f'%y = Pad(%a, %s{", %v" if value else ""}) {how(mode=mode)}',
         lambda a: F.pad(a, (pads[1], pads[3], pads[0], pads[2]), spelt, **({"value": value} if value else {})), draw(*shape),
         constants=[ints("s", [0, 0, *pads[:2], 0, 0, *pads[2:]])] + ([f"const %v : float64[] = {{{value}}}"] if value else []))


def gathered():
    shape, index = sizes(1, 3), sizes(0, 2)
    axis = rng.randrange(-len(shape), len(shape))
    n = shape[axis]
    at = torch.randint(-n, n, index, generator=generator)
    positive = at % n
    case(f"Gather, {shape}, {index}, {axis}", f"%y = Gather(%a, %i) {how(axis=axis)}",
         lambda a: a.index_select(axis, positive.reshape(-1)).reshape(shape[:axis % len(shape)] + index + shape[axis % len(shape) + 1:]), draw(*shape),
         constants=[ints("i", at.tolist(), ",".join(map(str, index)))])


def repeated():
    shape, scales = [1, 2, *[rng.randint(1, 3) for _ in range(2)]], [rng.randint(1, 3), rng.randint(1, 3)]
    case(f"Upsample, {shape}, {scales}", "%y = Upsample(%a, %s)", lambda a: F.interpolate(a, scale_factor=scales), draw(*shape),
         constants=[f"const %s : float32[4] = {{1,1,{scales[0]},{scales[1]}}}"])


def block(kind):
    b, c, h, w = pick(2, 3), rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 3)
    name, mode, shape, f = dict(crd=("DepthToSpace", "CRD", (2, c * b * b, h, w), lambda a: F.pixel_shuffle(a, b)),
                                dcr=("DepthToSpace", "DCR", (2, c * b * b, h, w), lambda a: a.reshape(2, b, b, c, h, w).permute(0, 3, 4, 1, 5, 2).reshape(2, c, h * b, w * b)),
                                space=("SpaceToDepth", None, (2, c, h * b, w * b), lambda a: a.reshape(2, c, h, b, w, b).permute(0, 3, 5, 1, 2, 4).reshape(2, c * b * b, h, w)))[kind]
    case(f"{name}, {mode}, {shape}", f"%y = {name}(%a) {how(blocksize=b, mode=mode)}", f, draw(*shape))


# ---- products ----

def products():
    lead, m, k, n = sizes(0, 2, 3), rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 4)
    x, y = [broadcast(lead) if pick(0, 1) else lead for _ in range(2)]
    x, y = pick((x + [m, k], y + [k, n]), ([k], lead + [k, n]), (lead + [m, k], [k]), ([k], [k]))
    case(f"MatMul, {x}, {y}", "%y = MatMul(%a, %b)", torch.matmul, draw(*x), draw(*y))


def gemm():
    m, k, n, ta, tb = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 4), pick(0, 1), pick(0, 1)
    alpha, beta, c = pick(0.5, 1.0, -2.0), pick(0.25, 1.0, 0.0), pick(None, [], [n], [m, 1], [1, n], [m, n])
    xs = [draw(*((k, m) if ta else (m, k))), draw(*((n, k) if tb else (k, n)))] + ([draw(*c)] if c is not None else [])
    case(f"Gemm, {ta}, {tb}, {c}", f"%y = Gemm(%a, %b{', %c' if c is not None else ''}) {how(alpha=alpha, beta=beta, transA=ta, transB=tb)}",
         lambda a, b, c=None: alpha * ((a.T if ta else a) @ (b.T if tb else b)) + (0 if c is None else beta * c), *xs)


def einsums():
    letters, sized = "ijkl", {c: rng.randint(1, 3) for c in "ijkl"}
    terms = ["".join(rng.sample(letters, rng.randint(1, 3))) for _ in range(rng.randint(1, 3))]
    there = sorted(set("".join(terms)))
    out = "".join(rng.sample(there, rng.randint(0, len(there))))
    equation = ",".join(terms) + "->" + out
    case(f"Einsum, {equation}", f"%y = Einsum({', '.join('%' + c for c in 'abc'[:len(terms)])}) {how(equation=equation)}", lambda *x: torch.einsum(equation, *x),
         *[draw(*[sized[c] for c in t]) for t in terms])


# ---- windows ----

def windowed(space, transposed=False):
    """Kernel, strides, dilations, pads as [begins..., ends...]."""
    kernel = [rng.randint(1, 3) for _ in range(space)]
    dilations = [rng.randint(1, 2) for _ in range(space)]
    strides = [rng.randint(1, 3) for _ in range(space)]
    most = [d * (k - 1) for k, d in zip(kernel, dilations)]
    pads = [rng.randint(0, min(m, 2)) for m in most * 2] if not transposed else [rng.randint(0, 1) for _ in most * 2]
    return kernel, strides, dilations, pads


def torch_pads(pads):
    """As F.pad wants them: the last axis first."""
    n = len(pads) // 2
    return [v for i in reversed(range(n)) for v in (pads[i], pads[n + i])]


def convolutions():
    space, groups = rng.randint(1, 3), rng.randint(1, 3)
    kernel, strides, dilations, pads = windowed(space)
    c, m = groups * rng.randint(1, 2), groups * rng.randint(1, 2)
    x = [rng.randint(1, 2), c] + [d * (k - 1) + rng.randint(1, 3) for k, d in zip(kernel, dilations)]
    f = (F.conv1d, F.conv2d, F.conv3d)[space - 1]
    bias = pick(0, 1)
    case(f"Conv, {x}, {m}, {kernel}, {strides}, {dilations}, {pads}, {groups}, {bias}",
         f"%y = Conv(%a, %b{', %c' * bias}) {how(kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, group=groups)}",
         lambda a, b, c=None: f(F.pad(a, torch_pads(pads)), b, c, strides, 0, dilations, groups), draw(*x), draw(m, c // groups, *kernel), *([draw(m)] if bias else []))


def transposed():
    space, groups = rng.randint(1, 3), rng.randint(1, 2)
    kernel, strides, dilations, pads = windowed(space, True)
    c, m = groups * rng.randint(1, 2), groups * rng.randint(1, 2)
    x = [rng.randint(1, 2), c] + [rng.randint(2, 3) for _ in range(space)]
    more = [rng.randint(0, max(s, d) - 1) for s, d in zip(strides, dilations)]
    full = [(n - 1) * s + d * (k - 1) + 1 + o for n, s, d, k, o in zip(x[2:], strides, dilations, kernel, more)]
    if any(n - pads[i] - pads[space + i] < 1 for i, n in enumerate(full)):
        pads = [0] * len(pads)
    f = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[space - 1]
    bias = pick(0, 1)

    def run(a, b, c=None):
        y = f(a, b, c, strides, 0, more, groups, dilations)
        return F.pad(y, [-v for v in torch_pads(pads)])

    case(f"ConvTranspose, {x}, {m}, {kernel}, {strides}, {dilations}, {pads}, {more}, {groups}, {bias}",
         f"%y = ConvTranspose(%a, %b{', %c' * bias}) {how(kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, output_padding=more, group=groups)}",
         run, draw(*x), draw(c, m // groups, *kernel), *([draw(m)] if bias else []))


def pooled(name):
    space = rng.randint(1, 3)
    kernel, strides, dilations, _ = windowed(space)
    pads = [rng.randint(0, k // 2) for k in kernel]
    ceil = pick(0, 1)
    dilations = dilations if name == "Max" else [1] * space
    x = [2, 2] + [d * (k - 1) + rng.randint(1, 4) for k, d in zip(kernel, dilations)]
    given = dict(kernel_shape=kernel, strides=strides, pads=pads * 2, ceil_mode=ceil)
    if name == "Max":
        f = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[space - 1]
        case(f"MaxPool, {x}, {given}, {dilations}", f"%y = MaxPool(%a) {how(**given, dilations=dilations)}",
             lambda a: f(a, kernel, strides, pads, dilations, bool(ceil)), distinct(*x))
    else:
        f, counts = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[space - 1], pick(0, 1)
        case(f"AveragePool, {x}, {given}, {counts}", f"%y = AveragePool(%a) {how(**given, count_include_pad=counts)}",
             lambda a: f(a, kernel, strides, pads, bool(ceil), bool(counts)), draw(*x))


def whole(name):
    shape = sizes(3, 5)
    at, p = tuple(range(2, len(shape))), pick(1, 2, 3)
    f = {"GlobalAveragePool": lambda a: a.mean(at, True), "GlobalMaxPool": lambda a: a.amax(at, True), "GlobalLpPool": lambda a: (a.abs() ** p).sum(at, True) ** (1 / p)}[name]
    case(f"{name}, {shape}", f"%y = {name}(%a) {how(p=p if name == 'GlobalLpPool' else None)}", f, distinct(*shape))


def regions():
    rois = [[float(pick(0, 1)), *[float(v) for v in (x, y, x + rng.randint(0, 6), y + rng.randint(0, 6))]] for x, y in ((rng.randint(0, 4), rng.randint(0, 4)) for _ in range(3))]
    size = [rng.randint(1, 3), rng.randint(1, 3)]
    case(f"MaxRoiPool, {size}, {rois}", f"%y = MaxRoiPool(%a, %r) {how(pooled_shape=size, spatial_scale=0.5)}", lambda a: torchvision.ops.roi_pool(a, torch.tensor(rois), size, 0.5),
         distinct(2, 2, 5, 4), constants=[f"const %r : float64[3,5] = {{{','.join(repr(v) for r in rois for v in r)}}}"])


def lp_pools():
    space, p = rng.randint(1, 3), pick(1, 2, 3)
    kernel, strides, dilations, pads = windowed(space)
    x = [1, 2] + [d * (k - 1) + rng.randint(1, 3) for k, d in zip(kernel, dilations)]

    def run(a):
        a = F.pad(a.abs() ** p, torch_pads(pads))
        w = torch.ones(2, 1, *kernel)
        return (F.conv1d, F.conv2d, F.conv3d)[space - 1](a, w, None, strides, 0, dilations, 2) ** (1 / p)

    case(f"LpPool, {x}, {kernel}, {strides}, {dilations}, {pads}, {p}", f"%y = LpPool(%a) {how(kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, p=p)}", run, draw(*x))


def folded():
    kernel, strides, dilations, _ = windowed(2)
    pads, size = [rng.randint(0, 1) for _ in range(2)], [d * (k - 1) + rng.randint(1, 3) for k, d in zip(kernel, dilations)]
    n = math.prod((s + 2 * p - d * (k - 1) - 1) // t + 1 for s, p, d, k, t in zip(size, pads, dilations, kernel, strides))
    c = rng.randint(1, 2)
    case(f"Col2Im, {size}, {kernel}, {strides}, {dilations}, {pads}", f"%y = Col2Im(%a, %s, %k) {how(pads=pads * 2, strides=strides, dilations=dilations)}",
         lambda a: F.fold(a, size, kernel, dilations, pads, strides), draw(2, c * math.prod(kernel), n), constants=[ints("s", size), ints("k", kernel)])


# ---- norms and losses ----

def norm_of(shape, e):
    """{operator: node, the same of tensors, shapes of its inputs}, of [samples, channels, ...]"""
    c, axis, groups = shape[1], rng.randrange(1, len(shape)), rng.randint(1, 3)
    rest, channels = shape[axis:], groups * rng.randint(1, 2)
    mean, var = torch.full((c,), 0.5), torch.full((c,), 1.5)
    return {
        "BatchNormalization, trained": (f"%y, %o, %q = BatchNormalization(%a, %b, %c, %m, %v) {how(training_mode=1, epsilon=e)}",
                                        lambda a, b, c: F.batch_norm(a, mean.clone(), var.clone(), b, c, True, 0.1, e), (shape, [c], [c])),
        "BatchNormalization": (f"%y = BatchNormalization(%a, %b, %c, %m, %v) {how(epsilon=e)}",
                               lambda a, b, c: F.batch_norm(a, mean, var, b, c, False, 0.1, e), (shape, [c], [c])),
        "LayerNormalization": (f"%y = LayerNormalization(%a, %b, %c) {how(axis=axis, epsilon=e)}", lambda a, b, c: F.layer_norm(a, rest, b, c, e), (shape, rest, rest)),
        "RMSNormalization": (f"%y = RMSNormalization(%a, %b) {how(axis=axis, epsilon=e)}",
                             lambda a, b: a / (a.pow(2).mean(tuple(range(axis, len(shape))), True) + e).sqrt() * b, (shape, rest)),
        "GroupNormalization": (f"%y = GroupNormalization(%a, %b, %c) {how(num_groups=groups, epsilon=e)}",
                               lambda a, b, c: F.group_norm(a, groups, b, c, e), ([shape[0], channels, *shape[2:], 2], [channels], [channels])),
        "InstanceNormalization": (f"%y = InstanceNormalization(%a, %b, %c) {how(epsilon=e)}",
                                  lambda a, b, c: F.instance_norm(a, weight=b, bias=c, eps=e), (shape + [2], [c], [c])),
    }


NORMS = norm_of([2, 1, 1], 0.5)


def norm(name):
    e, shape = pick(2.0 ** -7, 0.5), [rng.randint(2, 3), rng.randint(1, 3)] + sizes(1, 2)
    c = shape[1]
    node, f, xs = norm_of(shape, e)[name]
    constants = [f"const %{n} : float64[{c}] = {{{','.join([v] * c)}}}" for n, v in (("m", "0.5"), ("v", "1.5"))]
    case(f"{name}, {xs}, {e}", node, f, *[draw(*s) for s in xs], constants=constants if name.startswith("Batch") else [])


def loss(name):
    n, c, rest, reduction = rng.randint(1, 3), rng.randint(2, 4), sizes(0, 2, 3), pick("none", "sum", "mean")
    labels = torch.randint(0, c, (n, *rest), generator=generator)
    ignored = pick(None, -1, 0)
    if ignored is not None and labels.numel() > 1:
        labels.view(-1)[0], labels.view(-1)[1] = ignored, 1
    elif ignored is not None:
        labels.fill_(1)
    weights = [0.5, 1.5, 2.0, 0.25][:c] if pick(0, 1) else None
    f = {"SoftmaxCrossEntropyLoss": F.cross_entropy, "NegativeLogLikelihoodLoss": F.nll_loss}[name]
    case(f"{name}, {n}, {c}, {rest}, {reduction}, {ignored}, {weights}", f"%y = {name}(%a, %t{', %v' if weights else ''}) {how(reduction=reduction, ignore_index=ignored)}",
         lambda a: f(a, labels, torch.tensor(weights) if weights else None, ignore_index=-100 if ignored is None else ignored, reduction=reduction), draw(n, c, *rest),
         constants=[ints("t", labels.tolist(), ",".join(map(str, labels.shape)))] + ([f"const %v : float64[{c}] = {{{','.join(map(repr, weights))}}}"] if weights else []))


# ---- step by step, by the formulas of the specification ----

GATES = {"Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Softsign": F.softsign, "Softplus": F.softplus, "Relu": F.relu}


def recurrent(kind):
    gates, count = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}[kind]
    steps, batch, inputs, hidden = rng.randint(1, 4), rng.randint(1, 3), rng.randint(1, 2), rng.randint(1, 2)
    direction = pick("forward", "reverse", "bidirectional")
    dirs = 1 + (direction == "bidirectional")
    lengths = pick(None, [rng.randint(0, steps) for _ in range(batch)])
    clip, before, forget = pick(None, None, 0.5), pick(0, 1), pick(None, None, 1)
    names = pick(None, [pick(*GATES) for _ in range(count * dirs)])
    layout, out = pick(0, 1), pick("Y", "H", "C") if kind == "LSTM" else pick("Y", "H")
    default = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[kind]
    acts = [GATES[n] for n in names or default * dirs]
    bound = (lambda x: x.clamp(-clip, clip)) if clip else (lambda x: x)

    def step(d, x, h, c, w, r, b, p):
        f, *g = acts[count * d:count * (d + 1)]
        wb, rb = b[d].split(gates * hidden)
        a, u = x @ w[d].T + wb, h @ r[d].T + rb
        if kind == "RNN":
            return f(bound(a + u)), c
        if kind == "GRU":
            az, ar, ah = a.split(hidden, -1)
            uz, ur, uh = u.split(hidden, -1)
            z, reset = f(bound(az + uz)), f(bound(ar + ur))
            rest = reset * uh if before else (reset * h) @ r[d][2 * hidden:].T + rb[2 * hidden:]
            new = g[0](bound(ah + rest))
            return (1 - z) * new + z * h, c
        i, o, forgets, new = (a + u).split(hidden, -1)
        pi, po, pf = p[d].split(hidden)
        i = f(bound(i + pi * c))
        forgets = 1 - i if forget else f(bound(forgets + pf * c))
        c = forgets * c + i * g[0](bound(new))
        return f(bound(o + po * c)) * g[1](c), c

    def run(x, w, r, b, h0, c0=None, p=None):
        if layout:
            x, h0, c0 = x.transpose(0, 1), h0.transpose(0, 1), None if c0 is None else c0.transpose(0, 1)
        ys, hs, cs = [[None] * dirs for _ in range(steps)], [], []
        for d in range(dirs):
            h, c = h0[d], torch.zeros_like(h0[d]) if c0 is None else c0[d]
            backwards = direction == "reverse" or d == 1
            for t in reversed(range(steps)) if backwards else range(steps):
                lives = torch.tensor([[float(t < n)] for n in (lengths or [steps] * batch)])
                next_h, next_c = step(d, x[t], h, c, w, r, b, p)
                h, c = lives * next_h + (1 - lives) * h, lives * next_c + (1 - lives) * c
                ys[t][d] = lives * h
            hs.append(h)
            cs.append(c)
        y = torch.stack([torch.stack(t) for t in ys])       # steps, directions, batch, hidden
        if out == "Y":
            return y.permute(2, 0, 1, 3) if layout else y
        last = torch.stack(hs if out == "H" else cs)
        return last.transpose(0, 1) if layout else last

    state = (batch, dirs, hidden) if layout else (dirs, batch, hidden)
    xs = [draw(*((batch, steps) if layout else (steps, batch)), inputs), draw(dirs, gates * hidden, inputs), draw(dirs, gates * hidden, hidden),
          draw(dirs, 2 * gates * hidden), draw(*state)] + ([draw(*state), draw(dirs, 3 * hidden)] if kind == "LSTM" else [])
    outs = {"Y": "%y", "H": "%o, %y", "C": "%o, %h, %y"}[out]
    case(f"{kind}, {steps} x {batch} x {inputs} x {hidden}, {direction}, {lengths}, {names}, clip {clip}, {before}, {forget}, {layout}, {out}",
         f"{outs} = {kind}(%a, %b, %c, %d, {'%n' if lengths else '_'}, %e{', %f, %g' if kind == 'LSTM' else ''}) "
         + how(direction=direction, activations=names, clip=clip, layout=layout, linear_before_reset=before if kind == "GRU" else None,
               input_forget=forget if kind == "LSTM" else None, hidden_size=hidden),
         run, *xs, constants=[ints("n", lengths, dtype="int32")] if lengths else [])


def states(rule):
    """LinearAttention, the state of each head being a matrix."""
    b, steps, kv, group, dk, dv = [rng.randint(1, n) for n in (2, 4, 2, 2, 3, 2)]
    decays, updates, scale = "gated" in rule, "delta" in rule, pick(0.5, 1.0)
    per_key, shared = pick(0, 1), pick(0, 1)
    xs = [draw(b, steps, kv * group * dk), draw(b, steps, kv * dk), draw(b, steps, kv * dv), draw(b, kv, dk, dv)]
    xs += [draw(b, steps, kv * (dk if per_key else 1), low=-1, high=0)] if decays else []
    xs += [draw(b, steps, 1 if shared else kv, low=0, high=1)] if updates else []

    def run(q, k, v, s, *rest):
        rest = list(rest)
        g = rest.pop(0).reshape(b, steps, kv, -1).exp() if decays else None
        beta = rest.pop(0)[..., None] if updates else None
        q, k, v = q.reshape(b, steps, kv, group, dk), k.reshape(b, steps, kv, dk), v.reshape(b, steps, kv, dv)
        out = []
        for t in range(steps):
            if decays:
                s = s * g[:, t][..., None]
            new = v[:, t]
            if updates:
                new = beta[:, t] * (new - torch.einsum("bhkv,bhk->bhv", s, k[:, t]))
            s = s + k[:, t][..., None] * new[..., None, :]
            out.append(scale * torch.einsum("bhgk,bhkv->bhgv", q[:, t], s).reshape(b, -1))
        return torch.stack(out, 1)

    names = "%a, %b, %c, %d, " + ("%e" if decays else "_") + (", %" + "ef"[decays] if updates else "")
    case(f"LinearAttention, {rule}, {b} {steps} {kv} {group} {dk} {dv}, {per_key}, {shared}",
         f"%y, %o = LinearAttention({names}) {how(update_rule=rule, q_num_heads=kv * group, kv_num_heads=kv, scale=scale)}", run, *xs)


def causal():
    b, c, length, k, activation, which = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 5), rng.randint(2, 4), pick("none", "silu"), pick(0, 1)

    def run(x, w, bias, past):
        x = torch.cat([past, x], -1)
        y = F.conv1d(x, w, bias, groups=c)
        return x[..., -(k - 1):].clone() if which else F.silu(y) if activation == "silu" else y

    case(f"CausalConvWithState, {b} {c} {length} {k}, {activation}, output {which}",
         f"{'%o, %y' if which else '%y, %o'} = CausalConvWithState(%a, %b, %c, %d) {how(activation=activation)}", run, draw(b, c, length), draw(c, 1, k), draw(c), draw(b, c, k - 1))


def each(make, names):
    return [functools.partial(make, name) for name in names]


KINDS = [*each(unary, [*UNARY, *WITHIN]), *each(activation, ACTIVATIONS), *each(binary, BINARY), powers, slopes, *each(of_several, SEVERAL), chosen, clipped,
         *each(reduced, REDUCTIONS), *each(softmax, SOFTMAXES), *each(running, ("CumSum", "CumProd")), sorted_, *each(moved, of_shape([1])), joined, compressed, cut, split, padded,
         gathered, repeated, *each(block, ("crd", "dcr", "space")), products, gemm, einsums, convolutions, transposed, *each(pooled, ("Max", "Average")),
         *each(whole, ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")), lp_pools, regions, folded, *each(norm, NORMS),
         *each(loss, ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")), *each(recurrent, ("RNN", "GRU", "LSTM")),
         *each(states, ("linear", "gated", "delta", "gated_delta")), causal]

if __name__ == "__main__":
    seed, cases = (int(v) for v in (*sys.argv[1:], *("1", "2")[len(sys.argv) - 1:]))
    rng.seed(seed)
    generator.manual_seed(seed)
    for kind in KINDS:
        for _ in range(cases):
            kind()
