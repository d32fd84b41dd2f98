"""What the make.py of a case shares: PyTorch's losses of plain SGD in float64, and the files of the case."""
import json
import warnings

import numpy as np
import torch

warnings.filterwarnings("ignore")


def write(folder, net, x, target, steps=5, lr=0.1, model="model.onnx", forward=None, parameters=None, extra=(), **more):
    """Trains `net` in place on the whole of x, target at each step, and writes data.npz and expected.json beside its model."""
    net = net.double()
    optimizer = torch.optim.SGD(list(net.parameters()) if parameters is None else parameters, lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy((forward or net)(torch.as_tensor(x).double()), torch.as_tensor(target))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    np.savez(folder / "data.npz", x=np.asarray(x, np.float32), target=np.asarray(target, np.int64))
    flags = ["--loss", "cross-entropy", "--batch-size", str(len(x)), "--steps", str(steps), "--lr", str(lr), *extra]
    expected = {"model": model, "data": "data.npz", "flags": flags, "losses": losses,
                "source": f"PyTorch {torch.__version__.split('+')[0]} in float64 (make.py)", **more}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def legacy(net, x, path, **how):
    torch.onnx.export(net, (torch.as_tensor(x),), path, dynamo=False, input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, **how)


def default(net, x, path, **how):
    torch.onnx.export(net, (torch.as_tensor(x),), path, dynamo=True, input_names=["x"], output_names=["y"],
                      dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False, external_data=False, **how)
