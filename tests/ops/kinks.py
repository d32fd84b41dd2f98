#!/usr/bin/python3
"""Writes kinks.h: PyTorch's gradients where operators have none of their own: at ties, corners and bounds; kinks_clip.h, those
of Clip; and kinks_recurrent.h, those of recurrent layers.

    tests/ops/kinks.py > tests/ops/kinks.h
    tests/ops/kinks.py clip > tests/ops/kinks_clip.h
    tests/ops/kinks.py recurrent > tests/ops/kinks_recurrent.h
"""
import sys
import textwrap

import torch
import torch.nn.functional as F
import torchvision

torch.set_default_dtype(torch.float64)
NAMES = "abc"


def numbers(values):
    return "{ " + textwrap.fill(", ".join("NAN" if v != v else repr(v) for v in values), 100).replace("\n", "\n          ") + " }"


def text(tensor):
    return ",".join(str(d) for d in tensor.shape)


def case(name, node, f, *inputs):
    """`node`: the operator as graphs write it, of %a, %b ...; f: the same of tensors.  The loss weights its elements 1, 2, 3 ..."""
    xs = [torch.tensor(x, requires_grad=True) for x in inputs]
    y = f(*xs)
    w = torch.arange(1.0, y.numel() + 1).reshape(y.shape)
    (y * w).sum().backward()
    lines = ['graph \\"kink\\" {']
    lines += [f"  input %{n} : float64[{text(x)}]" for n, x in zip(NAMES, xs)]
    lines += [f"  const %w : float64[{text(w)}] = {{{','.join(repr(v) for v in w.reshape(-1).tolist())}}}", f"  {node}",
              "  %p = Mul(%y, %w)", "  %loss = ReduceSum(%p) {keepdims=0}", '  output \\"loss\\" = %loss', "}"]
    print(f'    {{ "{name}",')
    print("\n".join(f'      "{line}\\n"' for line in lines) + ",")
    print(f"      {len(xs)}, {{ {', '.join(str(x.numel()) for x in xs)} }},")
    print("      { " + ",\n        ".join(numbers(x.detach().reshape(-1).tolist()) for x in xs) + " },")
    print("      { " + ",\n        ".join(numbers(x.grad.reshape(-1).tolist()) for x in xs) + " } },")


def most(*x):
    return torch.stack(x).amax(0)


def least(*x):
    return torch.stack(x).amin(0)


def clip():
    """Bounds that are numbers are constants, those that are tensors inputs."""
    x = [-1.0, 0.0, 3.0, 6.0, 7.0]
    case("Clip by numbers", "const %l : float64[] = {0}\\n\"\n      \"  const %h : float64[] = {6}\\n\"\n      \"  %y = Clip(%a, %l, %h)", F.relu6, x)
    case("Clip by a least number", "const %l : float64[] = {0}\\n\"\n      \"  %y = Clip(%a, %l)", lambda a: a.clamp(min=0.0), x)
    case("Clip by a greatest number", "const %h : float64[] = {6}\\n\"\n      \"  %y = Clip(%a, _, %h)", lambda a: a.clamp(max=6.0), x)
    case("Clip by tensors", "%y = Clip(%a, %b, %c)", torch.clamp, x, 0.0, 6.0)
    case("Clip by a least tensor", "%y = Clip(%a, %b)", lambda a, b: a.clamp(min=b), x, 0.0)
    case("Clip by a greatest tensor", "%y = Clip(%a, _, %b)", lambda a, b: a.clamp(max=b), x, 6.0)
    case("Clip by equal tensors", "%y = Clip(%a, %b, %c)", torch.clamp, x, 3.0, 3.0)
    case("Clip by crossed tensors", "%y = Clip(%a, %b, %c)", torch.clamp, x, 6.0, 0.0)


def elementwise():
    case("Max of two", "%y = Max(%a, %b)", torch.maximum, [1.0, 2.0, 3.0, -1.0], [1.0, 1.0, 4.0, -1.0])
    case("Max of three", "%y = Max(%a, %b, %c)", most, [1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 4.0, 0.0], [1.0, 1.0, 4.0, 5.0])
    case("Max that broadcasts", "%y = Max(%a, %b)", torch.maximum, [[1.0, 2.0], [3.0, 0.0]], [1.0, 2.0])
    case("Min of two", "%y = Min(%a, %b)", torch.minimum, [1.0, 2.0, 3.0, -1.0], [1.0, 1.0, 4.0, -1.0])
    case("Min of three", "%y = Min(%a, %b, %c)", least, [1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 4.0, 0.0], [1.0, 3.0, 3.0, -5.0])
    corner = [-1.0, -0.0, 0.0, 1.0]
    case("Relu", "%y = Relu(%a)", F.relu, corner)
    case("Abs", "%y = Abs(%a)", torch.abs, corner)
    case("LeakyRelu", "%y = LeakyRelu(%a) {alpha=0.1}", lambda a: F.leaky_relu(a, 0.1), corner)
    case("PRelu", "%y = PRelu(%a, %b)", F.prelu, [corner], [0.25])
    case("Elu", "%y = Elu(%a) {alpha=0.5}", lambda a: F.elu(a, 0.5), corner)
    case("Celu", "%y = Celu(%a) {alpha=2.0}", lambda a: F.celu(a, 2.0), corner)
    case("Selu", "%y = Selu(%a)", F.selu, corner)
    case("ThresholdedRelu", "%y = ThresholdedRelu(%a) {alpha=1.0}", lambda a: F.threshold(a, 1.0, 0.0), [0.5, 1.0, 1.5])
    case("Shrink", "%y = Shrink(%a) {lambd=0.5}", lambda a: F.hardshrink(a, 0.5), [-1.0, -0.5, 0.0, 0.5, 1.0])
    broken = [float("nan"), 2.0]
    case("Relu of NaN", "%y = Relu(%a)", F.relu, broken)
    case("ThresholdedRelu of NaN", "%y = ThresholdedRelu(%a) {alpha=1.0}", lambda a: F.threshold(a, 1.0, 0.0), broken)
    case("Shrink of NaN", "%y = Shrink(%a) {lambd=0.5}", lambda a: F.hardshrink(a, 0.5), broken)
    case("HardSwish", "%y = HardSwish(%a)", F.hardswish, [-4.0, -3.0, 0.0, 3.0, 4.0])


def reductions():
    case("ReduceMax", "%y = ReduceMax(%a) {keepdims=0}", torch.amax, [[3.0, 3.0, 1.0], [2.0, 3.0, 0.0]])
    case("ReduceMin", "%y = ReduceMin(%a) {keepdims=0}", torch.amin, [[0.0, 3.0, 1.0], [2.0, 0.0, 0.0]])
    case("ReduceL1", "%y = ReduceL1(%a) {keepdims=0}", lambda a: a.abs().sum(), corner_row())
    case("ReduceL2 of zeros", "%y = ReduceL2(%a) {keepdims=0}", torch.linalg.vector_norm, [0.0, 0.0])
    case("ReduceProd of one zero", "%y = ReduceProd(%a) {keepdims=0}", torch.prod, [2.0, 0.0, 3.0])
    case("ReduceProd of two zeros", "%y = ReduceProd(%a) {keepdims=0}", torch.prod, [2.0, 0.0, 0.0])


def corner_row():
    return [-1.0, 0.0, 2.0]


def pools():
    plane = [[[[1.0, 1.0, 2.0], [1.0, 2.0, 2.0], [0.0, 2.0, 1.0]]]]
    case("MaxPool", "%y = MaxPool(%a) {kernel_shape=[2,2]}", lambda a: F.max_pool2d(a, 2, 1), plane)
    case("MaxPool, apart", "%y = MaxPool(%a) {kernel_shape=[2,2], strides=[2,2], ceil_mode=1}",
         lambda a: F.max_pool2d(a, 2, 2, ceil_mode=True), plane)
    zeros = [[[[0.0, 0.0, 3.0], [0.0, 0.0, 4.0]]]]
    case("LpPool of zeros", "%y = LpPool(%a) {kernel_shape=[2,2]}", lambda a: F.lp_pool2d(a, 2, 2, 1), zeros)
    case("LpPool of zeros, p 1", "%y = LpPool(%a) {kernel_shape=[2,2], p=1}", lambda a: F.lp_pool2d(a.abs(), 1, 2, 1), zeros)
    case("GlobalLpPool of zeros", "%y = GlobalLpPool(%a)", lambda a: F.lp_pool2d(a, 2, 2), [[[[0.0, 0.0], [0.0, 0.0]]]])
    case("GlobalMaxPool", "%y = GlobalMaxPool(%a)", lambda a: F.adaptive_max_pool2d(a, 1), plane)


def back(a, output):
    return F.max_unpool1d(*F.max_pool1d(a, 2, 2, return_indices=True), 2, 2, output_size=output)


def unpools():
    two = [[[1.0, 3.0, 3.0, 2.0, 9.0], [4.0, 2.0, 5.0, 7.0, 9.0]]]
    pool = "%m, %i = MaxPool(%a) {kernel_shape=[2], strides=[2]}\\n\"\n      \"  "
    case("MaxPool and back", f"{pool}%y = MaxUnpool(%m, %i) {{kernel_shape=[2], strides=[2]}}", lambda a: back(a, None),
         [[[1.0, 3.0, 3.0, 2.0], [4.0, 2.0, 5.0, 7.0]]])
    size = "const %s : int64[3] = {1,2,5}\\n\"\n      \"  "
    case("MaxPool and back, to where strides do not reach",
         f"{size}{pool}%y = MaxUnpool(%m, %i, %s) {{kernel_shape=[2], strides=[2]}}", lambda a: back(a, [5]), two)
    overlap = "%m, %i = MaxPool(%a) {kernel_shape=[2]}\\n\"\n      \"  "
    case("MaxPool of windows that overlap, and back", f"{overlap}%y = MaxUnpool(%m, %i) {{kernel_shape=[2]}}",
         lambda a: F.max_unpool1d(*F.max_pool1d(a, 2, 1, return_indices=True), 2, 1), [[[1.0, 3.0, 2.0, 0.0]]])


def samples():
    plane = [[[[1.0, -2.0, 4.0, 0.5], [3.0, -1.0, 2.0, 5.0]]]]
    places = {
        "ends": [[[[-1.0, 0.3], [1.0, 1.0], [0.25, 2.6], [-1.7, -0.1]]]],
        "elements": [[[[-0.25, 0.5], [0.75, -0.5], [-0.5, 0.75], [0.125, -0.9]]]],
    }
    for mode, paddings in ("linear", ("zeros", "border", "reflection")), ("cubic", ("reflection",)), ("nearest", ("border",)):
        for padding in paddings:
            for align in 0, 1:
                for at, grid in places.items():
                    spelt = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
                    how = f'{{mode=\\"{mode}\\", padding_mode=\\"{padding}\\", align_corners={align}}}'
                    case(f"GridSample, {mode}, {padding}, {align}, at {at}", f"%y = GridSample(%a, %b) {how}",
                         lambda a, b: F.grid_sample(a, b, spelt, padding, bool(align)), plane, grid)


def deformed():
    plane = [[[[1.0, -2.0], [3.0, 5.0]]]]
    weight = [[[[2.0, -1.0]]]]
    for at, offset in {"zero": [0.0] * 8, "elements": [1.0, 0.0, -1.0, 1.0, -1.0, 2.0, 0.5, -2.0]}.items():
        case(f"DeformConv, offsets of {at}", "%y = DeformConv(%a, %b, %c)", lambda a, b, c: torchvision.ops.deform_conv2d(a, c, b), plane,
             weight, [[[[v[0]], [v[1]]] for v in zip(offset[::2], offset[1::2])]])


def recurrent():
    """Activations where their slope breaks, by one step without a state before it; and whole layers."""
    corners = {"Relu": (F.relu, "", [-1.0, 0.0, 1.0, 2.0]),
               "LeakyRelu": (lambda x: F.leaky_relu(x, 0.25), ", activation_alpha=[0.25]", [-1.0, 0.0, 1.0, 2.0]),
               "ThresholdedRelu": (lambda x: F.threshold(x, 0.5, 0.0), ", activation_alpha=[0.5]", [0.0, 0.5, 1.0, 2.0]),
               "HardSigmoid": (lambda x: (0.25 * x + 0.5).clamp(0, 1), ", activation_alpha=[0.25], activation_beta=[0.5]", [-3.0, -1.0, 1.0, 3.0]),
               "Elu": (lambda x: F.elu(x, 0.5), ", activation_alpha=[0.5]", [-1.0, 0.0, 1.0, 2.0]),
               "Softsign": (F.softsign, "", [-1.0, 0.0, 1.0, 2.0]),
               "Affine": (lambda x: 2 * x.clamp(-1, 1) + 0.5, ", activation_alpha=[2.0], activation_beta=[0.5], clip=1.0", [-2.0, -1.0, 1.0, 2.0])}
    for name, (f, more, x) in corners.items():
        case(f"RNN of {name}", f'%y = RNN(%a, %b, %c) {{activations=[\\"{name}\\"]{more}}}', lambda a, b, c: f(a * b + 0 * c).reshape(1, 1, 4, 1),
             [[[v] for v in x]], [[[1.0]]], [[[0.5]]])
    x = [[[0.5], [-1.0]], [[1.5], [0.25]], [[-0.75], [2.0]]]
    for kind, gates in (torch.nn.LSTM, 4), (torch.nn.GRU, 3), (torch.nn.RNN, 1):
        weights = [[[0.3 * (-1) ** i + 0.1 * i + 0.05 * d] for i in range(gates)] for d in range(2)]
        states = [[[0.7 - 0.4 * i + 0.2 * d] for i in range(gates)] for d in range(2)]
        for lengths in None, (3, 1):
            more = ", _, %n" if lengths else ""
            first = '  const %n : int32[2] = {3,1}\\n"\n      "' if lengths else ""
            reset = ", linear_before_reset=1" if gates == 3 else ""
            node = f'{first[2:]}{"  " if lengths else ""}%y = {kind.__name__}(%a, %b, %c{more}) {{direction=\\"bidirectional\\"{reset}}}'
            case(f"{kind.__name__}, both ways{', packed' if lengths else ''}", node, lambda a, b, c: layer(kind, lengths, a, b, c), x, weights, states)


def layer(kind, lengths, x, w, r):
    """PyTorch's gates are in another order; Y is [time, directions, batch, hidden]."""
    order = {4: [0, 2, 3, 1], 3: [1, 0, 2], 1: [0]}[w.shape[1]]
    net = kind(1, 1, bidirectional=True)
    given = {n: torch.zeros_like(p) for n, p in net.named_parameters()}
    for d, end in enumerate(("", "_reverse")):
        given["weight_ih_l0" + end], given["weight_hh_l0" + end] = w[d, order], r[d, order]
    if lengths:
        x = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths))
    y = torch.func.functional_call(net, given, (x,))[0]
    if lengths:
        y = torch.nn.utils.rnn.pad_packed_sequence(y)[0]
    return y.reshape(*y.shape[:2], 2, 1).transpose(1, 2)


print("/* What PyTorch computes; made by tests/ops/kinks.py. */")
print("/* clang-format off */")
if sys.argv[1:] == ["recurrent"]:
    print("static const Kink recurrent_kinks[] = {")
    recurrent()
elif sys.argv[1:] == ["clip"]:
    print("static const Kink clip_kinks[] = {")
    clip()
else:
    print("typedef struct { const char *name, *graph; int n, numel[3]; double in[3][12], grad[3][12]; } Kink;")
    print("static const Kink kinks[] = {")
    elementwise()
    reductions()
    pools()
    unpools()
    samples()
    deformed()
print("};")
