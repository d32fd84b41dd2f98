"""[--blame] [--after N] [--float32 BOUND] [--zero-residuals] [--in-a-row] BUILD MODEL.onnx DATA.npz BATCH[,BATCH...] [OPTIONS of a run]: the file that --standard writes, run by ONNX Runtime, against dpexec train.

One file is written for all sizes of batches.  At each size five steps are compared, each from the states that our own run had before it,
and all five in a row:

  in float32   by ONNX Runtime.  Each step's losses must agree to 1e-4, and what the steps changed of all states together to BOUND [1e-4],
               which is larger where rounding is known to turn over decisions.  In a row rounding may grow from step to step (Relu's
               decisions, statistics of few values), which is shown
  in float64   by onnx.reference, to 1e-9, whose convolutions, poolings, Erf and GridSample are PyTorch's here: its own are slow, of
               float32, wrong (ConvTranspose in groups, ceil_mode), or missing (MaxRoiPool). GatherElements, ScatterElements and Pad are numpy's: its own refuse what the files
               have.  In a row they must agree to 1e-6

The exit status is 1 where either does not hold.  Losses are compared relative to the larger of 1 and their size, states by norm.  Where
float32 is further apart than 1e-4, how far both are from float64 says whose rounding it is.  --blame always says that: the median over states
and steps, and how many states are ten times as far with one as with the other.

--after N: what is compared is the model that N steps of `dpexec train` on batches of 16 leave, instead of the one in the file, whose weights
may be as they were drawn.

--zero-residuals: the last batch-norm of every residual branch begins with a scale of zero, as torchvision's zero_init_residual has it
(Goyal et al., 2017, section 5.1), so that rounding does not grow from block to block.

--in-a-row: what must agree in float32, to BOUND, are the losses of the five steps in a row and, by norm, all parameters
together after them."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import torch
import torchvision
from onnx import numpy_helper
from onnx.reference.op_run import OpRun

import judge

STEPS, TOLERANCE, EXACTLY, IN_A_ROW = 5, 1e-4, 1e-9, 1e-6


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


class Conv(OpRun):
    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, pads=None, strides=None):
        assert auto_pad == "NOTSET"
        rank = x.ndim - 2
        pads = pads or [0] * 2 * rank
        around = [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])]
        convolve = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
        return (convolve(torch.nn.functional.pad(torch.tensor(x), around), torch.tensor(w), None if b is None else torch.tensor(b),
                         strides or 1, 0, dilations or 1, group or 1).numpy(),)


class Erf(OpRun):     # onnx.reference's is float32
    def _run(self, x):
        return (torch.erf(torch.tensor(x)).numpy(),)


class Gelu(OpRun):    # made of that
    def _run(self, x, approximate=None):
        return (torch.nn.functional.gelu(torch.tensor(x), approximate=approximate or "none").numpy(),)


class GatherElements(OpRun):    # onnx.reference's takes 64 rows at most
    def _run(self, x, index, axis=None):
        return (np.take_along_axis(x, index, axis or 0),)


class ScatterElements(OpRun):   # onnx.reference's takes four dimensions at most
    HOW = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}

    def _run(self, x, index, updates, axis=None, reduction=None):
        at, y = list(np.indices(index.shape, sparse=True)), x.copy()
        at[axis or 0] = index
        if reduction in self.HOW:
            self.HOW[reduction].at(y, tuple(at), updates)
        else:
            y[tuple(at)] = updates
        return (y,)


class GridSample(OpRun):    # onnx.reference's computes in float32, and knows the names of opset 20 alone
    MODES = {"linear": "bilinear", "cubic": "bicubic"}

    def _run(self, x, grid, align_corners=None, mode=None, padding_mode=None):
        return (torch.nn.functional.grid_sample(torch.tensor(x), torch.tensor(grid), self.MODES.get(mode, mode or "bilinear"),
                                                padding_mode or "zeros", bool(align_corners)).numpy(),)


class MaxRoiPool(OpRun):    # onnx.reference has none
    def _run(self, x, rois, pooled_shape=None, spatial_scale=None):
        return (torchvision.ops.roi_pool(torch.tensor(x), torch.tensor(rois), pooled_shape, spatial_scale or 1.0).numpy(),)


class Pad(OpRun):     # onnx.reference's takes nothing away
    def _run(self, x, pads, value=None, axes=None, mode=None):
        around = np.zeros((x.ndim, 2), int)
        around[range(x.ndim) if axes is None else axes] = np.reshape(pads, (2, -1)).T
        x = x[tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, around))]
        how = {"constant_values": 0 if value is None else value} if mode in (None, "constant") else {}
        return (np.pad(x, np.maximum(around, 0), mode or "constant", **how),)


class ConvTranspose(OpRun):
    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, output_padding=None, output_shape=None,
             pads=None, strides=None):
        assert auto_pad == "NOTSET" and not output_shape
        rank = x.ndim - 2
        transposed = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[rank - 1]
        full = transposed(torch.tensor(x), torch.tensor(w), None, strides or 1, 0, 0, group or 1, dilations or 1)
        pads, extra = pads or [0] * 2 * rank, output_padding or [0] * rank
        cut = [p for i in reversed(range(rank)) for p in (-pads[i], extra[i] - pads[rank + i])]
        y = torch.nn.functional.pad(full, cut).numpy()
        return (y if b is None else y + b.reshape(-1, *[1] * rank),)


class MaxPool(OpRun):
    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None, storage_order=None, strides=None):
        assert auto_pad == "NOTSET" and not storage_order
        rank = x.ndim - 2
        strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
        ends = list(pads[rank:])
        for i in range(rank):       # up to the last window that begins in front of the padding behind
            reach, length = dilations[i] * (kernel_shape[i] - 1) + 1, x.shape[2 + i] + pads[i] + pads[rank + i]
            count = (length - reach) // strides[i] + 1
            if ceil_mode and (length - reach) % strides[i] and count * strides[i] < x.shape[2 + i] + pads[i]:
                ends[i] += count * strides[i] + reach - length
        around = [p for i in reversed(range(rank)) for p in (pads[i], ends[i])]
        pool = (torch.nn.functional.max_pool1d, torch.nn.functional.max_pool2d, torch.nn.functional.max_pool3d)[rank - 1]
        places = torch.nn.functional.pad(torch.arange(x.size, dtype=torch.float64).reshape(x.shape), around)
        y, at = pool(torch.nn.functional.pad(torch.tensor(x), around, value=-np.inf), kernel_shape, strides, 0, dilations, return_indices=True)
        index = places.flatten(2).gather(2, at.flatten(2)).reshape(at.shape).to(torch.int64)
        return (y.numpy(), index.numpy())[:len(self.onnx_node.output)]


def session_of(path, dtype):
    if dtype == "float64":
        return onnx.reference.ReferenceEvaluator(path, new_ops=[Conv, ConvTranspose, Erf, GatherElements, Gelu, GridSample, MaxPool, MaxRoiPool, Pad,
                                                             ScatterElements])
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


# ---- there ----

class There:
    """The file that is written for a type."""
    def __init__(self, folder, dtype, model, options):
        path, self.dtype = f"{folder}/{dtype}.onnx", dtype
        run(f"{build}/graph-transform", model, *options, "--dtype", dtype, "--standard", "-o", path)
        file = onnx.load(path)
        onnx.checker.check_model(file, full_check=True)
        self.session = session_of(path, dtype)
        inputs = {i.name for i in file.graph.input}
        self.first = {t.name: numpy_helper.to_array(t) for t in file.graph.initializer if t.name in inputs}
        self.parameters = [n for n in self.first if f"{n}.momentum" in self.first]     # that are trained, by SGD with momentum
        self.types = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in file.graph.input}
        self.outputs = [o.name for o in file.graph.output]

    def step(self, batch, state):
        """-> loss, the states after it."""
        fed = {n: a.astype(self.types[n]) for n, a in {**state, **batch}.items() if n in self.types}
        out = dict(zip(self.outputs, self.session.run(self.outputs, fed)))
        return float(out.pop("loss")), {n.removesuffix(".next"): a for n, a in out.items()}

    def steps(self, batches):
        state, losses = {}, []
        for batch in batches:
            loss, state = self.step(batch, state)
            losses.append(loss)
        return losses, state


# ---- here ----

def train_here(folder, dtype, model, data, batch, options):
    """-> losses, the states after each step."""
    out = f"{folder}/{dtype}-{batch}"
    run(f"{build}/dpexec", "train", model, "--data", data, "--batch-size", str(batch), "--steps", str(STEPS), "--no-shuffle",
        "--threads", "1", "--checkpoint-every", "1", "--keep", "all", "--out", out, "--dtype", dtype, *options)
    losses = [m["loss"] for m in map(json.loads, open(f"{out}/metrics.jsonl")) if "loss" in m]
    files = sorted(pathlib.Path(out, "checkpoints").glob("step-*/state.safetensors"))
    assert len(losses) == len(files) == STEPS
    states = [judge.state(f) for f in files]
    for s in states:
        s["step"] = s.pop("dpexec.step")
    return losses, states


# ---- both ----

def far(a, b):
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-3))


def all_apart(a, b, names):
    """Of these states together."""
    apart, size = (sum(float(np.sum(np.square(x(n)))) for n in names) for x in (lambda n: a[n] - b[n], lambda n: b[n]))
    return (apart / size) ** 0.5


def states_apart(a, b):
    """The largest difference by norm, and whose it is."""
    common = a.keys() & b.keys()
    assert common
    return max((far(a[n], b[n]), n) for n in common)


def losses_apart(a, b):
    return max(abs(x - y) / max(1, abs(y)) for x, y in zip(a, b, strict=True))


def change_apart(theirs, ours, before):
    """Of all states together, relative to what the step changed; counters aside."""
    names = [n for n in theirs.keys() & ours.keys() if ours[n].dtype.kind == "f"]
    changed = sum(float(np.sum(np.square(ours[n] - before.get(n, 0)))) for n in names if n in before)
    return (sum(float(np.sum(np.square(theirs[n] - ours[n]))) for n in names) / changed) ** 0.5 if changed else 0.0


def compare_steps(there, first, losses, states, batches):
    """Each step from our states before it: -> losses, changes of all states, the worst state, whose."""
    befores = [first, *states]
    found = [there.step(b, s) for b, s in zip(batches, befores)]
    changes = max(change_apart(f, s, before) for (_, f), s, before in zip(found, states, befores))
    return losses_apart([loss for loss, _ in found], losses), changes, *max(states_apart(f, s) for (_, f), s in zip(found, states))


def blame(there, exact, first, states, batches):
    """Of the steps from our states: medians of how far ours and theirs are from float64, and the states far beyond the other's."""
    apart = []
    for batch, before, ours in zip(batches, [first, *states], states):
        theirs, true = there.step(batch, before)[1], exact.step(batch, before)[1]
        apart += [(far(ours[n], true[n]), far(theirs[n], true[n])) for n in true.keys() & ours.keys() if ours[n].dtype.kind == "f"]
    here, other = np.array(apart).T
    beyond = [int(np.sum(a > 10 * np.maximum(b, 1e-6))) for a, b in ((here, other), (other, here))]
    return f"; from float64 ours {np.median(here):.1e}, theirs {np.median(other):.1e} in the median; far beyond the other {beyond[0]} and {beyond[1]} of {len(here)}"


def compare_type(folder, file, arrays, batches, model, batch, options):
    """-> each step alone, all in a row with the parameters together, our states."""
    losses, states = train_here(folder, file.dtype, model, arrays, batch, options)
    alone = compare_steps(file, file.first, losses, states, batches)
    there = file.steps(batches)
    return alone, (losses_apart(there[0], losses), *states_apart(there[1], states[-1]),
                   all_apart(there[1], states[-1], file.parameters), all_apart(file.first, states[-1], file.parameters)), states


def compare(folder, files, arrays, model, batch, options):
    """-> a line, and whether all is well."""
    shown, axis = f"{folder}/data-{batch}.npz", batch_axes(options)
    arrays = {k: np.concatenate([v] * (STEPS * batch // len(v) + 1))[:STEPS * batch] for k, v in arrays.items()}
    np.savez(shown, **arrays)
    batches = [{n: np.moveaxis(a[k * batch:(k + 1) * batch], 0, axis.get(n, 0)) for n, a in arrays.items()} for k in range(STEPS)]
    line = ""
    for dtype, file in files.items():
        alone, row, states = compare_type(folder, file, shown, batches, model, batch, options)
        line += (f"{dtype}: each step {alone[0]:.1e}, {alone[1]:.1e}, worst {alone[2]:.1e} ({alone[3]}), "
                 f"in a row {row[0]:.1e}, {row[1]:.1e} ({row[2]}), parameters {row[3]:.1e}, which have moved {row[4]:.1e}; ")
        if dtype == "float32":
            near, first, ours = max(alone[:2]) < TOLERANCE, file.first, states
            good = max(row[0], row[3]) < bound if in_a_row else alone[0] < TOLERANCE and alone[1] < bound
        else:
            good &= max(alone[:3]) < EXACTLY and max(row[:2]) < IN_A_ROW
    if blaming or not near:
        line += blame(files["float32"], files["float64"], first, ours, batches)[2:]
    return line.rstrip("; "), good


def batch_axes(options):
    """-> {input: axis} of --batch-input NAME:AXIS."""
    given = [o for flag, words in zip(options, options[1:]) if flag == "--batch-input" for o in words.split(",")]
    return {n: int(a) for n, a in (o.rsplit(":", 1) for o in given if ":" in o)}


def trained(folder, model, data, options):
    """The model after some steps, so that its activations and gradients are those of a network that trains."""
    run(f"{build}/dpexec", "train", model, "--data", data, "--batch-size", "16", "--steps", str(after), "--threads", "1", "--out",
        f"{folder}/before", *options)
    return f"{folder}/before/model.onnx"


def without_residuals(folder, path):
    """The model whose residual branches begin at zero: of what an Add takes, the deeper operand is the branch."""
    model = onnx.load(path)
    maker = {o: n for n in model.graph.node for o in n.output}
    weights, depth, zeroed = {t.name: t for t in model.graph.initializer}, {}, []
    for n in model.graph.node:      # in order, so that what a node takes is known
        depth[n.output[0]] = 1 + max((depth.get(i, 0) for i in n.input), default=0)
    for add in (n for n in model.graph.node if n.op_type == "Add"):
        branch = maker.get(max(add.input, key=lambda i: depth.get(i, 0)))
        if branch is not None and branch.op_type == "BatchNormalization":
            scale = weights[branch.input[1]]
            scale.CopyFrom(numpy_helper.from_array(np.zeros_like(numpy_helper.to_array(scale)), scale.name))
            zeroed.append(scale.name)
    onnx.save(model, f"{folder}/zeroed.onnx")
    print(f"residual branches that begin at zero: {len(zeroed)}", flush=True)
    return f"{folder}/zeroed.onnx"


def main(model, data, batches, *options):
    good, arrays = True, dict(np.load(data))
    with tempfile.TemporaryDirectory() as folder:
        if zero_residuals:
            model = without_residuals(folder, model)
        if after:
            model = trained(folder, model, data, options)
        files = {dtype: There(folder, dtype, model, options) for dtype in ("float32", "float64")}
        for batch in map(int, batches.split(",")):
            line, agrees = compare(folder, files, arrays, model, batch, options)
            good &= agrees
            print(f"batch {batch}: {line}{'' if agrees else '; DIFFERS'}", flush=True)
    return not good


torch.set_num_threads(1)
onnxruntime.set_default_logger_severity(3)
arguments = argparse.ArgumentParser()
arguments.add_argument("--blame", action="store_true")
arguments.add_argument("--after", type=int, default=0)
arguments.add_argument("--float32", type=float, default=TOLERANCE)
arguments.add_argument("--zero-residuals", action="store_true")
arguments.add_argument("--in-a-row", action="store_true")
arguments.add_argument("build")
arguments.add_argument("words", nargs=argparse.REMAINDER)
given = arguments.parse_args()
blaming, after, bound, build = given.blame, given.after, given.float32, given.build
zero_residuals, in_a_row = given.zero_residuals, given.in_a_row
sys.exit(main(*given.words))
