"""dpexec: trains ONNX models on data-parallel replicas.

    import dpexec
    run = dpexec.train("model.onnx", data=dict(x=X, target=y), val=(Xv, yv), loss="cross-entropy", metric="accuracy",
                       epochs=5)
    run.best.predict(X)
"""

from __future__ import annotations

from typing import Any

from ._abi import lib as _lib
from .errors import (DeviceError, Error, FileError, InternalError, Interrupted, InvalidArgument, ModelError,
                     OutOfMemory, ShapeError, Unsupported)
from .loaded_model import TensorInfo
from .model import Model
from .options import OPTIONS, Option
from .history import History
from .picture import Graph, transform
from .predictor import Predictor
from .program import new_network as new
from .run import Run, Trained
from .torch_export import from_torch, to_torch
from .trainer import State, StepResult, Trainer
from .training import train

__version__: str = _lib.dpx_version().decode()

_LATE = {"DpexecClassifier": "sklearn", "DpexecRegressor": "sklearn"}

__all__ = ["OPTIONS", "DeviceError", "DpexecClassifier", "DpexecRegressor", "Error", "FileError", "Graph", "History",
           "InternalError", "Interrupted", "InvalidArgument", "Model", "ModelError", "Option", "OutOfMemory",
           "Predictor", "Run", "ShapeError", "State", "StepResult", "TensorInfo", "Trained", "Trainer", "Unsupported",
           "from_torch", "new", "to_torch", "train", "transform"]


def __getattr__(name: str) -> Any:
    """The estimators, which need scikit-learn, are imported when they are asked for."""
    if name in _LATE:
        from importlib import import_module
        return getattr(import_module("." + _LATE[name], __name__), name)
    raise AttributeError(f"module 'dpexec' has no attribute '{name}'")
