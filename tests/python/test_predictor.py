"""Predictors under load; models and checkpoints in memory; exceptions of the caller's files."""
import hashlib
import io
import threading
import time

import numpy as np
import onnx
import onnxruntime

import dpexec
from cases import Case

SETTINGS = {"loss": "cross-entropy", "batch_size": 32, "threads": 1, "lr": 0.1}


class Predictors(Case):
    def trainer(self):
        return dpexec.Trainer(self.mlp, **SETTINGS)

    def train(self, t, steps):
        for k in range(steps):
            at = 32 * (k % 6)
            t.step(x=self.x[at : at + 32], target=self.y[at : at + 32])

    def test_threads_predict_while_training_goes_on(self):
        """Each prediction has the bytes of one of the taken sets of weights, as a twin of the trainer computes them."""
        t, twin = self.trainer(), self.trainer()
        want = {twin.predict(self.x[:8]).tobytes()}
        for _ in range(10):
            self.train(twin, 3)
            want.add(twin.predict(self.x[:8]).tobytes())
        last = twin.predict(self.x[:8]).tobytes()
        predictor, stop, found, wrong = t.predictor(), threading.Event(), set(), []

        def ask():
            while not stop.is_set():
                try:
                    found.add(predictor.predict(self.x[:8]).tobytes())
                except Exception as e:
                    wrong.append(e)
                    return

        askers = [threading.Thread(target=ask) for _ in range(4)]
        for a in askers:
            a.start()
        for _ in range(10):
            self.train(t, 3)
            predictor.take(t)
            time.sleep(0.01)
        stop.set()
        for a in askers:
            a.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(found, want)
        self.assertGreater(len(found), 1)
        self.assertEqual(predictor.predict(self.x[:8]).tobytes(), last)

    def test_a_snapshot_stays(self):
        t = self.trainer()
        predictor = t.predictor()
        before = predictor.predict(self.x)
        self.train(t, 3)
        np.testing.assert_array_equal(predictor.predict(self.x), before)
        self.assertFalse(np.array_equal(t.predict(self.x), before))
        t.close()
        np.testing.assert_array_equal(predictor.predict(self.x), before)

    def test_a_model_of_its_own_weights_against_onnx_runtime(self):
        other = onnxruntime.InferenceSession(self.mlp, providers=["CPUExecutionProvider"])
        with dpexec.Model(self.mlp).predictor(threads=1) as predictor:
            predictor.warm(2, self.x)
            found = predictor.predict(self.x, batch_size=50)
            np.testing.assert_allclose(found, other.run(None, {"x": self.x})[0], atol=1e-6)
        self.refused(ValueError, "the predictor is closed", predictor.predict, self.x)
        self.refused(ValueError, "a predictor has one device", dpexec.Model(self.mlp).predictor, devices="cpu*2")
        self.refused(ValueError, "there is no option 'thread': did you mean 'threads'?", self.trainer().predictor,
                     thread=2)

    def test_gradients_of_an_output(self):
        """d(logits . seed)/dx of the MLP, against NumPy."""
        t = self.trainer()
        self.train(t, 2)
        predictor = dpexec.Model(self.mlp).gradient("logits", ["x"]).predictor()
        predictor.take(t)
        seed = np.random.default_rng(1).normal(size=(203, 3)).astype(np.float32)
        found = predictor.predict(x=self.x, seed=seed)["x.grad"]
        w1, b1, w2 = (t.state[n].astype(np.float64) for n in ("fc1.weight", "fc1.bias", "fc2.weight"))
        w1, w2 = (w if w.shape[0] == n else w.T for w, n in ((w1, 16), (w2, 3)))
        np.testing.assert_allclose(found, ((seed @ w2) * (self.x @ w1.T + b1 > 0)) @ w1, atol=1e-5)


class Memory(Case):
    def external(self):
        """The MLP with its weights in another file: bytes of the model, and of the file."""
        model = onnx.load(self.mlp)
        onnx.save_model(model, self.folder / "outside.onnx", save_as_external_data=True, location="outside.data",
                        size_threshold=0)
        return (self.folder / "outside.onnx").read_bytes(), (self.folder / "outside.data").read_bytes()

    def test_a_model_may_be_bytes_or_a_proto(self):
        proto, settings = onnx.load(self.mlp), {"loss": "cross-entropy", "epochs": 2, "lr": 0.1, "threads": 1}
        want = dpexec.train(self.mlp, (self.x, self.y), **settings).last.path.read_bytes()
        for model in (proto, proto.SerializeToString(), bytearray(proto.SerializeToString()), dpexec.Model(proto)):
            run = dpexec.train(model, (self.x, self.y), **settings)
            self.assertEqual(run.last.path.read_bytes(), want)
        run = dpexec.train(proto, str(self.folder / "data.npz"), **settings)
        self.assertEqual(run.last.path.read_bytes(), want)
        self.refused(dpexec.ModelError, "the model in memory", dpexec.Model, b"no model")
        self.refused(ValueError, "give the model's path or its bytes", dpexec.train, dpexec.Model(proto), "data.npz",
                     loss="mse")

    def test_external_data_come_from_a_mapping_or_a_function(self):
        model, data = self.external()
        asked = []

        def give(location, offset, size):
            asked.append(location)
            return data[offset : offset + size]

        want = dpexec.Trainer(self.mlp, **SETTINGS).predict(self.x).tobytes()
        for external in ({"outside.data": data}, {"outside.data": np.frombuffer(data, np.uint8)}, give):
            t = dpexec.Trainer(dpexec.Model(model, external=external), **SETTINGS)
            self.assertEqual(t.predict(self.x).tobytes(), want)
        self.assertEqual(set(asked), {"outside.data"})
        self.refused(dpexec.Unsupported, "", dpexec.Model, model)
        self.refused(ValueError, "external data 'outside.data' are not given (has: other)", dpexec.Model, model,
                     external={"other": data})
        self.refused(ValueError, "external data 'outside.data': expected ", dpexec.Model, model,
                     external={"outside.data": data[:10]})
        self.refused(ZeroDivisionError, "", dpexec.Model, model, external=lambda *where: 1 // 0)

    def test_streams_have_the_bytes_of_files(self):
        t = dpexec.Trainer(self.mlp, **SETTINGS)
        t.step(x=self.x[:32], target=self.y[:32])
        t.export(self.folder / "trained.onnx")
        exported, saved, digest = io.BytesIO(), io.BytesIO(), hashlib.sha256()
        t.export_to(exported)
        self.assertEqual(exported.getvalue(), (self.folder / "trained.onnx").read_bytes())

        class Digest:       # a file of one's own, whose write() gives nothing
            def write(self, piece):
                digest.update(piece)

        t.export_to(Digest())
        self.assertEqual(digest.digest(), hashlib.sha256(exported.getvalue()).digest())
        t.save_to(saved, "a note")
        with open(self.folder / "raw", "wb", buffering=0) as f:
            t.save_to(f, "a note")
        self.assertEqual((self.folder / "raw").read_bytes(), saved.getvalue())
        twin = dpexec.Trainer(self.mlp, **SETTINGS)
        self.assertEqual(twin.load_from(io.BytesIO(saved.getvalue())), "a note")
        for u in (t, twin):
            u.step(x=self.x[32:64], target=self.y[32:64])
        self.assertEqual({n: v.tobytes() for n, v in t.state.items()}, {n: v.tobytes() for n, v in twin.state.items()})

    def test_an_exception_of_a_file_comes_out_as_itself(self):
        class Broken:
            def __init__(self, wrong):
                self.wrong = wrong

            def write(self, piece):
                raise self.wrong

            read = write

        t = dpexec.Trainer(self.mlp, **SETTINGS)
        t.step(x=self.x[:32], target=self.y[:32])
        for wrong in (KeyError("full"), KeyboardInterrupt("stop"), OSError(28, "No space left on device")):
            for call in (t.export_to, t.save_to, t.load_from):
                with self.assertRaises(type(wrong)) as caught:
                    call(Broken(wrong))
                self.assertIs(caught.exception, wrong)
        saved = io.BytesIO()
        t.save_to(saved)
        before = {n: v.tobytes() for n, v in t.state.items()}
        self.refused(OSError, "", t.load_from, io.BytesIO(saved.getvalue()[:-2000]))
        self.refused(OSError, "", t.load_from, io.BytesIO(b"no archive"))
        self.refused(TypeError, "", t.load_from, io.StringIO("text"))
        self.assertEqual({n: v.tobytes() for n, v in t.state.items()}, before)
