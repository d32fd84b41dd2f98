"""Writes models with an If or a Loop that data decide, and what PyTorch's training makes of them; where the size of the batch decides, what
onnx.reference computes.

    python tests/api/branches.py        # onnx 1.22, torch; writes branches_*.onnx and branches.h, for tools/format.sh
"""
import pathlib

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = pathlib.Path(__file__).resolve().parent
BATCH, STEPS, WIDTH, HIDDEN, OUT, RATE = 7, 6, 4, 5, 3, 0.1
LARGE = 0.3
N, F, I = helper.make_node, TensorProto.FLOAT, TensorProto.INT64
rng = np.random.default_rng(5)


def info(name, dtype=F, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def graph(name, nodes, outputs):
    return helper.make_graph(nodes, name, [], [info(o) for o in outputs])


def floats(*shape):
    return (rng.standard_normal(shape) / 2).astype(np.float32)


PARAMETERS = {"a.weight": floats(WIDTH, HIDDEN), "a.table": floats(4, HIDDEN), "a.scale": floats(HIDDEN), "a.shift": floats(HIDDEN),
              "b.weight": floats(WIDTH, HIDDEN), "out.weight": floats(HIDDEN, OUT)}


def save(name, nodes, parameters=PARAMETERS, samples="N"):
    constants = {**parameters, "zero": np.float32(0), "edge": np.int64(4), "two": np.int64(2), "first": np.int64(0), "large": np.float32(LARGE),
                 "most": np.int64(5)}
    read = str(nodes)
    model = helper.make_model(helper.make_graph(
        nodes, name, [info("x", F, [samples, WIDTH])], [info("y", F, [samples, OUT])],
        [numpy_helper.from_array(v, k) for k, v in constants.items() if f'"{k}"' in read]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / f"branches_{name}.onnx")
    return model


# How many samples have a positive first number, k, which a table of four rows can tell where it is less than that.  The nested
# choice is by the mean.  The other branch takes a logarithm of 0, whose derivative is no number times the gradient 0.
nested = N("If", ["high"], ["h3"], then_branch=graph("scaled", [N("Mul", ["h2", "a.scale"], ["h4"])], ["h4"]),
           else_branch=graph("shifted", [N("Add", ["h2", "a.shift"], ["h5"])], ["h5"]))
save("pick", [
    N("Gather", ["x", "first"], ["column"], axis=1), N("Greater", ["column", "zero"], ["positive"]), N("Cast", ["positive"], ["ones"], to=I),
    N("ReduceSum", ["ones"], ["k"], keepdims=0), N("Less", ["k", "edge"], ["c"]), N("ReduceMean", ["x"], ["mean"], keepdims=0),
    N("Greater", ["mean", "zero"], ["high"]),
    N("If", ["c"], ["h"], name="pick", then_branch=graph("few", [
        N("Gather", ["a.table", "k"], ["row"]), N("MatMul", ["x", "a.weight"], ["h0"]), N("Add", ["h0", "row"], ["h1"]), N("Tanh", ["h1"], ["h2"]),
        nested], ["h3"]), else_branch=graph("many", [
            N("Sub", ["x", "x"], ["none"]), N("Log", ["none"], ["low"]), N("Exp", ["low"], ["nothing"]), N("ReduceSum", ["nothing"], ["sum"], keepdims=0),
            N("MatMul", ["x", "b.weight"], ["g0"]), N("Add", ["g0", "sum"], ["g1"]), N("Sigmoid", ["g1"], ["g2"])], ["g2"])),
    N("MatMul", ["h", "out.weight"], ["y"])])

# At most five trips, while the whole batch's numbers are large; the first as well.
LOOPED = {"step.weight": floats(WIDTH, WIDTH) * np.float32(0.8), "step.bias": floats(WIDTH) / 8, "head.weight": floats(WIDTH, OUT)}
save("loop", [
    N("Abs", ["x"], ["size"]), N("ReduceMean", ["size"], ["mean"], keepdims=0), N("Greater", ["mean", "large"], ["begin"]),
    N("Loop", ["most", "begin", "x", "first"], ["h", "k"], name="loop", body=helper.make_graph(
        [N("MatMul", ["v", "step.weight"], ["v0"]), N("Add", ["v0", "step.bias"], ["v1"]), N("Tanh", ["v1"], ["v2"]), N("Abs", ["v2"], ["s"]),
         N("ReduceMean", ["s"], ["m"], keepdims=0), N("Greater", ["m", "large"], ["go"]), N("Add", ["n", "two"], ["n2"])], "body",
        [info("i", I, []), info("c", TensorProto.BOOL, []), info("v"), info("n", I, [])], [info("go", TensorProto.BOOL, []), info("v2"), info("n2", I, [])])),
    N("Cast", ["k"], ["trips"], to=F), N("MatMul", ["h", "head.weight"], ["y0"]), N("Add", ["y0", "trips"], ["y"])], LOOPED)

# What torch.jit writes for a squeeze of what may be one sample; for other sizes the branch is none.
sized = save("sized", [
    N("Shape", ["x"], ["dims"]), N("Gather", ["dims", "first"], ["n"]), N("Less", ["n", "two"], ["c"]),
    N("If", ["c"], ["v"], name="pick",
      then_branch=graph("one", [N("Squeeze", ["x", "rows"], ["s"]), N("Unsqueeze", ["s", "rows"], ["r"])], ["r"]),
      else_branch=graph("more", [N("Tanh", ["x"], ["t"])], ["t"])),
    N("MatMul", ["v", "w"], ["y"])], {"w": floats(WIDTH, OUT), "rows": np.array([0])})
unlike = save("unlike", [
    N("ReduceMean", ["x"], ["mean"], keepdims=0), N("Greater", ["mean", "zero"], ["high"]),
    N("If", ["high"], ["v"], name="pick", then_branch=graph("whole", [N("Neg", ["x"], ["u"])], ["u"]),
      else_branch=graph("row", [N("Gather", ["x", "first"], ["t"])], ["t"])),
    N("MatMul", ["v", "w"], ["y"])], {"w": floats(WIDTH, OUT)})
# Each branch is one of a length, as a network for two rates of samples has them.
RATES = {k: np.random.default_rng(n).standard_normal((n, OUT)).astype(np.float32) for k, n in (("a", WIDTH), ("b", WIDTH + 2))}
rates = helper.make_model(helper.make_graph(
    [N("Equal", ["rate", "low"], ["c"]),
     N("If", ["c"], ["y"], name="rate", then_branch=graph("slow", [N("MatMul", ["x", "a"], ["u"])], ["u"]),
       else_branch=graph("fast", [N("MatMul", ["x", "b"], ["v"]), N("Neg", ["v"], ["w"])], ["w"]))], "rates",
    [info("x", F, ["N", "length"]), info("rate", I, [])], [info("y", F, ["N", OUT])],
    [numpy_helper.from_array(v, k) for k, v in {**RATES, "low": np.int64(8)}.items()]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(rates, HERE / "branches_rates.onnx")
ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
save("norm", [
    N("ReduceMean", ["x"], ["mean"], keepdims=0), N("Greater", ["mean", "zero"], ["high"]),
    N("If", ["high"], ["v"], name="pick",
      then_branch=graph("normal", [N("BatchNormalization", ["x", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["u"], name="bn")], ["u"]),
      else_branch=graph("plain", [N("Tanh", ["x"], ["t"])], ["t"])),
    N("MatMul", ["v", "w"], ["y"])], {"w": floats(WIDTH, OUT), "bn.weight": ones, "bn.bias": zeros, "bn.mean": zeros, "bn.var": ones})


def picked(p, x):
    k = int((x[:, 0] > 0).sum())
    if k < 4:
        h = torch.tanh(x @ p["a.weight"] + p["a.table"][k])
        h = h * p["a.scale"] if x.mean() > 0 else h + p["a.shift"]
    else:
        h = torch.sigmoid(x @ p["b.weight"])
    return h @ p["out.weight"], 0 if k >= 4 else 2 if x.mean() > 0 else 1


def looped(p, x):
    h, trips = x, 0
    while trips < 5 and h.abs().mean() > LARGE:
        h = torch.tanh(h @ p["step.weight"] + p["step.bias"])
        trips += 1
    return h @ p["head.weight"] + 2.0 * trips, trips


def train(out, name, network, parameters):
    """What the branch does not reach is left as it is, as by a gradient of 0."""
    p = {k: torch.tensor(v, requires_grad=True) for k, v in parameters.items()}
    losses, ways = [], []
    for i in range(STEPS):
        y, way = network(p, torch.tensor(x[i]))
        loss = ((y - torch.tensor(target[i])) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for v in p.values():
                if v.grad is not None:
                    v -= RATE * v.grad
                    v.grad = None
        losses.append(float(loss.detach()))
        ways.append(way)
    print(name, ways, losses)
    array(out, f"branches_{name}_loss", losses)
    array(out, f"branches_{name}_weights", np.concatenate([v.detach().numpy().ravel() for v in p.values()]))


def array(out, name, value):
    texts = [np.format_float_positional(np.float32(v), trim="0") + "F" for v in np.ravel(value)]
    out.write(f"static const float {name}[] = {{ {', '.join(texts)} }};\n")


# Batches whose parts, in threes, would decide otherwise than the whole.
x = (rng.integers(-16, 17, (STEPS, BATCH, WIDTH)) / 16).astype(np.float32)
for i in range(STEPS):
    x[i, :, 0] = np.abs(x[i, :, 0]) + 1 / 16
    x[i, [2, 3, 4, 5, 6][:(0, 4, 4, 5, 3, 4)[i]], 0] *= -1
    x[i, :, 1] += (0, 0.5, -0.5, 0.5, 0, 0.5)[i]
x[4] /= 2  # no trip
target = floats(STEPS, BATCH, OUT)
with open(HERE / "branches.h", "w") as out:
    out.write("/* Made by branches.py. */\n")
    out.write(f"enum {{ BATCH = {BATCH}, STEPS = {STEPS}, WIDTH = {WIDTH}, OUT = {OUT} }};\n")
    array(out, "branches_x", x)
    array(out, "branches_target", target)
    train(out, "pick", picked, PARAMETERS)
    train(out, "loop", looped, LOOPED)
    for rate, n in ((8, WIDTH), (16, WIDTH + 2)):
        array(out, f"branches_rate_{rate}", ReferenceEvaluator(rates).run(None, {"x": x[0].reshape(-1)[None, :n], "rate": np.array(rate)})[0])
    for n in (1, 3):
        array(out, f"branches_sized_{n}", ReferenceEvaluator(sized).run(None, {"x": x[0, :n]})[0])
