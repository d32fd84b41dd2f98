#!/usr/bin/env python3
"""Writes the cases qdq_*: quantised networks, trained as torch.fake_quantize trains them in float64.

    make_qdq.py             needs the packages of tests/networks/requirements.txt
"""
import json
import pathlib

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T, helper as h, numpy_helper as nh

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = ["--loss", "mse", "--batch-size", "4", "--steps", "5"]
STEPS, LR = 5, 0.3


def fake(x, scale, zero, low, high, axis=None):
    """torch.fake_quantize_per_channel_affine, of one channel for all where there is no axis: per_tensor_affine multiplies by the scale in float32."""
    if axis is None:
        return fake(x.reshape(1, -1), [float(scale)], [int(zero)], low, high, 0).reshape(x.shape)
    scale = torch.as_tensor(scale, dtype=torch.float32)
    return torch.fake_quantize_per_channel_affine(x, scale, torch.as_tensor(zero, dtype=torch.int32), axis, low, high)


class Learned(torch.autograd.Function):
    """torch._fake_quantize_learnable_per_tensor_affine and per_channel_affine (axis 0), which exist in float32 alone, in float64."""

    @staticmethod
    def forward(ctx, x, scale, zero, low, high):
        s = scale.reshape(-1, *[1] * (x.dim() - 1)) if scale.numel() > 1 else scale.reshape([])
        q = torch.round(x / s) + zero
        y = (q.clamp(low, high) - zero) * s
        within = (q >= low) & (q <= high)
        ctx.save_for_backward(within, torch.where(within, (y - x) / s, y / s), scale)
        return y

    @staticmethod
    def backward(ctx, dy):
        within, slope, scale = ctx.saved_tensors
        ds = (dy * slope).flatten(1).sum(1) if scale.numel() > 1 else (dy * slope).sum()
        return dy * within, ds.reshape(scale.shape), None, None, None


def check_learned():
    """Learned against PyTorch's own, in float32."""
    g = torch.Generator().manual_seed(1)
    for scale, zero, of in ((torch.tensor([0.02]), 3.0, torch._fake_quantize_learnable_per_tensor_affine),
                            (torch.linspace(0.01, 0.03, 5), 0.0, torch._fake_quantize_learnable_per_channel_affine)):
        x, dy = torch.randn(5, 40, generator=g).requires_grad_(), torch.randn(5, 40, generator=g)
        scale = scale.requires_grad_()
        zeros = torch.full(scale.shape, zero)
        y = of(x, scale, zeros, *([0] if scale.numel() > 1 else []), -128, 127, 1.0)
        expected = torch.autograd.grad(y, (x, scale), dy)
        x2, scale2 = x.detach().double().requires_grad_(), scale.detach().double().requires_grad_()
        found = torch.autograd.grad(Learned.apply(x2, scale2, zero, -128, 127), (x2, scale2), dy.double())
        for e, f in zip(expected, found):
            torch.testing.assert_close(f.float(), e, rtol=1e-4, atol=1e-4)


def train(forward, params, x, target):
    losses = []
    for _ in range(STEPS):
        loss = F.mse_loss(forward(x, *params), target)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, d in zip(params, grads):
                p -= LR * d
        losses.append(loss.item())
    return losses


def write(name, nodes, inits, x, target, losses, opset, **more):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    kinds = more.pop("kinds", {})
    inits = [v if isinstance(v, onnx.TensorProto) else nh.from_array(np.asarray(v), n) for n, v in inits.items()]
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", T.FLOAT, ["N", x.shape[1]])], [h.make_tensor_value_info("y", T.FLOAT, ["N", 3])], inits)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=10 if opset > 19 else 8)
    for name_, kind in kinds.items():                                       # as PyTorch's exporter says what a tensor is in the module
        info = h.make_tensor_value_info(name_, *next((i.data_type, list(i.dims)) for i in inits if i.name == name_))
        info.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kind)
        graph.value_info.append(info)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    flags = more.pop("flags", [])
    flags = FLAGS + ([] if "--lr" in flags else ["--lr", "0.3"]) + flags
    np.savez(folder / "data.npz", x=x.float().numpy(), target=target.numpy())
    e = {"model": "model.onnx", "data": "data.npz", "flags": flags, "losses": losses, "source": "make_qdq.py, PyTorch in float64", **more}
    (folder / "expected.json").write_text(json.dumps(e, indent=1) + "\n")
    print(name, losses)


def pair(x, scale, zero, out, **attrs):
    names = [n for n in (scale, zero) if n]
    return [h.make_node("QuantizeLinear", [x, *names], [out + "_q"], **attrs), h.make_node("DequantizeLinear", [out + "_q", *names], [out], **attrs)]


def f32(v):
    return torch.tensor(np.float32(v)).double()


def between(x, target, g):
    """Operators that move and pick integers between the two."""
    w, v = f32(0.5 * torch.randn(8, 6, generator=g)), f32(0.5 * torch.randn(12, 3, generator=g))
    sw, sa = np.float32(0.009), np.float32(0.021)

    # the weight is transposed as integers; activations: Relu (compares with the integer 0), Reshape, MaxPool, Concat of two quantisers
    nodes = [h.make_node("QuantizeLinear", ["w", "sw", "zw"], ["wq"]), h.make_node("Transpose", ["wq"], ["wqt"], perm=[1, 0]),
             h.make_node("DequantizeLinear", ["wqt", "sw", "zw"], ["wt"]), h.make_node("MatMul", ["x", "wt"], ["a"]),
             h.make_node("QuantizeLinear", ["a", "sa", "za"], ["aq"]), h.make_node("Relu", ["aq"], ["ar"]), h.make_node("Reshape", ["ar", "four"], ["a4"]),
             h.make_node("MaxPool", ["a4"], ["am"], kernel_shape=[1, 2], strides=[1, 2]), h.make_node("Flatten", ["am"], ["af"]), h.make_node("Tanh", ["a"], ["t"]),
             h.make_node("QuantizeLinear", ["t", "sa", "za"], ["tq"]), h.make_node("Concat", ["af", "tq"], ["cq"], axis=1),
             h.make_node("DequantizeLinear", ["cq", "sa", "za"], ["c"]), h.make_node("MatMul", ["c", "v"], ["y"])]

    def forward(x, w, v):
        a = x @ fake(w, sw, 0, -128, 127).T
        r = fake(a, sa, -20, -128, 127).clamp(min=20 * float(sa)).reshape(-1, 1, 2, 4)
        return torch.cat([F.max_pool2d(r, (1, 2)).flatten(1), fake(torch.tanh(a), sa, -20, -128, 127)], 1) @ v
    losses = train(forward, [w.clone().requires_grad_(), v.clone().requires_grad_()], x, target)
    write("qdq_between", nodes, {"sw": sw, "zw": np.int8(0), "sa": sa, "za": np.int8(-20), "four": np.int64([-1, 1, 2, 4]), "w": w.float().numpy(),
                                 "v": v.float().numpy()}, x, target, losses, 17, trained=["v", "w"])

    # Pad fills with the integer 0, which is 0 minus the zero point; Clip behind a Reshape; Where of integers; scales that are unlike
    s2 = np.float32(0.025)
    nodes = [h.make_node("MatMul", ["x", "wt"], ["a"]), h.make_node("QuantizeLinear", ["a", "sa", "za"], ["aq"]), h.make_node("Pad", ["aq", "pads"], ["ap"]),
             h.make_node("Reshape", ["ap", "halves"], ["ah"]), h.make_node("Clip", ["ah", "low", "high"], ["ac"]), h.make_node("Reshape", ["ac", "whole"], ["aw"]),
             h.make_node("Neg", ["a"], ["n"]), h.make_node("QuantizeLinear", ["n", "sa", "za"], ["nq"]), h.make_node("Concat", ["nq", "nq"], ["nn"], axis=1),
             h.make_node("Slice", ["nn", "from", "to", "axis"], ["ns"]), h.make_node("Where", ["choice", "aw", "ns"], ["q"]),
             h.make_node("DequantizeLinear", ["q", "s2", "za"], ["c"]), h.make_node("MatMul", ["c", "v"], ["y"])]
    choice = np.arange(12) % 3 > 0
    ratio = float(s2) / float(sa)

    def forward(x, wt, v):
        a = x @ wt
        p = F.pad(fake(a, sa, 90, 0, 255), (4, 0), value=-90 * float(sa)).clamp((40 - 90) * float(sa), (170 - 90) * float(sa))
        n = fake(-a, sa, 90, 0, 255)
        return torch.where(torch.tensor(choice), p, torch.cat([n, n], 1)[:, 2:14]) * ratio @ v
    wt = f32(0.5 * torch.randn(6, 8, generator=g))
    losses = train(forward, [wt.clone().requires_grad_(), v.clone().requires_grad_()], x, target)
    i64 = lambda *a: np.int64(a)
    write("qdq_padded", nodes, {"sa": sa, "za": np.uint8(90), "s2": s2, "pads": i64(0, 4, 0, 0), "halves": i64(-1, 2, 6), "whole": i64(-1, 12), "low": np.uint8(40),
                                "high": np.uint8(170), "from": i64(2), "to": i64(14), "axis": i64(1), "choice": choice, "wt": wt.float().numpy(),
                                "v": v.float().numpy()}, x, target, losses, 18, trained=["v", "wt"])

    # integers that become another type on their way, and integers whose scales differ along an axis that moves: said by node
    s8 = np.float32(np.linspace(0.01, 0.02, 8))
    nodes = [h.make_node("MatMul", ["x", "wt"], ["a"]), h.make_node("QuantizeLinear", ["a", "s8", "z8"], ["aq"], axis=1, name="first"),
             h.make_node("Concat", ["aq", "aq"], ["aa"], axis=1, name="twice"), h.make_node("Slice", ["aa", "from", "to", "axis"], ["as"], name="half"),
             h.make_node("DequantizeLinear", ["as", "s8", "z8"], ["r"], axis=1, name="last"), h.make_node("MatMul", ["r", "u"], ["m"]),
             h.make_node("QuantizeLinear", ["m", "sa", "z"], ["mq"], name="second"), h.make_node("Cast", ["mq"], ["mc"], to=T.INT32, name="wide"),
             h.make_node("DequantizeLinear", ["mc", "sa"], ["c"]), h.make_node("MatMul", ["c", "v"], ["y"])]
    u, v3 = f32(0.5 * torch.randn(8, 5, generator=g)), f32(0.5 * torch.randn(5, 3, generator=g))
    fixed = lambda x, v: fake(fake(x @ wt, s8, torch.zeros(8), -128, 127, 1) @ u, sa, 0, -128, 127).detach() @ v
    losses = train(fixed, [v3.clone().requires_grad_()], x, target)
    write("qdq_stopped", nodes, {"s8": s8, "z8": np.zeros(8, np.int8), "sa": sa, "z": np.int8(0), "from": i64(0), "to": i64(8), "axis": i64(1), "wt": wt.float().numpy(),
                                 "u": u.float().numpy(), "v": v3.float().numpy()}, x, target, losses, 17,
          says=["first: no gradient passes this quantiser: its integers go to DequantizeLinear last", "second: no gradient passes this quantiser: its integers go to Cast wide"])


def moved_integers(x, target, g):
    """Integers of the file that are moved before they become floats."""
    w, v = 0.5 * torch.randn(8, 6, generator=g), 0.5 * torch.randn(8, 3, generator=g)
    sw, sv = np.float32(np.linspace(0.008, 0.012, 8)), np.float32(0.01)
    qw, qv = np.clip(np.rint(w.numpy() / sw[:, None]), -128, 127).astype(np.int8), np.clip(np.rint(v.numpy() / sv), -128, 127).astype(np.int8)
    order = np.int64([3, 1, 0, 2, 7, 6, 5, 4])
    nodes = [h.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]), h.make_node("DequantizeLinear", ["wt", "sw", "zw"], ["wd"], axis=1),
             h.make_node("MatMul", ["x", "wd"], ["a"]), h.make_node("Tanh", ["a"], ["r"]), h.make_node("Concat", ["v1", "v2"], ["vc"], axis=0),
             h.make_node("Gather", ["vc", "order"], ["vg"], axis=0), h.make_node("DequantizeLinear", ["vg", "sv"], ["vd"]), h.make_node("MatMul", ["r", "vd"], ["y"])]
    t = lambda a: torch.tensor(np.float64(np.float32(a)))
    params = [t(qw * sw[:, None]).requires_grad_(), t(qv[:5] * sv).requires_grad_(), t(qv[5:] * sv).requires_grad_()]
    losses = train(lambda x, w, a, b: torch.tanh(x @ fake(w, sw, torch.zeros(8), -128, 127, 0).T) @ fake(torch.cat([a, b]), sv, 0, -128, 127)[order], params, x, target)
    tensors = {"w": np.clip(np.rint(params[0].detach().numpy() / sw[:, None]), -128, 127).ravel().tolist(),
               "v2": np.clip(np.rint(params[2].detach().numpy() / sv), -128, 127).ravel().tolist()}
    write("qdq_moved_integers", nodes, {"sw": sw, "zw": np.zeros(8, np.int8), "sv": sv, "w": qw, "v1": qv[:5], "v2": qv[5:], "order": order}, x, target, losses, 13,
          tensors=tensors, trained=["v1", "v2", "w"])


def scales(x, target, g):
    """Scales that are trained, as the file says or a flag; and quantisers that stop gradients."""
    w, v = f32(0.5 * torch.randn(8, 6, generator=g)), f32(0.5 * torch.randn(8, 3, generator=g))
    s8, sa, s8t = np.float32(np.linspace(0.007, 0.012, 8)), np.float32(0.009), None
    nodes = [*pair("w", "w_scale", None, "wd", axis=0), h.make_node("Transpose", ["wd"], ["wt"], perm=[1, 0]), h.make_node("MatMul", ["x", "wt"], ["a"]),
             h.make_node("Relu", ["a"], ["r"]), *pair("r", "a_scale", "za", "rd"), h.make_node("MatMul", ["rd", "v"], ["y"])]
    nodes[0] = h.make_node("QuantizeLinear", ["w", "w_scale", "zw"], ["wd_q"], axis=0)
    nodes[1] = h.make_node("DequantizeLinear", ["wd_q", "w_scale", "zw"], ["wd"], axis=0)
    inits = {"w": w.float().numpy(), "v": v.float().numpy(), "w_scale": s8, "a_scale": sa, "zw": np.zeros(8, np.int8), "za": np.uint8(0)}
    of = lambda a: torch.tensor(np.float64(a)).requires_grad_()
    slow = ["--lr", "2e-5"]

    def run(forward, params):
        global LR
        LR = 2e-5
        losses = train(forward, params, x, target)
        LR = 0.3
        return losses
    both = lambda x, w, v, sw, sa: Learned.apply(torch.relu(x @ Learned.apply(w, sw, 0, -128, 127).T), sa, 0, 0, 255) @ v
    kinds = {n: "PARAMETER" for n in ("w", "v", "w_scale", "a_scale")}
    losses = run(both, [w.clone().requires_grad_(), v.clone().requires_grad_(), of(s8), of(sa)])
    write("qdq_learned_scales", nodes, inits, x, target, losses, 17, kinds=kinds, flags=slow, trained=["a_scale", "v", "w", "w_scale"])
    losses = run(lambda x, w, v, sa: both(x, w, v, of(s8).detach(), sa), [w.clone().requires_grad_(), v.clone().requires_grad_(), of(sa)])
    write("qdq_scale_by_flag", nodes, inits, x, target, losses, 17, flags=[*slow, "--train", "a_scale"], says=["scales stay as they are"])
    off = lambda x, v: both(x, w, v, of(s8).detach(), of(sa).detach())
    losses = run(off, [v.clone().requires_grad_()])
    write("qdq_off", nodes, inits, x, target, losses, 17, flags=[*slow, "--qat", "off"], says=["fixed by --qat off: 'w'"])


def main():
    check_learned()
    g = torch.Generator().manual_seed(5)
    x, target = f32(torch.randn(4, 6, generator=g)), torch.randn(4, 3, generator=g, dtype=torch.float64)
    w, v = f32(0.5 * torch.randn(8, 6, generator=g)), f32(0.5 * torch.randn(8, 3, generator=g))
    b = f32(0.1 * torch.randn(3, generator=g))
    s1, s2, sa, sx = np.float32(0.011), np.float32(0.0085), np.float32(0.013), np.float32(0.0157)

    # quantisation-aware, opset 10: per tensor, no zero point means uint8; activations saturate
    nodes = [*pair("x", "sx", "zx", "xd"), *pair("w", "s1", "z1", "wd"), h.make_node("Transpose", ["wd"], ["wt"], perm=[1, 0]),
             h.make_node("MatMul", ["xd", "wt"], ["a"]), h.make_node("Relu", ["a"], ["r"]), *pair("r", "sa", None, "rd"),
             h.make_node("MatMul", ["rd", "v"], ["m"]), h.make_node("Add", ["m", "b"], ["y"])]
    params = [t.clone().requires_grad_() for t in (w, v, b)]
    losses = train(lambda x, w, v, b: fake(torch.relu(fake(x, float(sx), 128, 0, 255) @ fake(w, float(s1), 0, -128, 127).T), float(sa), 0, 0, 255) @ v + b,
                   params, x, target)
    write("qdq_opset10", nodes, {"sx": sx, "zx": np.uint8(128), "s1": s1, "z1": np.int8(0), "sa": sa, "w": w.float().numpy(), "v": v.float().numpy(),
                                 "b": b.float().numpy()}, x, target, losses, 10, trained=["b", "v", "w"])

    # quantised after training: int8 weights per channel, int32 bias, opset 13
    sw = np.float32(np.linspace(0.004, 0.009, 8))
    qw = np.clip(np.rint(w.numpy() / sw[:, None]), -128, 127).astype(np.int8)
    qv = np.clip(np.rint(v.numpy() / s2) + 3, -128, 127).astype(np.int8)
    sb = np.float32(sa * s2)
    qb = np.rint(b.numpy() / sb).astype(np.int32)
    nodes = [*pair("x", "sx", "zx", "xd"), h.make_node("DequantizeLinear", ["w_quantized", "sw", "zw"], ["wd"], axis=0),
             h.make_node("Transpose", ["wd"], ["wt"], perm=[1, 0]), h.make_node("MatMul", ["xd", "wt"], ["a"]), h.make_node("Relu", ["a"], ["r"]),
             *pair("r", "sa", "za", "rd"), h.make_node("DequantizeLinear", ["v_quantized", "s2", "z2"], ["vd"]),
             h.make_node("DequantizeLinear", ["b_quantized", "sb"], ["bd"]), h.make_node("Gemm", ["rd", "vd", "bd"], ["y"])]
    t = lambda a: torch.tensor(np.float64(a))
    masters = [t((qw * sw[:, None]).astype(np.float32)), t(((qv.astype(np.float32) - 3) * s2).astype(np.float32)), t((qb * sb).astype(np.float32))]
    params = [m.clone().requires_grad_() for m in masters]
    forward = lambda x, w, v, b: (fake(torch.relu(fake(x, float(sx), 128, 0, 255) @ fake(w, sw, torch.zeros(8), -128, 127, 0).T), float(sa), 0, 0, 255)
                                  @ fake(v, float(s2), 3, -128, 127) + b)                         # PyTorch quantises no bias in training
    losses = train(forward, params, x, target)
    tensors = {"w_quantized": np.clip(np.rint(params[0].detach().numpy() / sw[:, None]), -128, 127).ravel().tolist(),
               "v_quantized": np.clip(np.rint(params[1].detach().numpy() / s2) + 3, -128, 127).ravel().tolist(),
               "b_quantized": np.rint(params[2].detach().numpy() / sb).ravel().tolist()}
    inits = {"sx": sx, "zx": np.uint8(128), "sw": sw, "zw": np.zeros(8, np.int8), "sa": sa, "za": np.uint8(0), "s2": s2, "z2": np.int8(3), "sb": np.float32(sb),
             "w_quantized": qw, "v_quantized": qv, "b_quantized": qb}
    write("qdq_integer_weights", nodes, inits, x, target, losses, 13, tensors=tensors, says=["written as integers again"],
          evaluation={"data": "data.npz", "flags": ["--loss", "mse", "--batch-size", "4"], "loss": F.mse_loss(forward(x, *params[:2], torch.round(params[2].detach() / float(sb)) * float(sb)), target).item()})

    # opset 21: int4 weights by blocks, int16 activations
    s4 = np.float32(np.linspace(0.15, 0.25, 4).reshape(2, 2).repeat(4, 0))                                      # [8, 2]: blocks of 3
    q4 = np.clip(np.rint(w.numpy() / s4.repeat(3, 1)), -8, 7).astype(np.int8)
    packed = h.make_tensor("w4", T.INT4, [8, 6], q4.ravel().tolist())
    nodes = [h.make_node("DequantizeLinear", ["w4", "s4"], ["wd"], axis=1, block_size=3), h.make_node("Transpose", ["wd"], ["wt"], perm=[1, 0]),
             h.make_node("MatMul", ["x", "wt"], ["a"]), h.make_node("QuantizeLinear", ["a", "s16"], ["aq"], output_dtype=T.INT16),
             h.make_node("DequantizeLinear", ["aq", "s16"], ["ad"]), h.make_node("Tanh", ["ad"], ["r"]), h.make_node("MatMul", ["r", "v"], ["y"])]
    scale4 = t(s4.repeat(3, 1))
    params = [t((q4 * s4.repeat(3, 1)).astype(np.float32)).requires_grad_(), v.clone().requires_grad_()]

    def blocks(w):
        q = torch.round(w.detach() / scale4)
        return q.clamp(-8, 7) * scale4 + (w - w.detach()) * ((q >= -8) & (q <= 7)).double()
    s16 = np.float32(0.0005)
    losses = train(lambda x, w, v: torch.tanh(fake(x @ blocks(w).T, float(s16), 0, -32768, 32767)) @ v, params, x, target)
    write("qdq_int4_blocks", nodes, {"s4": s4, "s16": s16, "v": v.float().numpy(), "w4": packed}, x, target, losses, 21,
          trained=["v", "w4"])

    between(x, target, g)
    moved_integers(x, target, g)
    scales(x, target, g)

    # integer operators
    nodes = [h.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]), h.make_node("MatMulInteger", ["xq", "wq", "xz"], ["i"], name="first"),
             h.make_node("Cast", ["i"], ["c"], to=T.FLOAT), h.make_node("Mul", ["c", "xs"], ["m"]), h.make_node("MatMul", ["m", "v"], ["y"])]
    folder = HERE / "qdq_integer_operators"
    write("qdq_integer_operators", nodes, {"wq": np.ascontiguousarray(qw.T), "v": v.float().numpy()}, x, target, [], 13)
    e = json.loads((folder / "expected.json").read_text())
    del e["losses"]
    e["dtype"] = "float32"
    e["refused"] = "MatMulInteger first"
    (folder / "expected.json").write_text(json.dumps(e, indent=1) + "\n")


main()
