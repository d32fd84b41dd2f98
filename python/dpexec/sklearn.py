"""Estimators for scikit-learn: dpexec.DpexecClassifier and dpexec.DpexecRegressor."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .program import new_network
from .trainer import Trainer
from .training import train


class _Network(BaseEstimator):
    """What both estimators share: the network, its training, and pickling by the trained ONNX file."""

    def __init__(self, hidden: Any = (64,), *, model: Any = None, optimizer: str = "adamw", lr: float | None = 0.01,
                 alpha: float | None = None, batch_size: int = 32, max_iter: int = 50, random_state: Any = None,
                 threads: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.hidden = hidden
        self.model = model
        self.optimizer = optimizer
        self.lr = lr
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state
        self.threads = threads
        self.options = options

    def _fit(self, x: np.ndarray, y: np.ndarray, outputs: dict[str, int], loss: str) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._mean, scale = x.mean(0), x.std(0)
        self._scale = np.where(scale > 1e-12 * (np.abs(self._mean) + 1e-300), scale, 1.0)
        self._width = x.shape[1]
        with tempfile.TemporaryDirectory(prefix="dpexec-") as folder:
            path = self.model or self._new(pathlib.Path(folder) / "mlp.onnx", x.shape[1], outputs, seed)
            options = dict(optimizer=self.optimizer, lr=self.lr, weight_decay=self.alpha, seed=seed,
                           threads=self.threads, batch_size=min(self.batch_size, len(x)), **(self.options or {}))
            name = Trainer(path, threads=self.threads).model.inputs[0].name
            run = train(path, {name: self._scaled(x), "target": y}, loss=loss, epochs=self.max_iter, **options)
            self._onnx = run.last.path.read_bytes()
            self.n_iter_ = self.max_iter
            self.loss_curve_ = run.history["train_loss"].tolist()
            if run.trainer:
                run.trainer.close()
        self._opened: list[Trainer] = []        # filled by the first prediction

    def _new(self, path: pathlib.Path, inputs: int, outputs: dict[str, int], seed: int) -> str:
        hidden = tuple(np.atleast_1d(self.hidden).tolist())
        if len(set(hidden)) > 1 or not hidden:
            raise ValueError(f"hidden: expected layers of one width, such as (64, 64), found {self.hidden!r}")
        return new_network("mlp", path, inputs=inputs, layers=len(hidden), width=hidden[0], seed=seed, **outputs)

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return (x - self._mean) / self._scale

    def _predict(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        x = validate_data(self, x, reset=False, dtype=np.float64)
        if not self._opened:
            with tempfile.TemporaryDirectory(prefix="dpexec-") as folder:
                path = pathlib.Path(folder) / "model.onnx"
                path.write_bytes(self._onnx)
                # In float64 an MLP's predictions do not depend on the order of the samples by more than 1e-15, as
                # float32's do, whose products round by a sample's place.  A network of a file is computed as it says.
                dtype = None if self.model else "float64"
                self._opened.append(Trainer(path, threads=self.threads, dtype=dtype))
        return self._opened[0].predict(self._scaled(x), 1024)

    def export(self, path: Any) -> None:
        """Writes the trained network as ONNX.  Its input is scaled: (X - mean) / scale, as in `scaling_`."""
        check_is_fitted(self)
        pathlib.Path(path).write_bytes(self._onnx)

    @property
    def scaling_(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and scale of the features, [n_features] each."""
        return self._mean, self._scale

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **({"_opened": []} if "_opened" in self.__dict__ else {})}


_PARAMETERS = """
    hidden: widths of the hidden layers, all the same.  model: an ONNX file in place of the MLP, whose first input takes
    the scaled features.  optimizer, lr, batch_size, threads: the engine's options.  alpha: weight decay.
    max_iter: epochs.  random_state: seed of initial values and order.  options: further options of the engine.
    Features are scaled to mean 0 and variance 1.
"""


class DpexecClassifier(ClassifierMixin, _Network):
    __doc__ = "A multi-layer perceptron that classifies; labels may be texts.\n" + _PARAMETERS

    def fit(self, X: Any, y: Any) -> DpexecClassifier:
        """X: [n_samples, n_features].  y: labels [n_samples]."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self._fit(X, numbers.astype(np.int64), {"classes": max(len(self.classes_), 2)}, "cross-entropy")
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, [n_samples, n_classes], in the order of classes_."""
        check_is_fitted(self)
        scores = self._predict(X).astype(np.float64)[:, : len(self.classes_)]
        scores = np.exp(scores - scores.max(1, keepdims=True))
        return scores / scores.sum(1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each sample."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]


class DpexecRegressor(RegressorMixin, _Network):
    __doc__ = "A multi-layer perceptron that predicts one number or several.\n" + _PARAMETERS

    def fit(self, X: Any, y: Any) -> DpexecRegressor:
        """X: [n_samples, n_features].  y: numbers [n_samples] or [n_samples, n_outputs]; they are scaled, too."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        self._flat = y.ndim == 1
        y = y.reshape(len(y), -1).astype(np.float64)
        self._y_mean, spread = y.mean(0), y.std(0)
        self._y_scale = np.where(spread > 0, spread, 1.0)
        self._fit(X, ((y - self._y_mean) / self._y_scale).astype(np.float32), {"outputs": y.shape[1]}, "mse")
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Numbers for each sample, in the shape of the training targets."""
        found = self._predict(X).astype(np.float64)
        found = found.reshape(len(found), -1) * self._y_scale + self._y_mean
        return found[:, 0] if self._flat else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
