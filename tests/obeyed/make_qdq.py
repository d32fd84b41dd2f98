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
FLAGS = ["--loss", "mse", "--batch-size", "4", "--steps", "5", "--lr", "0.3"]
STEPS, LR = 5, 0.3


def fake(x, scale, zero, low, high, axis=None):
    """The straight-through estimator of torch.fake_quantize_per_tensor_affine and per_channel_affine."""
    shape = [1] * x.dim()
    if axis is not None:
        shape[axis] = -1
    scale = torch.as_tensor(scale, dtype=torch.float64).reshape(shape if axis is not None else [])
    zero = torch.as_tensor(zero, dtype=torch.float64).reshape(shape if axis is not None else [])
    q = torch.round(x.detach() / scale) + zero
    y = (q.clamp(low, high) - zero) * scale
    mask = ((q >= low) & (q <= high)).double()
    return y + (x - x.detach()) * mask


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
    inits = [v if isinstance(v, onnx.TensorProto) else nh.from_array(np.asarray(v), n) for n, v in inits.items()]
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", T.FLOAT, ["N", x.shape[1]])], [h.make_tensor_value_info("y", T.FLOAT, ["N", 3])], inits)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=10 if opset > 19 else 8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "data.npz", x=x.float().numpy(), target=target.numpy())
    e = {"model": "model.onnx", "data": "data.npz", "flags": FLAGS, "losses": losses, "source": "make_qdq.py, PyTorch in float64", **more}
    (folder / "expected.json").write_text(json.dumps(e, indent=1) + "\n")
    print(name, losses)


def pair(x, scale, zero, out, **attrs):
    names = [n for n in (scale, zero) if n]
    return [h.make_node("QuantizeLinear", [x, *names], [out + "_q"], **attrs), h.make_node("DequantizeLinear", [out + "_q", *names], [out], **attrs)]


def f32(v):
    return torch.tensor(np.float32(v)).double()


def main():
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
    forward = lambda x, w, v, b: (fake(torch.relu(fake(x, float(sx), 128, 0, 255) @ fake(w, t(sw), torch.zeros(8), -128, 127, 0).T), float(sa), 0, 0, 255)
                                  @ fake(v, float(s2), 3, -128, 127) + fake(b, float(sb), 0, -2.0**31, 2.0**31 - 1))
    losses = train(forward, params, x, target)
    tensors = {"w_quantized": np.clip(np.rint(params[0].detach().numpy() / sw[:, None]), -128, 127).ravel().tolist(),
               "v_quantized": np.clip(np.rint(params[1].detach().numpy() / s2) + 3, -128, 127).ravel().tolist(),
               "b_quantized": np.rint(params[2].detach().numpy() / sb).ravel().tolist()}
    inits = {"sx": sx, "zx": np.uint8(128), "sw": sw, "zw": np.zeros(8, np.int8), "sa": sa, "za": np.uint8(0), "s2": s2, "z2": np.int8(3), "sb": np.float32(sb),
             "w_quantized": qw, "v_quantized": qv, "b_quantized": qb}
    write("qdq_integer_weights", nodes, inits, x, target, losses, 13, tensors=tensors, says=["written as integers again"],
          evaluation={"data": "data.npz", "flags": ["--loss", "mse", "--batch-size", "4"], "loss": F.mse_loss(forward(x, *params), target).item()})

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
