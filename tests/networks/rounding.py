"""BUILD WORK NET...: what float32 leaves of the gradients of one step, in the environment of run.sh.

A network as prepare.py builds it, on its first four samples.  A row each: how far, by the norm of all parameters' gradients together,
dpexec is from ONNX Runtime, which runs the step that --standard writes, and PyTorch from itself in its other layout of memory
(channels_last); then how far each of the four is from PyTorch in float64.  Nothing that agrees better than PyTorch agrees with itself can be
asked of float32."""
import copy
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import torch

import judge
import nets
import prepare


def gradients(net, spec, inputs, target):
    prepare.loss_of(spec, net(*inputs), target).backward()
    return {n: p.grad.double().numpy() for n, p in net.named_parameters()}


def by_pytorch(net, spec, inputs, target):
    """-> in float32, in channels_last, in float64."""
    last = {"memory_format": torch.channels_last}
    return (gradients(copy.deepcopy(net), spec, inputs, target),
            gradients(copy.deepcopy(net).to(**last), spec, [i.to(**last) if i.dim() == 4 else i for i in inputs], target),
            gradients(copy.deepcopy(net).double(), spec, [i.double() for i in inputs], target))


def by_files(build, folder, model, names, arrays, flags):
    """-> of dpexec, of ONNX Runtime: after the first step a momentum is the gradient."""
    np.savez(folder / "data.npz", **arrays)
    flags = ["--loss", "cross-entropy", "--lr", "0.01", "--momentum", "0.9", *flags]
    once = ["--batch-size", str(len(arrays["target"])), "--steps", "1", "--no-shuffle", "--threads", "1", "--checkpoint-every", "1"]
    for command in ([build / "graph-transform", model, *flags, "--standard", "-o", folder / "step.onnx"],
                    [build / "dpexec", "train", model, *flags, *once, "--data", folder / "data.npz", "--out", folder / "run"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ours = judge.state(next((folder / "run/checkpoints").glob("step-*/state.safetensors")))
    session = onnxruntime.InferenceSession(folder / "step.onnx", providers=["CPUExecutionProvider"])
    theirs = session.run([f"{n}.momentum.next" for n in names], arrays)
    return {n: ours[f"{n}.momentum"].astype(float) for n in names}, dict(zip(names, (a.astype(float) for a in theirs)))


def apart(a, b, true):
    return (sum(np.sum(np.square(a[n].reshape(g.shape) - b[n].reshape(g.shape))) for n, g in true.items()) /
            sum(np.sum(np.square(g)) for g in true.values())) ** 0.5


def compare(build, work, name):
    spec, weights = nets.NETS[name], "perturbed"
    folder = pathlib.Path(work) / f"{name}-{weights}"
    if subprocess.run([sys.executable, prepare.__file__, name, weights, folder, "legacy-train-17-dynamic"], capture_output=True).returncode:
        sys.exit(f"{name}: prepare.py failed")
    arrays = {k: v[:prepare.BATCH] for k, v in np.load(folder / "data.npz").items()}
    inputs = [torch.tensor(v) for k, v in arrays.items() if k != "target"]
    plain, last, true = by_pytorch(prepare.build(spec, weights).train(), spec, inputs, torch.tensor(arrays["target"]))
    with tempfile.TemporaryDirectory() as scratch:
        ours, theirs = by_files(pathlib.Path(build), pathlib.Path(scratch), folder / "legacy-train-17-dynamic.onnx", list(true), arrays, spec.flags)
    found = (ours, theirs), (plain, last), (ours, true), (theirs, true), (plain, true), (last, true)
    print(f"| {name} |", *(f"{apart(a, b, true):.1e} |" for a, b in found), flush=True)


torch.set_num_threads(1)
onnxruntime.set_default_logger_severity(3)
for each in sys.argv[3:]:
    compare(*sys.argv[1:3], each)
