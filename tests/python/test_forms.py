"""Forms of data that the program trains from a copy; functions that augment; progress in notebooks."""
import sys
import types
import unittest.mock

import numpy as np
import onnx

import dpexec
from cases import Case
from dpexec import files, program

SETTINGS = {"loss": "cross-entropy", "metric": "accuracy", "epochs": 2, "lr": 0.1, "threads": 1, "seed": 5}


class Copies(Case):
    def by_program(self, data, *flags, model=None):
        """The model that the program writes for a file."""
        out = self.folder / f"out{len(list(self.folder.iterdir()))}"
        self.program("train", model or self.mlp, "--data", data, "--loss", "cross-entropy", "--metric", "accuracy",
                     "--epochs", 2, "--lr", 0.1, "--threads", 1, "--seed", 5, "--out", out, *flags)
        return (out / "model.onnx").read_bytes()

    def test_settings_of_the_program_take_arrays(self):
        np.savez(self.folder / "float64.npz", x=self.x.astype(np.float64), target=self.y)
        want = self.by_program("data.npz", "--val-split", 0.2, "--balanced", "--class-weights", "balanced")
        for data in ({"x": self.x, "target": self.y}, (self.x.astype(np.float64), self.y.tolist())):
            run = dpexec.train(self.mlp, data, val_split=0.2, balanced=True, class_weights="balanced", **SETTINGS)
            self.assertEqual(run.last.path.read_bytes(), want)
            self.assertIn("eval_accuracy", run.history)
        weights = np.array([1, 2, 3], np.float32)
        np.save(self.folder / "weights.npy", weights)
        want = self.by_program("data.npz", "--val", "val.npz", "--eval-batches", 1, "--class-weights", "weights.npy")
        run = dpexec.train(dpexec.Model(self.mlp), (self.x, self.y), (self.x[:50], self.y[:50]), eval_batches=1,
                           class_weights=weights, **SETTINGS)
        self.assertEqual(run.last.path.read_bytes(), want)
        self.assertEqual(run.best.predict(self.x).shape, (203, 3))

    def test_samples_may_have_unequal_lengths(self):
        """A mean over time of what is no padding: the file is written as docs/reference/ragged.md says."""
        h, n = onnx.helper, onnx.numpy_helper
        draw = np.random.default_rng(2)
        graph = h.make_graph(
            [h.make_node("Unsqueeze", ["attention_mask", "two"], ["m"]), h.make_node("Mul", ["x", "m"], ["xm"]),
             h.make_node("ReduceSum", ["xm", "one"], ["s"], keepdims=0),
             h.make_node("ReduceSum", ["m", "one"], ["c"], keepdims=0), h.make_node("Div", ["s", "c"], ["mean"]),
             h.make_node("Gemm", ["mean", "w", "b"], ["logits"])], "g",
            [h.make_tensor_value_info("x", 1, ["N", "T", 4]), h.make_tensor_value_info("attention_mask", 1, ["N", "T"])],
            [h.make_tensor_value_info("logits", 1, ["N", 3])],
            [n.from_array(draw.normal(size=(4, 3)).astype(np.float32), "w"), n.from_array(np.zeros(3, np.float32), "b"),
             n.from_array(np.array([1]), "one"), n.from_array(np.array([2]), "two")])
        path = self.folder / "mean.onnx"
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
        x = [draw.normal(size=(int(k), 4)).astype(np.float32) for k in draw.integers(1, 9, 60)]
        y = draw.integers(0, 3, 60)
        np.savez(self.folder / "ragged.npz", **{"x": np.concatenate(x), "target": y,
                                                "x.offsets": np.cumsum([0] + [len(v) for v in x])})
        want = self.by_program("ragged.npz", "--group-by-length", model=path)
        run = dpexec.train(path, {"x": x, "target": y}, group_by_length=True, **SETTINGS)
        self.assertEqual(run.last.path.read_bytes(), want)
        want = self.by_program("ragged.npz", model=path)
        for data in ({"x": x, "target": y}, {"x": [v.tolist() for v in x], "target": y}):
            self.assertEqual(dpexec.train(path, data, **SETTINGS).last.path.read_bytes(), want)

    def test_what_the_program_cannot_do_is_refused(self):
        call = lambda data, **more: dpexec.train(self.mlp, data, loss="cross-entropy", **more)
        data = (self.x, self.y)
        self.refused(ValueError, "on_step: no function with val_split, for which the program dpexec trains", call, data,
                     val_split=0.1, on_step=print)
        self.refused(ValueError, "data: expected arrays by name or a tuple of arrays, as 'balanced' is given", call,
                     [data], balanced=True)
        self.refused(ValueError, "augment: expected a function", call, data, augment="crop,flip")
        self.refused(ValueError, "there is no option 'val_spilt': did you mean 'val_split'?", call, data, val_spilt=0.1)
        self.refused(ValueError, "--val-split", call, data, val_split=2)

    def test_the_list_of_flags_is_the_program_s(self):
        import os
        import subprocess
        said = subprocess.run([os.environ["DPEXEC_PROGRAM"], "train", "--help"], capture_output=True, text=True,
                              check=True).stdout
        for name in files.PROGRAM:
            self.assertIn(f"  --{name.replace('_', '-')}", said)
            self.assertNotIn(name, list(dpexec.OPTIONS))


class Augmentation(Case):
    def test_a_function_changes_training_batches(self):
        """Noise of a generator that depends on seed, epoch and batch, against steps that add it by hand."""
        def noise(batch, draw):
            batch["x"] += draw.normal(scale=0.1, size=batch["x"].shape).astype(np.float32)
            return batch

        before, settings = self.x.copy(), {**SETTINGS, "shuffle": False}
        run = dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), augment=noise, **settings)
        np.testing.assert_array_equal(self.x, before)
        t, losses = dpexec.Trainer(self.mlp, loss="cross-entropy", lr=0.1, threads=1, batch_size=32, seed=5), []
        for epoch in range(2):
            for k in range(7):
                x = self.x[32 * k : 32 * k + 32]
                x = x + np.random.default_rng([5, epoch, k]).normal(scale=0.1, size=x.shape).astype(np.float32)
                losses.append(t.step(x=x, target=self.y[32 * k : 32 * k + 32]).loss)
        np.testing.assert_array_equal(run.history["loss"], losses)
        self.assertAlmostEqual(run.history["eval_loss"][-1], t.evaluate(x=self.x, target=self.y)["loss"], 6)
        out = self.folder / "again"
        first = {**settings, "steps": 9, "epochs": None}
        dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), augment=noise, out=out, **first)
        again = dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), augment=noise, out=out, resume=True,
                             **settings)
        np.testing.assert_array_equal(again.history["loss"], losses)


class Notebook(Case):
    """With a stand-in of IPython; what a real notebook shows was looked at."""

    def shown(self, kernel, **settings):
        texts = []

        class Handle:
            def update(self, html):
                texts.append(html)

        display = types.ModuleType("IPython.display")
        display.HTML, display.display = str, lambda first, display_id: Handle()
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: types.SimpleNamespace(**({"kernel": None} if kernel else {}))
        with unittest.mock.patch.dict(sys.modules, {"IPython": ipython, "IPython.display": display}):
            dpexec.train(self.mlp, (self.x, self.y), **SETTINGS, **settings)
        return texts

    def test_progress_is_shown_in_notebooks_alone(self):
        self.assertEqual(self.shown(False), [])
        self.assertEqual(self.shown(True, progress=False), [])
        texts = self.shown(True)
        self.assertIn('<progress value="1.0000" max="1"', texts[-1])
        self.assertIn("step 14/14, epoch 2/2: train loss", texts[-1])
        self.assertIn("trained 12 steps", self.shown(True, val_split=0.2)[-1])

    def test_the_program_s_lines_are_not_lost(self):
        lines = []
        with self.assertLogs("dpexec", "INFO") as logged:
            program.call(["new", "mlp", "-o", str(self.folder / "more.onnx"), "--inputs", "2", "--classes", "2"],
                         lines.append)
        self.assertEqual([r.getMessage() for r in logged.records], lines)
