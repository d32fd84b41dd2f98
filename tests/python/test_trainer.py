"""dpexec.Trainer: steps, state, files, errors."""
import io
import json
import logging
import os
import pickle
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
import onnx
import onnxruntime

import dpexec
from cases import Case
from dpexec._abi import lib


class Steps(Case):
    def trainer(self, **options):
        return dpexec.Trainer(self.mlp, **{"loss": "cross-entropy", "batch_size": 32, "threads": 1, **options})

    def test_a_step_is_gradient_descent(self):
        """Loss and update of the last layer against NumPy, in float64."""
        t = self.trainer(dtype="float64", lr=0.5, momentum=0.0)
        before = dict(t.state)
        r = t.step(x=self.x[:32], target=self.y[:32])
        w1, b1, w2, b2 = (before[n] for n in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"))
        w1, w2 = (w.T if w.shape[0] != n else w for w, n in ((w1, 5), (w2, 16)))
        hidden = np.maximum(self.x[:32].astype(np.float64) @ w1 + b1, 0)
        scores = hidden @ w2 + b2
        p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        self.assertAlmostEqual(r.loss, -np.log(p[np.arange(32), self.y[:32]]).mean(), 12)
        p[np.arange(32), self.y[:32]] -= 1
        np.testing.assert_allclose(t.state["fc2.bias"], b2 - 0.5 * p.mean(0), atol=1e-14)

    def test_a_batch_may_be_a_mapping_a_tuple_or_lists(self):
        losses = set()
        for give in (lambda t: t.step({"x": self.x[:8], "target": self.y[:8]}),
                     lambda t: t.step((self.x[:8], self.y[:8])),
                     lambda t: t.step(x=self.x[:8].tolist(), target=self.y[:8].astype(np.int16)),
                     lambda t: t.step(x=self.x[:8].astype(np.float64), target=self.y[:8].astype(np.float32))):
            losses.add(give(self.trainer()).loss)
        self.assertEqual(len(losses), 1)

    def test_tensors_come_by_dlpack(self):
        class Foreign:
            """A tensor of another library."""

            def __init__(self, x, device=(1, 0)):
                self.x, self.device = x, device

            def __dlpack__(self, **how):
                return self.x.__dlpack__(**how)

            def __dlpack_device__(self):
                return self.device

        a = self.trainer().step(x=Foreign(self.x[:8]), target=Foreign(self.y[:8])).loss
        self.assertEqual(a, self.trainer().step(x=self.x[:8], target=self.y[:8]).loss)
        self.refused(ValueError, "'x' lies on an accelerator", self.trainer().step, x=Foreign(self.x[:8], (2, 0)),
                     target=self.y[:8])

    def test_replicas_give_the_same_bytes_on_any_devices(self):
        def weights(**options):
            t = self.trainer(replicas=2, **options)
            for k in range(3):
                t.step(x=self.x[k * 31 : k * 31 + 31], target=self.y[k * 31 : k * 31 + 31])
            return t.state["fc1.weight"].tobytes()

        self.assertEqual(weights(devices="cpu:0"), weights(devices=["cpu:0", "cpu:1"]))

    def test_micro_batches_are_one_step(self):
        one, two = self.trainer(lr=0.1), self.trainer(lr=0.1, accumulate=2)
        one.step(x=self.x[:32], target=self.y[:32])
        self.assertFalse(two.step(x=self.x[:16], target=self.y[:16]).updated)
        self.assertTrue(two.step(x=self.x[16:32], target=self.y[16:32]).updated)
        np.testing.assert_allclose(one.state["fc1.weight"], two.state["fc1.weight"], atol=1e-7)

    def test_evaluation_counts_right_answers(self):
        t = self.trainer(metric=["accuracy", "confusion-matrix"])
        found = t.evaluate(x=self.x, target=self.y)
        scores = t.predict(self.x)
        self.assertEqual(scores.shape, (203, 3))
        self.assertEqual(found["samples"], 203)
        self.assertAlmostEqual(found["accuracy"], (scores.argmax(1) == self.y).mean(), 12)
        self.assertEqual(np.trace(found["confusion-matrix"]), (scores.argmax(1) == self.y).sum())
        p = scores.astype(np.float64) - np.log(np.exp(scores.astype(np.float64)).sum(1, keepdims=True))
        self.assertAlmostEqual(found["loss"], -p[np.arange(203), self.y].mean(), 6)

    def network(self, name, nodes, inputs, outputs, **constants):
        """A trainer that predicts by a graph of ONNX: inputs and outputs {name: (type, shape)}."""
        info = lambda values: [onnx.helper.make_tensor_value_info(n, t, shape) for n, (t, shape) in values.items()]
        graph = onnx.helper.make_graph([onnx.helper.make_node(*n, **a) for n, a in nodes], "g", info(inputs),
                                       info(outputs), [onnx.numpy_helper.from_array(x, n)
                                                       for n, x in constants.items()])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
                  self.folder / name)
        return dpexec.Trainer(self.folder / name, threads=1)

    def test_batches_of_arrays_of_unequal_length_are_refused(self):
        t = self.trainer()
        for n in (8, 12):
            self.refused(dpexec.ShapeError, f"'target' has {n} samples, expected 10", t.evaluate, x=self.x[:10],
                         target=self.y[:n], batch_size=4)

    def test_a_table_is_not_divided(self):
        """An input of which each sample picks rows is whole, also where it comes first."""
        t = self.network("table.onnx", [(("Gather", ["table", "i"], ["e"]), {}),
                                        (("Squeeze", ["e", "one"], ["s"]), {}),
                                        (("MatMul", ["s", "w"], ["y"]), {})],
                         {"table": (1, ["rows", 3]), "i": (7, ["N", 1])}, {"y": (1, ["N", 2])},
                         one=np.array([1]), w=np.ones((3, 2), np.float32))
        table, rows = np.arange(15, dtype=np.float32).reshape(5, 3), np.arange(10).reshape(10, 1) % 5
        want = table[rows[:, 0]].sum(1, keepdims=True) * [1, 1]
        for size in (None, 2, 4):
            np.testing.assert_array_equal(t.predict(table=table, i=rows, batch_size=size), want)

    def test_batches_are_joined_along_the_output_s_axis_of_samples(self):
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        turn = [(("Transpose", ["x"], ["y"]), {"perm": [1, 0]})]
        t = self.network("turned.onnx", turn, {"x": (1, ["N", 3])}, {"y": (1, [3, "N"])})
        for size in (None, 2, 3):
            np.testing.assert_array_equal(t.predict(x, batch_size=size), x.T)
        t = self.network("unnamed.onnx", turn, {"x": (1, [None, 3])}, {"y": (1, [3, None])})
        np.testing.assert_array_equal(t.predict(x), x.T)
        self.refused(ValueError, "output 'y' has no axis of samples, so that batches cannot be joined: give "
                     "batch_size=4", t.predict, x, batch_size=2)

    def test_integers_that_float32_cannot_hold_are_refused(self):
        t = self.network("floats.onnx", [(("Identity", ["x"], ["y"]), {})], {"x": (1, ["N"])}, {"y": (1, ["N"])})
        np.testing.assert_array_equal(t.predict(np.array([-(2**24), 2**24])), [-(2**24), 2**24])
        self.refused(ValueError, "'x': expected whole numbers that fit float32", t.predict, np.array([2**24 + 1]))

    def test_samples_that_are_told_apart_are_not_divided(self):
        """Row and column k of an adjacency matrix mean sample k."""
        t = self.network("adjacency.onnx", [(("MatMul", ["x", "w"], ["h"]), {}), (("MatMul", ["adj", "h"], ["y"]), {})],
                         {"adj": (1, ["N", "N"]), "x": (1, ["N", 3])}, {"y": (1, ["N", 2])},
                         w=np.ones((3, 2), np.float32))
        adj, x = np.eye(6, k=1, dtype=np.float32), np.arange(18, dtype=np.float32).reshape(6, 3)
        for size in (None, 6):
            np.testing.assert_array_equal(t.predict(adj=adj, x=x, batch_size=size), adj @ x.sum(1, keepdims=True) * [1, 1])
        self.refused(ValueError, "input 'adj' refers to samples by position, so all are one batch in their order: "
                     "give shuffle=False and batch_size=6", t.predict, adj=adj, x=x, batch_size=2)

    def test_integers_of_the_other_sign_do_not_fit(self):
        state = self.network("unsigned.onnx", [(("Identity", ["x"], ["y"]), {})], {"x": (12, ["N"])},
                             {"y": (12, ["N"])})
        np.testing.assert_array_equal(state.predict(np.array([1, 2], np.int32)), [1, 2])
        self.refused(ValueError, "'x': expected whole numbers that fit uint32", state.predict,
                     np.array([-1], np.int32))

    def test_exports_compute_the_same_in_onnx_runtime(self):
        t = self.trainer()
        t.step(x=self.x[:32], target=self.y[:32])
        t.export(self.folder / "trained.onnx")
        other = onnxruntime.InferenceSession(str(self.folder / "trained.onnx"), providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(other.run(None, {"x": self.x})[0], t.predict(x=self.x), atol=1e-5)

    def test_checkpoints_continue_the_run(self):
        a, b = self.trainer(), self.trainer()
        for k in range(4):
            if k == 2:
                a.save(self.folder / "checkpoints", "half")
                self.assertEqual(b.load(self.folder / "checkpoints"), "half")
                self.assertEqual(b.step_count, 2)
            batch = {"x": self.x[k * 32 : k * 32 + 32], "target": self.y[k * 32 : k * 32 + 32]}
            loss = a.step(batch).loss
            if k >= 2:
                self.assertEqual(loss, b.step(batch).loss)
        self.assertEqual({n: x.tobytes() for n, x in a.state.items()}, {n: x.tobytes() for n, x in b.state.items()})

    def test_state_is_a_mapping_of_arrays(self):
        t = self.trainer()
        t.step(x=self.x[:32], target=self.y[:32])
        self.assertIn("fc1.weight.momentum", t.state)
        self.assertTrue(t.state.info()["fc1.bias"].trainable)
        t.state["fc1.bias"] = np.arange(16.0)
        np.testing.assert_array_equal(t.state["fc1.bias"], np.arange(16, dtype=np.float32))
        self.refused(ValueError, "state 'fc1.bias' is [16], the array is [15]", t.state.__setitem__, "fc1.bias",
                     np.zeros(15))
        self.assertRaises(KeyError, t.state.__getitem__, "fc9")
        self.assertRaises(TypeError, t.state.pop, "fc1.bias")
        asked, ask = [], lib.dpx_trainer_state_info
        with mock.patch.object(lib, "dpx_trainer_state_info", lambda *a: asked.append(a[1]) or ask(*a)):
            self.assertEqual(len(dict(t.state)), len(t.state))
        self.assertLessEqual(len(asked), 4 * len(t.state))      # not all of them for each
        state = self.trainer().state        # outlives the name of its trainer
        self.assertEqual(state["fc1.bias"].shape, (16,))

    def test_the_log_is_python_s(self):
        stream, log = io.StringIO(), logging.getLogger("dpexec")
        handler = logging.StreamHandler(stream)
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
        try:
            self.trainer().step(x=self.x[:32], target=self.y[:32])
        finally:
            log.removeHandler(handler)
            log.setLevel(logging.NOTSET)
        self.assertIn("x", stream.getvalue())


class Refusals(Case):
    def test_the_message_is_the_engine_s_one_line(self):
        make = dpexec.Trainer
        self.refused(dpexec.InvalidArgument, "there is no option 'batchsize': did you mean 'batch_size'?", make,
                     self.mlp, batchsize=2)
        self.refused(ValueError, "--lr: expected a number", make, self.mlp, lr="high")
        self.refused(OSError, "none.onnx: No such file", make, "none.onnx")
        (self.folder / "text.onnx").write_text("no model")
        self.refused(dpexec.ModelError, "text.onnx", make, self.folder / "text.onnx")
        t = make(self.mlp, loss="cross-entropy")
        self.refused(ValueError, "there is no input 'X': did you mean 'x'?", t.step, X=self.x, target=self.y)
        self.refused(ValueError, "'target': expected whole numbers", t.step, x=self.x, target=self.y + 0.5)
        self.refused(ValueError, "'x': arrays of <U1", t.step, x=np.array([["a"]]), target=[0])
        self.refused(ValueError, "3 arrays are given, the model takes 2: x, target", t.step, (self.x, self.y, self.y))
        self.refused(ValueError, "x", t.step, x=self.x[:, :4], target=self.y)
        self.refused(ValueError, "", t.step, x=self.x[:4], target=[0, 1, 2, 3])
        self.assertEqual(t.step_count, 0)
        self.refused(OSError, "", t.load, self.folder / "nowhere")

    def test_the_status_is_the_engine_s(self):
        with self.assertRaises(dpexec.Error) as caught:
            dpexec.Model("none.onnx")
        self.assertEqual(caught.exception.status, -7)

    def test_closed_forked_and_pickled_trainers_are_refused(self):
        t = dpexec.Trainer(self.mlp, loss="cross-entropy", threads=1)
        self.assertRaises(TypeError, pickle.dumps, t)
        child = os.fork()
        if not child:
            try:
                t.predict(self.x)
            except dpexec.InvalidArgument as e:
                os._exit(0 if "fork" in str(e) else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        t.close()
        self.refused(ValueError, "the trainer is closed", t.predict, self.x)


class Pieces(Case):
    """A step in pieces: gradients, then the update."""

    def test_backward_and_update_are_a_step(self):
        make = lambda: dpexec.Trainer(self.mlp, loss="cross-entropy", batch_size=32, threads=1)
        a, b = make(), make()
        a.step(x=self.x[:32], target=self.y[:32])
        self.assertEqual(b.backward(x=self.x[:32], target=self.y[:32]), 32)
        self.assertEqual(b.gradient("fc1.bias").shape, (16,))
        b.update()
        self.assertEqual(a.state["fc1.weight"].tobytes(), b.state["fc1.weight"].tobytes())
        b.set_lr(0.0)
        before = b.state["fc1.bias"]
        b.step(x=self.x[:32], target=self.y[:32])
        np.testing.assert_array_equal(before, b.state["fc1.bias"])


    def test_a_step_may_keep_its_outputs_and_gradients(self):
        """Outputs are those before the step; the last bias moves by lr times its gradient, which is the mean of p - y."""
        t = dpexec.Trainer(self.mlp, loss="cross-entropy", batch_size=32, threads=1, lr=0.5, momentum=0.0)
        t.keep(outputs=True, gradients=True)
        before, want = t.state["fc2.bias"], t.predict(self.x[:32])
        r = t.step(x=self.x[:32], target=self.y[:32])
        np.testing.assert_allclose(r.outputs["logits"], want, atol=1e-6)
        p = np.exp(want) / np.exp(want).sum(1, keepdims=True)
        p[np.arange(32), self.y[:32]] -= 1
        found = t.gradients()
        self.assertEqual(set(found), {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"})
        np.testing.assert_allclose(found["fc2.bias"], p.mean(0), atol=1e-6)
        np.testing.assert_allclose(t.state["fc2.bias"], before - 0.5 * found["fc2.bias"], atol=1e-7)
        t.keep()
        self.assertEqual(t.step(x=self.x[:32], target=self.y[:32]).outputs, {})
        self.refused(ValueError, "gradient", t.gradient, "fc2.bias")


class Import(unittest.TestCase):
    def run_python(self, text, **variables):
        env = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME")}
        env |= {"PYTHONPATH": os.pathsep.join(sys.path[:1]), **variables}
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=env, check=False)

    def test_openmp_is_told_to_spin_briefly_and_the_environment_stays(self):
        show = self.run_python("import os\nimport dpexec\nprint(os.environ.get('GOMP_SPINCOUNT'))",
                               OMP_DISPLAY_ENV="verbose")
        self.assertEqual(show.stdout.strip(), "None")
        if "GOMP_SPINCOUNT" in show.stderr:         # GNU's OpenMP shows what it read
            self.assertIn("GOMP_SPINCOUNT = '1000'", show.stderr)
        show = self.run_python("import dpexec", OMP_DISPLAY_ENV="verbose", GOMP_SPINCOUNT="77")
        self.assertNotIn("'1000'", show.stderr)

    def test_a_missing_library_is_an_import_error(self):
        found = self.run_python("import dpexec", DPEXEC_LIBRARY="/nowhere/libdpexec.so")
        self.assertIn("ImportError: cannot load dpexec's library", found.stderr)

    def test_neither_torch_nor_scikit_learn_is_imported(self):
        found = self.run_python("import dpexec, sys, json\n"
                                "print(json.dumps([m for m in ('torch', 'sklearn', 'onnx') if m in sys.modules]))")
        self.assertEqual(json.loads(found.stdout), [])
