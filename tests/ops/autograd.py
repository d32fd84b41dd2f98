#!/usr/bin/python3
"""Writes autograd.txt: PyTorch's results and gradients in float64 of operators with attributes, inputs and axes of many kinds, where
functions are smooth; kinks.py has the corners, sweep.py more kinds.

    tests/ops/autograd.py > tests/ops/autograd.txt        # torch, torchvision

For each case a line with its name behind `case `, the graph, and the numbers of its loss, its inputs and its gradients, each in a line.
"""
import itertools

import torch
import torch.nn.functional as F
import torchvision

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
NAMES = "abcdefg"
generator = torch.Generator().manual_seed(7)


def draw(*shape, low=-2.0, high=2.0):
    """Numbers of few digits, none of them on a corner of anything."""
    return torch.round((low + (high - low) * torch.rand(shape, generator=generator)) * 64) / 64 + 1 / 256


def row(t):
    return " ".join(map(repr, t.detach().reshape(-1).tolist()))


def text(t):
    return ",".join(map(str, t.shape))


def ints(name, values, shape=None, dtype="int64"):
    flat = torch.tensor(values).reshape(-1).tolist()
    shape = shape if shape is not None else text(torch.tensor(values))
    return f"const %{name} : {dtype}[{shape}] = {{{','.join(map(str, flat))}}}"


def case(name, node, f, *xs, constants=()):
    """`node`: the operator as graphs write it, of %a, %b ...; f: the same of tensors.  The loss weights its elements 1, 2 ... 7, 1 ..."""
    xs = [x.clone().requires_grad_() for x in xs]
    y = f(*xs)
    w = torch.arange(y.numel()).remainder(7).add(1).to(y.dtype).reshape(y.shape)
    loss = (y * w).sum()
    loss.backward()
    print(f"case {name}")
    print('graph "g" {', *(f"  input %{n} : float64[{text(x)}]" for n, x in zip(NAMES, xs)), *(f"  {c}" for c in constants),
          f"  const %w : float64[{text(w)}] = {{{','.join(repr(v) for v in w.reshape(-1).tolist())}}}", *(f"  {n}" for n in node.split("; ")),
          "  %p = Mul(%y, %w)", "  %loss = ReduceSum(%p) {keepdims=0}", '  output "loss" = %loss', "}", sep="\n")
    print(row(loss), *map(row, xs), *(row(torch.zeros_like(x) if x.grad is None else x.grad) for x in xs), sep="\n")


# ---- spectra ----

def real(z):
    return torch.view_as_real(z)


def spectra():
    z = torch.view_as_complex
    case("DFT of reals", "%y = DFT(%a)", lambda a: real(torch.fft.fft(a[..., 0])), draw(2, 5, 1))
    case("DFT", "%y = DFT(%a)", lambda a: real(torch.fft.fft(z(a))), draw(2, 6, 2))
    case("DFT, onesided", "%y = DFT(%a) {onesided=1}", lambda a: real(torch.fft.rfft(a[..., 0])), draw(2, 7, 1))
    case("DFT, onesided, even", "%y = DFT(%a) {onesided=1}", lambda a: real(torch.fft.rfft(a[..., 0])), draw(1, 8, 1))
    case("DFT, inverse", "%y = DFT(%a) {inverse=1}", lambda a: real(torch.fft.ifft(z(a))), draw(2, 5, 2))
    for n in 8, 9:
        case(f"DFT, inverse, onesided, to {n}", "%y = DFT(%a, %n) {inverse=1, onesided=1}", lambda a: torch.fft.irfft(z(a), n)[..., None],
             draw(2, 5, 2), constants=[ints("n", n)])
    for n in 3, 8:
        case(f"DFT of {n} of axis 1", "%y = DFT(%a, %n, %i)", lambda a: real(torch.fft.fft(z(a), n, 1)), draw(1, 5, 2, 2),
             constants=[ints("n", n), ints("i", 1)])
    case("DFT of axis 0", "%y = DFT(%a, _, %i) {inverse=1}", lambda a: real(torch.fft.ifft(z(a), dim=0)), draw(4, 2, 2), constants=[ints("i", 0)])
    for step, size in (3, 8), (4, 5):
        case(f"STFT, {size} every {step}", "%y = STFT(%a, %s, %b) {onesided=1}", lambda a, b: real(torch.stft(
            a[..., 0], size, step, window=b, center=False, onesided=True, return_complex=True)).transpose(1, 2), draw(2, 16, 1), draw(size),
            constants=[ints("s", step)])
    case("STFT of a signal without parts", "%y = STFT(%a, %s, _, %f) {onesided=0}", lambda a: real(torch.stft(
        a, 6, 5, window=torch.ones(6), center=False, onesided=False, return_complex=True)).transpose(1, 2), draw(1, 17),
        constants=[ints("s", 5), ints("f", 6)])


# ---- where elements are found ----

def resized():
    ways = [("linear", "bilinear", {}, 0), ("linear", "bilinear", {"align_corners": True}, 0), ("cubic", "bicubic", {}, 0),
            ("cubic", "bicubic", {"align_corners": True}, 0), ("linear", "bilinear", {"antialias": True}, 1),
            ("cubic", "bicubic", {"antialias": True}, 1)]
    for (mode, spelt, more, antialias), (h, w) in itertools.product(ways, ((7, 4), (2, 9))):
        how = "align_corners" if more.get("align_corners") else "half_pixel"
        a = -0.5 if antialias else -0.75
        case(f"Resize, {mode}, {', '.join(more) or 'half_pixel'}, to {h} x {w}",
             f'%y = Resize(%a, _, _, %s) {{mode="{mode}", coordinate_transformation_mode="{how}", antialias={antialias}, exclude_outside={antialias}, cubic_coeff_a={a}}}',
             lambda x: F.interpolate(x, (h, w), mode=spelt, **more), draw(1, 1, 4, 5), constants=[ints("s", [1, 1, h, w])])
    case("Resize, nearest", '%y = Resize(%a, _, _, %s) {mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"}',
         lambda x: F.interpolate(x, (5, 3), mode="nearest"), draw(1, 2, 3, 4), constants=[ints("s", [1, 2, 5, 3])])
    case("Resize, nearest-exact", '%y = Resize(%a, _, _, %s) {mode="nearest", nearest_mode="round_prefer_ceil"}',
         lambda x: F.interpolate(x, (5, 3), mode="nearest-exact"), draw(1, 2, 3, 4), constants=[ints("s", [1, 2, 5, 3])])
    case("Resize, one axis", '%y = Resize(%a, _, _, %s) {mode="linear"}', lambda x: F.interpolate(x, 8, mode="linear"), draw(2, 1, 5),
         constants=[ints("s", [2, 1, 8])])
    case("Resize, three axes", '%y = Resize(%a, _, _, %s) {mode="linear"}', lambda x: F.interpolate(x, (3, 4, 2), mode="trilinear"),
         draw(1, 1, 2, 3, 3), constants=[ints("s", [1, 1, 3, 4, 2])])


def sampled():
    for mode, padding, align in itertools.product(("linear", "cubic", "nearest"), ("zeros", "border", "reflection"), (0, 1)):
        spelt = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        case(f"GridSample, {mode}, {padding}, {align}", f'%y = GridSample(%a, %b) {{mode="{mode}", padding_mode="{padding}", align_corners={align}}}',
             lambda a, b: F.grid_sample(a, b, spelt, padding, bool(align)), draw(1, 2, 3, 4), draw(1, 2, 3, 2, low=-1.4, high=1.4))
    for padding, align in itertools.product(("zeros", "border", "reflection"), (0, 1)):
        case(f"GridSample of a volume, {padding}, {align}", f'%y = GridSample(%a, %b) {{padding_mode="{padding}", align_corners={align}}}',
             lambda a, b: F.grid_sample(a, b, "bilinear", padding, bool(align)), draw(1, 1, 2, 3, 3), draw(1, 1, 2, 2, 3, low=-1.3, high=1.3))
    for align in 0, 1:
        case(f"AffineGrid, {align}", f"%y = AffineGrid(%a, %s) {{align_corners={align}}}",
             lambda a: F.affine_grid(a, (2, 1, 3, 4), bool(align)), draw(2, 2, 3), constants=[ints("s", [2, 1, 3, 4])])
        case(f"AffineGrid of a volume, {align}", f"%y = AffineGrid(%a, %s) {{align_corners={align}}}",
             lambda a: F.affine_grid(a, (1, 1, 2, 3, 2), bool(align)), draw(1, 3, 4), constants=[ints("s", [1, 1, 2, 3, 2])])
    rois = torch.tensor([[0.0, 0.5, 0.25, 4.25, 3.5], [1.0, -0.75, 1.0, 2.5, 5.25], [0.0, 2.0, 2.0, 2.5, 2.25]])
    for aligned, ratio, (h, w) in ((1, 2, (2, 3)), (0, 2, (3, 2)), (1, 0, (2, 2))):
        how = "half_pixel" if aligned else "output_half_pixel"
        case(f"RoiAlign, {how}, {ratio}", f'%y = RoiAlign(%a, %r, %i) {{output_height={h}, output_width={w}, sampling_ratio={ratio}, spatial_scale=0.5, '
             f'coordinate_transformation_mode="{how}"}}', lambda a: torchvision.ops.roi_align(a, rois, (h, w), 0.5, ratio or -1, bool(aligned)),
             draw(2, 2, 3, 4), constants=["const %r : float64[3,4] = {" + ",".join(repr(v) for v in rois[:, 1:].reshape(-1).tolist()) + "}",
                                          ints("i", [0, 1, 0])])
    case("DeformConv", "%y = DeformConv(%a, %b, %c, _, %d) {group=2, offset_group=2, pads=[1,0,1,0], strides=[2,1], dilations=[1,2], kernel_shape=[2,2]}",
         lambda a, b, c, d: torchvision.ops.deform_conv2d(a, c, b, None, (2, 1), (1, 0), (1, 2), d), draw(1, 4, 3, 4), draw(2, 2, 2, 2),
         draw(1, 16, 2, 2, low=-0.9, high=0.9), draw(1, 8, 2, 2))


# ---- windows ----

def windows():
    case("LRN", "%y = LRN(%a) {size=3, alpha=0.5, beta=0.75, bias=2.0}", lambda a: F.local_response_norm(a, 3, 0.5, 0.75, 2.0), draw(2, 5, 2, 2))
    case("LRN, even", "%y = LRN(%a) {size=5, alpha=0.25, beta=0.5, bias=1.0}", lambda a: F.local_response_norm(a, 5, 0.25, 0.5, 1.0), draw(1, 4, 3))
    for p in 2, 3:
        case(f"LpPool, p {p}", f"%y = LpPool(%a) {{kernel_shape=[2,3], strides=[1,2], p={p}}}", lambda a: F.lp_pool2d(a.abs(), p, (2, 3), (1, 2)), draw(1, 2, 3, 5))
    for counts in 0, 1:
        case(f"AveragePool, {counts}", f"%y = AveragePool(%a) {{kernel_shape=[3,2], strides=[2,1], pads=[1,1,1,1], ceil_mode=1, count_include_pad={counts}}}",
             lambda a: F.avg_pool2d(a, (3, 2), (2, 1), 1, True, bool(counts)), draw(1, 2, 4, 3))
    case("MaxPool, dilated", "%y = MaxPool(%a) {kernel_shape=[2,2], pads=[0,1,0,1], dilations=[2,1], strides=[1,2]}",
         lambda a: F.max_pool2d(a, 2, (1, 2), (0, 1), (2, 1)), draw(1, 2, 4, 5))
    case("MaxUnpool", "%m, %i = MaxPool(%a) {kernel_shape=[2,2], strides=[2,2]}; %q = Mul(%m, %m); %y = MaxUnpool(%q, %i) {kernel_shape=[2,2], strides=[2,2]}",
         lambda a: (lambda m, i: F.max_unpool2d(m * m, i, 2, 2))(*F.max_pool2d(a, 2, 2, return_indices=True)), draw(1, 2, 4, 4))
    case("Col2Im", "%y = Col2Im(%a, %s, %k) {pads=[1,0,1,0], strides=[2,1], dilations=[1,2]}",
         lambda a: F.fold(a, (4, 5), (2, 2), (1, 2), (1, 0), (2, 1)), draw(1, 8, 9), constants=[ints("s", [4, 5]), ints("k", [2, 2])])


# ---- along axes ----

def axes():
    for axis, more in (0, ""), (1, ""), (2, "reverse=1"):
        turn = (lambda t: t.flip(2)) if more else (lambda t: t)
        for name, f in ("CumSum", torch.cumsum), ("CumProd", torch.cumprod):
            case(f"{name}, {axis} {more}", f"%y = {name}(%a, %i) {{{more}}}", lambda a: turn(f(turn(a), axis)), draw(2, 3, 2), constants=[ints("i", axis)])
    zero = draw(2, 4)
    zero[0, 1] = zero[1, 0] = zero[1, 2] = 0
    case("CumProd of zeros", "%y = CumProd(%a, %i)", lambda a: torch.cumprod(a, 1), zero, constants=[ints("i", 1)])
    case("Det", "%y = Det(%a)", torch.linalg.det, draw(3, 4, 4))
    for axis, p in (1, 1), (0, 2), (2, 2):
        case(f"LpNormalization, {axis}, p {p}", f"%y = LpNormalization(%a) {{axis={axis}, p={p}}}", lambda a: F.normalize(a, p, axis, 0), draw(2, 3, 2))
    case("ReduceLogSumExp", "%y = ReduceLogSumExp(%a, %i) {keepdims=1}", lambda a: torch.logsumexp(a, (0, 2), True), draw(2, 3, 2), constants=[ints("i", [0, 2])])
    case("LogSoftmax", "%y = LogSoftmax(%a) {axis=1}", lambda a: torch.log_softmax(a, 1), draw(2, 3, 2))
    case("TopK", "%y, %i = TopK(%a, %k) {axis=1, largest=0}", lambda a: torch.topk(a, 2, 1, False)[0], draw(2, 5), constants=[ints("k", [2])])
    for upper, k in (0, 1), (1, -1):
        case(f"Trilu, {upper}, {k}", f"%y = Trilu(%a, %k) {{upper={upper}}}", lambda a: (torch.triu if upper else torch.tril)(a, k), draw(2, 3, 4), constants=[ints("k", k)])
    case("ReverseSequence", "%y = ReverseSequence(%a, %n) {batch_axis=1, time_axis=0}",
         lambda a: torch.stack([torch.cat([a[:n, b].flip(0), a[n:, b]]) for b, n in enumerate((2, 4, 1))], 1), draw(4, 3, 2), constants=[ints("n", [2, 4, 1])])
    case("CenterCropPad", "%y = CenterCropPad(%a, %s) {axes=[0,1]}", lambda a: F.pad(a[1:4], (0, 0, 1, 2)), draw(5, 3, 2), constants=[ints("s", [3, 6])])
    for mode, spelt in ("reflect", "reflect"), ("edge", "replicate"), ("wrap", "circular"):
        case(f"Pad, {mode}", f'%y = Pad(%a, %s) {{mode="{mode}"}}', lambda a: F.pad(a, (2, 1, 1, 2), spelt), draw(1, 2, 3, 4), constants=[ints("s", [0, 0, 1, 2, 0, 0, 2, 1])])


def picked():
    at = torch.tensor([[0, 2, 1], [2, 2, 0]])
    put = ints("i", at.tolist())
    case("GatherElements", "%y = GatherElements(%a, %i) {axis=1}", lambda a: torch.gather(a, 1, at), draw(2, 4), constants=[put])
    for how, spelt in ("add", "sum"), ("mul", "prod"), ("max", "amax"), ("min", "amin"):
        case(f"ScatterElements, {how}", f'%y = ScatterElements(%a, %i, %b) {{axis=1, reduction="{how}"}}',
             lambda a, b: a.scatter_reduce(1, at, b, spelt), draw(2, 4), draw(2, 3), constants=[put])
    factors = torch.tensor([[0.0, 2.0, 0.5], [0.0, 3.0, 0.0]])
    case("ScatterElements, mul, zeros", '%y = ScatterElements(%a, %i, %b) {axis=1, reduction="mul"}', lambda a, b: a.scatter_reduce(1, at, b, "prod"),
         torch.tensor([[0.0, 1.5, -2.0, 3.0], [0.5, 2.0, -1.0, 0.25]]), factors, constants=[put])
    case("ScatterElements, max, ties", '%y = ScatterElements(%a, %i, %b) {axis=1, reduction="max"}', lambda a, b: a.scatter_reduce(1, at, b, "amax"),
         torch.tensor([[0.0, 0.5, 2.0, 3.0], [0.0, 2.0, 3.0, 0.25]]), torch.tensor([[0.0, 2.0, 0.5], [3.0, 3.0, -1.0]]), constants=[put])
    rows = torch.tensor([2, 0, 2])
    case("ScatterND, add", '%y = ScatterND(%a, %i, %b) {reduction="add"}', lambda a, b: a.index_add(0, rows, b), draw(3, 2), draw(3, 2),
         constants=[ints("i", [[2], [0], [2]])])
    case("GatherND", "%y = GatherND(%a, %i) {batch_dims=1}", lambda a: torch.stack([a[0, [2, 0]], a[1, [1, 1]]]), draw(2, 3, 2),
         constants=[ints("i", [[[2], [0]], [[1], [1]]])])
    case("TensorScatter", "%y = TensorScatter(%a, %b, %i) {axis=1}",
         lambda a, b: torch.stack([torch.cat([a[k, :n], b[k], a[k, n + 2:]]) for k, n in enumerate((1, 0))]), draw(2, 4, 2), draw(2, 2, 2), constants=[ints("i", [1, 0])])


# ---- products ----

def products():
    for name, equation, *shapes in (("of a chain", "ij,jk,kl->il", (2, 3), (3, 2), (2, 4)), ("of a trace", "iij->j", (3, 3, 2)), ("of heads", "bhqd,bhkd->bhqk", (1, 2, 3, 2), (1, 2, 4, 2)),
                                    ("of a form", "bi,oij,bj->bo", (2, 3), (2, 3, 2), (2, 2)), ("of what broadcasts", "...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)), ("of a sum", "abc->b", (2, 3, 2))):
        case(f"Einsum {name}", f'%y = Einsum({", ".join("%" + n for n in NAMES[:len(shapes)])}) {{equation="{equation}"}}', lambda *x: torch.einsum(equation, *x), *[draw(*s) for s in shapes])
    for causal in 0, 1:
        case(f"Attention, causal {causal}", f"%y = Attention(%a, %b, %c) {{is_causal={causal}}}", lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=bool(causal)),
             draw(1, 2, 3, 4), draw(1, 2, 3, 4), draw(1, 2, 3, 4))
    case("Attention with a mask, fewer heads of keys", "%y = Attention(%a, %b, %c, %d) {scale=0.25}",
         lambda a, b, c, d: F.scaled_dot_product_attention(a, b, c, d, scale=0.25, enable_gqa=True), draw(1, 4, 2, 3), draw(1, 2, 3, 3), draw(1, 2, 3, 2), draw(1, 1, 2, 3))
    angle = draw(3, 2)
    turned = lambda a, c, s: torch.cat([a[..., :2] * c - a[..., 2:] * s, a[..., :2] * s + a[..., 2:] * c], -1)
    case("RotaryEmbedding", "%y = RotaryEmbedding(%a, %b, %c)", lambda a, b, c: turned(a, b[:, None], c[:, None]), draw(2, 2, 3, 4), angle.cos().expand(2, 3, 2), angle.sin().expand(2, 3, 2))


def norms():
    e = "epsilon=0.0078125"
    case("GroupNormalization", f"%y = GroupNormalization(%a, %b, %c) {{num_groups=2, {e}}}", lambda a, b, c: F.group_norm(a, 2, b, c, 2.0 ** -7), draw(2, 4, 2, 2), draw(4), draw(4))
    case("InstanceNormalization", f"%y = InstanceNormalization(%a, %b, %c) {{{e}}}", lambda a, b, c: F.instance_norm(a, weight=b, bias=c, eps=2.0 ** -7), draw(2, 2, 5), draw(2), draw(2))
    case("LayerNormalization", f"%y = LayerNormalization(%a, %b, %c) {{axis=1, {e}}}", lambda a, b, c: F.layer_norm(a, (3, 2), b, c, 2.0 ** -7), draw(2, 3, 2), draw(3, 2), draw(3, 2))
    case("RMSNormalization", f"%y = RMSNormalization(%a, %b) {{{e}}}", lambda a, b: F.rms_norm(a, (4,), b, 2.0 ** -7), draw(2, 3, 4), draw(4))
    case("MeanVarianceNormalization", "%y = MeanVarianceNormalization(%a)", lambda a: (a - a.mean((0, 2, 3), True)) / (a.var((0, 2, 3), unbiased=False, keepdim=True).sqrt() + float(torch.tensor(1e-9))),
         draw(2, 2, 2, 2))
    for name, f in ("Gelu", F.gelu), ("Mish", F.mish), ("Swish", F.silu), ("Softplus", F.softplus), ("Erf", torch.erf), ("Tan", torch.tan), ("Asinh", torch.asinh):
        case(name, f"%y = {name}(%a)", f, draw(6, low=-1.5, high=1.5))
    case("Gelu, tanh", '%y = Gelu(%a) {approximate="tanh"}', lambda a: F.gelu(a, approximate="tanh"), draw(6))


def encoded():
    at = torch.tensor([2, 0, 3, 2, -1])
    case("OneHot, its two values", "%y = OneHot(%i, %d, %a) {axis=0}", lambda a: (F.one_hot(at % 4, 4) * (a[1] - a[0]) + a[0]).T, draw(2),
         constants=[ints("i", at.tolist()), ints("d", 4)])


def loops():
    def scanned(s, x, y):
        rows = []
        for t in range(len(x)):
            s = torch.sin(s) * x[t] + y[t]
            rows.append(s * x[t])
        return torch.cat([s, *rows])

    for trips in (3, 1):
        case(f"Scan, {trips}", "%s, %r = Scan(%a, %b, %c) {body=graph(%s, %x, %y) { %i = Sin(%s) %m = Mul(%i, %x) %n = Add(%m, %y) "
             "%o = Mul(%n, %x) return %n, %o }, num_scan_inputs=2}; %f = Reshape(%r, %all); %y = Concat(%s, %f) {axis=0}", scanned,
             draw(4), draw(trips, 4), draw(trips, 1), constants=[ints("all", [-1])])


def attention():
    """Of queries that may see no key."""
    for name, shown in ("all masked", [[1, 0, 1], [0, 0, 0]]), ("some masked", [[1, 0, 1], [0, 1, 0]]):
        bias = torch.zeros(2, 3).masked_fill(torch.tensor(shown) == 0, -torch.inf)

        def run(q, k, v, m):
            p = torch.softmax((q @ k.transpose(2, 3) + m + bias).nan_to_num(neginf=-1e300), -1) * torch.tensor(shown).amax(-1, True)
            return torch.cat([p @ v, p], -1)

        numbers = ",".join("-inf" if x else "0.0" for x in (bias < 0).reshape(-1).tolist())
        case(f"Attention, {name}", "%h = Add(%d, %bias); %u, _, _, %r = Attention(%a, %b, %c, %h) {scale=1.0, qk_matmul_output_mode=3}; "
             "%y = Concat(%u, %r) {axis=-1}", run, draw(1, 2, 2, 3), draw(1, 2, 3, 3), draw(1, 2, 3, 2), draw(2, 3),
             constants=[f"const %bias : float64[2,3] = {{{numbers}}}"])


if __name__ == "__main__":
    for group in spectra, resized, sampled, windows, axes, picked, products, norms, loops, attention, encoded:
        group()
