"""dpexec.train: the same bytes as the program, the best model, interruption, sources."""
import math
import os
import pathlib
import shutil
import signal
import threading

import numpy as np

import dpexec
from cases import Case
from dpexec.feeding import draws, shuffled

SETTINGS = {"loss": "cross-entropy", "metric": "accuracy", "epochs": 3, "lr": 0.1, "threads": 1, "seed": 5}


class SameBytes(Case):
    def compare(self, files=("best.onnx", "model.onnx"), **more):
        """Trains by the program and in this process with the same settings; gives the run."""
        settings = {**SETTINGS, **more}
        flags = []
        for name, value in settings.items():
            name = {"shuffle": "no-shuffle"}.get(name, name.replace("_", "-"))
            flags += [f"--{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]
        out = self.folder / f"run{len(list(self.folder.iterdir()))}"
        self.program("train", self.mlp, "--data", "data.npz", "--val", "val.npz", "--out", out, *flags)
        run = dpexec.train(self.mlp, {"x": self.x, "target": self.y}, (self.x[:50], self.y[:50]), **settings)
        for name in files:
            self.assertEqual((run.folder / name).read_bytes(), (out / name).read_bytes(), name)
        theirs = dpexec.History.read(out / "metrics.jsonl")
        for name in run.history:
            if run.history[name].dtype != object:
                np.testing.assert_array_equal(run.history[name], theirs[name], name)
        return run

    def test_as_the_program_trains(self):
        run = self.compare()
        self.assertEqual(len(run.history["loss"]), 21)
        self.assertEqual(run.best.value, run.history["eval_accuracy"].max())

    def test_with_other_settings(self):
        self.compare(optimizer="adamw", lr=0.01, lr_schedule="cosine", warmup_steps=2, batch_size=20, drop_last=True,
                     ema=0.9)
        self.compare(accumulate=3, accumulate_across_epochs=True, monitor="loss")
        self.compare(lr_schedule="plateau:0.5:0", shuffle=False, steps=16, eval_every=3)
        self.compare(replicas=3, metric="f1", label_smoothing=0.1, patience=1, epochs=6)

    def test_a_model_with_losses_of_its_own(self):
        models = pathlib.Path(__file__).resolve().parent.parent.parent / "models"
        draw = np.random.default_rng(3)
        data = {"z": draw.normal(size=(20, 16)).astype(np.float32), "target": draw.integers(0, 10, 20),
                "image": draw.normal(size=(20, 1, 8, 8)).astype(np.float32)}
        np.savez(self.folder / "gan.npz", **data)
        self.program("train", models / "gan.onnx", "--data", "gan.npz", "--val", "gan.npz", "--loss", "outputs",
                     "--epochs", 2, "--batch-size", 8, "--threads", 1, "--out", self.folder / "gan")
        run = dpexec.train(models / "gan.onnx", data, data, loss="outputs", epochs=2, batch_size=8, threads=1)
        self.assertEqual(run.last.path.read_bytes(), (self.folder / "gan" / "model.onnx").read_bytes())
        theirs = dpexec.History.read(self.folder / "gan" / "metrics.jsonl")
        for name in ("log_d_loss", "eval_log_g_loss", "eval_loss"):
            np.testing.assert_array_equal(run.history[name], theirs[name], name)
        self.assertEqual(run.history["log_d_loss"].shape, (6,))

    def test_the_order_is_a_permutation(self):
        for n in (1, 2, 3, 1000):
            self.assertEqual(sorted(shuffled(n, 3, 1)), list(range(n)))
        self.assertFalse(np.array_equal(shuffled(1000, 3, 1), shuffled(1000, 3, 2)))

    def test_a_refused_draw_is_repeated(self):
        """Against the program's loop, number by number.  Of draws below 2^63 + 1 every second one is refused."""
        def loop(state, bounds):
            for n in bounds:
                while True:
                    state = (state + 0x9E3779B97F4A7C15) % 2**64
                    z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
                    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
                    z ^= z >> 31
                    if z >= (2**64 - n) % n:
                        break
                yield z % n

        bounds = [2**63 + 1, 7, 2**63 + 1, 2**63 + 1, 5, 2**62 + 1] * 20
        self.assertEqual(draws(12345, np.array(bounds, np.uint64)).tolist(), list(loop(12345, bounds)))


class Forms(Case):
    def losses(self, data, **more):
        return dpexec.train(self.mlp, data, **{**SETTINGS, "shuffle": False, **more}).history["loss"].tolist()

    def test_batches_of_an_iterable_are_those_of_arrays(self):
        class Loader:       # as torch.utils.data.DataLoader: a length, and lists of tensors
            def __len__(loader):
                return 7

            def __iter__(loader):
                for k in range(0, 203, 32):
                    yield [self.x[k : k + 32], self.y[k : k + 32]]

        want = self.losses({"x": self.x, "target": self.y})
        self.assertEqual(self.losses(Loader()), want)
        self.assertEqual(self.losses([{"x": x, "target": y} for x, y in Loader()]), want)
        self.assertEqual(self.losses((b for b in Loader()), epochs=None), want[:7])
        self.refused(ValueError, "data is a generator", self.losses, (b for b in Loader()))

    def test_a_source_is_trained_by_the_program(self):
        run = dpexec.train(self.mlp, str(self.folder / "data.npz"), str(self.folder / "val.npz"), **SETTINGS)
        mine = dpexec.train(self.mlp, (self.x, self.y), (self.x[:50], self.y[:50]), **SETTINGS)
        np.testing.assert_array_equal(run.history["eval_loss"], mine.history["eval_loss"])
        np.testing.assert_array_equal(run.best.predict(self.x), mine.best.predict(self.x))
        self.assertEqual((run.best.step, run.best.value), (mine.best.step, mine.best.value))
        self.assertIn("<iframe", run._repr_html_())
        self.refused(ValueError, "epoks", dpexec.train, self.mlp, str(self.folder / "data.npz"), epoks=2, loss="mse")

    def test_regression_targets_may_be_float64(self):
        dpexec.new("mlp", self.folder / "value.onnx", inputs=5, outputs=1, layers=1, width=16)
        y = self.x.astype(np.float64) @ np.arange(5.0)
        data = (self.x.astype(np.float64), y[:, None])
        run = dpexec.train(self.folder / "value.onnx", data, loss="mse", epochs=20, lr=0.05)
        self.assertLess(run.history["train_loss"][-1], 0.1 * run.history["train_loss"][0])

    def test_numbers_that_json_lacks_are_null(self):
        path = self.folder / "nan.jsonl"
        dpexec.History([{"step": 1, "eval_loss": math.nan, "eval_table": [[1.5, math.inf]]}]).write(path)
        self.assertEqual(path.read_text(), '{"step": 1, "eval_loss": null, "eval_table": [[1.5, null]]}\n')
        again = dpexec.History.read(path)
        again.write(path)
        np.testing.assert_array_equal(dpexec.History.read(path)["eval_loss"], [math.nan])

    def test_a_history_is_written_whole_or_not_at_all(self):
        path = self.folder / "whole.jsonl"
        dpexec.History([{"step": 1, "loss": 0.5}]).write(path)
        with self.assertRaises(TypeError):
            dpexec.History([{"step": 1, "loss": 0.5}, {"step": object()}]).write(path)
        self.assertEqual(dpexec.History.read(path)["loss"].tolist(), [0.5])

    def test_the_report_is_html(self):
        run = dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), **SETTINGS)
        page = run._repr_html_()
        self.assertEqual(page.count("<svg"), 2)
        self.assertIn(f"step {run.best.step}: accuracy", page)

    def test_wrong_data_is_refused(self):
        call = lambda data, **more: dpexec.train(self.mlp, data, loss="cross-entropy", **more)
        self.refused(ValueError, "data: no array for 'target' (has: x)", call, {"x": self.x})
        self.refused(ValueError, "(has: x, labels); is it 'labels'? Call that 'target'", call,
                     {"x": self.x, "labels": self.y})
        for word, meant in {"learning_rate": "lr", "validation_data": "val", "validation_split": "val_split",
                            "max_steps": "steps", "n_epochs": "epochs", "random_state": "seed", "device": "devices",
                            "output_dir": "out", "early_stopping": "patience"}.items():
            self.refused(ValueError, f"there is no option '{word}': did you mean '{meant}'?", call,
                         (self.x, self.y), **{word: 1})
        self.refused(ValueError, "data: array 'target' has 202 samples along its first axis, expected 203", call,
                     (self.x, self.y[:-1]))
        self.refused(ValueError, "data: expected arrays by name", call, 3)
        self.refused(ValueError, "there is no option 'epoch': did you mean 'epochs'?", call, (self.x, self.y), epoch=3)
        self.refused(ValueError, "epochs: expected a positive whole number, found 0", call, (self.x, self.y), epochs=0)
        self.refused(ValueError, "keep: expected a positive whole number, found 0", call, (self.x, self.y), keep=0)
        self.refused(ValueError, "steps: expected a positive whole number, found True", call, (self.x, self.y), steps=True)
        self.refused(ValueError, "drop_last: 203 samples do not fill", call, (self.x, self.y), drop_last=True,
                     batch_size=300)
        self.refused(ValueError, "monitor: without val", call, (self.x, self.y), monitor="loss")
        self.refused(ValueError, "expected loss or accuracy", call, (self.x, self.y), val=(self.x, self.y),
                     metric="accuracy", monitor="f1")
        self.refused(ValueError, "loss is missing", dpexec.train, self.mlp, (self.x, self.y))
        self.refused(ValueError, "the loss of step 1 is", call, (self.x * np.float32("nan"), self.y))


class Interruption(Case):
    def test_ctrl_c_saves_a_checkpoint_and_resume_ends_with_the_same_bytes(self):
        whole = dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), **SETTINGS)
        out = self.folder / "stopped"

        def stop(r):
            if r.step == 10:
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt) as caught:
            dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), out=out, on_step=stop, keep=np.int64(2), **SETTINGS)
        self.assertIn("stopped at step 10", str(caught.exception))
        self.assertTrue((out / "checkpoints" / "step-000000010").is_dir())
        self.refused(ValueError, "has the checkpoints of a run", dpexec.train, self.mlp, (self.x, self.y), out=out,
                     **SETTINGS)
        measured = (out / "metrics.jsonl").read_text()
        (out / "metrics.jsonl").write_text(measured[:-9])
        self.refused(ValueError, "metrics.jsonl: expected an object of JSON in each line", dpexec.train, self.mlp,
                     (self.x, self.y), (self.x, self.y), out=out, resume=True, **SETTINGS)
        (out / "metrics.jsonl").write_text(measured)
        run = dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), out=out, resume=True, **SETTINGS)
        for name in ("best.onnx", "model.onnx"):
            self.assertEqual((out / name).read_bytes(), (whole.folder / name).read_bytes())
        for name in whole.history:
            np.testing.assert_array_equal(run.history[name], whole.history[name], name)

    def test_a_run_resumes_from_any_checkpoint(self):
        """Also from one between an epoch's last step and its evaluation."""
        settings = {**SETTINGS, "optimizer": "adam", "lr": 0.01, "patience": 3}
        whole = dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), **settings)
        out = self.folder / "checkpoints-of-all"
        dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), out=out, checkpoint_every=1, keep=30, **settings)
        for step in (21, 20, 14, 8):
            for later in range(step + 1, 22):
                shutil.rmtree(out / "checkpoints" / f"step-{later:09}", ignore_errors=True)
            run = dpexec.train(self.mlp, (self.x, self.y), (self.x, self.y), out=out, resume=True, keep=30, **settings)
            self.assertEqual((out / "model.onnx").read_bytes(), (whole.folder / "model.onnx").read_bytes())
            for name in whole.history:
                np.testing.assert_array_equal(run.history[name], whole.history[name], f"{name} from step {step}")

    def test_threads_train_on_their_own(self):
        found = []

        def work():
            found.append(dpexec.train(self.mlp, (self.x, self.y), **SETTINGS).history["loss"].tolist())

        workers = [threading.Thread(target=work) for _ in range(3)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        self.assertEqual(len(found), 3)
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])


class Pictures(Case):
    def test_a_graph_shows_itself(self):
        g = dpexec.transform(self.mlp, loss="cross-entropy", devices="cpu*2", batch_size=8)
        self.assertTrue(g._repr_svg_().startswith("<svg"))
        self.assertIn("AllReduce", str(g))
        g.save(self.folder / "graph.dot")
        self.assertIn("digraph", (self.folder / "graph.dot").read_text())
        self.refused(ValueError, "format: expected svg", g.render, "png")
        self.refused(ValueError, "", dpexec.transform(self.mlp, "nopass", loss="cross-entropy").render, "txt")
