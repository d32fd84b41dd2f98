"""dpexec.from_torch: PyTorch modules as models, and trained weights back into them."""

from __future__ import annotations

import copy
import os
import warnings
from typing import Any

from .errors import InvalidArgument
from .model import Model
from .trainer import Trainer


def from_torch(module: Any, example: Any, path: str | os.PathLike[str] | None = None, *,
               inputs: list[str] | None = None, outputs: list[str] | None = None, batch_axis: int = 0,
               **options: Any) -> Model:
    """Exports a torch.nn.Module for training, as docs/guide/export.md advises, and loads it.

        model = dpexec.from_torch(net, torch.zeros(2, 3, 32, 32))
        run = dpexec.train(model, data=(x, y), loss="cross-entropy", epochs=3)
        dpexec.to_torch(run.trainer, net)       # the trained weights

    example: a tensor, or a tuple of tensors, with samples along batch_axis.  The batch size stays open.
    path: the file to write; None: a temporary one.  inputs, outputs: names, by default x (x0, x1 ...) and output.
    options: the engine's for the model and its trainers, as for Model; bn_variance is "unbiased" by default, as
    PyTorch's running variances are.  The module itself does not change.  Needs torch and onnx.
    """
    import tempfile

    import torch
    example = example if isinstance(example, tuple) else (example,)
    inputs = inputs or (["x"] if len(example) == 1 else [f"x{k}" for k in range(len(example))])
    if len(inputs) != len(example):
        raise InvalidArgument(f"inputs: {len(inputs)} names for {len(example)} tensors")
    outputs = outputs or ["output"]
    held = None
    if path is None:
        held = tempfile.TemporaryDirectory(prefix="dpexec-")
        path = os.path.join(held.name, "model.onnx")
    trained = copy.deepcopy(module).train()     # exporting in training mode moves running statistics by a step
    axes = {name: {batch_axis: "batch"} for name in (*inputs, *outputs)}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(trained, example, os.fspath(path), dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, input_names=inputs, output_names=outputs, dynamic_axes=axes)
    _restore(path, module)
    model = Model(path, **{"bn_variance": "unbiased", **options})
    model._held = held      # type: ignore[attr-defined]
    return model


def _restore(path: str | os.PathLike[str], module: Any) -> None:
    """Gives the file the buffers as they were before the exporter's run, which moved running statistics."""
    buffers = {name: x.detach().cpu().numpy() for name, x in module.named_buffers()}
    if not buffers:
        return
    import onnx
    file = onnx.load(os.fspath(path))
    for tensor in file.graph.initializer:
        if tensor.name in buffers:
            tensor.CopyFrom(onnx.numpy_helper.from_array(buffers[tensor.name], tensor.name))
    onnx.save(file, os.fspath(path))


def to_torch(trainer: Trainer, module: Any) -> list[str]:
    """Writes the trainer's states into the module's parameters and buffers of the same names, and gives the names.

    Raises InvalidArgument for what is no trainer, and for a parameter of the module that the trainer does not have, or
    has in another shape.
    """
    import torch
    if not isinstance(trainer, Trainer):
        raise InvalidArgument(f"to_torch takes a Trainer, as run.trainer is, and found a {type(trainer).__name__}; the "
                              "weights of a model in a file: docs/guide/from-pytorch.md, \"Weights back in PyTorch\"")
    state = trainer.state.info()
    missing = [name for name, _ in module.named_parameters() if name not in state]
    if missing:
        raise InvalidArgument(f"the trainer has no state '{missing[0]}', which is a parameter of the module")
    for name, tensor in module.named_parameters():
        if state[name].shape != tuple(tensor.shape):
            raise InvalidArgument(f"parameter '{name}' is {list(state[name].shape or ())} in the trainer and "
                                  f"{list(tensor.shape)} in the module")
    written = []
    with torch.no_grad():
        for name, tensor in {**dict(module.named_parameters()), **dict(module.named_buffers())}.items():
            if name in state and state[name].shape == tuple(tensor.shape):
                tensor.copy_(torch.from_numpy(trainer.state[name]))
                written.append(name)
    return written
